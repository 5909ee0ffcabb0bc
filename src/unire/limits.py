"""Limits of what is read: the largest document, the largest record, the largest unpacked size.

Every reader of files holds one document, one record (a line, a row, or a file that is parsed as a whole) and one block
of unpacked bytes at a time. So these limits bound the memory that an input can take, even an endless or a hostile one.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from unire.errors import COUNT, OnError, UnireError, check_kinds, check_ranges, skip_errors

__all__ = ["DEFAULT_LIMITS", "LimitError", "ReadLimits", "UnpackedStream", "iter_lines", "read_whole"]

MAX_RATIO = 100
"""A compressed file may always unpack to this many times its size. Text compresses 3 to 20 times, a bomb 1000 times."""
MAX_SKIPPED_BYTES = 2**30
"""Bytes after which the end of a line that is skipped is given up, because the input may be endless."""
MAX_CHARACTER_BYTES = 4
"""Bytes of the longest character in UTF-8."""
BLOCK_BYTES = 2**20
"""Bytes that are read at a time."""


class LimitError(UnireError):
    """An input is too large. The message names the limit."""


@dataclass(frozen=True)
class ReadLimits:
    """The largest inputs that readers accept. A larger one is an error that names the limit.

    >>> from unire import ReadLimits, read_documents
    >>> read_documents("train.jsonl.gz", limits=ReadLimits(max_unpacked=10**10))  # doctest: +SKIP
    """

    max_document: int = 5_000_000
    """Characters of the largest document."""
    max_record: int = 64_000_000
    """Bytes of the largest line or row, or of the largest file that is parsed as a whole, such as a JSON list."""
    max_unpacked: int = 1_000_000_000
    """Bytes of the largest compressed file after unpacking. Any size is accepted below 100 times the packed size."""

    def __post_init__(self) -> None:
        check_kinds(ReadLimits, vars(self), "limit")
        check_ranges(vars(self), dict.fromkeys(vars(self), COUNT), "limit")

    def check_document(self, n_characters: int, location: str) -> None:
        """Refuse a document with too many characters."""
        if n_characters > self.max_document:
            raise LimitError(
                f"{location} has more than {self.max_document:,} characters; split it, or raise max_document=..."
            )

    def check_text(self, n_bytes: int, location: str) -> None:
        """Refuse a document in UTF-8 that has too many characters, whatever they are."""
        self.check_document(n_bytes // MAX_CHARACTER_BYTES, location)

    def check_record(self, n_bytes: int, location: str) -> None:
        """Refuse a line, a row or a file with too many bytes."""
        if n_bytes > self.max_record:
            raise LimitError(f"{location} has more than {self.max_record:,} bytes; split it, or raise max_record=...")

    def check_unpacked(self, packed: int, unpacked: int, name: str) -> None:
        """Refuse a file that unpacks to too many bytes."""
        if unpacked > max(self.max_unpacked, MAX_RATIO * packed):
            raise LimitError(
                f"{name} unpacks to more than {self.max_unpacked:,} bytes and to more than {MAX_RATIO} times its size; "
                "unpack it first if you trust it, or raise max_unpacked=..."
            )


DEFAULT_LIMITS = ReadLimits()


class UnpackedStream(io.RawIOBase):
    """The content of a compressed file, which raises an error where it becomes too large.

    Args:
        stream: The decompressor.
        packed: The compressed file that it reads.
        name: What errors call the file.
        limits: The limit of the size.
    """

    def __init__(self, stream: io.BufferedIOBase, packed: BinaryIO, name: str, limits: ReadLimits) -> None:
        self._stream = stream
        self._packed = packed if packed.seekable() else None
        self._name = name
        self._limits = limits
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        block = self._stream.read1(len(buffer))  # what comes before an error is kept
        buffer[: len(block)] = block
        self._count += len(block)
        if self._count > self._limits.max_unpacked:
            self._limits.check_unpacked(self._packed.tell() if self._packed else 0, self._count, self._name)
        return len(block)


def iter_lines(
    file: BinaryIO,
    name: str,
    limits: ReadLimits = DEFAULT_LIMITS,
    on_error: OnError | None = None,
    *,
    number: int = 0,
    position: int = 0,
) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), bytes and end position of each line of a file. A byte-order mark at the start is removed.

    Args:
        file: The file.
        name: What errors call the file.
        limits: The limit of a line.
        on_error: Called for a line that is too long, which is then skipped. Without it, the line raises an error.
        number: The number of lines before the first one that is read.
        position: The position of that line.
    """
    size = limits.max_record + 1
    while raw := file.readline(size):
        number += 1
        position += len(raw)
        if len(raw) < size:
            yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, position
            continue
        with skip_errors(on_error):
            limits.check_record(len(raw), f"{name}, line {number}")
        if not raw.endswith(b"\n"):
            position += _skip_line(file, f"{name}, line {number}")


def _skip_line(file: BinaryIO, location: str) -> int:
    """Read up to the end of a line, and return the number of bytes."""
    skipped = 0
    while block := file.readline(BLOCK_BYTES):
        skipped += len(block)
        if block.endswith(b"\n"):
            break
        if skipped > MAX_SKIPPED_BYTES:
            raise UnireError(f"{location} is longer than {MAX_SKIPPED_BYTES:,} bytes; the rest is skipped")
    return skipped


def read_whole(file: BinaryIO, name: str, check: Callable[[int, str], None] = DEFAULT_LIMITS.check_record) -> bytes:
    """Read a file that is parsed as a whole.

    Args:
        file: The file.
        name: What errors call it.
        check: Refuses a number of bytes, for example `ReadLimits.check_record`.
    """
    blocks, size = [], 0
    while block := file.read(BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        check(size, name)
    return b"".join(blocks)
