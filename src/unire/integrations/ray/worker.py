"""What a worker does: it loads the model once, and makes of every block that it is given a Parquet file."""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from unire.integrations.ray.output import MANIFEST, Finished, path_of
from unire.integrations.ray.shards import Shard, file_stamp, is_of_storage
from unire.segmentation import segment
from unire.sources.sources import SourceShard, TextItem, TextSources

__all__ = ["AGAIN", "TRIES", "RayJob", "RayWorker", "schema"]

TRIES = 3
"""So many workers may end over a block: then it is left for another run, so that this one comes to its end."""
AGAIN = "block that was begun again, since its worker had ended"
SICK = 70
"""The exit status of a worker whose model no longer answers."""


@dataclass(frozen=True)
class RayJob:
    """What all workers are told."""

    inputs: TextSources
    """How files are read."""
    out: Path
    model: str
    fingerprint: str
    """Of the model where the command was given: that of a worker must be the same."""
    here: Path
    """The folder in which the command was given, from which paths are meant."""
    run: str
    """A name for this run, by which workers know what others have tried in it."""
    min_score: float = 0.0
    constraints: str | Mapping[str, Sequence[Sequence[str]]] | None = None
    device: str = "cpu"
    threads: int = 1
    version: str = __version__
    """Of unire, likewise."""


class Origin(NamedTuple):
    """Where a row is from, and why it is empty if it should not be."""

    source: str
    number: int
    """The line or row, from 1."""
    error: str | None = None


def schema() -> Any:
    """The columns of the format `parquet`, and where each row is from."""
    import pyarrow as pa

    more = [("source", pa.string()), ("number", pa.int64()), ("block", pa.string()), ("error", pa.string())]
    return pa.schema([*arrow.build_schema(), *(pa.field(name, kind) for name, kind in more)])


