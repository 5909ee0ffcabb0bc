"""Files of JSON, packed or not: an object a line, or one list of objects."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from unire.documents import Document
from unire.exceptions import OnError, UnireError
from unire.files import opened, reading
from unire.formats.fields import Json, expect
from unire.formats.format import Reading, at

__all__ = [
    "decoded", "lines", "objects", "parsed", "read_lines", "read_list", "spelt", "write_lines", "write_list",
]  # fmt: skip

ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
"""A value that holds itself is refused all the same, once it is too deep."""

FromJson = Callable[[Json, int], Document]
"""A document from its JSON object and its position in the file."""
ToJson = Callable[[Document], Iterable[Json]]
"""The JSON objects that a document becomes."""


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file without their ends, and their numbers, counted from 1 as editors do."""
    with reading(path), opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.rstrip(b"\r\n")


def decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnireError("not UTF-8; convert the file first") from None


def parsed(raw: bytes) -> Any:
    """The value of some JSON, which must be UTF-8."""
    text = decoded(raw)
    try:
        value = json.loads(text)
        if "\\u" in text:  # half a surrogate pair is no text, and only an escape can smuggle one in
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise UnireError(f"not valid JSON: {error.msg} ({place})") from None
    except (ValueError, RecursionError) as error:
        raise UnireError(f"cannot be read as JSON: {error}") from None
    return value


def objects(path: Path, on_error: OnError) -> Iterator[tuple[str, Json]]:
    """The JSON objects of a file of lines, each with its place."""
    name = str(path)
    for number, line in lines(path):
        if not line or line.isspace():
            continue
        place = f"{name}, line {number}"
        try:
            item = expect(parsed(line), dict, "a document")
        except UnireError as error:
            on_error(UnireError(f"{place}: {error}"))
            continue
        yield place, item


def read_lines(path: Path, how: Reading, from_json: FromJson) -> Iterator[Document]:
    """The documents of a file with an object a line."""
    return _documents(objects(path, how.on_error), how, from_json)


def read_list(path: Path, how: Reading, from_json: FromJson) -> Iterator[Document]:
    """The documents of a file that is one list of objects."""
    return _documents(_items(path, how.on_error), how, from_json)


def _items(path: Path, on_error: OnError) -> Iterator[tuple[str, Json]]:
    with reading(path), opened(path) as file:
        raw = file.read()
    try:
        values = expect(parsed(raw.removeprefix(codecs.BOM_UTF8)), list, "the file")
    except UnireError as error:
        raise UnireError(f"{path}: {error}") from None
    for i, value in enumerate(values):
        place = f"{path}, item {i} (counted from 0)"
        item = None
        with at(place, on_error):
            item = expect(value, dict, "a document")
        if item is not None:
            yield place, item


def _documents(items: Iterable[tuple[str, Json]], how: Reading, from_json: FromJson) -> Iterator[Document]:
    for position, (place, item) in enumerate(items):
        try:
            document = from_json(item, position)
        except UnireError as error:
            how.on_error(UnireError(f"{place}: {error}"))
            continue
        yield document


def write_lines(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        for texts in _encoded(documents, on_error, to_json):
            for text in texts:
                file.write(text + b"\n")


def write_list(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        file.write(b"[")
        _write_separated(file, (text for texts in _encoded(documents, on_error, to_json) for text in texts))
        file.write(b"]\n")


def _write_separated(file: BinaryIO, texts: Iterable[bytes]) -> None:
    for i, text in enumerate(texts):
        file.write(b",\n" + text if i else text)


def spelt(value: Any) -> bytes:
    """A value as JSON, if it can be one."""
    try:
        return ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UnireError(str(error)) from None


def _encoded(documents: Iterable[Document], on_error: OnError, to_json: ToJson) -> Iterator[list[bytes]]:
    """The JSON objects of each document as text."""
    for document in documents:
        try:
            texts = [spelt(item) for item in to_json(document)]
        except UnireError as error:
            on_error(UnireError(f"document {document.id!r} cannot be written: {error}"))
            continue
        yield texts
