"""File formats: reading and writing annotated documents.

Each format is a module that turns a JSON object into a `Document` and back; this one turns files into JSON objects.

    documents = list(formats.read("train.json"))
    formats.write(documents, "train.jsonl", "unire")

Readers check everything and say file, line (or item) and reason. Writers refuse what a format cannot say; each module
tells what that is.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from unire.documents import Document
from unire.exceptions import UnireError
from unire.files import replacing
from unire.formats import dygie, native, spert
from unire.formats.fields import Json, expect

__all__ = ["FORMATS", "Format", "guess", "read", "write"]


@dataclass(frozen=True)
class Format:
    """How a file becomes documents and documents become a file."""

    from_json: Callable[[Json, int], Document]
    """A document from its JSON object and its position in the file."""
    to_json: Callable[[Document], Iterable[Json]]
    """The JSON objects that a document becomes."""
    lines: bool = True
    """Whether every object has a line of its own; if not, the file is one JSON list."""
    predictions: Callable[[Json], Json] | None = None
    """For formats that hold predictions beside gold: the object with the former in the place of the latter."""


FORMATS = {
    "unire": Format(native.from_json, native.to_json),
    "dygie": Format(dygie.from_json, dygie.to_json, predictions=dygie.predictions),
    "spert": Format(spert.from_json, spert.to_json, lines=False),
}


class Line(NamedTuple):
    number: int
    """Counted from 1, as editors do."""
    text: str


def read(path: str | Path, format: str | None = None, *, predicted: bool = False) -> Iterator[Document]:
    """The documents of a file, one after the other.

    A missing or empty file is refused at once; what is wrong further down when it is reached.

    Args:
        path: A file in UTF-8.
        format: A name in `FORMATS`; by default it is guessed from the first line.
        predicted: Take the predictions of a file that holds them beside gold annotation (`dygie`). A file that
            does not is read as usual.
    """
    lines = _lines(Path(path))
    opening = _opening(path, lines)
    form = _named(format or _guess(path, opening[-1]))
    return _documents(path, form, chain(opening, lines), predicted)


def guess(path: str | Path) -> str:
    """The name of the format of a file, by its first line."""
    return _guess(path, _opening(path, _lines(Path(path)))[-1])


def write(documents: Iterable[Document], path: str | Path, format: str = "unire") -> int:
    """Write a file, whole or not at all, and return how many documents it holds.

    Args:
        documents: May be a stream; one document at a time is held in memory.
        path: What stands there is replaced when everything is written.
        format: A name in `FORMATS`.
    """
    form = _named(format)
    count = 0
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.write(b"" if form.lines else b"[")
            for document in documents:
                texts = _encoded(document, form)
                if form.lines:
                    file.write(b"".join(text + b"\n" for text in texts))
                else:
                    file.write((b",\n" if count else b"") + b",\n".join(texts))
                count += 1
            file.write(b"" if form.lines else b"]\n")
    except OSError as error:
        raise UnireError(f"{path} cannot be written: {error.strerror or error}") from None
    return count


def _named(format: str) -> Format:
    if format not in FORMATS:
        raise UnireError(f"unknown format {format!r}; give one of {', '.join(FORMATS)}")
    return FORMATS[format]


def _encoded(document: Document, form: Format) -> list[bytes]:
    try:
        return [json.dumps(item, ensure_ascii=False, allow_nan=False).encode() for item in form.to_json(document)]
    except (UnireError, TypeError, ValueError) as error:
        raise UnireError(f"document {document.id!r} cannot be written: {error}") from None


def _lines(path: Path) -> Iterator[Line]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                yield Line(number, (raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw).decode())
    except UnicodeDecodeError:
        raise UnireError(f"{path}, line {number}: not UTF-8; convert the file first") from None
    except OSError as error:
        raise UnireError(f"{path} cannot be read: {error.strerror or error}") from None


def _opening(path: str | Path, lines: Iterator[Line]) -> list[Line]:
    """The lines up to the first that is not blank."""
    opening = []
    for line in lines:
        opening.append(line)
        if line.text.strip():
            return opening
    raise UnireError(f"{path} holds no document")


def _guess(path: str | Path, line: Line) -> str:
    if line.text.lstrip().startswith("["):
        return "spert"
    keys = _object(_parsed(path, line), f"{path}, line {line.number}").keys()
    if keys & {"doc_key", "ner"} or ("sentences" in keys and "text" not in keys):
        return "dygie"
    if "text" in keys:
        return "unire"
    raise UnireError(f"{path}, line {line.number}: not a format that unire knows; it reads {', '.join(FORMATS)}")


def _documents(path: str | Path, form: Format, lines: Iterable[Line], predicted: bool) -> Iterator[Document]:
    for position, (place, value) in enumerate(_values(path, form, lines)):
        item = _object(value, place)
        try:
            if predicted and form.predictions:
                item = form.predictions(item)
            document = form.from_json(item, position)
        except UnireError as error:
            raise UnireError(f"{place}: {error}") from None
        yield document


def _values(path: str | Path, form: Format, lines: Iterable[Line]) -> Iterator[tuple[str, Any]]:
    """What the file holds, each with its place for error messages."""
    if form.lines:
        for line in lines:
            if line.text.strip():
                yield f"{path}, line {line.number}", _parsed(path, line)
    else:
        whole = _parsed(path, Line(1, "".join(line.text for line in lines)))
        if not expect(whole, list, f"{path}"):
            raise UnireError(f"{path} holds no document")
        for i, value in enumerate(whole):
            yield f"{path}, item {i} (counted from 0)", value


def _object(value: Any, place: str) -> Json:
    return expect(value, dict, f"{place}: a document")


def _parsed(path: str | Path, line: Line) -> Any:
    try:
        value = json.loads(line.text.rstrip())
        if "\\u" in line.text:  # half a surrogate pair is no text, and only an escape can smuggle one in
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        number = line.number + error.lineno - 1
        raise UnireError(f"{path}, line {number}: not valid JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise UnireError(f"{path}, line {line.number}: cannot be read as JSON: {error}") from None
    return value
