"""Parquet: texts in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.sources.lines import RowRange, SourceText, get_id, get_text, skip_errors

__all__ = ["MIN_TEXT_BYTES", "iter_parquet", "split_parquet"]

ROWS_PER_BATCH = 1024
"""Rows that are read at a time."""
MIN_TEXT_BYTES = 64
"""The least assumed size of a text. Parquet stores repeated texts only once, so columns may look too small."""


def iter_parquet(
    path: Path, field: str = "text", row_range: RowRange | None = None, on_error: OnError | None = None
) -> Iterator[SourceText]:
    """Read the strings in the column `field`, with ids from a column `id` if there is one. `null` is an empty text."""
    with _open_parquet(path, field) as table:
        names = table.schema_arrow.names
        columns = [field, *(["id"] if "id" in names and field != "id" else [])]
        start, stop = (row_range.start, row_range.stop) if row_range else (0, table.metadata.num_rows)
        share = path.stat().st_size / max(1, table.metadata.num_rows)
        number, groups = _select_row_groups(table.metadata, start, stop)
        for rows in table.iter_batches(batch_size=ROWS_PER_BATCH, row_groups=groups, columns=columns):
            first, number = max(start, number), number + rows.num_rows
            wanted = rows.slice(rows.num_rows - max(0, number - first), stop - first)
            for row_number, row in enumerate(_iter_rows(wanted, str(path), first), first + 1):
                location = f"{path}, row {row_number}"
                with skip_errors(on_error):
                    name = get_id(row.get("id"), f"{path}:{row_number}", location)
                    yield SourceText(name, get_text(row[field], field, location), row_number * share, row_number)
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
            columns = (group.column(i) for i in range(group.num_columns))
            row_bytes = sum(c.total_uncompressed_size for c in columns if c.path_in_schema == field) / max(
                1, group.num_rows
            )
            row_bytes = max(row_bytes, MIN_TEXT_BYTES)
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
        try:
            table = pq.ParquetFile(path)
        except pa.ArrowException:
            raise UnireError(f"{path} is not a Parquet file") from None
        with table:
            names = table.schema_arrow.names
            if field not in names:
                raise UnireError(f"{path} has no column {field!r} but {', '.join(names)}; name one with field=...")
            try:
                yield table
            except pa.ArrowException as error:
                raise UnireError(f"{path} cannot be read: {error}") from None


def _iter_rows(rows: Any, name: str, before: int) -> Iterator[dict[str, Any]]:
    """Convert rows to Python objects. If one is not UTF-8, those before it are yielded first."""
    try:
        yield from rows.to_pylist()
    except UnicodeDecodeError:
        for i in range(rows.num_rows):
            try:
                (row,) = rows.slice(i, 1).to_pylist()
            except UnicodeDecodeError:
                raise UnireError(f"{name}, row {before + i + 1} is not UTF-8; convert it first") from None
            yield row


def _select_row_groups(metadata: Any, start: int, stop: int) -> tuple[int, list[int]]:
    """The number of rows before the selected row groups, and the row groups that hold rows of the range."""
    before, groups, end = start, [], 0
    for group in range(metadata.num_row_groups):
        begin, end = end, end + metadata.row_group(group).num_rows
        if begin < stop and start < end:
            before = min(before, begin)
            groups.append(group)
    return before, groups
