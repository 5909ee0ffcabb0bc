"""CSV and TSV: texts in a column of a table, with commas or semicolons in CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from unire.errors import OnError, UnireError, skip_errors
from unire.files import get_suffix
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.sources.base import RowRange, SourceText, decode_text, describe_names, split_ranges
from unire.sources.lines import RawLine, continue_lines, iter_json_lines

__all__ = ["CSV_DIALECTS", "iter_rows", "iter_table", "split_table"]


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

Rows = Iterator[tuple[int, list[str], int]]
"""Number (from 1), cells, and end position of each row of a table. A row may have several lines."""


def iter_table(
    file: BinaryIO,
    name: str,
    field: str = "text",
    row_range: RowRange | None = None,
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[SourceText]:
    """Read the cells of the column `field`, with the ids in a column `id` if there is one.

    Rows are counted from 1, with the header, as in spreadsheets. Empty rows are skipped. An empty `id` is missing.

    Args:
        file: The table.
        name: The file's name. Its suffix determines the dialect.
        field: The column's name in the first row.
        row_range: The rows to read; all by default.
        on_error: Called for rows that cannot be read. Without it, the first such row raises an error.
        limits: The limits of a row and of a text.
    """
    first = _find_first_line(file, name, limits)
    table = _Table(file, first, name, field, CSV_DIALECTS[get_suffix(name)], limits)
    return table.texts(table.rows_of(row_range), on_error)


def iter_rows(
    file: BinaryIO,
    name: str,
    field: str = "text",
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[SourceText]:
    """Read JSON lines, CSV or TSV without a suffix. The first line that is not empty shows which of them it is."""
    number, start, position = first = _find_first_line(file, name, limits)
    if not start or start.lstrip().startswith((b"{", b"[")):
        rest = continue_lines(file, name, on_error, limits, number=number, position=position)
        return iter_json_lines(chain([first], rest), name, field, on_error, limits)
    dialect = CSV_DIALECTS[".tsv" if b"\t" in start else ".csv"]
    table = _Table(file, first, name, field, dialect, limits, ", or take each line as a text with lines=True")
    return table.texts(table.rows_of(), on_error)


def split_table(
    file: BinaryIO,
    name: str,
    field: str,
    size: int,
    row_range: RowRange | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[RowRange]:
    """Split the rows of a table, or of a range of it, into ranges of at least `size` bytes. The header is left out."""
    first = _find_first_line(file, name, limits)
    table = _Table(file, first, name, field, CSV_DIALECTS[get_suffix(name)], limits)
    ends = ((number, position) for number, _, position in table.rows_of(row_range))
    return split_ranges(ends, size, row_range or table.header)


def _find_first_line(file: BinaryIO, name: str, limits: ReadLimits) -> RawLine:
    """The first line that is not empty."""
    return next((line for line in continue_lines(file, name, limits=limits) if line[1].strip()), (1, b"", 0))


class _Table:
    """The rows of a table after its header.

    Args:
        file: The file.
        first: Its first line that is not empty. The file is after it.
        name: The file's name.
        field: The column of the text.
        dialect: The dialect. CSV has semicolons instead of commas if only they separate out the column.
        limits: The limits of a row and of a text.
        remedy: Further advice if there is no such column.
    """

    def __init__(
        self,
        file: BinaryIO,
        first: RawLine,
        name: str,
        field: str,
        dialect: CsvDialect,
        limits: ReadLimits,
        remedy: str = "",
    ) -> None:
        self._file, self._name, self._field, self._limits = file, name, field, limits
        number, raw, position = first
        line = raw.decode(errors="replace").strip()
        by_commas, by_semicolons = ([cell.strip('"') for cell in line.split(mark)] for mark in ",;")
        has_semicolons = dialect == CSV_DIALECTS[".csv"] and field in by_semicolons and field not in by_commas
        self._dialect = SEMICOLON_DIALECT if has_semicolons else dialect
        rest = continue_lines(file, name, limits=limits, number=number, position=position)
        self._rows = self._iter_cells(chain([first], rest), number - 1, 0)
        number, self._names, position = next(self._rows, (1, [], 0))
        self.header = RowRange(number, number, position)
        """The end of the header."""
        if field not in self._names:
            raise self._no_column(remedy)

    def rows_of(self, row_range: RowRange | None = None) -> Rows:
        """The rows of a range of the file. By default all that are left."""
        if row_range is None:
            return self._rows
        start, stop, offset, _ = row_range
        self._file.seek(offset)
        lines = continue_lines(self._file, self._name, limits=self._limits, number=start, position=offset)
        return islice(self._iter_cells(lines, start, offset), stop - start)

    def texts(self, rows: Rows, on_error: OnError | None) -> Iterator[SourceText]:
        """The texts of some rows."""
        names = self._names
        column = names.index(self._field)
        id_column = names.index("id") if "id" in names and self._field != "id" else None
        for number, cells, position in rows:
            if not cells:
                continue
            location = f"{self._name}, row {number}"
            with skip_errors(on_error):
                if len(cells) != len(names):
                    raise UnireError(
                        f"{location} has {len(cells)} cells, but the first row has {len(names)}; {self._dialect.rule}"
                    )
                row_id = _check_cell(cells[id_column], location) if id_column is not None else ""
                text = _check_cell(cells[column], location)
                self._limits.check_document(len(text), location)
                yield SourceText(row_id or f"{self._name}:{number}", text, position, number)

    def _iter_cells(self, lines: Iterable[RawLine], row: int, position: int) -> Rows:
        """The rows in some lines, which begin after a row at a position."""

        def decode_lines() -> Iterator[str]:
            nonlocal position
            begin, current = position, row
            for _, raw, end in lines:
                if row > current:
                    begin, current = position, row
                position = end
                # a quote that is never closed would make the rest of the file one row
                self._limits.check_record(position - begin, f"{self._name}, row {row + 1}")
                yield raw.decode(errors="surrogateescape")  # `_check_cell` checks the cells that are used

        csv.field_size_limit(self._limits.max_record)  # Python has only this global limit
        delimiter, quoting, rule = self._dialect
        try:
            for cells in csv.reader(decode_lines(), delimiter=delimiter, quoting=quoting, strict=True):  # type: ignore[arg-type]
                row += 1
                yield row, cells, position
        except csv.Error as error:
            raise UnireError(f"{self._name}, row {row + 1} cannot be read: {error}; {rule}") from None

    def _no_column(self, remedy: str) -> UnireError:
        columns = describe_names(_check_cell(column, f"{self._name}, row 1") for column in self._names)
        close = next((column for column in self._names if column.strip() == self._field), None)
        hint = f" (there is {close!r})" if close else ""
        return UnireError(
            f"{self._name} has no column {self._field!r}{columns}{hint}; choose one with field=...{remedy}"
        )


def _check_cell(cell: str, location: str) -> str:
    return decode_text(cell.encode(errors="surrogateescape"), location)
