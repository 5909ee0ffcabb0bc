"""Stored soft labels: the teachers' mean tables for a corpus, computed once and read by any number of students.

`unire teach` writes a folder of these files:

    lessons.json     labels, teachers, names of the corpus files, counts, sizes of the other files, a digest of the
                     tables; the marker models, if they have relabelled the relations
    documents.jsonl  the segmented text, in our own format
    examples.jsonl   some of the documents with the predictions of each teacher
    index.npy        [tables, 4]: document, first word, end and first byte of each table
    tables.bin       the mean P of every table, n·n·|Y| bytes each: round(p · 255)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unire import formats
from unire.decoding.backend import segment_ids
from unire.documents import Document
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.formats import native
from unire.formats.json_utils import dump_json
from unire.inference.streaming import Chunker, chunk_weight
from unire.labels import LabelSpace
from unire.limits import read_whole
from unire.models.cuda_graphs import GraphRunner
from unire.models.unire import UniRE
from unire.tables import TableSpan
from unire.training.distillation.batches import DistillationBatch, SoftLabelIndex, table_keys
from unire.training.distillation.teachers import align_labels
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus, read_texts
from unire.utils import copy_to_device
from unire.windows.collator import Batch
from unire.windows.windows import WindowBuilder

__all__ = [
    "CHUNK_CHARACTERS",
    "RELATIONS_BY",
    "SCALE",
    "SoftLabelStore",
    "SoftLabelWriter",
    "locate_cells",
    "normalize_cells",
    "write_soft_labels",
]

VERSION = 1
INFO, DOCUMENTS, EXAMPLES, INDEX, TABLES = (
    "lessons.json", "documents.jsonl", "examples.jsonl", "index.npy", "tables.bin",
)  # fmt: skip
SCALE = 255
"""The byte that stores a probability of 1."""
CHUNK_CHARACTERS = 2**20
"""Characters of the documents that are batched together. Their tables are in memory at the same time."""
RECREATE = "create the soft labels again with unire teach"
RELATIONS_BY = "relations_by"
"""The key in `lessons.json` for the marker models that relabelled the relations, in the form of teachers."""
COUNTED = ("version", "documents", "tables", "words", "bytes", "digest")
"""The keys of `lessons.json` that a `SoftLabelWriter` computes itself."""


class SoftLabelStore:
    """Reads stored soft labels while a student trains. It is a `SoftLabelProvider`.

    Args:
        folder: The folder that `unire teach` or `unire relabel` wrote.
        limit: Use only this many documents, from the start. `None` uses all.

    Raises:
        UnireError: The folder holds no soft labels, or they are incomplete or of another version.
    """

    def __init__(self, folder: str | Path, limit: int | None = None) -> None:
        self._folder = folder = Path(folder)
        info = _read_info(folder)
        try:
            self.digest: str | None = info["digest"]
            self.labels = LabelSpace.from_dict(info["labels"])
            self.teachers: Sequence[dict[str, Any]] = [*info["teachers"], *info.get(RELATIONS_BY, ())]
            self.corpus: Sequence[str] = info["corpus"]
            self.decoder: str = info.get("decoder", "split")  # older files do not have it
            self.alpha: float = info["alpha"]
            rows = np.load(folder / INDEX, allow_pickle=False)
            _check_index(rows, info["documents"], len(self.labels), info["bytes"][TABLES])
            self._tables = np.asarray(np.memmap(folder / TABLES, np.uint8, "r"))
        except (OSError, ValueError, KeyError, TypeError, MemoryError) as error:  # a header may name any shape
            raise UnireError(f"the soft labels in {str(folder)!r} are damaged ({error}); {RECREATE}") from None
        self.info: Mapping[str, Any] = {name: info[name] for name in info if name not in COUNTED}
        """`lessons.json` without the counts."""
        self.index: SoftLabelIndex | None = SoftLabelIndex(rows)
        self.encoders: Sequence[nn.Module] = ()
        self._rows = rows
        self._first_bytes = rows[:, 3]
        self.texts = UnlabelledCorpus(("unire", line) for line in islice(read_texts([folder / DOCUMENTS]), limit))

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        order = align_labels(student.labels, self.labels, f"soft labels {self._folder.resolve().name!r}")
        self._order = None if order == sorted(order) else torch.tensor(order, device=student.device)
        return ()

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        targets = [self._read_tables(batch, rows) for batch, rows in zip(step.views[0], step.rows, strict=True)]
        return lambda: targets

    def _read_tables(self, batch: Batch, rows: NDArray[np.int64]) -> Tensor:
        """The stored tables of a batch, `[T, N, N, |Y|]`. A table that is not stored is all zeros."""
        Y, starts = len(self.labels), self._first_bytes[rows].tolist()
        tables = np.zeros((*batch.words.shape, batch.words.shape[1], Y), np.uint8)
        for place, (row, start, table) in enumerate(zip(rows.tolist(), starts, batch.table_spans, strict=True)):
            if row >= 0:
                n = len(table)
                tables[place, :n, :n] = self._tables[start : start + n * n * Y].reshape(n, n, Y)
        return torch.from_numpy(tables)

    def distribution(self, target: Tensor) -> Tensor:
        target = normalize_cells(target)
        return target if self._order is None else target.index_select(-1, self._order)

    def examples(self, overlap_filter: OverlapFilter) -> Callable[[], list[Document]]:
        documents = formats.read(self._folder / EXAMPLES, "unire")
        clean = [document for document in documents if document.text not in overlap_filter]
        return lambda: clean

    def all_examples(self) -> list[Document]:
        """All stored examples; there may be none."""
        return list(UnlabelledCorpus(("unire", line) for line in read_texts([self._folder / EXAMPLES])))

    def chunks(self) -> Iterator[tuple[list[Document], list[TableSpan], NDArray[np.uint8]]]:
        """All documents in order, in chunks, with their tables and cells, as `SoftLabelWriter.add` takes them.

        The cells are views of the file and read-only.
        """
        source, done = Chunker(self.texts, chunk_weight), 0
        while documents := source.next_chunk(CHUNK_CHARACTERS, wait=True):
            first, end = np.searchsorted(self._rows[:, 0], [done, done + len(documents)]).tolist()
            bounds = np.append(self._first_bytes, len(self._tables))[[first, end]].tolist()
            cells = self._tables[bounds[0] : bounds[1]].reshape(-1, len(self.labels))
            yield documents, self._table_spans(documents, self._rows[first:end, :3] - (done, 0, 0)), cells
            done += len(documents)

    def _table_spans(self, documents: Sequence[Document], rows: NDArray[np.int64]) -> list[TableSpan]:
        """Rows of the index as spans, with the sentence that each table belongs to."""
        document, start, end = rows.T
        firsts = np.cumsum([0, *(len(document.sentences) for document in documents)])
        spans = np.array(
            [(k, s.start, s.start + len(s)) for k, document in enumerate(documents) for s in document.sentences],
            np.int64,
        ).reshape(-1, 3)
        # empty sentences start where the next one does: of sentences with the same start only the last has words
        places = np.searchsorted(table_keys(spans[:, 0], spans[:, 1]), table_keys(document, start), side="right") - 1
        if (places < firsts[document]).any() or (end > spans[places, 2]).any():
            raise UnireError(
                f"the soft labels in {str(self._folder)!r} are damaged ({INDEX} and {DOCUMENTS} differ); {RECREATE}"
            )
        sentence = places - firsts[document]
        return [TableSpan(*place) for place in np.column_stack([document, sentence, start, end]).tolist()]


class SoftLabelWriter:
    """Writes soft labels into an existing folder, chunk by chunk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._documents, self._tables = (
            self._files.enter_context((folder / name).open("wb")) for name in (DOCUMENTS, TABLES)
        )
        self._index: list[NDArray[np.int64]] = []
        self._digest = 0
        self.n_documents = self.n_tables = self.n_words = self.n_bytes = 0

    def __enter__(self) -> SoftLabelWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def add(self, documents: Sequence[Document], tables: Sequence[TableSpan], cells: NDArray[np.uint8]) -> None:
        """Append documents with their tables.

        Args:
            documents: The documents.
            tables: The words of each table, sorted. `tables[k].document` is an index into `documents`.
            cells: `[cells of all tables, |Y|]`
        """
        for document in documents:
            for item in native.to_json(document.bare):
                self._documents.write(dump_json(item) + b"\n")
        if tables:
            places = np.array([(table.document + self.n_documents, table.start, table.end) for table in tables])
            lengths = places[:, 2] - places[:, 1]
            sizes = lengths**2 * cells.shape[1]
            self._index.append(np.column_stack([places, self.n_bytes + sizes.cumsum() - sizes]))
            self._tables.write(cells.data)
            self._digest = crc32(cells.data, self._digest)
            self.n_words += int(lengths.sum())
        self.n_documents += len(documents)
        self.n_tables += len(tables)
        self.n_bytes += cells.size

    def finish(self, examples: Sequence[Document], info: Mapping[str, Any]) -> None:
        """Write the remaining files: documents with the predictions of each teacher, the index and `lessons.json`."""
        self._files.close()
        formats.write(examples, self._folder / EXAMPLES, "unire")
        np.save(self._folder / INDEX, np.concatenate(self._index), allow_pickle=False)
        counts = {"documents": self.n_documents, "tables": self.n_tables, "words": self.n_words}
        sizes = {name: (self._folder / name).stat().st_size for name in (DOCUMENTS, EXAMPLES, INDEX, TABLES)}
        record = {"version": VERSION, **info, **counts, "bytes": sizes, "digest": f"{self._digest:08x}"}
        (self._folder / INFO).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


