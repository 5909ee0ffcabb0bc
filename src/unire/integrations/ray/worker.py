"""A worker on a Ray cluster: loads the model once, and writes a Parquet file for every shard."""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from unire import __version__
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.files import replace_atomically
from unire.formats import arrow
from unire.formats.base import raise_error
from unire.hub.model_dir import fingerprint, locate_model
from unire.integrations.ray.shards import (
    ExtractionResult,
    Shard,
    file_stamp,
    is_storage_error,
    shard_path,
)
from unire.result_filter import ResultFilter
from unire.segmentation import segment
from unire.sources import SourceShard, TextItem, TextSources
from unire.writers.resumable import MANIFEST

__all__ = ["MAX_ATTEMPTS", "RETRIED_SHARD", "RayJob", "RayWorker", "build_schema"]

MAX_ATTEMPTS = 3
"""After this many workers have died over a shard, it is left to another run, so that this one ends."""
RETRIED_SHARD = "block that was computed again, because its worker had crashed"
UNHEALTHY_EXIT_STATUS = 70
"""Exit status of a worker whose model has stopped working, for example after an error of the GPU."""


@dataclass(frozen=True)
class RayJob:
    """The description of a run for all workers."""

    inputs: TextSources
    """How files are read."""
    out: Path
    model: str
    fingerprint: str
    """Fingerprint of the model on the driver; workers must have the same."""
    working_dir: Path
    """Working directory of the driver; paths are relative to it."""
    run: str
    """Random id of this run, for counting attempts."""
    filter: ResultFilter = field(default_factory=ResultFilter)
    constraints: str | Mapping[str, Sequence[Sequence[str]]] | None = None
    device: str = "cpu"
    threads: int = 1
    version: str = __version__
    """Version of unire on the driver; workers must have the same."""


class RowOrigin(NamedTuple):
    """Where a row of the output comes from, and the error if its document failed."""

    source: str
    number: int
    """The line or row, from 1."""
    error: str | None = None


def build_schema() -> Any:
    """Build the Arrow schema: the columns of the format `parquet`, and the origin of each row."""
    import pyarrow as pa

    origin = [("source", pa.string()), ("number", pa.int64()), ("block", pa.string()), ("error", pa.string())]
    return pa.schema([*arrow.build_schema(), *(pa.field(name, kind) for name, kind in origin)])


