"""Unlabelled text as batches for distillation, prepared by worker processes."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from unire.documents import Document
from unire.errors import UnireError
from unire.tables import TableSpan
from unire.training.callbacks import SIGNALS
from unire.training.config import TrainingConfig
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.windows.collator import Batch, Padding, bucket_groups, collate
from unire.windows.windows import WindowBuilder

__all__ = ["Chunk", "DistillationBatch", "DistillationBatches", "SoftLabelIndex", "table_keys"]

CHUNK_DOCUMENTS = 512
"""Documents that one worker turns into steps at a time. Inside a chunk, documents are grouped by length."""
PARENT_SECONDS = 2
"""How often a worker looks whether the training process is alive."""
LEAK = "unlabelled document with text of dev or test, left out"
SPLIT_DIFFERENTLY = "unlabelled sentence that teacher and student split differently, skipped"


class SoftLabelIndex:
    """Finds the stored table of a sentence. Tables are sorted by document and word.

    Args:
        rows: `[tables, 4]`, as in `index.npy`.
    """

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self._keys = table_keys(rows[:, 0], rows[:, 1])
        self._ends = rows[:, 2]

    def find(self, positions: NDArray[np.int64], tables: Sequence[TableSpan]) -> NDArray[np.int64]:
        """`[T]`: the row of each table in the index, or −1.

        Args:
            positions: The position in the corpus of each document.
            tables: `tables[t].document` is an index into `positions`.
        """
        wanted = np.array([(table.document, table.start, table.end) for table in tables])
        keys = table_keys(positions[wanted[:, 0]], wanted[:, 1])
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where((self._keys[rows] == keys) & (self._ends[rows] == wanted[:, 2]), rows, -1)


def table_keys(document: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort keys of tables: by document, then by first word."""
    return (document << 32) + start


@dataclass(frozen=True)
class DistillationBatch:
    """The unlabelled documents of one optimiser step, as the student and the teachers read them."""

    views: tuple[tuple[Batch, ...], ...]
    """The batches of each window layout. The first view is the student's."""
    places: tuple[tuple[NDArray[np.int64], ...], ...]
    """For each view and each of the student's batches: `[T, 2]`, the view's batch and row that hold the same table."""
    rows: tuple[NDArray[np.int64], ...]
    """For each of the student's batches: `[T]`, the stored row of each table. Empty without stored soft labels."""
    kept: tuple[NDArray[np.bool_], ...]
    """For each of the student's batches: `[T]`, whether all views and the stored soft labels have the table."""
    n_tables: int
    """Tables that are kept. `n_cells` and `n_words` count only these."""
    n_cells: int
    n_words: int

    @classmethod
    def from_views(cls, views: Sequence[Sequence[Batch]], rows: Sequence[NDArray[np.int64]] = ()) -> DistillationBatch:
        student = views[0]
        places = []
        for batches in views:
            at = {table: (k, row) for k, batch in enumerate(batches) for row, table in enumerate(batch.table_spans)}
            places.append(
                tuple(np.array([at.get(table, (-1, -1)) for table in batch.table_spans]) for batch in student)
            )
        found = [*([place[:, 0] for place in view] for view in places), *([rows] if rows else [])]
        kept = tuple(np.all([where[b] >= 0 for where in found], axis=0) for b in range(len(student)))
        lengths = np.concatenate([batch.lengths[: len(mask)][mask] for batch, mask in zip(student, kept, strict=True)])
        return cls(
            tuple(map(tuple, views)),
            tuple(places),
            tuple(rows),
            kept,
            n_tables=len(lengths),
            n_cells=int((lengths**2).sum()),
            n_words=int(lengths.sum()),
        )


@dataclass(frozen=True)
class Chunk:
    """The steps that a worker prepares at a time."""

    steps: tuple[DistillationBatch, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)
    """Counts of skipped or truncated text. Only the first pass over the corpus has them."""
    error: str | None = None
    """An error in the text, as a sentence. An exception would carry the traceback of the worker."""


