"""`parquet` and `datasets`: documents as rows of Arrow tables, in Parquet files or Hugging Face data sets.

    dataset = to_dataset(documents)
    documents = list(from_dataset(dataset))

A row is a document of the format `unire`. `meta` and `attributes`, which may be anything, are JSON text. The formats
support everything that a document can hold. Rows in the form of `dygie` and `spert`, which many published data sets
have, are read too.

`parquet` needs `unire[parquet]`. A folder of such files, as `unire extract --ray` writes it, is read as one. Its rows
with an `error` are skipped and counted. `datasets` needs `unire[datasets]` and reads the folders that `save_to_disk`
writes. The folder of a `DatasetDict` has one such folder per split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.formats import dygie, json_utils, native, spert
from unire.formats.base import ReadOptions, add_location, import_extra, raise_error
from unire.formats.json_utils import Json

__all__ = [
    "DATASET_STATE",
    "from_dataset",
    "iter_tables",
    "list_parquet_files",
    "read_dataset",
    "read_parquet",
    "to_dataset",
    "write_dataset",
    "write_parquet",
]

ROWS_PER_BATCH = 512
"""Documents that are held in memory at a time."""
FAILED_ROW = "row with the error of an extraction in the place of a document, left out"
DATASET_STATE = "state.json"
"""The file of a saved data set that names the other files."""


# Parquet files


def read_parquet(path: Path, options: ReadOptions) -> Iterator[Document]:
    import_extra("pyarrow", "parquet")
    for file in list_parquet_files(path):
        yield from _read_batches(file, _iter_parquet_batches(file), options)


def list_parquet_files(path: Path) -> list[Path]:
    """The file itself, or all Parquet files below a folder, in alphabetical order and without hidden ones."""
    if not path.is_dir():
        return [path]
    with explain_read_errors(path):
        files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    return [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]


def _iter_parquet_batches(path: Path) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(ROWS_PER_BATCH)


def write_parquet(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    import_extra("pyarrow", "parquet")
    from pyarrow import parquet

    with parquet.ParquetWriter(path, build_schema(), compression="zstd") as file:
        for table in iter_tables(documents, on_error):
            file.write_table(table)


# Hugging Face data sets


def from_dataset(dataset: Iterable[Any], on_error: OnError = raise_error) -> Iterator[Document]:
    """Read the documents of a `Dataset` or an `IterableDataset`. `on_error` receives errors about single rows."""
    return _read_rows(dataset, ReadOptions(on_error=on_error), "the data set")


def to_dataset(documents: Iterable[Document], on_error: OnError = raise_error) -> Any:
    """Build a `Dataset` with one row per document."""
    datasets = import_extra("datasets", "datasets")
    import pyarrow as pa

    return datasets.Dataset(pa.concat_tables(iter_tables(documents, on_error)))


def read_dataset(path: Path, options: ReadOptions) -> Iterator[Document]:
    import_extra("pyarrow", "datasets")
    return _read_batches(path, _iter_dataset_batches(path), options)


def _iter_dataset_batches(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    for name in _list_data_files(path):
        with pa.OSFile(str(path / name)) as file, pa.ipc.open_stream(file) as stream:
            yield from stream


def _list_data_files(path: Path) -> list[str]:
    """The files that a data set's state lists. They must lie in its folder."""
    if (path / "dataset_dict.json").exists():
        splits = sorted(state.parent.name for state in path.glob(f"*/{DATASET_STATE}"))
        raise UnireError(f"{path} holds several data sets; give the folder of one: {', '.join(splits)}")
    try:
        state = json_utils.expect(json_utils.parse_json((path / DATASET_STATE).read_bytes()), dict, "the file")
        files = [
            json_utils.expect(file, dict, "a data file") for file in json_utils.require(state, "_data_files", list)
        ]
        names = [json_utils.require(file, "filename", str) for file in files]
        if outside := [name for name in names if Path(name).name != name]:
            raise UnireError(f"{outside[0]!r} does not lie in the folder")
    except UnireError as error:
        raise UnireError(f"{path / DATASET_STATE}: {error}") from None
    return names


