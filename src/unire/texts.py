"""Raw texts from where people keep them: files, folders, lines, JSON lines, Parquet, standard input.

Everything is a stream: a line, a row or a file is read when its text is taken. Texts are UTF-8, and what cannot be
read is refused in one sentence that names the file and the line.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from unire.exceptions import UnireError

__all__ = ["JSON_LINES", "PARQUET", "Text", "files_of", "from_json_lines", "from_lines", "from_parquet", "whole"]

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
FOLDER = (".txt", ".text", ".md", *JSON_LINES, *PARQUET)
"""The endings of files that are taken from a folder."""

ROWS = 1024
"""Rows of a Parquet file that are read together."""


class Text(NamedTuple):
    id: str
    """The file, and the line or row if it holds several texts; or the name that the data give it."""
    text: str
    position: float
    """How much of the file has been read, in bytes."""


def files_of(path: Path) -> list[Path]:
    """The file, or the files of a folder and of those inside it that can hold text, in alphabetical order."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() in FOLDER and _is_plain(p, path))
    if not found:
        raise UnireError(f"folder {path} holds no text: no file in it ends in {', '.join(FOLDER)}")
    return found


def whole(file: BinaryIO, name: str) -> Iterator[Text]:
    """All that the file holds as one text."""
    raw = _read(file, name)
    yield Text(name, _decoded(raw.removeprefix(codecs.BOM_UTF8), name), len(raw))


def from_lines(file: BinaryIO, name: str) -> Iterator[Text]:
    """A text for every line; for an empty line an empty one."""
    for number, raw, position in _lines(file, name):
        yield Text(f"{name}:{number}", _decoded(raw, f"{name}, line {number}"), position)


def from_json_lines(file: BinaryIO, name: str, field: str = "text") -> Iterator[Text]:
    """The string under `field` of the JSON object on every line; its `id`, if it has one, is the text's."""
    for number, raw, position in _lines(file, name):
        if not raw.strip():
            continue
        place = f"{name}, line {number}"
        item = _object(_decoded(raw, place), place)
        text = _string(item.get(field), field, item, place)
        yield Text(str(item.get("id", f"{name}:{number}")), text, position)


def from_parquet(path: Path, field: str = "text") -> Iterator[Text]:
    """The strings in the column `field`; a column `id`, if there is one, names them. A missing value is no text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise UnireError('reading Parquet needs pyarrow: pip install "unire[parquet]"') from None
    with _reading(str(path)):
        try:
            table = pq.ParquetFile(path)
        except pa.ArrowException:
            raise UnireError(f"{path} is not a Parquet file") from None
        with table:
            names = table.schema_arrow.names
            if field not in names:
                raise UnireError(f"{path} has no column {field!r} but {', '.join(names)}; name one with --field")
            columns = [field, *(["id"] if "id" in names and field != "id" else [])]
            share = path.stat().st_size / max(1, table.metadata.num_rows)
            number = 0
            for rows in table.iter_batches(batch_size=ROWS, columns=columns):
                for row in rows.to_pylist():
                    number += 1
                    text = _string(row[field] or "", field, row, f"{path}, row {number}")
                    yield Text(str(row.get("id", f"{path}:{number}")), text, number * share)


def _is_plain(path: Path, folder: Path) -> bool:
    """Whether it is a file, and neither it nor a folder on the way to it is hidden."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), bytes without the line end, and position after each line."""
    position = 0
    with _reading(name):
        for number, raw in enumerate(file, start=1):
            position += len(raw)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.removesuffix(b"\n").removesuffix(b"\r"), position


def _read(file: BinaryIO, name: str) -> bytes:
    with _reading(name):
        return file.read()


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnireError(f"{name} cannot be read: {error.strerror or error}") from None


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        what = "is binary, not text" if b"\0" in raw else "is not UTF-8; convert it first"
        raise UnireError(f"{place} {what}") from None


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
        if "\\u" in line:  # half a surrogate pair is no text, and only an escape can smuggle one in
            json.dumps(item, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise UnireError(f"{place} is not valid JSON: {error}; for plain lines of text use --lines") from None
    if not isinstance(item, dict):
        raise UnireError(f"{place} is not a JSON object; for plain lines of text use --lines")
    return item


def _string(value: object, field: str, item: Iterable[str], place: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise UnireError(f"{place} has no {field!r} but {', '.join(item) or 'nothing'}; name the field with --field")
    raise UnireError(f"{place}: {field!r} is {type(value).__name__}, not a string; name another with --field")
