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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from struct import unpack_from
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError, skip_errors
from unire.files import explain_read_errors, list_files, open_binary
from unire.formats import dygie, json_utils, native, spert
from unire.formats.base import ReadOptions, add_location, import_extra, raise_error
from unire.formats.json_utils import Json
from unire.limits import ReadLimits, read_whole

__all__ = [
    "DATASET_STATE",
    "ROWS_PER_READ",
    "check_row_groups",
    "from_dataset",
    "iter_tables",
    "iter_valid_rows",
    "list_parquet_files",
    "read_dataset",
    "read_parquet",
    "to_dataset",
    "write_dataset",
    "write_parquet",
]

ROWS_PER_BATCH = 512
"""Documents that are written at a time."""
ROWS_PER_READ = 64
"""Rows that are read at a time. A file stores repeated texts only once, so few bytes can be many large rows."""
FAILED_ROW = "row with an extraction error, skipped"
DATASET_STATE = "state.json"
"""The file of a saved data set that names the other files."""


# Parquet files


def read_parquet(path: Path, options: ReadOptions) -> Iterator[Document]:
    import_extra("pyarrow", "parquet")
    for file in list_parquet_files(path, options.on_error):
        yield from _read_batches(file, _iter_parquet_batches(file, options.limits), options)


def list_parquet_files(path: Path, on_error: OnError | None = None) -> list[Path]:
    """The file itself, or all Parquet files below a folder, in alphabetical order and without hidden ones."""
    if not path.is_dir():
        return [path]
    return [file for file in list_files(path, on_error) if file.suffix == ".parquet"]


def _iter_parquet_batches(path: Path, limits: ReadLimits) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        check_row_groups(path, file.metadata, range(file.metadata.num_row_groups), limits)
        yield from file.iter_batches(ROWS_PER_READ)


