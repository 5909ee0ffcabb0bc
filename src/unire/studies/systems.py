"""A system to be studied: a model that predicts, or a file of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import align_documents
from unire.extractor import Extractor
from unire.files import get_suffix
from unire.hub.model_dir import fingerprint, locate_model
from unire.labels import LabelSpace
from unire.sources.sources import JSON_LINES_SUFFIXES, PARQUET_SUFFIXES
from unire.studies.results import Json, names

__all__ = ["System", "check_labels", "common_labels", "facts", "in_sentences_of", "predict"]


FILES = (".json", *JSON_LINES_SUFFIXES, *PARQUET_SUFFIXES, ".spacy", ".txt")
"""How files of predictions end: no model is looked for under such a name."""


class System(NamedTuple):
    """What a system found in some documents."""

    name: str
    documents: list[Document]
    labels: LabelSpace | None
    """A model's own; `None` for a file."""


def predict(source: str, gold: Sequence[Document], *, device: str | None = None) -> System:
    """What a system finds in the documents: `source` is a file of predictions, or a model wherever it is found.

    The format of a file is guessed: gold may have another.
    """
    if Path(source).is_file():
        return System(Path(source).stem, list(formats.read(source, predicted=True)), None)
    if get_suffix(source) in FILES and not Path(source).exists():
        raise UnireError(f"there is no file of predictions {source!r}")
    extractor = Extractor.load(source, device=device)
    check_labels(source, extractor.labels, gold)
    return System(Path(source).name, list(extractor.annotate(gold)), extractor.labels)


def check_labels(source: str | Path, labels: LabelSpace, gold: Sequence[Document]) -> None:
    """Refuse documents whose labels a model does not know, before it reads them."""
    try:
        labels.check(gold)
    except UnireError as error:
        raise UnireError(f"{Path(source).name} has other labels than the data: {error}") from None


def in_sentences_of(gold: Sequence[Document], predicted: Sequence[Document]) -> list[Document]:
    """Predictions for the same words, in the order and the sentences of gold: a file may have others."""
    return [truth.annotated(guess.entities, guess.relations) for truth, guess in align_documents(gold, predicted)]


def common_labels(systems: Sequence[System]) -> LabelSpace | None:
    """The label space of the models among the systems, if there are any."""
    known = [system for system in systems if system.labels is not None]
    for system in known[1:]:
        if system.labels != known[0].labels:
            raise UnireError(
                f"{known[0].name} and {system.name} have different label spaces; compare models of the same labels"
            )
    return known[0].labels if known else None


def facts(systems: Sequence[str | Path], data: Sequence[Path]) -> Json:
    """Of what the numbers of a study are: which systems, as they are now, and which files."""
    return {
        "of": names(systems),
        "fingerprints": [None if Path(system).is_file() else fingerprint(locate_model(system)) for system in systems],
        "data": names(data),
    }
