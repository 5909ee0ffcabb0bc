"""`parquet`: Parquet files, a row for every document. Needs `unire[parquet]`.

The columns are those of the format `unire`; [arrow.py](arrow.py) has their types. Everything has its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.formats import arrow
from unire.formats.format import OnError, Reading, needed

__all__ = ["read", "write"]


def read(path: Path, how: Reading) -> Iterator[Document]:
    needed("pyarrow", "parquet")
    return arrow.documents_of(path, _batches(path), how.on_error)


def _batches(path: Path) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(arrow.ROWS)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    needed("pyarrow", "parquet")
    from pyarrow import parquet

    with parquet.ParquetWriter(path, arrow.schema(), compression="zstd") as file:
        for table in arrow.tables(documents, on_error):
            file.write_table(table)
