"""Unlabelled text as optimiser steps: read, segmented, laid out for every tokenizer, made ahead in processes."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from unire import formats
from unire.documents import Document
from unire.exceptions import UnireError
from unire.extractor import notes_of
from unire.formats import dygie, native
from unire.segment import segment
from unire.training.config import TrainingConfig
from unire.training.corpus import HeldOut, read_documents
from unire.training.interrupt import SIGNALS
from unire.windows import Batch, Rounded, Windower, collate, in_batches

__all__ = ["Chunk", "SoftStep", "Unlabelled"]

CHUNK = 512
"""Documents that one process makes into steps at a time; those of like length go together."""
ANNOTATED = (".json", ".jsonl")
"""How files end that hold documents in one of our formats; others are plain text, a document per line."""
LINES = {"unire": native.from_json, "dygie": dygie.from_json}
"""Formats with a document a line, which is made into one where it is needed; others are read first."""
LEAK = "unlabelled document with text of dev or test, left out"
PARTED = "unlabelled sentence that teacher and student split otherwise, left out"


@dataclass(frozen=True)
class SoftStep:
    """Some documents as the student reads them, and as the teachers do."""

    views: tuple[tuple[Batch, ...], ...]
    """The batches of each way to lay the documents out; the first is the student's."""
    places: tuple[tuple[NDArray[np.int64], ...], ...]
    """For each view and batch of the student's: `[T, 2]`, the view's batch and row that hold the same table."""
    kept: tuple[NDArray[np.bool_], ...]
    """For each batch of the student's: `[T]`, whether all views have the table."""
    n_tables: int
    """Tables that are kept, and their cells and words."""
    n_cells: int
    n_words: int

    @classmethod
    def of(cls, views: Sequence[Sequence[Batch]]) -> SoftStep:
        student = views[0]
        places = []
        for batches in views:
            at = {table: (k, row) for k, batch in enumerate(batches) for row, table in enumerate(batch.tables)}
            places.append(tuple(np.array([at.get(table, (-1, -1)) for table in batch.tables]) for batch in student))
        kept = tuple(np.all([found[b][:, 0] >= 0 for found in places], axis=0) for b in range(len(student)))
        lengths = np.concatenate([batch.lengths[: len(mask)][mask] for batch, mask in zip(student, kept, strict=True)])
        return cls(
            tuple(map(tuple, views)),
            tuple(places),
            kept,
            n_tables=len(lengths),
            n_cells=int((lengths**2).sum()),
            n_words=int(lengths.sum()),
        )


@dataclass(frozen=True)
class Chunk:
    """The steps that a process makes at a time."""

    steps: tuple[SoftStep, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)
    """What was left out or needed special care; only on the first pass over the text."""
    error: str | None = None
    """What was wrong with the text, in a sentence: an exception would bring the traceback of its process along."""


