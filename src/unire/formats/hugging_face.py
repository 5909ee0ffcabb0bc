"""`datasets`: Hugging Face data sets, as objects and as the folders that `save_to_disk` makes. Needs `unire[datasets]`.

    dataset = to_dataset(documents)
    documents = list(from_dataset(dataset))

The columns are those of the format `unire`; [arrow.py](arrow.py) has their types. Everything has its place. The folder
of a `DatasetDict` has one of a data set for each split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.formats import arrow, json_utils
from unire.formats.base import ReadOptions, needed, refuse

__all__ = ["STATE", "from_dataset", "read", "to_dataset", "write"]

STATE = "state.json"
"""The file of a saved data set that names the others."""


def from_dataset(dataset: Iterable[Any], on_error: OnError = refuse) -> Iterator[Document]:
    """The documents of a `Dataset` or an `IterableDataset`; a row that is none is refused, or given to `on_error`."""
    return arrow.from_rows(dataset, ReadOptions(on_error=on_error), "the data set")


def to_dataset(documents: Iterable[Document], on_error: OnError = refuse) -> Any:
    """A `Dataset` with a row for every document."""
    datasets = needed("datasets", "datasets")
    import pyarrow as pa

    return datasets.Dataset(pa.concat_tables(arrow.tables(documents, on_error)))


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    needed("pyarrow", "datasets")
    return arrow.documents_of(path, _batches(path), how)


def _batches(path: Path) -> Iterator[Any]:
    """The rows of the files that the folder's list names, which lie in it."""
    import pyarrow as pa

    for name in _file_names(path):
        with pa.OSFile(str(path / name)) as file, pa.ipc.open_stream(file) as stream:
            yield from stream


def _file_names(path: Path) -> list[str]:
    if (path / "dataset_dict.json").exists():
        splits = sorted(state.parent.name for state in path.glob(f"*/{STATE}"))
        raise UnireError(f"{path} holds several data sets; give the folder of one: {', '.join(splits)}")
    try:
        state = json_utils.expect(json_utils.parsed((path / STATE).read_bytes()), dict, "the file")
        files = [
            json_utils.expect(file, dict, "a data file") for file in json_utils.required(state, "_data_files", list)
        ]
        names = [json_utils.required(file, "filename", str) for file in files]
        if outside := [name for name in names if Path(name).name != name]:
            raise UnireError(f"{outside[0]!r} does not lie in the folder")
    except UnireError as error:
        raise UnireError(f"{path / STATE}: {error}") from None
    return names


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    datasets = needed("datasets", "datasets")
    datasets.disable_progress_bars()
    to_dataset(documents, on_error).save_to_disk(path)
