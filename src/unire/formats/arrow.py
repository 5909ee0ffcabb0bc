"""Rows of Arrow tables: what `parquet` files and `datasets` have in common.

A row is a document of the format `unire`, with `meta` and `attributes`, which may be anything, as JSON text. Rows in
the form of `dygie` and `spert`, in which many data sets are passed around, are read too.
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
from unire.formats.base import ReadOptions, at
from unire.formats.json_utils import Json

__all__ = ["ROWS", "documents_of", "from_rows", "tables"]

ROWS = 512
"""Documents that are held in memory at a time."""
FAILED = "row with the error of an extraction in the place of a document, left out"


def documents_of(path: Path, batches: Iterable[Any], how: ReadOptions) -> Iterator[Document]:
    """The documents of record batches that are read from a file, which may be broken."""
    return from_rows(_rows(path, batches), how, str(path))


def _rows(path: Path, batches: Iterable[Any]) -> Iterator[Json]:
    try:
        with explain_read_errors(path):
            for batch in batches:
                batch.validate(full=True)  # Arrow trusts its files; a broken one could have it read beyond their ends
                yield from batch.to_pylist()
    except UnireError:
        raise
    except Exception as error:  # whatever Arrow stumbles over, it is the file that cannot be read
        raise UnireError(f"{path} cannot be read: {error}") from None


def from_rows(rows: Iterable[Mapping[str, Any]], how: ReadOptions, name: str) -> Iterator[Document]:
    """The document of every row; `name` is what the table is called in errors."""
    for position, row in enumerate(rows):
        if row.get("error") is not None and "block" in row:  # as `unire extract --ray` has them
            how.notes[FAILED] += 1
            continue
        document = None
        with at(f"{name}, row {position} (counted from 0)", how.on_error):
            document = _from_row(row, position)
        if document is not None:
            yield document


def tables(documents: Iterable[Document], on_error: OnError) -> Iterator[Any]:
    """Tables of up to `ROWS` rows; of no documents, one without rows."""
    import pyarrow as pa

    rows = _to_rows(documents, on_error)
    chunk = list(islice(rows, ROWS))
    yield pa.Table.from_pylist(chunk, schema())
    while chunk := list(islice(rows, ROWS)):
        yield pa.Table.from_pylist(chunk, schema())


def _to_rows(documents: Iterable[Document], on_error: OnError) -> Iterator[Json]:
    for document in documents:
        row = None
        with at(f"document {document.id!r} cannot be written", on_error):
            row = _to_row(document)
        if row is not None:
            yield row


def schema() -> Any:
    """The columns, as pyarrow knows them."""
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
            item["attributes"] = json_utils.spelt(item["attributes"]).decode()
    if "meta" in row:
        row["meta"] = json_utils.spelt(row["meta"]).decode()
    json_utils.spelt(row)  # what is no JSON, or no Unicode, is refused here, with the name of its document
    return row


def _from_row(row: Mapping[str, Any], position: int) -> Document:
    """The document of a row; columns without a value count as missing."""
    item = {key: value for key, value in row.items() if value is not None}
    if "tokens" in item:
        return spert.from_json(item, position)
    if "text" not in item:
        return dygie.from_json(item, position)
    for key in ("entities", "relations"):
        item[key] = [_whole(value) for value in json_utils.optional(item, key)]
    return native.from_json(_whole(item, "meta"), position)


def _whole(value: Any, key: str = "attributes") -> Any:
    """An item without what is missing, and what stands as JSON text under `key` as what it stands for."""
    if not isinstance(value, Mapping):
        return value
    item = {name: part for name, part in value.items() if part is not None}
    if isinstance(item.get(key), str):
        try:
            item[key] = json.loads(item[key])
        except (ValueError, RecursionError):
            raise UnireError(f'"{key}" is not JSON: {json_utils.shown(item[key])}') from None
    return item
