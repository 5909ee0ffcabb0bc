"""A text, a part of a file that holds several, and what all ways to read them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from unire.errors import OnError, UnireError

__all__ = ["Part", "Text", "decoded", "id_of", "parts_by", "skipping", "text_of"]


class Text(NamedTuple):
    id: str
    """The file, and the line or row if it holds several texts; or the name that the data give it."""
    text: str
    position: float
    """How much of the file has been read, in bytes."""
    number: int = 1
    """The line or row, from 1."""


class Part(NamedTuple):
    """Some of the lines or rows of a file."""

    start: int
    """The first, from 0."""
    stop: int
    """One past the last."""
    offset: int = 0
    """The byte at which the first line begins; rows have none."""
    size: int = 0
    """In bytes of text, or about that."""


@contextmanager
def skipping(on_error: OnError | None) -> Iterator[None]:
    """What cannot be read inside is told and passed over, if there is anybody to tell."""
    try:
        yield
    except UnireError as error:
        if on_error is None:
            raise
        on_error(error)


def decoded(raw: bytes, place: str) -> str:
    """What bytes say in UTF-8; the place is named where they say nothing."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        what = "is binary, not text" if b"\0" in raw else "is not UTF-8; convert it first"
        raise UnireError(f"{place} {what}") from None


def id_of(value: object, otherwise: str, place: str) -> str:
    """The name that the data give a text, or else its place."""
    if value is None:
        return otherwise
    if isinstance(value, (dict, list)):
        raise UnireError(f"{place}: its 'id' is {type(value).__name__}, not a string or a number; leave it out")
    return str(value)


def text_of(value: object, field: str, place: str) -> str:
    """The text; where none is given, an empty one."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise UnireError(f"{place}: {field!r} is {type(value).__name__}, not a string; name another with --field")


def parts_by(ends: Iterable[tuple[int, int]], size: int, first: Part) -> Iterator[Part]:
    """Parts of at least `size` bytes, by the number of each line or row and the position after it."""
    start, _, offset, _ = first
    number, position = start, offset
    for number, position in ends:
        if position - offset >= size:
            yield Part(start, number, offset, position - offset)
            start, offset = number, position
    if number > start:
        yield Part(start, number, offset, position - offset)
