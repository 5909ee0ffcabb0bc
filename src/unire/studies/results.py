"""What a study leaves: raw numbers as JSON, one file per study, and the tables that people read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from unire.documents import Document
from unire.errors import UnireError
from unire.files import open_text_output

__all__ = ["Json", "ResultTable", "load", "millions", "n_sentences", "names", "percent", "save", "with_deviation"]

Json = dict[str, Any]
"""The raw numbers of a study; `study` is its name, and rates are fractions."""


class ResultTable(NamedTuple):
    """Rows whose first cell is a name and whose others are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def save(result: Json, folder: Path) -> None:
    """Write a study's numbers into the folder of its studies."""
    with open_text_output(folder / f"{result['study']}.json") as file:
        file.write(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load(folder: Path, name: str) -> Json | None:
    """A study's numbers, if there are any."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnireError(f"{path} cannot be read ({error}); remove it, and run the study {name} again") from None
    if not isinstance(result, dict) or result.get("study") != name:
        raise UnireError(f"{path} is not the result of the study {name}; is it the folder of another program?")
    return result


def names(paths: Sequence[str | Path]) -> list[str]:
    """What systems and files are called in the numbers of a study."""
    return [Path(path).name for path in paths]


def percent(rate: float) -> str:
    return f"{100 * rate:.1f}"


def with_deviation(rates: Sequence[float]) -> str:
    """The mean, and the standard deviation where there are several."""
    return percent(mean(rates)) + (f" ± {percent(stdev(rates))}" if len(rates) > 1 else "")


def millions(parameters: int) -> str:
    """A model's size."""
    size = parameters / 1e6
    return f"{size:.0f}M" if size >= 10 else f"{size:.2g}M"


def n_sentences(documents: Sequence[Document]) -> int:
    return sum(len(document.sentences) for document in documents)
