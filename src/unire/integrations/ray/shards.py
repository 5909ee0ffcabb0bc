"""The input in blocks: what a worker reads, extracts and writes at a time, and what is repeated if it is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unire.errors import UnireError
from unire.sources.lines import RowRange
from unire.sources.parquet import MIN_TEXT_BYTES
from unire.sources.sources import SourceShard, TextSources

__all__ = ["Shard", "Stamp", "file_stamp", "is_of_storage", "plan_shards", "sizes", "stamps", "wholes"]

SMALLEST, LARGEST = 2**14, 2**24
"""Bytes of a block: at least a second's work for a core, at most what one does not mind to repeat."""
BLOCKS = 4096
"""As many are made of an input of any size, within these bounds."""

Stamp = tuple[int, int]
"""Size and time of the last change: by these it is told whether a file is still what it was."""


@dataclass(frozen=True)
class Shard:
    """Tokens of files that are done together. The same input gives the same blocks, whatever the cluster."""

    id: str
    tokens: tuple[SourceShard, ...]
    stamps: tuple[tuple[str, Stamp], ...]
    """Of the files that the tokens are from."""

    @property
    def size(self) -> int:
        return sum(token.size for token in self.tokens)

    def __str__(self) -> str:
        first = self.tokens[0]
        rows = f", lines or rows {first.rows.start + 1} to {first.rows.stop}" if first.rows else ""
        more = len(self.tokens) - 1
        return f"block {self.id} ({first.path}{rows}{f', and {more} more' if more else ''})"

    def to_json(self) -> str:
        return json.dumps([self.id, self.tokens, self.stamps])

    @classmethod
    def from_json(cls, text: str) -> Shard:
        name, tokens, stamps = json.loads(text)
        read = (SourceShard(path, RowRange(*part) if part else None, size) for path, part, size in tokens)
        return cls(name, tuple(read), tuple((path, (size, changed)) for path, (size, changed) in stamps))


def file_stamp(path: str | Path) -> Stamp:
    try:
        status = Path(path).stat()
    except OSError as error:
        raise UnireError(f"{path} cannot be read: {error.strerror or error}") from None
    return status.st_size, status.st_mtime_ns


def stamps(inputs: TextSources) -> dict[str, Stamp]:
    """The files of an input, as they are now."""
    return {str(path): file_stamp(path) for files in inputs.files.values() for path in files}


def is_of_storage(error: BaseException) -> bool:
    """Whether a file could not be read for a reason that is not in it: what is there may be good.

    Arrow tells of what is wrong in a file by the same kind of error, without a number of the system's.
    """
    cause = error.__context__ if isinstance(error, UnireError) else error
    return isinstance(cause, OSError) and cause.errno is not None


def wholes(inputs: TextSources) -> Iterator[SourceShard]:
    """The files, each as one token."""
    for path in (path for files in inputs.files.values() for path in files):
        yield SourceShard(str(path), None, file_stamp(path)[0])


def sizes() -> list[int]:
    """All but the input that decides which blocks there are: with others, block 17 is another one."""
    return [SMALLEST, LARGEST, BLOCKS, MIN_TEXT_BYTES]


def plan_shards(inputs: TextSources, files: Mapping[str, Stamp]) -> list[Shard]:
    """The blocks of an input. Lines are looked for in every file, so it takes as long as reading them all once."""
    size = min(max(SMALLEST, sum(size for size, _ in files.values()) // BLOCKS), LARGEST)
    groups = _packed((token for whole in wholes(inputs) for token in _cut(inputs, whole, size)), size)
    return [Shard(f"{number:06}", tokens, _of(tokens, files)) for number, tokens in enumerate(groups)]


def _cut(inputs: TextSources, whole: SourceShard, size: int) -> list[SourceShard]:
    """A file in tokens. One that is broken, or is not what its name says, is left whole: its row is to tell of it."""
    if whole.size <= size:
        return [whole]
    try:
        return list(inputs.split(whole, size))
    except UnireError as error:
        if is_of_storage(error):
            raise
        return [whole]


def _packed(tokens: Iterator[SourceShard], size: int) -> Iterator[tuple[SourceShard, ...]]:
    """Neighbours together until they have the size of a block: a folder may be of a million small files."""
    group: list[SourceShard] = []
    held = 0
    for token in tokens:
        if group and held + token.size > 1.5 * size:
            yield tuple(group)
            group, held = [], 0
        group.append(token)
        held += token.size
    if group:
        yield tuple(group)


def _of(tokens: Sequence[SourceShard], files: Mapping[str, Stamp]) -> tuple[tuple[str, Stamp], ...]:
    return tuple((path, files[path]) for path in dict.fromkeys(token.path for token in tokens))
