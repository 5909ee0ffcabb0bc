"""Raw texts from where people keep them: files, packed or not, folders, lines, JSON lines, tables, standard input.

Everything is a stream: a line, a row or a file is read when its text is taken. Texts are UTF-8, and what cannot be
read is refused in one sentence that names the file and the line. A long file can be cut into parts, which are read each
for itself.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO, NamedTuple, cast

from unire.exceptions import UnireError
from unire.files import ending, reading

__all__ = [
    "JSON_LINES",
    "PARQUET",
    "TABLES",
    "OnError",
    "Part",
    "Text",
    "files_of",
    "from_json_lines",
    "from_lines",
    "from_parquet",
    "from_rows",
    "from_table",
    "line_parts",
    "row_parts",
    "skipping",
    "table_parts",
    "takes",
    "whole",
]

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
FOLDER = (".txt", ".text", ".md", *JSON_LINES)
"""The endings of files that are taken from a folder, also where `.gz`, `.xz` or `.bz2` follows."""
ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".zip")

ROWS = 1024
"""Rows of a Parquet file that are read together."""
SHORT = 64
"""Bytes that a text in Parquet is taken to have at least: where texts repeat, a file holds each but once."""
LONGEST = 2**28
"""Characters that a cell of a table may have: one whose quotes are never closed would be all the rest of the file."""

NAMES = 200
"""Characters of a table's first row that are shown: the first row may not be a header but a paragraph."""


OnError = Callable[[UnireError], None]
"""Told of a line or row that cannot be read; if it returns, the others still are."""


class Dialect(NamedTuple):
    delimiter: str
    quoting: int
    rule: str
    """What texts must look like, shown to whoever breaks it."""


TABLES = {
    ".csv": Dialect(
        ",",
        csv.QUOTE_MINIMAL,
        "texts with commas, line ends or quotes in them are in quotes, and quotes in those doubled",
    ),
    ".tsv": Dialect("\t", csv.QUOTE_NONE, "nothing is in quotes, so a text has neither tabs nor line ends in it"),
}
"""How tables are spelt, by the endings of their files."""
KNOWN = (*FOLDER, *PARQUET, *TABLES, *ARCHIVES, ".json")
"""Endings by which something is known for the name of a file."""
SEMICOLONS = TABLES[".csv"]._replace(delimiter=";", rule=TABLES[".csv"].rule.replace("commas", "semicolons"))
"""CSV as spreadsheets write it where commas are in numbers."""


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


def files_of(
    path: Path, *, tables: bool = False, parquet: bool = True, left_out: Counter[str] | None = None
) -> list[Path]:
    """The file, or the files of a folder and of those inside it that can hold text, in alphabetical order.

    Args:
        path: The file or folder.
        tables: Whether tables are taken from a folder, too: one of texts often has a table about them beside them.
        parquet: Whether Parquet is.
        left_out: Counts, when given, the other files of a folder by their endings, but for hidden ones.
    """
    if not path.is_dir():
        if ending(path) in ARCHIVES or path.suffix.lower() in ARCHIVES:
            raise UnireError(f"{path} is an archive of files; unpack it first")
        return [path]
    plain = [p for p in path.rglob("*") if _is_plain(p, path)]
    found = sorted(p for p in plain if takes(p, tables=tables, parquet=parquet))
    if left_out is not None:
        left_out.update(ending(p) for p in set(plain).difference(found))
    if not found:
        others = (*(() if tables else TABLES), *(() if parquet else PARQUET))
        more = f", and {' and '.join(others)} are read with --field alone" if others else ""
        endings = ", ".join(_taken(tables=tables, parquet=parquet))
        raise UnireError(f"folder {path} holds no text: no file in it ends in {endings}{more}")
    return found


def takes(path: Path, *, tables: bool = False, parquet: bool = True) -> bool:
    """Whether a file of that name is taken from a folder; Parquet packs by itself."""
    if path.suffix.lower() in PARQUET:
        return parquet
    return ending(path) in _taken(tables=tables, parquet=False)


def _taken(*, tables: bool, parquet: bool) -> tuple[str, ...]:
    """The endings of files that are taken from a folder."""
    return (*FOLDER, *(TABLES if tables else ()), *(PARQUET if parquet else ()))


