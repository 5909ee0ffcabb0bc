"""Texts in a column of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.sources.text import Part, Text, id_of, skipping, text_of

__all__ = ["SHORT", "from_parquet", "row_parts"]

ROWS = 1024
"""Rows of a Parquet file that are read together."""
SHORT = 64
"""Bytes that a text in Parquet is taken to have at least: where texts repeat, a file holds each but once."""


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
                    name = id_of(row.get("id"), f"{path}:{row_number}", place)
                    yield Text(name, text_of(row[field], field, place), row_number * share, row_number)
            if number >= stop:
                break


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
    with explain_read_errors(str(path)):
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
