"""Systems that are studied, and the results of a study: raw numbers as JSON, and tables for people.

A system is a model, or a file of predictions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import align_documents
from unire.extractor import Extractor
from unire.files import get_suffix, open_text_output
from unire.hub.model_dir import fingerprint, locate_model
from unire.labels import LabelSpace
from unire.sources import JSON_LINES_SUFFIXES, PARQUET_SUFFIXES

__all__ = [
    "Json",
    "ResultTable",
    "System",
    "align_sentences",
    "check_labels",
    "check_result_folder",
    "choose_labels",
    "count_sentences",
    "describe_inputs",
    "format_mean",
    "format_millions",
    "format_percent",
    "load_result",
    "predict",
    "save_result",
]

Json = dict[str, Any]
"""The raw numbers of a study. `study` is its name, and rates are fractions."""

PREDICTION_SUFFIXES = (".json", *JSON_LINES_SUFFIXES, *PARQUET_SUFFIXES, ".spacy", ".txt")
"""Suffixes of files of predictions. No model is searched under such a name."""


class System(NamedTuple):
    """The predictions of a system."""

    name: str
    documents: list[Document]
    labels: LabelSpace | None
    """A model's own label space; `None` for a file."""


def predict(source: str, gold: Sequence[Document], *, device: str | None = None) -> System:
    """The predictions of a system for the documents: `source` is a file of predictions, or a model.

    The format of a file is detected, because gold may have another.
    """
    if Path(source).is_file():
        return System(Path(source).stem, list(formats.read(source, predicted=True)), None)
    if get_suffix(source) in PREDICTION_SUFFIXES and not Path(source).exists():
        raise UnireError(f"there is no file of predictions {source!r}")
    extractor = Extractor.load(source, device=device)
    check_labels(source, extractor.labels, gold)
    return System(Path(source).name, list(extractor.annotate(gold)), extractor.labels)


def check_labels(source: str | Path, labels: LabelSpace, gold: Sequence[Document]) -> None:
    """Refuse documents with labels that a model does not know, before the model runs."""
    try:
        labels.check(gold)
    except UnireError as error:
        raise UnireError(f"{Path(source).name} has other labels than the data: {error}") from None


def align_sentences(gold: Sequence[Document], predicted: Sequence[Document]) -> list[Document]:
    """Predictions in the order and the sentences of gold. A file of predictions may have others."""
    return [truth.annotated(guess.entities, guess.relations) for truth, guess in align_documents(gold, predicted)]


def choose_labels(
    systems: Sequence[System], gold: Iterable[Document], labels: str | None = None, symmetric: str | None = None
) -> LabelSpace:
    """The label space of a study: that of the models; if all systems are files, the given one or that of the data.

    Args:
        systems: Their predictions.
        gold: The annotated documents.
        labels: Name or file of a label space. Only for files of predictions.
        symmetric: Symmetric relation types, separated by commas, for the same case.
    """
    models = [(system.name, system.labels) for system in systems if system.labels is not None]
    if not models:
        predicted = (document for system in systems for document in system.documents)
        return LabelSpace.resolve(labels, symmetric, [*gold, *predicted])
    first, space = models[0]
    for name, other in models[1:]:
        if other != space:
            raise UnireError(f"{first} and {name} have different label spaces; compare models of the same labels")
    if labels is not None or symmetric is not None:
        raise UnireError("a model has its own label space; leave out labels=... and symmetric=...")
    return space


def describe_inputs(systems: Sequence[str | Path], data: Sequence[Path]) -> Json:
    """The inputs of a study: names of the systems and files, and fingerprints of the models."""
    return {
        "of": _names(systems),
        "fingerprints": [None if Path(system).is_file() else fingerprint(locate_model(system)) for system in systems],
        "data": _names(data),
    }


def check_result_folder(out: Path | None, study: str, systems: Sequence[str | Path], data: Sequence[Path]) -> None:
    """Create the folder for the results of a study, if there is one, so that a study does not fail at its end.

    Raises:
        UnireError: The folder cannot be written, or has results of this study for other systems or data.
    """
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnireError(f"the folder {out} cannot be created: {error.strerror}") from None
    if not os.access(out, os.W_OK):
        raise UnireError(f"{out} cannot be written to; choose another folder")
    if (earlier := load_result(out, study)) is None:
        return
    of, on = earlier.get("of", []), earlier.get("data", [])
    if (of, on) != (_names(systems), _names(data)):
        raise UnireError(
            f"{out / study}.json already has results for {', '.join(of)} on {', '.join(on)}; "
            "delete it, or choose another folder"
        )


def save_result(result: Json, out: Path | None, log: Callable[[str], None] = lambda line: None) -> None:
    """Write the numbers of a study into the folder of studies, if there is one.

    Args:
        result: The numbers.
        out: The folder.
        log: Called with a line if results of another model with the same name are replaced.
    """
    if out is None:
        return
    earlier = load_result(out, result["study"]) or result
    if earlier.get("fingerprints") != result.get("fingerprints"):
        log(f"{out / result['study']}.json was of a model of that name with other weights; it is replaced")
    with open_text_output(out / f"{result['study']}.json") as file:
        file.write(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_result(folder: Path, name: str) -> Json | None:
    """The numbers of a study, or `None` if there are none."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnireError(f"{path} cannot be read ({error}); remove it, and run the study {name} again") from None
    if not isinstance(result, dict) or result.get("study") != name:
        raise UnireError(f"{path} is not the result of the study {name}; choose another folder")
    return result


def _names(paths: Sequence[str | Path]) -> list[str]:
    return [Path(path).name for path in paths]


class ResultTable(NamedTuple):
    """Rows whose first cell is a name and whose other cells are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def format_percent(rate: float) -> str:
    return f"{100 * rate:.1f}"


def format_mean(rates: Sequence[float]) -> str:
    """The mean in percent, with the standard deviation of several values."""
    return format_percent(mean(rates)) + (f" ± {format_percent(stdev(rates))}" if len(rates) > 1 else "")


def format_millions(parameters: int) -> str:
    """The size of a model."""
    size = parameters / 1e6
    return f"{size:.0f}M" if size >= 10 else f"{size:.2g}M"


def count_sentences(documents: Sequence[Document]) -> int:
    return sum(len(document.sentences) for document in documents)