@contextmanager
def write_soft_labels(folder: Path) -> Iterator[SoftLabelWriter]:
    """Write soft labels atomically: under a temporary name until they are complete. An error leaves nothing behind."""
    try:
        with replace_atomically(folder, directory=True) as temporary, SoftLabelWriter(temporary) as writer:
            yield writer
    except OSError as error:
        raise UnireError(f"the soft labels cannot be written to {str(folder)!r}: {error.strerror or error}") from None


def normalize_cells(cells: Tensor) -> Tensor:
    """Stored cells, `[…, |Y|]`, as distributions. A cell of zeros stays zero."""
    cells = cells.float()
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)  # rounded bytes do not add up to 255


def locate_cells(
    rows: NDArray[np.int64], firsts: NDArray[np.int64], lengths: NDArray[np.int64], N: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The indices of the cells of tables in a padded batch, and those in storage. Both are `[cells]`, on the device.

    Args:
        rows: The row of each table in the batch.
        firsts: The index of each table's first cell in storage.
        lengths: Words of each table.
        N: Words to which the tables of the batch are padded.
        device: The device of the cells.
    """
    sizes = lengths**2
    total = int(sizes.sum())
    numbers = copy_to_device(np.stack([rows, firsts, lengths, sizes, sizes.cumsum() - sizes]), device)
    table = segment_ids(numbers[3], total)  # [cells]
    row, first, n, _, before = numbers.index_select(1, table)
    cell = torch.arange(total, device=device) - before
    return (row * N + cell // n) * N + cell % n, first + cell


def _read_info(folder: Path) -> dict[str, Any]:
    """`lessons.json`, after checking its version and the sizes of the other files."""
    try:
        with (folder / INFO).open("rb") as opened:
            info = json.loads(read_whole(opened, str(folder / INFO)))
        version = info["version"]
    except (FileNotFoundError, NotADirectoryError):
        raise UnireError(f"there are no soft labels in {str(folder)!r}; create them with unire teach") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnireError(f"{str(folder / INFO)!r} cannot be read ({error}); {RECREATE}") from None
    if version != VERSION:
        raise UnireError(f"the soft labels in {str(folder)!r} have version {version}, not {VERSION}; {RECREATE}")
    for name in (DOCUMENTS, EXAMPLES, INDEX, TABLES):
        file = folder / name
        size, expected = file.stat().st_size if file.exists() else 0, info.get("bytes", {}).get(name)
        if size != expected:
            raise UnireError(
                f"the soft labels in {str(folder)!r} are incomplete: {name} has {size:,} bytes; {RECREATE}"
            )
    return dict(info)


def _check_index(rows: NDArray[np.int64], n_documents: int, n_labels: int, n_bytes: int) -> None:
    """Check that every table lies inside the other files. A file from elsewhere may point anywhere."""
    if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
        raise ValueError(f"{INDEX} does not hold [tables, 4] integers")
    document, start, end, first = rows.T
    sizes = (end - start) ** 2 * n_labels
    valid = (document >= 0) & (document < n_documents) & (start >= 0) & (start < end) & (end < 1 << 31)
    valid &= first == sizes.cumsum() - sizes
    if not valid.all() or sizes.sum() != n_bytes or (np.diff(table_keys(document, start)) <= 0).any():
        raise ValueError(f"{INDEX} does not fit the other files")
