"""File formats: reading and writing annotated documents.

    documents = list(formats.read("train.json"))
    lost = Counter()
    formats.write(documents, "train.ann", "brat", lost=lost)

Each format is a module; this one finds the right one. Readers check everything and say file, line (or item) and reason.
What a format cannot hold is counted, or refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import check_output_folder, replace_atomically
from unire.formats import (
    ace,
    brat,
    conll04,
    dygie,
    extraction,
    hugging_face,
    labelstudio,
    native,
    parquet,
    prodigy,
    released,
    spacy_docs,
    spert,
)
from unire.formats.base import Format, ReadOptions, refuse
from unire.formats.capabilities import SERIOUS, project
from unire.formats.detection import guess
from unire.formats.hugging_face import from_dataset, to_dataset

__all__ = [
    "FORMATS",
    "WRITABLE",
    "Format",
    "NothingReadError",
    "from_dataset",
    "guess",
    "read",
    "read_all",
    "to_dataset",
    "writable",
    "write",
]

FORMATS = {
    "unire": Format(native.read, native.write),
    "jsonl": Format(extraction.read),
    "dygie": Format(dygie.read, dygie.write, dygie.HOLDS, dygie.KEYS),
    "spert": Format(spert.read, spert.write, spert.HOLDS, spert.KEYS, suffix=".json"),
    "unire-released": Format(released.read, released.write, released.HOLDS),
    "conll04": Format(conll04.read, conll04.write, conll04.HOLDS, suffix=".corp"),
    "brat": Format(brat.read, brat.write, brat.HOLDS, folder=True, suffix="", endings=(".txt", ".ann")),
    "labelstudio": Format(labelstudio.read, labelstudio.write, labelstudio.HOLDS, labelstudio.KEYS, suffix=".json"),
    "prodigy": Format(prodigy.read, prodigy.write, prodigy.HOLDS),
    "spacy": Format(spacy_docs.read, spacy_docs.write, suffix=".spacy"),
    "parquet": Format(parquet.read, parquet.write, of_files=True, suffix=".parquet", endings=(".parquet",)),
    "datasets": Format(hugging_face.read, hugging_face.write, folder=True, suffix="", endings=(".arrow", ".json")),
    "ace04": Format(partial(ace.read, corpus="ace04"), folder=True, endings=(".sgm", ".xml")),
    "ace05": Format(partial(ace.read, corpus="ace05"), folder=True, endings=(".sgm", ".xml")),
}

WRITABLE = tuple(name for name, form in FORMATS.items() if form.write)
"""Names of those that can be written."""


class NothingReadError(UnireError):
    """Of a file without a document that can be read: what is wrong with each has been told."""


def read(
    path: str | Path,
    format: str | None = None,
    *,
    predicted: bool = False,
    spaces: bool = False,
    notes: Counter[str] | None = None,
    on_error: OnError = refuse,
) -> Iterator[Document]:
    """The documents of a file or a folder, one after the other.

    A missing file is refused at once; what is wrong further down when it is reached.

    Args:
        path: What to read. Text is in UTF-8.
        format: A name in `FORMATS`; by default it is guessed.
        predicted: Take the predictions of a file that holds them beside gold annotation (`dygie`). A file that
            does not is read as usual.
        spaces: Formats that hold text without words: a line is a sentence, and words stand between spaces. By default
            both are found by rules.
        notes: Counts what a reader changed or left out.
        on_error: Called for each document that cannot be read; the others still are, if it returns.
    """
    path = Path(path)
    guessed = guess(path) if format is None else None
    form = _named(guessed or str(format), FORMATS)
    if not path.exists():
        raise UnireError(f"{path} cannot be read: No such file or directory")
    if path.is_dir() != form.folder and not (path.is_dir() and form.of_files):
        raise UnireError(f"{path} cannot be read: {'Not a directory' if form.folder else 'Is a directory'}")
    failures: list[UnireError] = []

    def failed(error: UnireError) -> None:
        failures[:] = failures or [error]
        on_error(error)

    how = ReadOptions(predicted, spaces, Counter() if notes is None else notes, failed)
    hint = f" (read as {guessed}, as its content suggests; else name the format)" if guessed else ""
    return _some(form.read(path, how), path, failures, hint)


def read_all(
    paths: Iterable[str | Path],
    format: str | None = None,
    *,
    predicted: bool = False,
    notes: Counter[str] | None = None,
) -> list[Document]:
    """The documents of some files and folders as one list; the arguments are those of `read`."""
    return [document for path in paths for document in read(path, format, predicted=predicted, notes=notes)]


def write(
    documents: Iterable[Document],
    path: str | Path,
    format: str = "unire",
    *,
    lost: Counter[str] | None = None,
    on_error: OnError = refuse,
) -> int:
    """Write a file or a folder, whole or not at all, and return how many documents it holds.

    Args:
        documents: May be a stream; where the format allows it, one document at a time is held in memory.
        path: A file that stands there is replaced when everything is written; a folder that holds something is refused.
        format: A name in `FORMATS`.
        lost: Counts what the format has no place for. Without it, a document whose entities or relations could not be
            written is refused.
        on_error: Called for each document that cannot be written; the others still are, if it returns.
    """
    form = writable(format)
    if form.folder:
        check_output_folder(path)
    count = failures = 0

    def failed(error: UnireError) -> None:
        nonlocal failures
        failures += 1
        on_error(error)

    def fitted() -> Iterator[Document]:
        nonlocal count
        found: Counter[str] = Counter() if lost is None else lost
        for document in documents:
            parts = project(document, form.holds, found, form.own)
            if lost is None and found:
                serious = sorted(found.keys() & SERIOUS)
                reasons = [f"the format {format} has no place for {found[what]} × {what}" for what in serious]
                found.clear()
                if reasons:
                    failed(UnireError(f"document {document.id!r} cannot be written: {reasons[0]}"))
                    continue
            before = failures
            yield from parts
            if parts and failures == before:
                count += 1

    try:
        with replace_atomically(path, directory=form.folder) as temporary:
            form.write(fitted(), temporary, failed)  # type: ignore[misc]  # `writable` has seen to it
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def writable(format: str) -> Format:
    """The format of this name, which must be one that can be written."""
    if format in FORMATS and format not in WRITABLE:
        raise UnireError(f"the format {format!r} can be read, but not written; give one of {', '.join(WRITABLE)}")
    return _named(format, WRITABLE)


def _named(format: str, choices: Iterable[str]) -> Format:
    if format not in FORMATS:
        raise UnireError(f"unknown format {format!r}; give one of {', '.join(choices)}")
    return FORMATS[format]


def _some(documents: Iterator[Document], path: Path, failures: list[UnireError], hint: str) -> Iterator[Document]:
    """The documents, of which there must be one; else the first failure, if there is any, says why there is none.

    What goes wrong before there is one may be a format that was taken for another: `hint` says so.
    """
    empty = True
    try:
        for document in documents:
            empty = False
            yield document
    except UnireError as error:
        raise UnireError(f"{error}{hint}") if empty and hint else error from None
    if empty and failures:
        reason = str(failures[0]).removeprefix(f"{path}, ").removeprefix(f"{path}: ")
        raise NothingReadError(f"{path} holds no document that can be read: {reason}{hint}")
    if empty:
        raise UnireError(f"{path} holds no document")
