"""The training set: documents, tokenized and turned into gold tables once, then shuffled and batched per epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.config import EncoderSpec
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.models.losses import IGNORED
from unire.tables import fill_sentence, list_spanning
from unire.training.config import TrainingConfig
from unire.windows.collator import Batch, Padding, bucket_groups, collate
from unire.windows.windows import WindowBuilder, WindowGroup

__all__ = ["GoldBatch", "TrainingSet", "TrainingStep"]


@dataclass(frozen=True)
class GoldBatch:
    """A batch of windows and its gold tables."""

    batch: Batch
    gold: NDArray[np.int64]
    """[T, N, N]; `IGNORED` on padding."""


@dataclass(frozen=True)
class TrainingStep:
    """The batches of one optimizer step, and the totals that its mean losses divide by."""

    batches: tuple[GoldBatch, ...]
    """The share of this process. The gradients of the batches are accumulated."""
    n_tables: int
    """Tables of the whole step, over all processes; likewise cells and words."""
    n_cells: int
    n_words: int
    idle: bool = False
    """The step has fewer groups than there are processes: this process computes a batch with weight 0."""


class TrainingSet:
    """Window groups and gold tables of the training documents.

    Args:
        documents: The training data.
        labels: Its label space.
        window_builder: Builds the windows for the encoder.
        config: Batch size, limits and seed.
        padding: How batches are padded.
        max_padding: Split a batch only if that saves more than this many padding tokens. No limit by default.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        labels: LabelSpace,
        window_builder: WindowBuilder,
        config: TrainingConfig,
        *,
        padding: Padding = "exact",
        max_padding: int | None = None,
    ) -> None:
        labels.check(documents)
        self.padding: Padding = padding
        self.max_padding = max_padding
        self.spec: EncoderSpec = window_builder.spec
        self.config = config
        self.groups: list[WindowGroup] = []
        self.notes: Counter[str] = Counter()
        """Counts of annotations that tables cannot hold, by reason, and of special cases in windows."""
        self._gold: dict[tuple[int, int], NDArray[np.unsignedinteger]] = {}
        smallest = np.min_scalar_type(len(labels))  # one byte per cell, because all tables stay in memory
        for index, document in enumerate(documents):
            self.notes.update(reason for _, reason in list_spanning(document))
            for group in window_builder.build([document], index):
                self.groups.append(group)
                self.notes.update(group.notes)
                for table in group.table_spans:
                    filled = fill_sentence(document.sentences[table.sentence], labels, table.start, table.end)
                    self._gold[table.document, table.start] = filled.labels.astype(smallest)
                    self.notes.update(reason for _, reason in filled.omitted)
        if not self.groups:
            raise UnireError("the training data holds no words; give at least one sentence")

    def steps(self, epoch: int) -> list[tuple[WindowGroup, ...]]:
        """Shuffle the groups of an epoch into steps. The same seed and epoch give the same steps."""
        order = np.random.default_rng([self.config.seed, epoch]).permutation(len(self.groups))
        steps: list[tuple[WindowGroup, ...]] = []
        current: list[WindowGroup] = []
        n_tables = 0
        for position in order:
            current.append(self.groups[position])
            n_tables += len(current[-1].table_spans)
            if n_tables >= self.config.batch_size:
                steps.append(tuple(current))
                current, n_tables = [], 0
        if current:
            steps.append(tuple(current))
        return steps

    def step(self, groups: Sequence[WindowGroup], process: int = 0, n_processes: int = 1) -> TrainingStep:
        """Collate the share of a process in a step. Every process gets at least one batch, so that all stay in sync."""
        lengths = np.array([table.end - table.start for group in groups for table in group.table_spans])
        share = groups[process::n_processes]
        return TrainingStep(
            tuple(self._batches(share or groups[:1])),
            n_tables=len(lengths),
            n_cells=int((lengths**2).sum()),
            n_words=int(lengths.sum()),
            idle=not share,
        )

    def _batches(self, groups: Sequence[WindowGroup]) -> Iterator[GoldBatch]:
        for bucket in bucket_groups(
            groups,
            max_cells=self.config.max_cells,
            max_tokens=self.config.max_pieces,
            max_padding=self.max_padding,
            padding=self.padding,
        ):
            batch = collate(bucket, self.spec, padding=self.padding)
            T, N = batch.words.shape
            gold = np.full((T, N, N), IGNORED, dtype=np.int64)
            for row, table in enumerate(batch.table_spans):
                n = table.end - table.start
                gold[row, :n, :n] = self._gold[table.document, table.start]
            yield GoldBatch(batch, gold)