class DistillationBatches(Dataset[Chunk]):
    """An endless sequence of chunks. It depends only on the seed.

    Every pass over the documents has a new random order.

    Args:
        texts: The documents.
        window_builders: The different window layouts. The first is the student's.
        overlap_filter: Skips documents that contain text of dev or test.
        size: Sentences per step. A step takes whole documents until it has this many.
        config: Limits of a batch, and the seed.
        padding: The padding policy of batches.
        max_padding: Split a batch only if that saves more than this many padding tokens. No limit by default.
        index: Of stored soft labels. Tables that it does not have are skipped.
    """

    def __init__(
        self,
        texts: UnlabelledCorpus,
        window_builders: Sequence[WindowBuilder],
        *,
        overlap_filter: OverlapFilter,
        size: int,
        config: TrainingConfig,
        padding: Padding = "exact",
        max_padding: int | None = None,
        index: SoftLabelIndex | None = None,
    ) -> None:
        self.texts = texts
        self.padding: Padding = padding
        self.max_padding = max_padding
        self.window_builders = window_builders
        self.overlap_filter = overlap_filter
        self.size = size
        self.config = config
        self.index = index

    def __len__(self) -> int:
        """Chunks per pass over the corpus."""
        return -(-len(self.texts) // CHUNK_DOCUMENTS)

    def __getitem__(self, number: int) -> Chunk:
        repeat, part = divmod(number, len(self))
        order = np.random.default_rng([self.config.seed, repeat]).permutation(len(self.texts))
        notes: Counter[str] = Counter()
        documents: list[tuple[int, Document]] = []
        try:
            for position in order[part * CHUNK_DOCUMENTS : (part + 1) * CHUNK_DOCUMENTS].tolist():
                document = self.texts[position]
                if document.text in self.overlap_filter:
                    notes[LEAK] += 1
                else:
                    documents.append((position, document))
        except UnireError as error:
            return Chunk(error=str(error))
        steps = [self._step(group, notes) for group in self._groups(documents)]
        steps = [steps[place] for place in np.random.default_rng([self.config.seed, number]).permutation(len(steps))]
        return Chunk(tuple(step for step in steps if step.n_tables), notes if repeat == 0 else Counter())

    def steps(
        self, chunk: int, position: int, *, process: int, n_processes: int, workers: int
    ) -> Generator[tuple[DistillationBatch, list[int], Counter[str]]]:
        """Yield the steps of one process, each with the position after it and the notes on skipped text.

        Args:
            chunk: Chunks that this process has finished.
            position: Steps of the current chunk that are done.
            process: Rank of this process. Every process reads its own chunks.
            n_processes: Number of training processes.
            workers: Worker processes that prepare chunks in advance; 0 prepares them in this process.
        """
        loader: DataLoader[Chunk] = DataLoader(
            self,
            batch_size=None,
            sampler=itertools.count(process + chunk * n_processes, n_processes),
            num_workers=workers,
            generator=torch.Generator(),  # leave the global generator to the training
            worker_init_fn=_start_worker,
        )
        empty = 0
        notes: Counter[str] = Counter()  # notes of chunks without steps are passed on with the next step
        for number, current in enumerate(loader, start=chunk):
            if current.error:
                raise UnireError(current.error)
            empty = 0 if current.steps else empty + 1
            if empty >= len(self):
                raise UnireError("no document of the corpus has words that are not of dev or test; use another corpus")
            if position == 0:
                notes += current.notes
            for place, step in enumerate(current.steps[position:], start=position):
                yield step, [number, place + 1], notes
                notes = Counter()
            position = 0

    def _groups(self, documents: list[tuple[int, Document]]) -> Iterator[list[tuple[int, Document]]]:
        """Group documents of similar length into steps of `size` sentences or slightly more."""
        group: list[tuple[int, Document]] = []
        count = 0
        for position, document in sorted(documents, key=lambda item: item[1].n_words):
            group.append((position, document))
            count += sum(len(sentence) > 0 for sentence in document.sentences)
            if count >= self.size:
                yield group
                group, count = [], 0
        if count:
            yield group

    def _step(self, group: Sequence[tuple[int, Document]], notes: Counter[str]) -> DistillationBatch:
        positions, documents = np.array([position for position, _ in group]), [document for _, document in group]
        views = []
        for window_builder in self.window_builders:
            passages = window_builder.build(documents)
            if window_builder is self.window_builders[0]:
                for passage in passages:
                    notes.update(passage.notes)
            batches = bucket_groups(
                passages,
                max_cells=self.config.max_cells,
                max_tokens=self.config.max_pieces,
                max_padding=self.max_padding,
                padding=self.padding,
            )
            views.append([collate(batch, window_builder.spec, padding=self.padding) for batch in batches])
        index = self.index
        rows = [] if index is None else [index.find(positions, batch.table_spans) for batch in views[0]]
        step = DistillationBatch.from_views(views, rows)
        notes[SPLIT_DIFFERENTLY] += sum(int((~mask).sum()) for mask in step.kept)
        return step


def _start_worker(worker: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # avoids oversubscription, and a warning about forking
    for number in SIGNALS:  # sent to the whole process group; the training process handles them and ends its workers
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process soon after the training process, which may have been killed. Its full queue keeps it alive."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)
