"""Text files: whole files, lines and JSON lines, and the types and helpers that all sources share.

A text file can be split into ranges of lines or rows, so that several processes can read one long file.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors

__all__ = [
    "RowRange",
    "SourceText",
    "decode_text",
    "get_id",
    "get_text",
    "iter_json_lines",
    "iter_lines",
    "iter_tokenized",
    "iter_whole_file",
    "skip_errors",
    "split_lines",
    "split_ranges",
]


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


@contextmanager
def skip_errors(on_error: OnError | None) -> Iterator[None]:
    """Pass an error in the body to `on_error` and continue, or raise it if there is no `on_error`."""
    try:
        yield
    except UnireError as error:
        if on_error is None:
            raise
        on_error(error)


def decode_text(raw: bytes, location: str) -> str:
    """Decode UTF-8. Errors name the location."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        problem = "is binary, not text" if b"\0" in raw else "is not UTF-8; convert it first"
        raise UnireError(f"{location} {problem}") from None


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


def iter_whole_file(file: BinaryIO, name: str) -> Iterator[SourceText]:
    """Read a whole file as one text."""
    with explain_read_errors(name):
        raw = file.read()
    yield SourceText(name, decode_text(raw.removeprefix(codecs.BOM_UTF8), name), len(raw))


def iter_lines(
    file: BinaryIO, name: str, rows: RowRange | None = None, on_error: OnError | None = None
) -> Iterator[SourceText]:
    """Read every line, or every line of a range, as a text. An empty line is an empty text."""
    for number, raw, position in _iter_raw_lines(file, name, rows):
        with skip_errors(on_error):
            yield SourceText(f"{name}:{number}", decode_text(raw, f"{name}, line {number}"), position, number)


def iter_json_lines(
    file: BinaryIO, name: str, field: str = "text", rows: RowRange | None = None, on_error: OnError | None = None
) -> Iterator[SourceText]:
    """Read the string under `field` in the JSON object on every line, with its `id` if it has one.

    `null` is an empty text, as in Parquet.
    """
    for number, raw, position in _iter_raw_lines(file, name, rows):
        if not raw.strip():
            continue
        location = f"{name}, line {number}"
        with skip_errors(on_error):
            item = _parse_object(decode_text(raw, location), location)
            if field not in item:
                raise UnireError(
                    f"{location} has no {field!r} but {', '.join(item) or 'nothing'}; name the field with field=..."
                )
            text = get_text(item[field], field, location)
            yield SourceText(get_id(item.get("id"), f"{name}:{number}", location), text, position, number)


def iter_tokenized(lines: Iterable[str], name: str) -> Iterator[Document]:
    """Read documents whose words are already split.

    Each line is a sentence, spaces separate words, and an empty line separates documents. The ids are `name:1`,
    `name:2` and so on.
    """
    sentences: list[list[str]] = []
    count = 0
    for line in lines:
        if words := line.split():
            sentences.append(words)
        elif sentences:
            count += 1
            yield Document.from_words(sentences, id=f"{name}:{count}")
            sentences = []
    if sentences:
        yield Document.from_words(sentences, id=f"{name}:{count + 1}")


def split_lines(file: BinaryIO, name: str, size: int, rows: RowRange | None = None) -> Iterator[RowRange]:
    """Split a file, or a range of it, into ranges of at least `size` bytes that end with a line."""
    ends = ((number, position) for number, _, position in _iter_raw_lines(file, name, rows))
    return split_ranges(ends, size, rows or RowRange(0, 0))


def _iter_raw_lines(file: BinaryIO, name: str, rows: RowRange | None) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), bytes without the line end, and position after each line."""
    position, before, count = (rows.offset, rows.start, rows.stop - rows.start) if rows else (0, 0, None)
    with explain_read_errors(name):
        if rows:  # standard input is never split, and cannot seek
            file.seek(rows.offset)
        for number, raw in enumerate(islice(file, count), start=before + 1):
            position += len(raw)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.removesuffix(b"\n").removesuffix(b"\r"), position


def _parse_object(line: str, location: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
        if "\\u" in line:  # only an escape can bring in half a surrogate pair
            json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise UnireError(f"{location} has half a surrogate pair, {half}, which is no character; leave it out") from None
    except (ValueError, RecursionError) as error:
        raise UnireError(f"{location} is not valid JSON: {error}; for plain lines of text use lines=True") from None
    if not isinstance(item, dict):
        raise UnireError(f"{location} is not a JSON object; for plain lines of text use lines=True")
    return item
