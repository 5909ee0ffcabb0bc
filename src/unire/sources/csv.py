"""Texts in the cells of tables: CSV, by commas or semicolons, and TSV."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from itertools import chain, islice
from textwrap import shorten
from typing import BinaryIO, NamedTuple, cast

from unire.errors import OnError, UnireError
from unire.files import explain_read_errors, get_suffix
from unire.sources.lines import from_json_lines
from unire.sources.text import Part, Text, decoded, parts_by, skipping

__all__ = ["TABLES", "from_rows", "from_table", "table_parts"]

LONGEST = 2**28
"""Characters that a cell of a table may have: one whose quotes are never closed would be all the rest of the file."""
NAMES = 200
"""Characters of a table's first row that are shown: the first row may not be a header but a paragraph."""


class CsvDialect(NamedTuple):
    delimiter: str
    quoting: int
    rule: str
    """What texts must look like, shown to whoever breaks it."""


TABLES = {
    ".csv": CsvDialect(
        ",",
        csv.QUOTE_MINIMAL,
        "texts with commas, line ends or quotes in them are in quotes, and quotes in those doubled",
    ),
    ".tsv": CsvDialect("\t", csv.QUOTE_NONE, "nothing is in quotes, so a text has neither tabs nor line ends in it"),
}
"""How tables are spelt, by the endings of their files."""
SEMICOLONS = TABLES[".csv"]._replace(delimiter=";", rule=TABLES[".csv"].rule.replace("commas", "semicolons"))
"""CSV as spreadsheets write it where commas are in numbers."""


def from_table(
    file: BinaryIO,
    name: str,
    field: str = "text",
    part: Part | None = None,
    on_error: OnError | None = None,
    *,
    guessed: CsvDialect | None = None,
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
    lines, dialect = _spelt(file, name, field, guessed or TABLES[get_suffix(name)])
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


def table_parts(file: BinaryIO, name: str, field: str, size: int, part: Part | None = None) -> Iterator[Part]:
    """The rows of a table but for the first, or of a part of it, in the same way."""
    lines, dialect = _spelt(file, name, field, TABLES[get_suffix(name)])
    rows = _cells(lines, name, dialect)
    _, first, begin = _columns(rows, name, field)
    ends = ((number, position) for number, _, position in (_cells(file, name, dialect, part) if part else rows))
    return parts_by(ends, size, part or Part(first, first, begin))


def _peeked(file: BinaryIO, name: str) -> tuple[BinaryIO, bytes]:
    """A file with its first line that is not empty, without a byte-order mark."""
    seen, start = [], b""
    with explain_read_errors(name):
        for raw in file:
            seen.append(raw)
            start = raw.removeprefix(codecs.BOM_UTF8)
            if start.strip():
                break
    return cast("BinaryIO", chain(seen, file)), start  # callers only iterate over lines


def _spelt(file: BinaryIO, name: str, field: str, dialect: CsvDialect) -> tuple[BinaryIO, CsvDialect]:
    """A table and how it is spelt: by semicolons, if these and not commas show the column that is wanted."""
    lines, start = _peeked(file, name)
    first = start.decode(errors="replace").strip()
    by_commas, by_semicolons = ([cell.strip('"') for cell in first.split(mark)] for mark in ",;")
    meant = dialect == TABLES[".csv"] and field in by_semicolons and field not in by_commas
    return lines, SEMICOLONS if meant else dialect


def _cells(
    file: BinaryIO, name: str, dialect: CsvDialect, part: Part | None = None
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
    with explain_read_errors(name):
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
    return decoded(cell.encode(errors="surrogateescape"), place)
