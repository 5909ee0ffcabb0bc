"""Lessons: what teachers say of a text, stored once, and learnt from by any number of students.

`unire teach` makes a folder of them:

    lessons.json     labels, teachers, names of the corpus, counts, how large the other files are, a digest of tables;
                     who has named the relations, where others than the teachers have
    documents.jsonl  the text, segmented, in our own format
    examples.jsonl   a little of it, with what each teacher finds
    index.npy        [tables, 4]: a table's document, first word, end, and first byte in the next file
    tables.bin       the teachers' mean P of every table, n·n·|Y| bytes each: p · 255, rounded
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
from unire.formats.json_utils import spelt
from unire.inference.streaming import count_characters
from unire.labels import LabelSpace
from unire.models.cuda_graphs import GraphRunner
from unire.models.unire import UniRE
from unire.prefetch import Chunker
from unire.training.distillation.teachers import same_labels
from unire.training.distillation.unlabelled import DistillationBatch, SoftLabelShelf
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus, read_documents
from unire.utils import copy_to_device
from unire.windows.collator import Batch
from unire.windows.spans import TableSpan
from unire.windows.windows import WindowBuilder

__all__ = [
    "CHUNK",
    "WHOLE",
    "SoftLabelIndex",
    "SoftLabelStore",
    "SoftLabelWriter",
    "distributions",
    "padded",
    "writing",
]

VERSION = 1
FACTS, DOCUMENTS, EXAMPLES, INDEX, TABLES = (
    "lessons.json", "documents.jsonl", "examples.jsonl", "index.npy", "tables.bin",
)  # fmt: skip
WHOLE = 255
"""What a probability of 1 is stored as."""
CHUNK = 2**20
"""Characters of the documents that are batched together; their tables are in memory at once."""
AGAIN = "make the lessons again with unire teach"
RELATIONS_BY = "relations_by"
"""What says in `lessons.json` who has named the relations, in the form of teachers."""
COUNTED = ("version", "documents", "tables", "words", "bytes", "digest")
"""What a `Writer` adds to the facts that it is given."""


class SoftLabelIndex:
    """Where the tables of which sentences are, sorted by document and word.

    Args:
        rows: `[tables, 4]`, as in the file.
    """

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self._keys = _key(rows[:, 0], rows[:, 1])
        self._ends = rows[:, 2]

    def rows(self, positions: NDArray[np.int64], tables: Sequence[TableSpan]) -> NDArray[np.int64]:
        """`[T]`: which table each is, or −1; `positions[k]` is where the document `k` of a table is in the corpus."""
        wanted = np.array([(table.document, table.start, table.end) for table in tables])
        keys = _key(positions[wanted[:, 0]], wanted[:, 1])
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where((self._keys[rows] == keys) & (self._ends[rows] == wanted[:, 2]), rows, -1)


class SoftLabelStore:
    """Lessons that are read while a student learns. A `Tutor`.

    Args:
        folder: Where they are.
        limit: Take so many documents from the start; `None` for all.

    Raises:
        UnireError: There are none, they are not whole, or they were made for another version.
    """

    def __init__(self, folder: str | Path, limit: int | None = None) -> None:
        self._folder = folder = Path(folder)
        facts = _facts(folder)
        try:
            self.lessons: str | None = facts["digest"]
            self.labels = LabelSpace.from_dict(facts["labels"])
            self.teachers: Sequence[dict[str, Any]] = [*facts["teachers"], *facts.get(RELATIONS_BY, ())]
            self.corpus: Sequence[str] = facts["corpus"]
            self.decoder: str = facts.get("decoder", "split")  # older lessons do not say
            self.alpha: float = facts["alpha"]
            rows = np.load(folder / INDEX, allow_pickle=False)
            _check_index(rows, facts["documents"], len(self.labels), facts["bytes"][TABLES])
            self._tables = np.asarray(np.memmap(folder / TABLES, np.uint8, "r"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnireError(f"the lessons in {str(folder)!r} are damaged ({error}); {AGAIN}") from None
        self.about: Mapping[str, Any] = {name: facts[name] for name in facts if name not in COUNTED}
        """What `lessons.json` says beside what is counted."""
        self.shelf: SoftLabelShelf | None = SoftLabelIndex(rows)
        self.encoders: Sequence[nn.Module] = ()
        self._rows = rows
        self._first_bytes = rows[:, 3]
        self.texts = UnlabelledCorpus(("unire", line) for line in islice(read_documents([folder / DOCUMENTS]), limit))

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        order = same_labels(student.labels, self.labels, f"lessons {self._folder.resolve().name!r}")
        self._order = None if order == sorted(order) else torch.tensor(order, device=student.device)
        return ()

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        found = [self._gathered(batch, rows) for batch, rows in zip(step.views[0], step.rows, strict=True)]
        return lambda: found

    def _gathered(self, batch: Batch, rows: NDArray[np.int64]) -> Tensor:
        """The tables of a batch as they are stored, `[T, N, N, |Y|]`; one that is not there has no labels at all."""
        Y, starts = len(self.labels), self._first_bytes[rows].tolist()
        found = np.zeros((*batch.words.shape, batch.words.shape[1], Y), np.uint8)
        for place, (row, start, table) in enumerate(zip(rows.tolist(), starts, batch.tables, strict=True)):
            if row >= 0:
                n = len(table)
                found[place, :n, :n] = self._tables[start : start + n * n * Y].reshape(n, n, Y)
        return torch.from_numpy(found)

    def distribution(self, target: Tensor) -> Tensor:
        target = distributions(target)
        return target if self._order is None else target.index_select(-1, self._order)

    def examples(self, held_out: OverlapFilter) -> Callable[[], list[Document]]:
        found = formats.read(self._folder / EXAMPLES, "unire")
        some = [document for document in found if document.text not in held_out]
        return lambda: some

    def all_examples(self) -> list[Document]:
        """All that is stored of them, which may be nothing."""
        return list(UnlabelledCorpus(("unire", line) for line in read_documents([self._folder / EXAMPLES])))

    def parts(self) -> Iterator[tuple[list[Document], list[TableSpan], NDArray[np.uint8]]]:
        """All documents in order, some at a time, with their tables and the cells of these: as a `Writer` takes them.

        The cells are those of the file, and cannot be written to.
        """
        source, done = Chunker(self.texts, count_characters), 0
        while some := source.take(CHUNK, wait=True):
            first, end = np.searchsorted(self._rows[:, 0], [done, done + len(some)]).tolist()
            bounds = np.append(self._first_bytes, len(self._tables))[[first, end]].tolist()
            cells = self._tables[bounds[0] : bounds[1]].reshape(-1, len(self.labels))
            yield some, self._stretches(some, self._rows[first:end, :3] - (done, 0, 0)), cells
            done += len(some)

    def _stretches(self, documents: Sequence[Document], rows: NDArray[np.int64]) -> list[TableSpan]:
        """Tables with the sentences that they are of, or of parts of which."""
        document, start, end = rows.T
        firsts = np.cumsum([0, *(len(document.sentences) for document in documents)])
        spans = np.array(
            [(k, s.start, s.start + len(s)) for k, document in enumerate(documents) for s in document.sentences],
            np.int64,
        ).reshape(-1, 3)
        # of sentences that begin together the last alone has words
        places = np.searchsorted(_key(spans[:, 0], spans[:, 1]), _key(document, start), side="right") - 1
        if (places < firsts[document]).any() or (end > spans[places, 2]).any():
            raise UnireError(
                f"the lessons in {str(self._folder)!r} are damaged ({INDEX} and {DOCUMENTS} differ); {AGAIN}"
            )
        sentence = places - firsts[document]
        return [TableSpan(*place) for place in np.column_stack([document, sentence, start, end]).tolist()]


class SoftLabelWriter:
    """Writes lessons, some documents at a time, into a folder that is there."""

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
        """Add documents with their tables.

        Args:
            documents: The documents.
            tables: Which words each table is of, sorted; `tables[k].document` is a position in `documents`.
            cells: `[cells of all tables, |Y|]`
        """
        for document in documents:
            for item in native.to_json(document.bare):
                self._documents.write(spelt(item) + b"\n")
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

    def finish(self, examples: Sequence[Document], facts: Mapping[str, Any]) -> None:
        """Write all that is left: some documents with what each teacher finds in them, and `lessons.json`."""
        self._files.close()
        formats.write(examples, self._folder / EXAMPLES, "unire")
        np.save(self._folder / INDEX, np.concatenate(self._index), allow_pickle=False)
        counts = {"documents": self.n_documents, "tables": self.n_tables, "words": self.n_words}
        sizes = {name: (self._folder / name).stat().st_size for name in (DOCUMENTS, EXAMPLES, INDEX, TABLES)}
        record = {"version": VERSION, **facts, **counts, "bytes": sizes, "digest": f"{self._digest:08x}"}
        (self._folder / FACTS).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def distributions(cells: Tensor) -> Tensor:
    """Stored cells, `[…, |Y|]`, as a distribution each; one that holds nothing has no labels at all."""
    cells = cells.float()
    return cells / cells.sum(-1, keepdim=True).clamp(min=1)  # what was rounded does not add up to 255


def padded(
    rows: NDArray[np.int64], firsts: NDArray[np.int64], lengths: NDArray[np.int64], N: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Where the cells of tables are in a padded batch, and where they are stored; both `[cells]`, on a device.

    Args:
        rows: Rows of the tables in a batch.
        firsts: The first cell of each as it is stored.
        lengths: Words of each.
        N: Words that the tables of the batch are padded to.
        device: Where cells are to be moved.
    """
    sizes = lengths**2
    total = int(sizes.sum())
    numbers = copy_to_device(np.stack([rows, firsts, lengths, sizes, sizes.cumsum() - sizes]), device)
    table = segment_ids(numbers[3], total)  # [cells]
    row, first, n, _, before = numbers.index_select(1, table)
    cell = torch.arange(total, device=device) - before
    return (row * N + cell // n) * N + cell % n, first + cell


@contextmanager
def writing(folder: Path) -> Iterator[SoftLabelWriter]:
    """Writes lessons, under a temporary name until they are whole; if it fails, nothing is left of them."""
    try:
        with replace_atomically(folder, directory=True) as temporary, SoftLabelWriter(temporary) as writer:
            yield writer
    except OSError as error:
        raise UnireError(f"the lessons cannot be written to {str(folder)!r}: {error.strerror or error}") from None


def _key(document: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    return (document << 32) + start


def _facts(folder: Path) -> dict[str, Any]:
    """What `lessons.json` says, if it is of lessons that are whole and that we can read."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        version = facts["version"]
    except (FileNotFoundError, NotADirectoryError):
        raise UnireError(f"there are no lessons in {str(folder)!r}; make some with unire teach") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnireError(f"{str(folder / FACTS)!r} cannot be read ({error}); {AGAIN}") from None
    if version != VERSION:
        raise UnireError(f"the lessons in {str(folder)!r} are of version {version}, not {VERSION}; {AGAIN}")
    for name in (DOCUMENTS, EXAMPLES, INDEX, TABLES):
        file = folder / name
        size, right = file.stat().st_size if file.exists() else 0, facts.get("bytes", {}).get(name)
        if size != right:
            raise UnireError(f"the lessons in {str(folder)!r} are not whole: {name} has {size:,} bytes; {AGAIN}")
    return dict(facts)


def _check_index(rows: NDArray[np.int64], n_documents: int, n_labels: int, n_bytes: int) -> None:
    """Look whether every table is where it may be: what is not ours may point anywhere."""
    if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
        raise ValueError(f"{INDEX} holds something else")
    document, start, end, first = rows.T
    sizes = (end - start) ** 2 * n_labels
    right = (document >= 0) & (document < n_documents) & (start >= 0) & (start < end) & (end < 1 << 31)
    right &= first == sizes.cumsum() - sizes
    if not right.all() or sizes.sum() != n_bytes or (np.diff(_key(document, start)) <= 0).any():
        raise ValueError(f"{INDEX} does not fit the other files")