class Unlabelled(Dataset[Chunk]):
    """An endless sequence of chunks; every chunk is the same in every run with the same seed.

    Documents are held as they are read, lines of text or of JSON, and only segmented when it is their turn. Every
    pass over them has another order.

    Args:
        files: Plain text, a document per line (`.gz`, `.xz` and `.bz2` are unpacked); or documents in one of our
            formats (`.json`, `.jsonl`), whose annotation is not looked at.
        windowers: The different ways to lay documents out; the first is the student's.
        held_out: What is left out.
        limit: Take so many documents from the start of the files; `None` for all.
        size: Sentences of a step: whole documents, until there are so many.
        config: Bounds of a batch, and the seed.
        rounded: What of a batch is padded more than it must be, so that many have the same shape.
    """

    def __init__(
        self,
        files: Sequence[Path],
        windowers: Sequence[Windower],
        *,
        held_out: HeldOut,
        limit: int | None,
        size: int,
        config: TrainingConfig,
        rounded: Rounded = "not",
    ) -> None:
        self.rounded = rounded
        self.windowers = windowers
        self.held_out = held_out
        self.size = size
        self.config = config
        self._items = list(itertools.islice(_items(files), limit))
        if not self._items:
            raise UnireError(f"there is no text in {', '.join(repr(str(file)) for file in files)}")

    @property
    def n_documents(self) -> int:
        return len(self._items)

    def some(self, sentences: int) -> list[Document]:
        """Some of the first documents, of so many sentences at most."""
        documents: list[Document] = []
        for position in range(min(CHUNK, len(self._items))):
            document = self._document(position)
            if document.text not in self.held_out and len(document.sentences) <= sentences:
                documents.append(document)
                sentences -= len(document.sentences)
        return documents

    def __len__(self) -> int:
        """Chunks of one pass."""
        return -(-len(self._items) // CHUNK)

    def __getitem__(self, number: int) -> Chunk:
        repeat, part = divmod(number, len(self))
        order = np.random.default_rng([self.config.seed, repeat]).permutation(len(self._items))
        notes: Counter[str] = Counter()
        documents = []
        try:
            for position in order[part * CHUNK : (part + 1) * CHUNK]:
                document = self._document(position)
                if document.text in self.held_out:
                    notes[LEAK] += 1
                else:
                    documents.append(document)
        except UnireError as error:
            return Chunk(error=str(error))
        steps = [self._step(group, notes) for group in self._groups(documents)]
        steps = [steps[place] for place in np.random.default_rng([self.config.seed, number]).permutation(len(steps))]
        return Chunk(tuple(step for step in steps if step.n_tables), notes if repeat == 0 else Counter())

    def steps(
        self, chunk: int, position: int, *, process: int, n_processes: int, workers: int
    ) -> Generator[tuple[SoftStep, list[int], Counter[str]]]:
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
        for number, made in enumerate(loader, start=chunk):
            if made.error:
                raise UnireError(made.error)
            empty = 0 if made.steps else empty + 1
            if empty >= len(self):
                raise UnireError("no document of the corpus has words that are not of dev or test; give other text")
            for place, step in enumerate(made.steps[position:], start=position):
                yield step, [number, place + 1], made.notes if place == 0 else Counter()
            position = 0

    def _document(self, position: int) -> Document:
        try:
            return _document(*self._items[position])
        except UnireError as error:
            raise UnireError(f"document {position + 1} of the corpus: {error}") from None

    def _groups(self, documents: list[Document]) -> Iterator[list[Document]]:
        """Documents of like length, of `size` sentences or a few more."""
        group: list[Document] = []
        count = 0
        for document in sorted(documents, key=lambda document: document.n_words):
            group.append(document)
            count += sum(len(sentence) > 0 for sentence in document.sentences)
            if count >= self.size:
                yield group
                group, count = [], 0
        if count:
            yield group

    def _step(self, documents: Sequence[Document], notes: Counter[str]) -> SoftStep:
        views = []
        for windower in self.windowers:
            passages = windower.passages_of(documents)
            if windower is self.windowers[0]:
                for passage in passages:
                    notes.update(notes_of(passage))
            groups = in_batches(passages, max_cells=self.config.max_cells, max_pieces=self.config.max_pieces)
            views.append([collate(group, windower.spec, rounded=self.rounded) for group in groups])
        step = SoftStep.of(views)
        notes[PARTED] += sum(int((~mask).sum()) for mask in step.kept)
        return step


def _items(files: Sequence[Path]) -> Iterator[tuple[str | None, str]]:
    """Lines of text, and lines of JSON with the name of their format."""
    for file in files:
        if file.suffix not in ANNOTATED:
            yield from ((None, line) for line in read_documents([file]))
        elif (name := formats.guess(file)) in LINES:
            yield from ((name, line) for line in read_documents([file]))
        else:
            for document in formats.read(file, name):
                yield from (("unire", json.dumps(item)) for item in native.to_json(document))


def _document(format: str | None, line: str) -> Document:
    if format is None:
        return segment(line)
    try:
        return LINES[format](json.loads(line), 0)
    except ValueError as error:
        raise UnireError(f"not valid JSON: {error}") from None


def _start_worker(number: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are enough processes; and without it, forking is warned of
    for sent_to_all in SIGNALS:  # the training answers, and ends its workers by itself
        signal.signal(sent_to_all, signal.SIG_IGN)