class RayWorker:
    """Called with blocks, by Ray Data. It raises nothing: what is wrong is its answer, and stops the run.

    A document that cannot be read, or that the model fails on, costs no other: its block is done again document by
    document, and its row says what was wrong.
    """

    def __init__(self, job: RayJob) -> None:
        self.job = job
        with suppress(OSError):  # paths from the root need no folder
            os.chdir(job.here)

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        return {"block": list(batch["block"]), "problem": [self._problem(text) for text in batch["block"]]}

    def _problem(self, text: str) -> str:
        """Do a block, unless it was done by somebody who could not say so."""
        block = Shard.from_json(text)
        try:
            self._check(block)
            tries = self.job.out / f".{block.id}.{self.job.run}.tries"
            if not path_of(self.job.out, block).exists() and (tried := _tried(tries)) <= TRIES:
                self.do(block, tried)
                tries.unlink()
        except UnireError as error:
            return f"{socket.gethostname()}: {error}"
        except Exception as error:
            return f"{socket.gethostname()}: {block} cannot be done: {type(error).__name__}: {error}"
        return ""

    def do(self, block: Shard, tried: int = 1) -> None:
        """Extract a block, for this time of so many, and write its file, whole or not at all."""
        _ = self.extractor  # if there is none, that is no document's fault
        try:
            self._write(block, self._quickly, tried)
        except Exception:  # whatever it was: one document at a time shows which it is about, if it is about any
            self._write(block, self._carefully, tried)

    @cached_property
    def extractor(self) -> Extractor:
        job = self.job
        if fingerprint(locate_model(job.model)) != job.fingerprint:
            raise UnireError(f"the model {job.model!r} is another one here; all nodes need the same")
        return Extractor.load(job.model, device=job.device, constraints=job.constraints, threads=job.threads)

    def _check(self, block: Shard) -> None:
        """That this node sees the same files as all others, with the same eyes."""
        if self.job.version != __version__:
            raise UnireError(f"unire {__version__} is here, and {self.job.version} where the command was given")
        if not (self.job.out / MANIFEST).exists():
            raise UnireError(f"{self.job.out} is not there; it must be in storage that all nodes share")
        for path, expected in block.stamps:
            if file_stamp(path) != expected:
                raise UnireError(f"{path} is not what it was when the run began; begin anew with another --out")

    def _write(self, block: Shard, tables: Callable[[Shard, Finished], Iterator[Any]], tried: int) -> None:
        from pyarrow import parquet

        done = Finished(notes=+Counter({AGAIN: tried - 1}))
        with (
            replace_atomically(path_of(self.job.out, block)) as temporary,
            parquet.ParquetWriter(temporary, schema(), compression="zstd") as file,
        ):
            for table in tables(block, done):
                done.documents += table.num_rows
                file.write_table(table)
            file.add_key_value_metadata(done.to_metadata())

    def _quickly(self, block: Shard, done: Finished) -> Iterator[Any]:
        items = ((token.path, item) for token in block.tokens for item in self.job.inputs.read(token))
        return self._tables(items, block, done)

    def _carefully(self, block: Shard, done: Finished) -> Iterator[Any]:
        """One document at a time, so that one which fails is known and is the only one."""
        for token in block.tokens:
            for item in self._read_carefully(token):
                if isinstance(item, Origin):
                    yield _failed(item, block, done)
                    continue
                try:
                    yield from list(self._tables([(token.path, item)], block, done))
                except Exception as error:
                    self._check_health()
                    place = f"{token.path}, document {item.number}"
                    reason = f"{place} cannot be extracted: {type(error).__name__}: {error}"
                    yield _failed(Origin(token.path, item.number, reason), block, done)

    def _read_carefully(self, token: SourceShard) -> list[TextItem | Origin]:
        """What a token holds, and of what cannot be read why."""
        read: list[TextItem | Origin] = []
        try:
            read.extend(self.job.inputs.read(token))
        except Exception as error:
            if is_of_storage(error):  # no document is to blame
                raise
            smaller = self._lines_or_rows(token)
            if len(smaller) > 1:
                return [item for each in smaller for item in self._read_carefully(each)]
            reason = str(error) if isinstance(error, UnireError) else f"{token.path} cannot be read: {error}"
            read.append(Origin(token.path, token.rows.stop if token.rows else len(read) + 1, reason))
        return read

    def _lines_or_rows(self, token: SourceShard) -> list[SourceShard]:
        try:
            return list(self.job.inputs.split(token, 1))
        except UnireError as error:
            if is_of_storage(error):
                raise
            return [token]

    def _tables(self, items: Iterable[tuple[str, TextItem]], block: Shard, done: Finished) -> Iterator[Any]:
        """The rows of what was found in some items."""
        origins: deque[Origin] = deque()  # documents are read some time before their findings come

        def documents() -> Iterator[Document]:
            for source, item in items:
                origins.append(Origin(source, item.number))
                document = item.document()
                yield document if document.id else replace(document, id=f"{source}:{item.number}")

        found = self.extractor.annotate(documents(), notes=done.notes)
        for table in arrow.iter_tables((document.confident(self.job.min_score) for document in found), raise_error):
            yield _with_origins(table, [origins.popleft() for _ in range(table.num_rows)], block)

    def _check_health(self) -> None:
        """A model may have broken down, as after an error of a GPU: then it is not the document's fault."""
        try:
            next(self.extractor.annotate([segment("This is a sentence.")]))
        except Exception:
            os._exit(SICK)  # Ray starts another worker, and gives it the block


def _tried(note: Path) -> int:
    """How often it has been tried, with this time; who ended over it could not tell otherwise."""
    with note.open("ab") as file:
        file.write(b".")
        return file.tell()


def _failed(origin: Origin, block: Shard, done: Finished) -> Any:
    """The row of a document of which nothing is known but where it is."""
    done.fail(origin.error or "")
    empty = Document.from_words([], id=f"{origin.source}:{origin.number}")
    (table,) = arrow.iter_tables([empty], raise_error)
    return _with_origins(table, [origin], block)


def _with_origins(table: Any, origins: Sequence[Origin], block: Shard) -> Any:
    import pyarrow as pa

    columns = [*table.columns, *([getattr(o, name) for o in origins] for name in Origin._fields[:2])]
    columns += [[block.id] * len(origins), [origin.error for origin in origins]]
    return pa.table(columns, schema=schema())
