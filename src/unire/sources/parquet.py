"""Parquet: texts in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unire.errors import OnError, UnireError, skip_errors
from unire.files import explain_read_errors
from unire.formats.arrow import ROWS_PER_READ, check_row_groups, iter_valid_rows
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.sources.base import RowRange, SourceText, describe_names, get_id, get_text

__all__ = ["MIN_TEXT_BYTES", "iter_parquet", "split_parquet"]

MIN_TEXT_BYTES = 64
"""The least assumed size of a text. Parquet stores repeated texts only once, so columns may look too small."""


def iter_parquet(
    path: Path,
    field: str = "text",
    row_range: RowRange | None = None,
    on_error: OnError | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[SourceText]:
    """Read the strings in the column `field`, with ids from a column `id` if there is one. `null` is an empty text."""

    def locate(number: int) -> str:
        return f"{path}, row {number}"

    with _open_parquet(path, field) as table:
        names = table.schema_arrow.names
        columns = [field, *(["id"] if "id" in names and field != "id" else [])]
        start, stop = (row_range.start, row_range.stop) if row_range else (0, table.metadata.num_rows)
        share = path.stat().st_size / max(1, table.metadata.num_rows)
        number, groups = _select_row_groups(table.metadata, start, stop)
        check_row_groups(path, table.metadata, groups, limits)
        for rows in table.iter_batches(batch_size=ROWS_PER_READ, row_groups=groups, columns=columns):
            first, number = max(start, number), number + rows.num_rows
            wanted = rows.slice(rows.num_rows - max(0, number - first), stop - first)
            for row_number, row in iter_valid_rows(wanted, locate, first + 1, on_error):
                location = locate(row_number)
                with skip_errors(on_error):
                    name = get_id(row.get("id"), f"{path}:{row_number}", location)
                    text = get_text(row[field], field, location)
                    limits.check_document(len(text), location)
                    yield SourceText(name, text, row_number * share, row_number)
            if number >= stop:
                break


def split_parquet(path: Path, field: str, size: int, row_range: RowRange | None = None) -> Iterator[RowRange]:
    """Split the rows of a file, or of a range of it, into ranges of about `size` bytes within one row group each."""
    with _open_parquet(path, field) as table:
        begin = 0
        for number in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(number)
            first, end = begin, begin + group.num_rows
            begin = end
            if row_range:
                first, end = max(first, row_range.start), min(end, row_range.stop)
            if first >= end:
                continue
            sample = next(table.iter_batches(ROWS_PER_READ, row_groups=[number]), None)
            share = sample.column(field).nbytes / max(1, sample.nbytes) if sample else 1.0
            row_bytes = max(share * group.total_byte_size / group.num_rows, MIN_TEXT_BYTES)
            step = max(1, round(size / row_bytes))
            for start in range(first, end, step):
                stop = min(start + step, end)
                yield RowRange(start, stop, size=round((stop - start) * row_bytes))


@contextmanager
def _open_parquet(path: Path, field: str) -> Iterator[Any]:
    """Open a Parquet file, which must have the column `field`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise UnireError('reading Parquet needs pyarrow: pip install "unire[parquet]"') from None
    with explain_read_errors(str(path)):
        damages = (pa.ArrowException, UnicodeDecodeError)  # names of columns may be of any bytes
        try:
            table = pq.ParquetFile(path)
            names = table.schema_arrow.names
        except damages:
            raise UnireError(f"{path} is not a Parquet file") from None
        with table:
            if field not in names:
                raise UnireError(f"{path} has no column {field!r}{describe_names(names)}; choose one with field=...")
            if (count := names.count(field)) > 1:
                raise UnireError(f"{path} has {count} columns {field!r}; rename all but one, or choose another field")
            try:
                yield table
            except damages as error:
                raise UnireError(f"{path} cannot be read: {error}") from None


def _select_row_groups(metadata: Any, start: int, stop: int) -> tuple[int, list[int]]:
    """The number of rows before the selected row groups, and the row groups that hold rows of the range."""
    before, groups, end = start, [], 0
    for group in range(metadata.num_row_groups):
        begin, end = end, end + metadata.row_group(group).num_rows
        if begin < stop and start < end:
            before = min(before, begin)
            groups.append(group)
    return before, groups
