"""What the studies print."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unire.cli import printing
from unire.errors import UnireError

__all__ = ["finish", "prepare", "tell"]


def tell(line: str) -> None:
    """Say how far a study is."""
    printing.say(line)


def prepare(out: Path | None, study: str, systems: Sequence[str], data: Sequence[Path]) -> None:
    """Make the folder of the numbers, if they are to be kept: what cannot be written to is to be known at once.

    The numbers of other systems, or of other data, are not replaced.
    """
    from unire.studies.results import load, names

    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnireError(f"{out} cannot be made a folder: {error.strerror}") from None
    if not os.access(out, os.W_OK):
        raise UnireError(f"{out} cannot be written to; give another --out")
    if (earlier := load(out, study)) is None:
        return
    of, on = earlier.get("of", []), earlier.get("data", [])
    if (of, on) != (names(systems), names(data)):
        raise UnireError(
            f"{out / study}.json is of {', '.join(of)} on {', '.join(on)}; remove it, or give another --out"
        )


def finish(result: dict[str, Any], out: Path | None, json: bool) -> None:
    """Keep the numbers of a study, if there is a folder for them, and print them, for people or as JSON."""
    from unire.studies.report import STUDIES
    from unire.studies.results import load, save

    if out is not None:
        earlier = load(out, result["study"]) or result
        if earlier.get("fingerprints") != result.get("fingerprints"):
            tell(f"{out / result['study']}.json was of a model of that name with other weights; it is replaced")
        save(result, out)
    if json:
        printing.print_json(result)
        return
    for table in STUDIES[result["study"]].tables(result):
        printing.table(table.title, table.columns, table.rows)
    if out is not None:
        tell(f"all numbers: {out / result['study']}.json; with charts: unire study report --out {out}")
