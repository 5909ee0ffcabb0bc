"""CSV and TSV: texts in a column of a table, with commas or semicolons in CSV."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from itertools import chain, islice
from textwrap import shorten
from typing import BinaryIO, NamedTuple, cast

from unire.errors import OnError, UnireError
from unire.files import explain_read_errors, get_suffix
from unire.sources.lines import RowRange, SourceText, decode_text, iter_json_lines, skip_errors, split_ranges

__all__ = ["CSV_DIALECTS", "iter_rows", "iter_table", "split_table"]

MAX_CELL_CHARACTERS = 2**28
"""The limit for one cell. Without it, a quote that is never closed would make the rest of the file one cell."""
MAX_HEADER_CHARACTERS = 200
"""Characters of the first row in errors. It may be a paragraph instead of a header."""


class CsvDialect(NamedTuple):
    delimiter: str
    quoting: int
    rule: str
    """The syntax of cells, for error messages."""


CSV_DIALECTS = {
    ".csv": CsvDialect(
        ",",
        csv.QUOTE_MINIMAL,
        "texts with commas, line ends or quotes in them are in quotes, and quotes in those doubled",
    ),
    ".tsv": CsvDialect("\t", csv.QUOTE_NONE, "nothing is in quotes, so a text has neither tabs nor line ends in it"),
}
"""Dialects by the suffixes of files."""
SEMICOLON_DIALECT = CSV_DIALECTS[".csv"]._replace(
    delimiter=";", rule=CSV_DIALECTS[".csv"].rule.replace("commas", "semicolons")
)
"""CSV as spreadsheets write it in countries with decimal commas."""


def iter_table(
    file: BinaryIO,
    name: str,
    field: str = "text",
    row_range: RowRange | None = None,
    on_error: OnError | None = None,
    *,
    guessed: CsvDialect | None = None,
) -> Iterator[SourceText]:
    """Read the cells of the column `field`, with the ids in a column `id` if there is one.

    Rows are counted from 1, with the header, as in spreadsheets. Empty rows are skipped. An empty `id` is missing.

    Args:
        file: The table.
        name: The file's name. Its suffix determines the dialect.
        field: The column's name in the first row.
        row_range: The rows to read; all by default.
        on_error: Called for rows that cannot be read. Without it, the first such row raises an error.
        guessed: The dialect, if the name does not determine it.
    """
    lines, dialect = _detect_dialect(file, name, field, guessed or CSV_DIALECTS[get_suffix(name)])
    rows = _iter_cells(lines, name, dialect)
    remedy = ", or take each line as a text with lines=True" if guessed else ""
    names, _, _ = _read_header(rows, name, field, remedy)
    id_column = names.index("id") if "id" in names and field != "id" else None
    for number, cells, position in _iter_cells(file, name, dialect, row_range) if row_range else rows:
        if not cells:
            continue
        location = f"{name}, row {number}"
        with skip_errors(on_error):
            if len(cells) != len(names):
                raise UnireError(
                    f"{location} has {len(cells)} cells, but the first row has {len(names)}; {dialect.rule}"
                )
            row_id = _check_cell(cells[id_column], location) if id_column is not None else ""
            yield SourceText(
                row_id or f"{name}:{number}", _check_cell(cells[names.index(field)], location), position, number
            )


def iter_rows(file: BinaryIO, name: str, field: str = "text", on_error: OnError | None = None) -> Iterator[SourceText]:
    """Read JSON lines, CSV or TSV without a suffix. The first line that is not empty shows which of them it is."""
    lines, start = _peek(file, name)
    if not start.strip() or start.lstrip().startswith((b"{", b"[")):
        return iter_json_lines(lines, name, field, on_error=on_error)
    return iter_table(lines, name, field, on_error=on_error, guessed=CSV_DIALECTS[".tsv" if b"\t" in start else ".csv"])


def split_table(
    file: BinaryIO, name: str, field: str, size: int, row_range: RowRange | None = None
) -> Iterator[RowRange]:
    """Split the rows of a table, or of a range of it, into ranges of at least `size` bytes. The header is left out."""
    lines, dialect = _detect_dialect(file, name, field, CSV_DIALECTS[get_suffix(name)])
    rows = _iter_cells(lines, name, dialect)
    _, first, begin = _read_header(rows, name, field)
    ends = (
        (number, position)
        for number, _, position in (_iter_cells(file, name, dialect, row_range) if row_range else rows)
    )
    return split_ranges(ends, size, row_range or RowRange(first, first, begin))


def _peek(file: BinaryIO, name: str) -> tuple[BinaryIO, bytes]:
    """The file, and its first line that is not empty, without a byte-order mark."""
    seen, start = [], b""
    with explain_read_errors(name):
        for raw in file:
            seen.append(raw)
            start = raw.removeprefix(codecs.BOM_UTF8)
            if start.strip():
                break
    return cast("BinaryIO", chain(seen, file)), start  # callers only iterate over lines


def _detect_dialect(file: BinaryIO, name: str, field: str, dialect: CsvDialect) -> tuple[BinaryIO, CsvDialect]:
    """The file and its dialect: with semicolons if only they separate out the column `field`."""
    lines, start = _peek(file, name)
    first = start.decode(errors="replace").strip()
    by_commas, by_semicolons = ([cell.strip('"') for cell in first.split(mark)] for mark in ",;")
    has_semicolons = dialect == CSV_DIALECTS[".csv"] and field in by_semicolons and field not in by_commas
    return lines, SEMICOLON_DIALECT if has_semicolons else dialect


def _iter_cells(
    file: BinaryIO, name: str, dialect: CsvDialect, row_range: RowRange | None = None
) -> Iterator[tuple[int, list[str], int]]:
    """Number (from 1), cells, and position after each row of a table, which may have several lines."""
    position, row, count = (
        (row_range.offset, row_range.start, row_range.stop - row_range.start) if row_range else (0, 0, None)
    )

    def lines() -> Iterator[str]:
        nonlocal position
        for raw in file:
            line = raw if position else raw.removeprefix(codecs.BOM_UTF8)
            position += len(raw)
            yield line.decode(errors="surrogateescape")  # `_check_cell` checks the cells that are used

    csv.field_size_limit(MAX_CELL_CHARACTERS)  # Python has only this global limit
    with explain_read_errors(name):
        if row_range:
            file.seek(row_range.offset)
        try:
            reader = csv.reader(lines(), delimiter=dialect.delimiter, quoting=dialect.quoting, strict=True)  # type: ignore[arg-type]
            for cells in islice(reader, count):
                row += 1
                yield row, cells, position
        except csv.Error as error:
            raise UnireError(f"{name}, row {row + 1} cannot be read: {error}; {dialect.rule}") from None


def _read_header(
    rows: Iterator[tuple[int, list[str], int]], name: str, field: str, remedy: str = ""
) -> tuple[list[str], int, int]:
    """The names in the first row that is not empty, its number, and the position after it.

    Args:
        rows: All rows of the table.
        name: The file's name.
        field: A column that must exist.
        remedy: Further advice for the error message.
    """
    number, names, position = next((row for row in rows if row[1]), (1, [], 0))
    if field not in names:
        columns = shorten(
            ", ".join(_check_cell(column, f"{name}, row 1") for column in names),
            MAX_HEADER_CHARACTERS,
            placeholder=" …",
        )
        close = next((column for column in names if column.strip() == field), None)
        hint = f" (there is {close!r})" if close else ""
        raise UnireError(
            f"{name} has no column {field!r} but {columns or 'nothing'}{hint}; name one with field=...{remedy}"
        )
    return names, number, position


def _check_cell(cell: str, location: str) -> str:
    return decode_text(cell.encode(errors="surrogateescape"), location)