def write_dataset(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    datasets = import_extra("datasets", "datasets")
    datasets.disable_progress_bars()
    to_dataset(documents, on_error).save_to_disk(path)


# Rows


def _read_batches(path: Path, batches: Iterable[Any], options: ReadOptions) -> Iterator[Document]:
    """Read the documents of record batches from a file, which may be corrupt."""
    return _read_rows(_iter_rows(path, batches), options, str(path))


def _iter_rows(path: Path, batches: Iterable[Any]) -> Iterator[Json]:
    try:
        with explain_read_errors(path):
            for batch in batches:
                batch.validate(full=True)  # Arrow trusts its files; a corrupt one could make it read out of bounds
                yield from batch.to_pylist()
    except UnireError:
        raise
    except Exception as error:  # whatever Arrow raises, the cause is the file
        raise UnireError(f"{path} cannot be read: {error}") from None


def _read_rows(rows: Iterable[Mapping[str, Any]], options: ReadOptions, name: str) -> Iterator[Document]:
    """Read one document per row. `name` is what errors call the table."""
    for position, row in enumerate(rows):
        if row.get("error") is not None and "block" in row:  # written by `unire extract --ray`
            options.notes[FAILED_ROW] += 1
            continue
        document = None
        with add_location(f"{name}, row {position} (counted from 0)", options.on_error):
            document = _from_row(row, position)
        if document is not None:
            yield document


def iter_tables(documents: Iterable[Document], on_error: OnError) -> Iterator[Any]:
    """Arrow tables of up to `ROWS_PER_BATCH` rows. Without documents, one table without rows."""
    import pyarrow as pa

    rows = _iter_written_rows(documents, on_error)
    chunk = list(islice(rows, ROWS_PER_BATCH))
    yield pa.Table.from_pylist(chunk, build_schema())
    while chunk := list(islice(rows, ROWS_PER_BATCH)):
        yield pa.Table.from_pylist(chunk, build_schema())


def _iter_written_rows(documents: Iterable[Document], on_error: OnError) -> Iterator[Json]:
    for document in documents:
        row = None
        with add_location(f"document {document.id!r} cannot be written", on_error):
            row = _to_row(document)
        if row is not None:
            yield row


def build_schema() -> Any:
    """The columns and their types, as a pyarrow schema."""
    import pyarrow as pa

    entity = pa.struct(
        [
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("label", pa.string()),
            ("char_start", pa.int64()),
            ("char_end", pa.int64()),
            ("text", pa.string()),
            ("score", pa.float64()),
            ("attributes", pa.string()),
        ]
    )
    relation = pa.struct(
        [
            ("head", pa.int64()),
            ("tail", pa.int64()),
            ("label", pa.string()),
            ("score", pa.float64()),
            ("attributes", pa.string()),
        ]
    )
    return pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("sentences", pa.list_(pa.list_(pa.string()))),
            ("offsets", pa.list_(pa.list_(pa.list_(pa.int64())))),
            ("entities", pa.list_(entity)),
            ("relations", pa.list_(relation)),
            ("cuts", pa.list_(pa.list_(pa.int64()))),
            ("meta", pa.string()),
        ]
    )


def _to_row(document: Document) -> Json:
    (row,) = native.to_json(document)
    for item in (*row["entities"], *row["relations"]):
        if "attributes" in item:
            item["attributes"] = json_utils.dump_json(item["attributes"]).decode()
    if "meta" in row:
        row["meta"] = json_utils.dump_json(row["meta"]).decode()
    json_utils.dump_json(row)  # raises for values that are not JSON or not Unicode, while the document is known
    return row


def _from_row(row: Mapping[str, Any], position: int) -> Document:
    """Read a row. Columns without a value count as missing."""
    item = {key: value for key, value in row.items() if value is not None}
    if "tokens" in item:
        return spert.from_json(item, position)
    if "text" not in item:
        return dygie.from_json(item, position)
    for key in ("entities", "relations"):
        item[key] = [_parse_json_field(value, "attributes") for value in json_utils.get_list(item, key)]
    return native.from_json(_parse_json_field(item, "meta"), position)


def _parse_json_field(value: Any, key: str) -> Any:
    """An item without missing values, and with the JSON text under `key` parsed."""
    if not isinstance(value, Mapping):
        return value
    item = {name: part for name, part in value.items() if part is not None}
    if isinstance(item.get(key), str):
        try:
            item[key] = json.loads(item[key])
        except (ValueError, RecursionError):
            raise UnireError(f'"{key}" is not JSON: {json_utils.shorten_json(item[key])}') from None
    return item
