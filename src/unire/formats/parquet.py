"""`parquet`: Parquet files, a row for every document. Needs `unire[parquet]`.

The columns are those of the format `unire`; [arrow.py](arrow.py) has their types. Everything has its place. A folder of
such files, as `unire extract --ray` writes it, is read as one; rows that have an `error` there are left out, and noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError
from unire.files import explain_read_errors
from unire.formats import arrow
from unire.formats.base import ReadOptions, needed

__all__ = ["files_of", "read", "write"]


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    needed("pyarrow", "parquet")
    for file in files_of(path):
        yield from arrow.documents_of(file, _batches(file), how)


def files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder and of those in it, in alphabetical order."""
    if not path.is_dir():
        return [path]
    with explain_read_errors(path):
        found = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    return [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]


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