def check_row_groups(path: Path, metadata: Any, groups: Iterable[int], limits: ReadLimits) -> None:
    """Refuse a Parquet file with row groups that are too large.

    Only totals are compared. Damaged metadata of a single column would end the process: pyarrow does not catch its own
    exception there.

    Args:
        path: The file.
        metadata: Its metadata.
        groups: The numbers of the row groups that are read, from 0.
        limits: The limits of a row and of unpacked data.
    """
    packed = path.stat().st_size
    for group in groups:
        rows, name = metadata.row_group(group), f"{path}, row group {group + 1}"
        limits.check_unpacked(packed, rows.total_byte_size, f"{name},")
        limits.check_record(rows.total_byte_size // max(1, rows.num_rows), f"{name}: its average row")


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
    return _read_batches(path, _iter_dataset_batches(path, options.limits), options)


def _iter_dataset_batches(path: Path, limits: ReadLimits) -> Iterator[Any]:
    import pyarrow as pa

    for name in _list_data_files(path, limits):
        _check_messages(path / name, limits)
        with pa.OSFile(str(path / name)) as file, pa.ipc.open_stream(file) as stream:
            yield from stream


def _check_messages(path: Path, limits: ReadLimits) -> None:
    """Refuse a stream of Arrow messages whose compressed buffers unpack to too much. Arrow itself has no limit."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.MessageReader.open_stream(file)
        with suppress(StopIteration):
            while True:
                message = reader.read_next_message()
                if message.body is not None:
                    limits.check_unpacked(message.body.size, _count_unpacked_bytes(message), str(path))


def _count_unpacked_bytes(message: Any) -> int:
    """The total size of a message's buffers. A compressed one begins with its size, or −1 if it is not smaller.

    The layout is that of Arrow's `Message.fbs`: a table is a pointer to a list of the offsets of its fields.
    """
    metadata, body = memoryview(message.metadata), memoryview(message.body)

    def find(table: int, field: int) -> int:
        """The position of a field of a table; 0 if it is missing."""
        fields = table - unpack_from("<i", metadata, table)[0]
        size = unpack_from("<H", metadata, fields)[0]
        offset = unpack_from("<H", metadata, fields + 4 + 2 * field)[0] if 4 + 2 * field < size else 0
        return table + offset if offset else 0

    def follow(position: int) -> int:
        return position + int(unpack_from("<I", metadata, position)[0])

    batch = follow(find(follow(0), 2))
    if message.type == "dictionary":
        batch = follow(find(batch, 1))
    buffers, is_compressed = find(batch, 2), find(batch, 3)
    if not buffers or not is_compressed:
        return len(body)
    start = follow(buffers)
    spans = [unpack_from("<qq", metadata, start + 4 + 16 * i) for i in range(unpack_from("<I", metadata, start)[0])]
    return sum(max(unpack_from("<q", body, offset)[0], length) for offset, length in spans if length)


def _list_data_files(path: Path, limits: ReadLimits) -> list[str]:
    """The files that a data set's state lists. They must be inside its folder."""
    if (path / "dataset_dict.json").exists():
        splits = sorted(state.parent.name for state in path.glob(f"*/{DATASET_STATE}"))
        raise UnireError(f"{path} holds several data sets; give the folder of one: {', '.join(splits)}")
    with open_binary(path / DATASET_STATE) as file:
        raw = read_whole(file, str(path / DATASET_STATE), limits.check_record)
    try:
        state = json_utils.expect(json_utils.parse_json(raw), dict, "the file")
        files = [
            json_utils.expect(value, dict, "a data file") for value in json_utils.require(state, "_data_files", list)
        ]
        names = [json_utils.require(value, "filename", str) for value in files]
        if outside := [name for name in names if Path(name).name != name]:
            raise UnireError(f"{outside[0]!r} is outside the folder")
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
    locate = _row_locator(str(path))
    position = 0
    for batch in _iter_valid_batches(path, batches):
        for number, row in iter_valid_rows(batch, locate, position, options.on_error):
            yield from _read_row(row, number, locate, options)
        position += batch.num_rows


def _iter_valid_batches(path: Path, batches: Iterable[Any]) -> Iterator[Any]:
    try:
        with explain_read_errors(path):
            for batch in batches:
                batch.validate(full=True)  # Arrow trusts its files; a corrupt one could make it read out of bounds
                yield batch
    except UnireError:
        raise
    except Exception as error:  # whatever Arrow raises, the cause is the file
        raise UnireError(f"{path} cannot be read: {error}") from None


def iter_valid_rows(
    batch: Any, locate: Callable[[int], str], first: int, on_error: OnError | None
) -> Iterator[tuple[int, Json]]:
    """Number and values of the rows of a record batch.

    Args:
        batch: The record batch.
        locate: What errors call the row of a number.
        first: The number of the first row.
        on_error: Called for rows that cannot be converted. Without it, the first such row raises an error.
    """
    for start in range(0, batch.num_rows, ROWS_PER_READ):
        part = batch.slice(start, ROWS_PER_READ)
        try:
            rows = part.to_pylist()
        except (ArithmeticError, ValueError):  # such as a time after the year 9999
            for i in range(part.num_rows):
                with skip_errors(on_error):
                    number = first + start + i
                    yield number, _convert_row(part.slice(i, 1), locate(number))
        else:
            yield from enumerate(rows, first + start)


def _convert_row(part: Any, location: str) -> Json:
    try:
        (row,) = part.to_pylist()
    except UnicodeDecodeError:
        raise UnireError(f"{location} is not UTF-8; convert it first") from None
    except (ArithmeticError, ValueError) as error:
        raise UnireError(f"{location} cannot be read: {error}") from None
    return dict(row)


def _read_rows(rows: Iterable[Mapping[str, Any]], options: ReadOptions, name: str) -> Iterator[Document]:
    """Read one document per row. `name` is what errors call the table."""
    for position, row in enumerate(rows):
        yield from _read_row(row, position, _row_locator(name), options)


def _row_locator(name: str) -> Callable[[int], str]:
    return lambda position: f"{name}, row {position} (counted from 0)"


def _read_row(
    row: Mapping[str, Any], position: int, locate: Callable[[int], str], options: ReadOptions
) -> Iterator[Document]:
    if row.get("error") is not None and "block" in row:  # written by `unire extract --ray`
        options.notes[FAILED_ROW] += 1
        return
    document = None
    with add_location(locate(position), options.on_error):
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
            ("clusters", pa.list_(pa.list_(pa.list_(pa.int64())))),
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
