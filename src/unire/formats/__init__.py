"""File formats: reading, writing and converting annotated documents.

    documents = list(formats.read("train.json"))
    lost = Counter()
    formats.write(documents, "train.ann", "brat", lost=lost)
    formats.convert("train.json", "train.jsonl")

Every format is a module, and `FORMATS` lists them. Readers check everything and report file, line (or item) and reason.
Writers count what a format cannot represent, or refuse it.

Other outputs of `unire extract`, such as graphs and pages, are in `unire.writers`. `unire.sources` reads raw text.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Literal

from unire.document_list import Documents
from unire.documents import Document
from unire.errors import OnError, UnireError, skip_errors
from unire.files import explain_read_errors, replace_atomically
from unire.formats import (
    ace,
    arrow,
    brat,
    conll04,
    dygie,
    jsonl,
    labelstudio,
    native,
    prodigy,
    released,
    spacy,
    spert,
)
from unire.formats.arrow import from_dataset, to_dataset
from unire.formats.base import SERIOUS_LOSSES, Format, ReadOptions, project, raise_error
from unire.formats.detection import guess
from unire.limits import DEFAULT_LIMITS, LimitError, ReadLimits
from unire.output_files import check_output_folder, lock_output

__all__ = [
    "FORMATS",
    "WRITABLE",
    "Format",
    "NothingReadError",
    "convert",
    "from_dataset",
    "get_format",
    "get_writable",
    "guess",
    "read",
    "read_documents",
    "to_dataset",
    "write",
]

FORMATS = {
    "unire": Format(native.read, native.write),
    "jsonl": Format(jsonl.read),
    "dygie": Format(dygie.read, dygie.write, dygie.CAPABILITIES, dygie.KEYS),
    "spert": Format(spert.read, spert.write, spert.CAPABILITIES, spert.KEYS, suffix=".json"),
    "unire-released": Format(released.read, released.write, released.CAPABILITIES),
    "conll04": Format(conll04.read, conll04.write, conll04.CAPABILITIES, suffix=".corp"),
    "brat": Format(brat.read, brat.write, brat.CAPABILITIES, folder=True, suffix="", folder_suffixes=(".txt", ".ann")),
    "labelstudio": Format(
        labelstudio.read, labelstudio.write, labelstudio.CAPABILITIES, labelstudio.KEYS, suffix=".json"
    ),
    "prodigy": Format(prodigy.read, prodigy.write, prodigy.CAPABILITIES),
    "spacy": Format(spacy.read, spacy.write, suffix=".spacy"),
    "parquet": Format(
        arrow.read_parquet,
        arrow.write_parquet,
        folder_of_files=True,
        suffix=".parquet",
        folder_suffixes=(".parquet",),
    ),
    "datasets": Format(
        arrow.read_dataset, arrow.write_dataset, folder=True, suffix="", folder_suffixes=(".arrow", ".json")
    ),
    "ace04": Format(partial(ace.read, corpus="ace04"), folder=True, folder_suffixes=(".sgm", ".xml")),
    "ace05": Format(partial(ace.read, corpus="ace05"), folder=True, folder_suffixes=(".sgm", ".xml")),
}

WRITABLE = tuple(name for name, form in FORMATS.items() if form.write)
"""Names of the formats of the package that can be written."""


MAX_LEADING_ERRORS = 100
"""If this many documents fail before the first readable one, reading stops: probably the format is wrong."""


class NothingReadError(UnireError):
    """No document of a file could be read. Each error has already been passed to `on_error`."""


def read(
    path: str | Path,
    format: str | None = None,
    *,
    predicted: bool = False,
    spaces: bool = False,
    line_breaks: bool | None = None,
    events: Literal["trigger", "pairs"] = "trigger",
    notes: Counter[str] | None = None,
    on_error: OnError = raise_error,
    on_annotation_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[Document]:
    """Read the documents of a file or a folder, one after the other.

    >>> for document in formats.read("train.jsonl"):  # doctest: +SKIP
    ...     print(document)

    Args:
        path: The file or folder to read. Text is UTF-8.
        format: A name in `FORMATS`. [default: guessed]
        predicted: Read the predictions of a file that also has gold annotation (`dygie`). Other files are
            read as usual.
        spaces: For formats that hold text without words: split sentences at line ends and words at white space.
            [default: rules find both]
        line_breaks: For the same formats: whether every line end ends a sentence. [default: only where lines are
            clearly titles or items]
        events: How `brat` events become relations: `trigger`, from the trigger to each argument, named by the role; or
            `pairs`, between each two arguments, named by the type of the event.
        notes: Counts what the reader changed or left out. Without it, an entity or a relation that cannot be read is an
            error of its document.
        on_error: Called for every document that cannot be read. If it returns, reading continues.
        on_annotation_error: Called for every entity or relation that cannot be read. If it returns, only that is left
            out. [default: it is counted in `notes`]
        limits: The largest document, record and unpacked size that are accepted.

    Returns:
        An iterator of documents.

    Raises:
        UnireError: The file is missing, or its format cannot be guessed. Errors in the content are raised when the
            reader reaches them.
    """
    path = Path(path)
    with explain_read_errors(path):
        if not path.exists():
            raise UnireError(f"{path} cannot be read: No such file or directory; check the path")
    guessed = guess(path, limits) if format is None else None
    form = get_format(guessed or str(format))
    with explain_read_errors(path):
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    if is_folder != form.folder and not (is_folder and form.folder_of_files):
        reason = "Not a directory; pass the folder" if form.folder else "Is a directory; pass a file"
        raise UnireError(f"{path} cannot be read: {reason} of the data, or another format=...")
    failures: list[UnireError] = []
    started = False

    def record_failure(error: UnireError) -> None:
        on_error(error)
        if len(failures) < MAX_LEADING_ERRORS:
            failures.append(error)
            if len(failures) == MAX_LEADING_ERRORS and not started:
                raise _nothing_read(path, error, hint)

    def iter_limited() -> Iterator[Document]:
        nonlocal started
        for document in form.read(path, options):
            started = True
            with skip_errors(record_failure):
                limits.check_document(len(document.text), f"{path}, document {document.id!r},")
                yield document

    if on_annotation_error is None and notes is not None:
        on_annotation_error = _ignore
    options = ReadOptions(
        predicted=predicted,
        spaces=spaces,
        line_breaks=line_breaks,
        events=events,
        notes=Counter() if notes is None else notes,
        on_error=record_failure,
        on_annotation_error=on_annotation_error,
        limits=limits,
    )
    hint = f" (format guessed as {guessed}; give the format if that is wrong)" if guessed else ""
    return _require_some(iter_limited(), path, failures, hint, options.notes)


def _ignore(error: UnireError) -> None:
    """Do nothing: the entity or relation that is left out has been counted."""


def read_documents(
    paths: str | Path | Iterable[str | Path],
    format: str | None = None,
    *,
    predicted: bool = False,
    notes: Counter[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Documents:
    """Read all documents of a file or a folder, or of several, into one list.

    >>> read_documents("train.jsonl")  # doctest: +SKIP

    Args:
        paths: A file or a folder, or several.
        format: A name in `FORMATS`. [default: guessed]
        predicted: Take the predictions of a file that also has gold annotation (`dygie`).
        notes: Counts what the readers changed or left out.
        limits: As in `read`.

    Returns:
        The documents, in the order of the files. `read` yields them one at a time.

    Raises:
        UnireError: A file cannot be read, or holds no document.
    """
    files = [paths] if isinstance(paths, (str, Path)) else paths
    return Documents(
        document for file in files for document in read(file, format, predicted=predicted, notes=notes, limits=limits)
    )


def write(
    documents: Iterable[Document],
    path: str | Path,
    format: str = "unire",
    *,
    lost: Counter[str] | None = None,
    on_error: OnError = raise_error,
) -> int:
    """Write documents to a file or a folder, atomically.

    >>> lost = Counter()
    >>> formats.write(documents, "train.json", "spert", lost=lost)  # doctest: +SKIP
    350

    Args:
        documents: The documents, which may be a stream. If the format allows it, only one is held in memory.
        path: The output. An existing file is replaced when everything is written. A folder must be new or empty.
        format: A name in `WRITABLE`.
        lost: Counts what the format cannot represent. Without it, a document that would lose entities or relations is
            an error.
        on_error: Called for every document that cannot be written. If it returns, writing continues.

    Returns:
        The number of documents written.

    Raises:
        UnireError: The format cannot be written, a folder is not empty, or a document cannot be written.
    """
    form = get_writable(format)
    count = failures = 0

    def record_failure(error: UnireError) -> None:
        nonlocal failures
        failures += 1
        on_error(error)

    def project_all() -> Iterator[Document]:
        nonlocal count
        losses: Counter[str] = Counter() if lost is None else lost
        for document in documents:
            projected = project(document, form.capabilities, losses, form.reserved_keys)
            if lost is None and losses:
                serious = sorted(losses.keys() & SERIOUS_LOSSES)
                reasons = [f"the format {format} has no place for {losses[loss]} × {loss}" for loss in serious]
                losses.clear()
                if reasons:
                    record_failure(UnireError(f"document {document.id!r} cannot be written: {reasons[0]}"))
                    continue
            failures_before = failures
            yield from projected
            if projected and failures == failures_before:
                count += 1

    try:
        with lock_output(path) if form.folder else nullcontext():
            if form.folder:
                check_output_folder(path)
            with replace_atomically(path, directory=form.folder) as temporary:
                form.write(project_all(), temporary, record_failure)  # type: ignore[misc]  # `get_writable` checks it
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def convert(
    source: str | Path,
    target: str | Path,
    to: str = "unire",
    format: str | None = None,
    *,
    spaces: bool = False,
    line_breaks: bool | None = None,
    events: Literal["trigger", "pairs"] = "trigger",
    notes: Counter[str] | None = None,
    lost: Counter[str] | None = None,
    on_error: OnError = raise_error,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> int:
    """Convert a file or a folder to another format.

    >>> formats.convert("train.json", "train.jsonl")  # doctest: +SKIP
    350

    Args:
        source: The file or folder to read.
        target: The file or folder to write, as in `write`.
        to: The format to write, a name in `WRITABLE`.
        format: The format to read. [default: guessed]
        spaces: As in `read`.
        line_breaks: As in `read`.
        events: As in `read`.
        notes: Counts what the reader changed or left out, as in `read`.
        lost: Counts what the format `to` cannot represent; see `write`.
        on_error: Called for every document that cannot be read or written. If it returns, the conversion continues.
        limits: As in `read`.

    Returns:
        The number of documents written.

    Raises:
        UnireError: As `read` and `write`.
    """
    documents = read(
        source,
        format,
        spaces=spaces,
        line_breaks=line_breaks,
        events=events,
        notes=notes,
        on_error=on_error,
        limits=limits,
    )
    return write(documents, target, to, lost=lost, on_error=on_error)


def get_writable(format: str) -> Format:
    """The format of this name. Raise an error if it cannot be written."""
    form = get_format(format, WRITABLE)
    if form.write is None:
        raise UnireError(f"the format {format!r} can be read, but not written; give one of {', '.join(WRITABLE)}")
    return form


def get_format(format: str, choices: Iterable[str] = FORMATS) -> Format:
    """The format of this name. Raise an error with the choices if there is none."""
    if format not in FORMATS:
        raise UnireError(f"unknown format {format!r}; give one of {', '.join(choices)}")
    return FORMATS[format]


def _require_some(
    documents: Iterator[Document], path: Path, failures: list[UnireError], hint: str, notes: Counter[str]
) -> Iterator[Document]:
    """Pass on the documents, and raise an error if there are none, with the first failure as the reason.

    An error before the first document may mean that the format was guessed wrongly: `hint` says so.
    """
    empty = True
    before = Counter(notes)
    try:
        for document in documents:
            empty = False
            yield document
    except (NothingReadError, LimitError):
        raise
    except UnireError as error:
        raise UnireError(f"{error}{hint}") if empty and hint else error from None
    if empty and failures:
        raise _nothing_read(path, failures[0], hint)
    if empty:
        left_out = "; ".join(f"{count:,} × {note}" for note, count in (notes - before).items())
        raise UnireError(f"{path} holds no document{left_out and f' to read: {left_out}'}")


def _nothing_read(path: Path, failure: UnireError, hint: str) -> NothingReadError:
    reason = str(failure).removeprefix(f"{path}, ").removeprefix(f"{path}: ")
    return NothingReadError(f"{path} holds no document that can be read: {reason}{hint}")
