"""What all sources share: a text with its origin, ranges of lines or rows, and the checks of ids and texts.

A long file can be split into ranges of lines or rows, so that several processes can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import shorten
from typing import NamedTuple

from unire.errors import UnireError

__all__ = ["RowRange", "SourceText", "decode_text", "describe_names", "get_id", "get_text", "split_ranges"]

MAX_HEADER_CHARACTERS = 200
"""Characters of the names of fields or columns in errors. The first row may be a paragraph instead of a header."""


class SourceText(NamedTuple):
    """One text of a file."""

    id: str
    """The id in the data, or else the file's name, with the number of the line or row if it holds several texts."""
    text: str
    position: float
    """The number of bytes of the file that have been read."""
    number: int = 1
    """The number of the line or row, from 1."""


class RowRange(NamedTuple):
    """A range of the lines or rows of a file."""

    start: int
    """The first line or row, from 0."""
    stop: int
    """One past the last."""
    offset: int = 0
    """The byte at which the first line starts. Rows of Parquet have none."""
    size: int = 0
    """The size of the text in bytes, at least approximately."""


def decode_text(raw: bytes, location: str) -> str:
    """Decode UTF-8. Errors name the location."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        problem = "is binary, not text" if b"\0" in raw else "is not UTF-8; convert it first"
        raise UnireError(f"{location} {problem}") from None


def describe_names(names: Iterable[str]) -> str:
    """What a record or a table has instead of a missing field or column, for error messages."""
    listed = shorten(", ".join(map(repr, names)), MAX_HEADER_CHARACTERS, placeholder=" …")
    return f", only {listed}" if listed else " and no other"


def get_id(value: object, default: str, location: str) -> str:
    """The id of a text in the data, or the default if it has none."""
    if value is None:
        return default
    if isinstance(value, (dict, list)):
        raise UnireError(f"{location}: its 'id' is {type(value).__name__}, not a string or a number; leave it out")
    return str(value)


def get_text(value: object, field: str, location: str) -> str:
    """The text in the data. A missing value is an empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise UnireError(f"{location}: {field!r} is {type(value).__name__}, not a string; name another with field=...")


def split_ranges(ends: Iterable[tuple[int, int]], size: int, first: RowRange) -> Iterator[RowRange]:
    """Split lines or rows into ranges of at least `size` bytes.

    Args:
        ends: The number of each line or row, and the position after it.
        size: The least size of a range in bytes.
        first: The range where the lines or rows start.
    """
    start, _, offset, _ = first
    number, position = start, offset
    for number, position in ends:
        if position - offset >= size:
            yield RowRange(start, number, offset, position - offset)
            start, offset = number, position
    if number > start:
        yield RowRange(start, number, offset, position - offset)
