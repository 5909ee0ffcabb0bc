"""Extraction from text sources to an output: resumable files, skipped errors, progress."""

from __future__ import annotations

import codecs
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from unire import formats, pretrained
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.files import check_uncompressed, is_append_only, open_stream
from unire.hub.model_dir import ModelDir, fingerprint, locate_model
from unire.inference.streaming import CHUNK_CHARACTERS, Prefetcher, chunk_weight
from unire.output_files import lock_output
from unire.rendering.views import View, views
from unire.result_filter import MinScore, ResultFilter
from unire.sources import JSON_LINES_SUFFIXES, TextItem, TextSources
from unire.windows.collator import Batch
from unire.writers import FORMAT_BY_SUFFIX, WRITERS, FileWriter, GraphWriter, LineWriter, PageWriter
from unire.writers.resumable import InputChangedError, ResumableFile, part_path

__all__ = ["ExtractionCallback", "ExtractionRun", "PartialOutput", "default_format"]

SKIPPED = "line, row, file or folder that cannot be read, skipped"
MAX_LEADING_ERRORS = 100
"""If this many inputs fail before the first readable one, the run aborts: probably the field name is wrong."""

Result = TypeVar("Result")


class ExtractionCallback:
    """Follows a run. The methods do nothing; override those that you need."""

    def on_load(self) -> None:
        """The first input has been read and the model has been loaded."""

    def on_start(self, size: int | None, n_documents: int, position: float) -> None:
        """Extraction starts: bytes of the input, if known; documents and bytes that an earlier run has done."""

    def on_skip(self, error: UnireError) -> None:
        """An unreadable line, row or file was skipped."""

    def on_read(self, position: float, n_words: int) -> None:
        """A document of `n_words` words was read, with which `position` bytes have been read."""

    def on_read_end(self) -> None:
        """The whole input was read."""

    def on_batch(self, batch: Batch, P: Any) -> None:
        """A batch was decoded."""

    def on_result(self) -> None:
        """A document is about to be written."""

    def on_written(self, position: float) -> None:
        """A document was written, with which `position` bytes of the input are done."""

    def on_end(self) -> None:
        """The extraction has ended, by an error perhaps."""


class PartialOutput(NamedTuple):
    """The output of a run that was stopped. Run again with `resume=True` to continue."""

    path: Path
    n_documents: int


