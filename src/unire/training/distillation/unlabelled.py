"""Unlabelled text as optimiser steps: segmented, laid out for every tokenizer, made ahead in processes."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import notes_of
from unire.training.callbacks import SIGNALS
from unire.training.config import TrainingConfig
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.windows.collator import Batch, Padding, bucket_batches, collate
from unire.windows.spans import TableSpan
from unire.windows.windows import WindowBuilder

__all__ = ["Chunk", "DistillationBatch", "DistillationBatches", "SoftLabelShelf"]

CHUNK = 512
"""Documents that one process makes into steps at a time; those of like length go together."""
LEAK = "unlabelled document with text of dev or test, left out"
PARTED = "unlabelled sentence that teacher and student split otherwise, left out"


class SoftLabelShelf(Protocol):
    """Where tables may be found that teachers have filled before."""

    def rows(self, positions: NDArray[np.int64], tables: Sequence[TableSpan]) -> NDArray[np.int64]:
        """`[T]`: where each table is, or −1; `positions[k]` is where the document `k` of a table is in the corpus."""


@dataclass(frozen=True)
class DistillationBatch:
    """Some documents as the student reads them, and as the teachers do or did."""

    views: tuple[tuple[Batch, ...], ...]
    """The batches of each way to lay the documents out; the first is the student's."""
    places: tuple[tuple[NDArray[np.int64], ...], ...]
    """For each view and batch of the student's: `[T, 2]`, the view's batch and row that hold the same table."""
    rows: tuple[NDArray[np.int64], ...]
    """For each batch of the student's: `[T]`, where on the shelf the same table is; nothing where there is no shelf."""
    kept: tuple[NDArray[np.bool_], ...]
    """For each batch of the student's: `[T]`, whether all views, and the shelf, have the table."""
    n_tables: int
    """Tables that are kept, and their cells and words."""
    n_cells: int
    n_words: int

    @classmethod
    def of(cls, views: Sequence[Sequence[Batch]], rows: Sequence[NDArray[np.int64]] = ()) -> DistillationBatch:
        student = views[0]
        places = []
        for batches in views:
            at = {table: (k, row) for k, batch in enumerate(batches) for row, table in enumerate(batch.tables)}
            places.append(tuple(np.array([at.get(table, (-1, -1)) for table in batch.tables]) for batch in student))
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
    """The steps that a process makes at a time."""

    steps: tuple[DistillationBatch, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)
    """What was left out or needed special care; only on the first pass over the text."""
    error: str | None = None
    """What was wrong with the text, in a sentence: an exception would bring the traceback of its process along."""


class DistillationBatches(Dataset[Chunk]):
    """An endless sequence of chunks; every chunk is the same in every run with the same seed.

    Every pass over the documents has another order.

    Args:
        texts: The documents.
        window_builders: The different ways to lay documents out; the first is the student's.
        held_out: What is left out.
        size: Sentences of a step: whole documents, until there are so many.
        config: Bounds of a batch, and the seed.
        padding: What of a batch is padded more than it must be, so that many have the same shape.
        max_padding: As many tokens more of padding are better than a batch more; any number when left out.
        shelf: Where every table that is learnt from must be found.
    """

    def __init__(
        self,
        texts: UnlabelledCorpus,
        window_builders: Sequence[WindowBuilder],
        *,
        held_out: OverlapFilter,
        size: int,
        config: TrainingConfig,
        padding: Padding = "exact",
        max_padding: int | None = None,
        shelf: SoftLabelShelf | None = None,
    ) -> None:
        self.texts = texts
        self.padding: Padding = padding
        self.max_padding = max_padding
        self.window_builders = window_builders
        self.held_out = held_out
        self.size = size
        self.config = config
        self.shelf = shelf

    def __len__(self) -> int:
        """Chunks of one pass."""
        return -(-len(self.texts) // CHUNK)

    def __getitem__(self, number: int) -> Chunk:
        repeat, part = divmod(number, len(self))
        order = np.random.default_rng([self.config.seed, repeat]).permutation(len(self.texts))
        notes: Counter[str] = Counter()
        documents: list[tuple[int, Document]] = []
        try:
            for position in order[part * CHUNK : (part + 1) * CHUNK].tolist():
                document = self.texts[position]
                if document.text in self.held_out:
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
        """The steps of one process from a place on, each with the place after it and what is to be noted.

        Args:
            chunk: Chunks of this process that are over.
            position: Steps of the present chunk that are over.
            process: Number of this process; every process reads chunks of its own.
            n_processes: How many there are.
            workers: Processes that make chunks ahead; 0 to make them here and now.
        """
        loader: DataLoader[Chunk] = DataLoader(
            self,
            batch_size=None,
            sampler=itertools.count(process + chunk * n_processes, n_processes),
            num_workers=workers,
            generator=torch.Generator(),  # the global one belongs to the training
            worker_init_fn=_start_worker,
        )
        empty = 0
        notes: Counter[str] = Counter()  # of chunks without steps too: they wait for the next step that there is
        for number, made in enumerate(loader, start=chunk):
            if made.error:
                raise UnireError(made.error)
            empty = 0 if made.steps else empty + 1
            if empty >= len(self):
                raise UnireError("no document of the corpus has words that are not of dev or test; give other text")
            if position == 0:
                notes += made.notes
            for place, step in enumerate(made.steps[position:], start=position):
                yield step, [number, place + 1], notes
                notes = Counter()
            position = 0

    def _groups(self, documents: list[tuple[int, Document]]) -> Iterator[list[tuple[int, Document]]]:
        """Documents of like length, of `size` sentences or a few more, each with its position."""
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
                    notes.update(notes_of(passage))
            batches = bucket_batches(
                passages,
                max_cells=self.config.max_cells,
                max_tokens=self.config.max_pieces,
                max_padding=self.max_padding,
                padding=self.padding,
            )
            views.append([collate(batch, window_builder.spec, padding=self.padding) for batch in batches])
        shelf = self.shelf
        step = DistillationBatch.of(
            views, [] if shelf is None else [shelf.rows(positions, batch.tables) for batch in views[0]]
        )
        notes[PARTED] += sum(int((~mask).sum()) for mask in step.kept)
        return step


def _start_worker(number: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are enough processes; and without it, forking is warned of
    for sent_to_all in SIGNALS:  # the training answers, and ends its workers by itself
        signal.signal(sent_to_all, signal.SIG_IGN)