@contextmanager
def skipping(on_error: OnError | None) -> Iterator[None]:
    """What cannot be read inside is told and passed over, if there is anybody to tell."""
    try:
        yield
    except UnireError as error:
        if on_error is None:
            raise
        on_error(error)


def whole(file: BinaryIO, name: str) -> Iterator[Text]:
    """All that the file holds as one text."""
    raw = _read(file, name)
    yield Text(name, _decoded(raw.removeprefix(codecs.BOM_UTF8), name), len(raw))


def from_lines(file: BinaryIO, name: str, part: Part | None = None, on_error: OnError | None = None) -> Iterator[Text]:
    """A text for every line, or every line of a part; for an empty line an empty one."""
    for number, raw, position in _lines(file, name, part):
        with skipping(on_error):
            yield Text(f"{name}:{number}", _decoded(raw, f"{name}, line {number}"), position, number)


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
            item = _object(_decoded(raw, place), place)
            if field not in item:
                raise UnireError(
                    f"{place} has no {field!r} but {', '.join(item) or 'nothing'}; name the field with --field"
                )
            text = _string(item[field], field, place)
            yield Text(_id(item.get("id"), f"{name}:{number}", place), text, position, number)


def from_table(
    file: BinaryIO,
    name: str,
    field: str = "text",
    part: Part | None = None,
    on_error: OnError | None = None,
    *,
    guessed: Dialect | None = None,
) -> Iterator[Text]:
    """The cells of the column `field`, by the names in the first row; a column `id`, if there is one, names them.

    Rows are counted as spreadsheets do, from 1 and with the first. An empty row is none, and an empty `id` no name.

    Args:
        file: Of the table.
        name: Of the file; its ending says how the table is spelt.
        field: The column.
        part: Of the rows; all when left out.
        on_error: Told of rows that cannot be read; when left out, the first of them is refused.
        guessed: How the table is spelt, where its name does not say it.
    """
    lines, dialect = _spelt(file, name, field, guessed or TABLES[ending(name)])
    rows = _cells(lines, name, dialect)
    remedy = ", or take each line as a text with --lines" if guessed else ""
    names, _, _ = _columns(rows, name, field, remedy)
    named = names.index("id") if "id" in names and field != "id" else None
    for number, cells, position in _cells(file, name, dialect, part) if part else rows:
        if not cells:
            continue
        place = f"{name}, row {number}"
        with skipping(on_error):
            if len(cells) != len(names):
                raise UnireError(f"{place} has {len(cells)} cells, but the first row has {len(names)}; {dialect.rule}")
            given = _cell(cells[named], place) if named is not None else ""
            yield Text(given or f"{name}:{number}", _cell(cells[names.index(field)], place), position, number)


def from_rows(file: BinaryIO, name: str, field: str = "text", on_error: OnError | None = None) -> Iterator[Text]:
    """JSON lines, CSV or TSV, where no ending says which: by the first line that is not empty."""
    lines, start = _peeked(file, name)
    if not start.strip() or start.lstrip().startswith((b"{", b"[")):
        return from_json_lines(lines, name, field, on_error=on_error)
    return from_table(lines, name, field, on_error=on_error, guessed=TABLES[".tsv" if b"\t" in start else ".csv"])


def from_parquet(
    path: Path, field: str = "text", part: Part | None = None, on_error: OnError | None = None
) -> Iterator[Text]:
    """The strings in the column `field`; a column `id`, if there is one, names them. A missing value is no text."""
    with _parquet(path, field) as table:
        names = table.schema_arrow.names
        columns = [field, *(["id"] if "id" in names and field != "id" else [])]
        start, stop = (part.start, part.stop) if part else (0, table.metadata.num_rows)
        share = path.stat().st_size / max(1, table.metadata.num_rows)
        number, groups = _row_groups(table.metadata, start, stop)
        for rows in table.iter_batches(batch_size=ROWS, row_groups=groups, columns=columns):
            first, number = max(start, number), number + rows.num_rows
            wanted = rows.slice(rows.num_rows - max(0, number - first), stop - first)
            for row_number, row in enumerate(_rows(wanted, str(path), first), first + 1):
                place = f"{path}, row {row_number}"
                with skipping(on_error):
                    name = _id(row.get("id"), f"{path}:{row_number}", place)
                    yield Text(name, _string(row[field], field, place), row_number * share, row_number)
            if number >= stop:
                break


