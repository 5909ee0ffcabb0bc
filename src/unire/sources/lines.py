"""Text files: whole files, lines and JSON lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from unire.documents import Document
from unire.errors import OnError, UnireError, skip_errors
from unire.files import explain_read_errors
from unire.limits import BLOCK_BYTES, DEFAULT_LIMITS, ReadLimits, read_whole
from unire.limits import iter_lines as iter_limited_lines
from unire.sources.base import RowRange, SourceText, decode_text, describe_names, get_id, get_text, split_ranges

__all__ = [
    "RawLine",
    "continue_lines",
    "iter_json_lines",
    "iter_lines",
    "iter_raw_lines",
    "iter_tokenized",
    "iter_whole_file",
    "split_lines",
    "strip_line_end",
]

RawLine = tuple[int, bytes, int]
"""Number (from 1), bytes with the line end, and end position of a line."""


def iter_whole_file(file: BinaryIO, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[SourceText]:
    """Read a whole file as one text."""
    with explain_read_errors(name):
        raw = read_whole(file, name, limits.check_text)
    text = decode_text(raw.removeprefix(codecs.BOM_UTF8), name)
    limits.check_document(len(text), name)
    yield SourceText(name, text, len(raw))


def iter_lines(
    file: BinaryIO,
    name: str,
    rows: RowRange | None = None,
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[SourceText]:
    """Read every line, or every line of a range, as a text. An empty line is an empty text."""
    for number, raw, position in iter_raw_lines(file, name, rows, on_error, limits):
        location = f"{name}, line {number}"
        with skip_errors(on_error):
            text = decode_text(strip_line_end(raw), location)
            limits.check_document(len(text), location)
            yield SourceText(f"{name}:{number}", text, position, number)


def iter_json_lines(
    lines: Iterable[RawLine],
    name: str,
    field: str = "text",
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[SourceText]:
    """Read the string under `field` in the JSON object on every line, with its `id` if it has one.

    `null` is an empty text, as in Parquet.
    """
    for number, raw, position in lines:
        if not raw.strip():
            continue
        location = f"{name}, line {number}"
        with skip_errors(on_error):
            item = _parse_object(decode_text(strip_line_end(raw), location), location)
            if field not in item:
                raise UnireError(f"{location} has no field {field!r}{describe_names(item)}; choose one with field=...")
            text = get_text(item[field], field, location)
            limits.check_document(len(text), location)
            yield SourceText(get_id(item.get("id"), f"{name}:{number}", location), text, position, number)


def iter_tokenized(lines: Iterable[RawLine], name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[Document]:
    """Read documents whose words are already split.

    Each line is a sentence, spaces separate words, and an empty line separates documents. The ids are `name:1`,
    `name:2` and so on, with the last part of a path.
    """
    short = Path(name).name
    sentences: list[list[str]] = []
    count = characters = 0
    for number, raw, _ in lines:
        if words := decode_text(raw, f"{name}, line {number}").split():
            characters += sum(map(len, words)) + len(words)
            limits.check_document(characters, f"{name}, document {count + 1}")
            sentences.append(words)
        elif sentences:
            count += 1
            yield Document.from_words(sentences, id=f"{short}:{count}")
            sentences, characters = [], 0
    if sentences:
        yield Document.from_words(sentences, id=f"{short}:{count + 1}")


def split_lines(file: BinaryIO, name: str, size: int, rows: RowRange | None = None) -> Iterator[RowRange]:
    """Split a file, or a range of it, into ranges of at least `size` bytes that end with a line."""
    return split_ranges(_iter_line_ends(file, name, rows), size, rows or RowRange(0, 0))


def _iter_line_ends(file: BinaryIO, name: str, rows: RowRange | None) -> Iterator[tuple[int, int]]:
    """Number (from 1) and end position of each line, of any length."""
    number, position = (rows.start, rows.offset) if rows else (0, 0)
    with explain_read_errors(name):
        file.seek(position)
        is_open = False
        while (rows is None or number < rows.stop) and (block := file.readline(BLOCK_BYTES)):
            position += len(block)
            is_open = not block.endswith(b"\n")
            if not is_open:
                number += 1
                yield number, position
        if is_open:
            yield number + 1, position


def iter_raw_lines(
    file: BinaryIO,
    name: str,
    rows: RowRange | None = None,
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[RawLine]:
    """The lines of a file, or of a range of it."""
    if rows is None:
        yield from continue_lines(file, name, on_error, limits)
        return
    file.seek(rows.offset)
    for line in continue_lines(file, name, on_error, limits, number=rows.start, position=rows.offset):
        if line[0] > rows.stop:  # after a line that was skipped
            return
        yield line
        if line[0] == rows.stop:
            return


def continue_lines(
    file: BinaryIO,
    name: str,
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    *,
    number: int = 0,
    position: int = 0,
) -> Iterator[RawLine]:
    """The lines of a file from its current position, which is after line `number`."""
    with explain_read_errors(name):
        yield from iter_limited_lines(file, name, limits, on_error, number=number, position=position)


def strip_line_end(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _parse_object(line: str, location: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
        if "\\u" in line:  # only an escape can bring in half a surrogate pair
            json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise UnireError(f"{location} has half a surrogate pair, {half}, which is not a character; remove it") from None
    except (ValueError, RecursionError) as error:
        unnamed = "a number is too long, or brackets are nested too deeply"
        reason = error if isinstance(error, json.JSONDecodeError) else unnamed
        raise UnireError(f"{location} is not valid JSON: {reason}; for plain lines of text use lines=True") from None
    if not isinstance(item, dict):
        raise UnireError(f"{location} is not a JSON object; for plain lines of text use lines=True")
    return item