class RayWorker:
    """The actor that Ray Data calls with shards. It returns errors instead of raising them; the driver stops the run.

    If a document of a shard fails, the shard is extracted again one document at a time. The row of the faulty document
    has the error.
    """

    def __init__(self, job: RayJob) -> None:
        self.job = job
        with suppress(OSError):  # absolute paths work without it
            os.chdir(job.working_dir)

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        return {"block": list(batch["block"]), "problem": [self._process(text) for text in batch["block"]]}

    def _process(self, text: str) -> str:
        """Extract a shard, unless its file exists; return the error, or an empty string."""
        shard = Shard.from_json(text)
        try:
            self._check(shard)
            attempts = self.job.out / f".{shard.id}.{self.job.run}.tries"
            if not shard_path(self.job.out, shard).exists() and (attempt := _count_attempt(attempts)) <= MAX_ATTEMPTS:
                self.extract(shard, attempt)
                attempts.unlink()
        except UnireError as error:
            return f"{socket.gethostname()}: {error}"
        except Exception as error:
            return f"{socket.gethostname()}: {shard} cannot be done: {type(error).__name__}: {error}"
        return ""

    def extract(self, shard: Shard, attempt: int = 1) -> None:
        """Extract a shard and write its file atomically."""
        _ = self.extractor  # an error here is not the fault of a document
        try:
            self._write(shard, self._extract_batch, attempt)
        except Exception:  # find the faulty document, if it is one
            self._write(shard, self._extract_one_by_one, attempt)

    @cached_property
    def extractor(self) -> Extractor:
        job = self.job
        if fingerprint(locate_model(job.model)) != job.fingerprint:
            raise UnireError(
                f"the model {job.model!r} of this node differs from that of the driver; all nodes need the same model"
            )
        return Extractor.load(job.model, device=job.device, constraints=job.constraints, threads=job.threads)

    def _check(self, shard: Shard) -> None:
        """Check that this node has the same version, output folder and files as the driver."""
        if self.job.version != __version__:
            raise UnireError(
                f"this node has unire {__version__}, and the driver has {self.job.version}; install the same version"
            )
        if not (self.job.out / MANIFEST).exists():
            raise UnireError(f"{self.job.out} does not exist on this node; it must be in storage that all nodes share")
        for path, expected in shard.stamps:
            if file_stamp(path) != expected:
                raise UnireError(f"{path} has changed since the run began; start again with another out=...")

    def _write(self, shard: Shard, extract: Callable[[Shard, ExtractionResult], Iterator[Any]], attempt: int) -> None:
        from pyarrow import parquet

        result = ExtractionResult(notes=+Counter({RETRIED_SHARD: attempt - 1}))
        with (
            replace_atomically(shard_path(self.job.out, shard)) as temporary,
            parquet.ParquetWriter(temporary, build_schema(), compression="zstd") as file,
        ):
            for table in extract(shard, result):
                result.documents += table.num_rows
                file.write_table(table)
            file.add_key_value_metadata(result.to_metadata())

    def _extract_batch(self, shard: Shard, result: ExtractionResult) -> Iterator[Any]:
        """Extract all documents of a shard in batches."""
        items = ((source.path, item) for source in shard.sources for item in self.job.inputs.read(source))
        return self._iter_tables(items, shard, result)

    def _extract_one_by_one(self, shard: Shard, result: ExtractionResult) -> Iterator[Any]:
        """Extract one document at a time, so that a faulty one affects no other."""
        for source in shard.sources:
            for item in self._read_one_by_one(source):
                if isinstance(item, RowOrigin):
                    yield _failed_row(item, shard, result)
                    continue
                try:
                    yield from list(self._iter_tables([(source.path, item)], shard, result))
                except Exception as error:
                    self._check_health()
                    place = f"{source.path}, document {item.number}"
                    reason = f"{place} cannot be extracted: {type(error).__name__}: {error}"
                    yield _failed_row(RowOrigin(source.path, item.number, reason), shard, result)

    def _read_one_by_one(self, source: SourceShard) -> list[TextItem | RowOrigin]:
        """Read a source. For an unreadable document, the list has its place and the error."""
        items: list[TextItem | RowOrigin] = []
        try:
            items.extend(self.job.inputs.read(source))
        except Exception as error:
            if is_storage_error(error):  # no document is to blame
                raise
            smaller = self._split_into_lines(source)
            if len(smaller) > 1:
                return [item for part in smaller for item in self._read_one_by_one(part)]
            reason = str(error) if isinstance(error, UnireError) else f"{source.path} cannot be read: {error}"
            items.append(RowOrigin(source.path, source.rows.stop if source.rows else len(items) + 1, reason))
        return items

    def _split_into_lines(self, source: SourceShard) -> list[SourceShard]:
        """Split a source into single lines or rows. A broken one stays whole."""
        try:
            return list(self.job.inputs.split(source, 1))
        except UnireError as error:
            if is_storage_error(error):
                raise
            return [source]

    def _iter_tables(
        self, items: Iterable[tuple[str, TextItem]], shard: Shard, result: ExtractionResult
    ) -> Iterator[Any]:
        """Extract some items; yield Arrow tables of rows."""
        origins: deque[RowOrigin] = deque()  # of documents that were read and are not annotated yet

        def documents() -> Iterator[Document]:
            for source, item in items:
                origins.append(RowOrigin(source, item.number))
                document = item.document(self.job.inputs.line_breaks)
                yield document if document.id else replace(document, id=f"{source}:{item.number}")

        annotated = self.extractor.annotate(documents(), notes=result.notes)
        for table in arrow.iter_tables(map(self.job.filter, annotated), raise_error):
            yield _with_origins(table, [origins.popleft() for _ in range(table.num_rows)], shard)

    def _check_health(self) -> None:
        """End the process if the model has stopped working: then the document is not at fault."""
        try:
            next(self.extractor.annotate([segment("This is a sentence.")]))
        except Exception:
            os._exit(UNHEALTHY_EXIT_STATUS)  # Ray starts another worker and gives it the shard


def _count_attempt(path: Path) -> int:
    """Count an attempt in a file, which survives the death of a worker; return the number of this attempt."""
    with path.open("ab") as file:
        file.write(b".")
        return file.tell()


def _failed_row(origin: RowOrigin, shard: Shard, result: ExtractionResult) -> Any:
    """Build the row of a document that failed."""
    result.fail(origin.error or "")
    empty = Document.from_words([], id=f"{origin.source}:{origin.number}")
    (table,) = arrow.iter_tables([empty], raise_error)
    return _with_origins(table, [origin], shard)


def _with_origins(table: Any, origins: Sequence[RowOrigin], shard: Shard) -> Any:
    """Append the columns that say where rows come from."""
    import pyarrow as pa

    columns = [*table.columns, *([getattr(o, name) for o in origins] for name in RowOrigin._fields[:2])]
    columns += [[shard.id] * len(origins), [origin.error for origin in origins]]
    return pa.table(columns, schema=build_schema())