def line_parts(file: BinaryIO, name: str, size: int, part: Part | None = None) -> Iterator[Part]:
    """The lines of a file, or of a part of it, in parts of `size` bytes, or as much more as ends a line."""
    ends = ((number, position) for number, _, position in _lines(file, name, part))
    return _parts(ends, size, part or Part(0, 0))


def table_parts(file: BinaryIO, name: str, field: str, size: int, part: Part | None = None) -> Iterator[Part]:
    """The rows of a table but for the first, or of a part of it, in the same way."""
    lines, dialect = _spelt(file, name, field, TABLES[ending(name)])
    rows = _cells(lines, name, dialect)
    _, first, begin = _columns(rows, name, field)
    ends = ((number, position) for number, _, position in (_cells(file, name, dialect, part) if part else rows))
    return _parts(ends, size, part or Part(first, first, begin))


def _parts(ends: Iterable[tuple[int, int]], size: int, first: Part) -> Iterator[Part]:
    """Parts of at least `size` bytes, by the number of each line or row and the position after it."""
    start, _, offset, _ = first
    number, position = start, offset
    for number, position in ends:
        if position - offset >= size:
            yield Part(start, number, offset, position - offset)
            start, offset = number, position
    if number > start:
        yield Part(start, number, offset, position - offset)


def row_parts(path: Path, field: str, size: int, part: Part | None = None) -> Iterator[Part]:
    """The rows of a Parquet file, or of a part of it, in parts of about `size` bytes, none across two row groups."""
    with _parquet(path, field) as table:
        begin = 0
        for number in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(number)
            first, end = begin, begin + group.num_rows
            begin = end
            if part:
                first, end = max(first, part.start), min(end, part.stop)
            columns = (group.column(i) for i in range(group.num_columns))
            held = sum(c.total_uncompressed_size for c in columns if c.path_in_schema == field) / max(1, group.num_rows)
            held = max(held, SHORT)
            step = max(1, round(size / held))
            for start in range(first, end, step):
                stop = min(start + step, end)
                yield Part(start, stop, size=round((stop - start) * held))


@contextmanager
def _parquet(path: Path, field: str) -> Iterator[Any]:
    """An open Parquet file that has the column."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise UnireError('reading Parquet needs pyarrow: pip install "unire[parquet]"') from None
    with reading(str(path)):
        try:
            table = pq.ParquetFile(path)
        except pa.ArrowException:
            raise UnireError(f"{path} is not a Parquet file") from None
        with table:
            names = table.schema_arrow.names
            if field not in names:
                raise UnireError(f"{path} has no column {field!r} but {', '.join(names)}; name one with --field")
            try:
                yield table
            except pa.ArrowException as error:
                raise UnireError(f"{path} cannot be read: {error}") from None


def _rows(rows: Any, name: str, before: int) -> Iterator[dict[str, Any]]:
    """Rows of a table as Python has them; one that is no Unicode does not lose those before it."""
    try:
        yield from rows.to_pylist()
    except UnicodeDecodeError:
        for place in range(rows.num_rows):
            try:
                (row,) = rows.slice(place, 1).to_pylist()
            except UnicodeDecodeError:
                raise UnireError(f"{name}, row {before + place + 1} is not UTF-8; convert it first") from None
            yield row


def _row_groups(metadata: Any, start: int, stop: int) -> tuple[int, list[int]]:
    """The row groups that hold some of the rows, and the number of rows before them."""
    before, groups, end = start, [], 0
    for group in range(metadata.num_row_groups):
        begin, end = end, end + metadata.row_group(group).num_rows
        if begin < stop and start < end:
            before = min(before, begin)
            groups.append(group)
    return before, groups


def _is_plain(path: Path, folder: Path) -> bool:
    """Whether it is a file, and neither it nor a folder on the way to it is hidden."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _lines(file: BinaryIO, name: str, part: Part | None) -> Iterator[tuple[int, bytes, int]]:
    """Number (from 1), bytes without the line end, and position after each line."""
    position, before, count = (part.offset, part.start, part.stop - part.start) if part else (0, 0, None)
    with reading(name):
        if part:  # standard input has none, and cannot go anywhere
            file.seek(part.offset)
        for number, raw in enumerate(islice(file, count), start=before + 1):
            position += len(raw)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.removesuffix(b"\n").removesuffix(b"\r"), position