@dataclass
class ExtractionRun:
    """Extracts from text sources, and writes the results.

    >>> run = ExtractionRun(TextSources(["papers/"]), skip_errors=True)  # doctest: +SKIP
    >>> run.write(Path("results.jsonl"), resume=True)  # doctest: +SKIP
    """

    sources: TextSources
    model: str = pretrained.DEFAULT
    device: str | None = None
    min_score: MinScore = 0.0
    """Entities and relations with a lower score are dropped; `auto` takes the scores that the model recommends."""
    types: str | None = None
    """Only entities and relations of these types, separated by commas, are kept. [default: all]"""
    entities: str | None = None
    """Only entities of these types, and relations between them, are kept. [default: all]"""
    relations: str | None = None
    """Only relations of these types are kept; without `entities`, only their arguments. [default: all]"""
    constraints: str | None = None
    skip_errors: bool = False
    """Skip and count unreadable inputs, instead of stopping at the first one."""
    callback: ExtractionCallback = field(default_factory=ExtractionCallback)
    notes: Counter[str] = field(default_factory=Counter)
    """What needed special care, and what was skipped or lost."""
    n_documents: int = 0
    """Documents done, those of an earlier run included."""
    kept_nothing: bool = True
    """Whether all documents so far have no entities, perhaps because of a filter."""
    n_below: int = 0
    """If nothing was kept: entities and relations with a score below `min_score`."""
    best_below: float = 0.0
    """The highest of their scores."""
    partial_output: PartialOutput | None = None
    """Set if `write` was stopped by an error and its output can be resumed."""
    truncated_page: int | None = None
    """Documents on an HTML page that does not show all of them."""

    def __post_init__(self) -> None:
        self.notes.update(self.sources.notes)

    @cached_property
    def folder(self) -> Path:
        """The model directory."""
        return locate_model(self.model)

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What the results depend on. A run can only be resumed with the same."""
        constraints: Any = self.constraints
        if constraints not in (None, "none", "learnt"):
            constraints = ModelDir.open(self.folder).labels.load_signatures(constraints)
        return {
            "input": self.sources.to_dict(),
            "model": fingerprint(self.folder),
            "min-score": self.min_score,
            "type filter": self.filter.types,
            "constraints": constraints,
        }

    @cached_property
    def filter(self) -> ResultFilter:
        model = ModelDir.open(self.folder)
        return ResultFilter.build(
            model.labels,
            self.min_score,
            self.types,
            entities=self.entities,
            relations=self.relations,
            calibration=model.config.calibration,
        )

    @cached_property
    def items(self) -> Iterator[TextItem]:
        """The input. The first item is read at once, so that a wrong field or file is reported before a model loads."""
        leading_errors: list[UnireError] = []
        started = False

        def skip(error: UnireError) -> None:
            self.notes[SKIPPED] += 1
            if started:
                self.callback.on_skip(error)
                return
            leading_errors.append(error)
            if len(leading_errors) == MAX_LEADING_ERRORS:
                raise _TooManyErrors

        items = self.sources.items(skip if self.skip_errors else None)
        try:
            first = list(islice(items, 1))
        except _TooManyErrors:
            first = []
        if not first and leading_errors:  # not the input is wrong, but an argument, such as the name of a field
            raise leading_errors[0]
        started = True
        for error in leading_errors:
            self.callback.on_skip(error)
        return chain(first, items)

    @cached_property
    def extractor(self) -> Extractor:
        _ = self.items, self.filter
        loaded = Extractor.load(self.folder, device=self.device, constraints=self.constraints)
        self.callback.on_load()
        return loaded

    def documents(self, resumed: ResumableFile | None = None) -> Iterator[Document]:
        """Yield the annotated documents.

        Args:
            resumed: Skip the documents that this file already holds.
        """
        return map(self._keep, self._results(Extractor.annotate, resumed))

    def views(self) -> Iterator[View]:
        """Yield the annotated documents with their tables."""
        return (replace(view, document=self._keep(view.document)) for view in self._results(views))

    def _keep(self, document: Document) -> Document:
        """Filter a document."""
        kept = self.filter(document)
        self.kept_nothing = self.kept_nothing and not kept.entities
        if self.kept_nothing and (below := self.filter.scores_below(document)):
            self.n_below += len(below)
            self.best_below = max(self.best_below, *below)
        return kept

    def write(self, out: Path | BinaryIO, format: str | None = None, *, resume: bool = False) -> bool:
        """Extract and write the results.

        Args:
            out: A file, or an open binary stream, which is written as UTF-8.
            format: One of `WRITERS`. [default: by the suffix of `out`]
            resume: Continue an interrupted run. Only for formats with one or more lines per document.

        Returns:
            False if `out` was complete already, so that nothing was read.
        """
        path = out if isinstance(out, Path) else None
        name = format or default_format(self.sources, path)
        if name not in WRITERS:
            raise UnireError(f"unknown format {name!r}; give one of {', '.join(WRITERS)}")
        writer = WRITERS[name]
        if path is not None:
            check_uncompressed(path)
            self.sources.check_output(path, folder=name in formats.FORMATS and formats.FORMATS[name].folder)
        if resume and (path is None or not isinstance(writer, LineWriter)):
            raise UnireError(
                'resume=True needs out=... and a format with one line per document, such as format="jsonl"'
            )
        with nullcontext() if path is None or is_append_only(path) else lock_output(path):
            if not isinstance(writer, LineWriter):
                self._write_whole(writer, out, name)
            elif not isinstance(out, Path):
                self._write_stream(writer, out)
            elif is_append_only(out):
                self._write_device(writer, out)
            else:
                return self._write_file(writer, out, name, resume=resume)
        return True

    def _write_whole(self, writer: FileWriter | GraphWriter | PageWriter, out: Path | BinaryIO, name: str) -> None:
        if not isinstance(out, Path) and not writer.streams:
            place = "folder" if formats.FORMATS[name].folder else "file"
            raise UnireError(f"the format {name!r} needs a {place}; pass out=...")
        target: Any = out if isinstance(out, Path) else codecs.getwriter("utf-8")(out)
        if isinstance(writer, FileWriter):
            writer.write(self.documents(), target, self.notes)
            return
        if isinstance(writer, GraphWriter):
            writer.write(self.documents(), target, self.extractor.labels, self.notes)
            return
        page = writer.write(self.views(), target, self.extractor.labels)
        self.truncated_page = None if page.complete else page.documents

    def _write_stream(self, writer: LineWriter, stream: BinaryIO) -> None:
        head = writer.head  # written with the first document, because the input may be unreadable
        for document in self.documents():
            stream.write((head + writer.of(document)).encode())
            stream.flush()
            head = ""
        stream.write(head.encode())

    def _write_device(self, writer: LineWriter, out: Path) -> None:
        """Write to what cannot be replaced by a finished file, such as a pipe."""
        try:
            with open_stream(out) as stream:
                self._write_stream(writer, stream)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None

    def _write_file(self, writer: LineWriter, out: Path, name: str, *, resume: bool) -> bool:
        self.sources.check_output(part_path(out))
        fingerprint = lambda: {**self.fingerprint, "format": name}  # noqa: E731
        with ResumableFile(out, fingerprint, resume=resume, head=writer.head.encode()) as file:
            if file.complete:
                if changed := self.sources.listing.changed_since(out):
                    raise UnireError(
                        f"{out} is complete, but {changed} has changed since; run without resume=True to write it again"
                    )
                return False
            try:
                for document in self.documents(file):
                    file.add(document.id, writer.of(document).encode(), document.text)
            except InputChangedError:
                raise
            except (KeyboardInterrupt, UnireError):
                if file.documents:
                    self.partial_output = PartialOutput(file.part, file.documents)
                raise
        return True

    def _results(
        self, annotate: Callable[..., Iterator[Result]], resumed: ResumableFile | None = None
    ) -> Iterator[Result]:
        items = self.items
        start = 0.0
        if resumed is not None:
            _ = self.fingerprint  # hash the model now, not when the progress is first recorded
        if resumed is not None and resumed.documents:
            self.n_documents = resumed.documents
            last = next(islice(items, self.n_documents - 1, None), None)
            resumed.check_last(last.id if last else None, last.text if last else "")
            start = last.position if last else 0.0
        callback, extractor = self.callback, self.extractor
        positions: deque[float] = deque()

        def read() -> Iterator[Document]:
            for item in items:
                positions.append(item.position)
                document = item.document(self.sources.line_breaks)
                callback.on_read(item.position, document.n_words)
                yield document
            callback.on_read_end()

        callback.on_start(self.sources.size, self.n_documents, start)
        try:
            documents = Prefetcher(read(), chunk_weight, CHUNK_CHARACTERS)
            for result in annotate(extractor, documents, notes=self.notes, on_batch=callback.on_batch):
                callback.on_result()
                yield result
                self.n_documents += 1
                callback.on_written(positions.popleft())
        finally:
            callback.on_end()


class _TooManyErrors(Exception):  # noqa: N818
    """Stops the reading of inputs. Not a `UnireError`, which would be skipped."""


def default_format(sources: TextSources, out: Path | None) -> str:
    """Choose a format by the suffix of the output; for JSON lines by whether the input was split into words."""
    suffix = out.suffix.lower().removeprefix(".") if out else ""
    if suffix in FORMAT_BY_SUFFIX:
        return FORMAT_BY_SUFFIX[suffix]
    if suffix not in ("", *(suffix.removeprefix(".") for suffix in JSON_LINES_SUFFIXES)):
        raise UnireError(f"the suffix of {out} is not that of a format; pass format=..., such as jsonl or csv")
    return "unire" if sources.has_words else "jsonl"
