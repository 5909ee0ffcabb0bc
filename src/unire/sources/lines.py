"""Texts in files of their own, on lines, and in JSON objects on lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.sources.text import Part, Text, decoded, id_of, parts_by, skipping, text_of

__all__ = ["from_json_lines", "from_lines", "line_parts", "whole"]


def whole(file: BinaryIO, name: str) -> Iterator[Text]:
    """All that the file holds as one text."""
    raw = _read(file, name)
    yield Text(name, decoded(raw.removeprefix(codecs.BOM_UTF8), name), len(raw))


def from_lines(file: BinaryIO, name: str, part: Part | None = None, on_error: OnError | None = None) -> Iterator[Text]:
    """A text for every line, or every line of a part; for an empty line an empty one."""
    for number, raw, position in _lines(file, name, part):
        with skipping(on_error):
            yield Text(f"{name}:{number}", decoded(raw, f"{name}, line {number}"), position, number)


def from_json_lines(
    file: BinaryIO, name: str, field: str = "text", part: Part | None = None, on_error: OnError | None = None
) -> Iterator[Text]:
    """The string under `field` of the JSON object on every line; its `id`, if it has one, is the text's.

    `null` is an empty text, as in Parquet.
    """
    for number, raw, position in _lines(file, name, part):
        if not raw.strip():
            continue
        place = f"{name}, line {number}"
        with skipping(on_error):
            item = _object(decoded(raw, place), place)
            if field not in item:
                raise UnireError(
                    f"{place} has no {field!r} but {', '.join(item) or 'nothing'}; name the field with --field"
                )
            text = text_of(item[field], field, place)
            yield Text(id_of(item.get("id"), f"{name}:{number}", place), text, position, number)


def line_parts(file: BinaryIO, name: str, size: int, part: Part | None = None) -> Iterator[Part]:
    """The lines of a file, or of a part of it, in parts of `size` bytes, or as much more as ends a line."""
    ends = ((number, position) for number, _, position in _lines(file, name, part))
    return parts_by(ends, size, part or Part(0, 0))


def _lines(file: BinaryIO, name: str, part: Part | None) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), bytes without the line end, and position after each line."""
    position, before, count = (part.offset, part.start, part.stop - part.start) if part else (0, 0, None)
    with explain_read_errors(name):
        if part:  # standard input has none, and cannot go anywhere
            file.seek(part.offset)
        for number, raw in enumerate(islice(file, count), start=before + 1):
            position += len(raw)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.removesuffix(b"\n").removesuffix(b"\r"), position


def _read(file: BinaryIO, name: str) -> bytes:
    with explain_read_errors(name):
        return file.read()


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
        if "\\u" in line:  # only an escape can smuggle half a surrogate pair in
            json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise UnireError(f"{place} has half a surrogate pair, {half}, which is no character; leave it out") from None
    except (ValueError, RecursionError) as error:
        raise UnireError(f"{place} is not valid JSON: {error}; for plain lines of text use --lines") from None
    if not isinstance(item, dict):
        raise UnireError(f"{place} is not a JSON object; for plain lines of text use --lines")
    return item