def _peeked(file: BinaryIO, name: str) -> tuple[BinaryIO, bytes]:
    """A file with its first line that is not empty, without a byte-order mark."""
    seen, start = [], b""
    with reading(name):
        for raw in file:
            seen.append(raw)
            start = raw.removeprefix(codecs.BOM_UTF8)
            if start.strip():
                break
    return cast("BinaryIO", chain(seen, file)), start  # callers only iterate over lines


def _spelt(file: BinaryIO, name: str, field: str, dialect: Dialect) -> tuple[BinaryIO, Dialect]:
    """A table and how it is spelt: by semicolons, if these and not commas show the column that is wanted."""
    lines, start = _peeked(file, name)
    first = start.decode(errors="replace").strip()
    by_commas, by_semicolons = ([cell.strip('"') for cell in first.split(mark)] for mark in ",;")
    meant = dialect == TABLES[".csv"] and field in by_semicolons and field not in by_commas
    return lines, SEMICOLONS if meant else dialect


def _cells(
    file: BinaryIO, name: str, dialect: Dialect, part: Part | None = None
) -> Iterator[tuple[int, list[str], int]]:
    """Number (from 1), cells, and position after each row of a table, which may have several lines."""
    position, row, count = (part.offset, part.start, part.stop - part.start) if part else (0, 0, None)

    def lines() -> Iterator[str]:
        nonlocal position
        for raw in file:
            line = raw if position else raw.removeprefix(codecs.BOM_UTF8)
            position += len(raw)
            yield line.decode(errors="surrogateescape")  # `_cell` refuses it where it matters

    csv.field_size_limit(LONGEST)  # Python has no other way than for all readers of the process
    with reading(name):
        if part:
            file.seek(part.offset)
        try:
            found = csv.reader(lines(), delimiter=dialect.delimiter, quoting=dialect.quoting, strict=True)  # type: ignore[arg-type]
            for cells in islice(found, count):
                row += 1
                yield row, cells, position
        except csv.Error as error:
            raise UnireError(f"{name}, row {row + 1} cannot be read: {error}; {dialect.rule}") from None


def _columns(
    rows: Iterator[tuple[int, list[str], int]], name: str, field: str, remedy: str = ""
) -> tuple[list[str], int, int]:
    """The names in the first row of a table that is not empty, its number, and the position after it.

    Args:
        rows: Of the table, from the first.
        name: Of the file.
        field: Must be among the names.
        remedy: What else than to name another field may help.
    """
    number, names, position = next((row for row in rows if row[1]), (1, [], 0))
    if field not in names:
        columns = shorten(", ".join(_cell(column, f"{name}, row 1") for column in names), NAMES, placeholder=" …")
        close = next((column for column in names if column.strip() == field), None)
        meant = f" (there is {close!r})" if close else ""
        raise UnireError(
            f"{name} has no column {field!r} but {columns or 'nothing'}{meant}; name one with --field{remedy}"
        )
    return names, number, position


def _cell(cell: str, place: str) -> str:
    return _decoded(cell.encode(errors="surrogateescape"), place)


def _read(file: BinaryIO, name: str) -> bytes:
    with reading(name):
        return file.read()


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        what = "is binary, not text" if b"\0" in raw else "is not UTF-8; convert it first"
        raise UnireError(f"{place} {what}") from None


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


def _id(value: object, otherwise: str, place: str) -> str:
    """The name that the data give a text, or else its place."""
    if value is None:
        return otherwise
    if isinstance(value, (dict, list)):
        raise UnireError(f"{place}: its 'id' is {type(value).__name__}, not a string or a number; leave it out")
    return str(value)


def _string(value: object, field: str, place: str) -> str:
    """The text; where none is given, an empty one."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise UnireError(f"{place}: {field!r} is {type(value).__name__}, not a string; name another with --field")
