"""Shards of the input, and the folder with a Parquet file for each of them.

A shard is what a worker reads, extracts and writes at a time, and what is repeated if the worker dies. A worker writes
the file of a shard under a temporary name and then renames it: a shard is complete or missing. So it does no harm to
compute a shard twice, and the files show which shards are missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from unire.errors import UnireError
from unire.sources import SourceShard, TextSources
from unire.sources.base import RowRange
from unire.sources.parquet import MIN_TEXT_BYTES

__all__ = [
    "ExtractionResult",
    "FileStamp",
    "Shard",
    "file_stamp",
    "is_storage_error",
    "iter_files",
    "plan_shards",
    "shard_path",
    "shard_sizes",
    "stamp_files",
]

MIN_SHARD_BYTES, MAX_SHARD_BYTES = 2**14, 2**24
"""At least a second of work for a core; at most what may be repeated without harm."""
TARGET_SHARDS = 4096
"""Shards of an input, if their size is within these bounds."""

METADATA_KEY = b"unire"
"""Key of the result of a shard in the metadata of its file."""
MAX_KEPT_ERRORS = 3

FileStamp = tuple[int, int]
"""Size and modification time of a file, which show whether it has changed."""


@dataclass(frozen=True)
class Shard:
    """Files, or parts of files, that a worker processes together. Shards depend on the input, not on the cluster."""

    id: str
    sources: tuple[SourceShard, ...]
    stamps: tuple[tuple[str, FileStamp], ...]
    """Stamps of the files, by path."""

    @property
    def size(self) -> int:
        return sum(source.size for source in self.sources)

    def __str__(self) -> str:
        first = self.sources[0]
        rows = f", lines or rows {first.rows.start + 1} to {first.rows.stop}" if first.rows else ""
        more = len(self.sources) - 1
        return f"block {self.id} ({first.path}{rows}{f', and {more} more' if more else ''})"

    def to_json(self) -> str:
        return json.dumps([self.id, self.sources, self.stamps])

    @classmethod
    def from_json(cls, text: str) -> Shard:
        name, sources, stamps = json.loads(text)
        parsed = (SourceShard(path, RowRange(*part) if part else None, size) for path, part, size in sources)
        return cls(name, tuple(parsed), tuple((path, (size, changed)) for path, (size, changed) in stamps))


def file_stamp(path: str | Path) -> FileStamp:
    """Return size and modification time of a file."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise UnireError(f"{path} cannot be read: {error.strerror or error}") from None
    return status.st_size, status.st_mtime_ns


def stamp_files(inputs: TextSources) -> dict[str, FileStamp]:
    """Return the stamps of all files of an input."""
    return {str(path): file_stamp(path) for files in inputs.files.values() for path in files}


def is_storage_error(error: BaseException) -> bool:
    """Whether a file could not be read for a reason outside the file, so that its content may be good.

    For errors in the content of a file, Arrow raises `OSError` too, but without an error number.
    """
    cause = error.__context__ if isinstance(error, UnireError) else error
    return isinstance(cause, OSError) and cause.errno is not None


def iter_files(inputs: TextSources) -> Iterator[SourceShard]:
    """Yield every file as one source."""
    for path in (path for files in inputs.files.values() for path in files):
        yield SourceShard(str(path), None, file_stamp(path)[0])


def shard_sizes() -> list[int]:
    """Return all constants that decide about shards: with others, shard 17 is another one."""
    return [MIN_SHARD_BYTES, MAX_SHARD_BYTES, TARGET_SHARDS, MIN_TEXT_BYTES]


def plan_shards(inputs: TextSources, files: Mapping[str, FileStamp]) -> list[Shard]:
    """Divide an input into shards. Searches all files for line ends, so it takes as long as reading them once."""
    total = sum(size for size, _ in files.values())
    size = min(max(MIN_SHARD_BYTES, total // TARGET_SHARDS), MAX_SHARD_BYTES)
    groups = _group(chain.from_iterable(_split(inputs, file, size) for file in iter_files(inputs)), size)
    return [Shard(f"{number:06}", sources, _select(files, sources)) for number, sources in enumerate(groups)]


def _split(inputs: TextSources, file: SourceShard, size: int) -> list[SourceShard]:
    """Split a file. A broken one stays whole: its row in the output will have the error."""
    if file.size <= size:
        return [file]
    try:
        return list(inputs.split(file, size))
    except UnireError as error:
        if is_storage_error(error):
            raise
        return [file]


def _group(sources: Iterable[SourceShard], size: int) -> Iterator[tuple[SourceShard, ...]]:
    """Join neighbours up to the size of a shard, because a folder may have a million small files."""
    group: list[SourceShard] = []
    total = 0
    for source in sources:
        if group and total + source.size > 1.5 * size:
            yield tuple(group)
            group, total = [], 0
        group.append(source)
        total += source.size
    if group:
        yield tuple(group)


def _select(files: Mapping[str, FileStamp], sources: Sequence[SourceShard]) -> tuple[tuple[str, FileStamp], ...]:
    """Return the stamps of the files that the sources come from."""
    return tuple((path, files[path]) for path in dict.fromkeys(source.path for source in sources))


@dataclass
class ExtractionResult:
    """Counts of a shard, or of all shards."""

    documents: int = 0
    failed: int = 0
    """Documents that could not be read or extracted; their rows have an `error`."""
    errors: list[str] = field(default_factory=list)
    """The first few."""
    notes: Counter[str] = field(default_factory=Counter)
    """What needed special care, counted."""

    def add(self, other: ExtractionResult) -> None:
        self.documents += other.documents
        self.failed += other.failed
        self.errors = [*self.errors, *other.errors][:MAX_KEPT_ERRORS]
        self.notes += other.notes

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.errors = [*self.errors, reason][:MAX_KEPT_ERRORS]

    def to_metadata(self) -> dict[bytes, bytes]:
        return {METADATA_KEY: json.dumps(vars(self)).encode()}

    @classmethod
    def load(cls, path: Path) -> ExtractionResult:
        """Read the result of a shard from the metadata of its file."""
        from pyarrow import ArrowException, parquet

        try:
            metadata = json.loads(parquet.read_metadata(path).metadata[METADATA_KEY])
            counts = (metadata["documents"], metadata["failed"], metadata["errors"])
            return cls(*counts, Counter(metadata["notes"]))
        except (ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise UnireError(
                f"{path} is not a valid file of results ({error}); delete it, and continue with resume=True"
            ) from None


def shard_path(folder: Path, shard: Shard) -> Path:
    """Return the path of the Parquet file of a shard."""
    return folder / f"{shard.id}.parquet"
