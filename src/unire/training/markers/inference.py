"""Running marker models: batches of similar length, prepared in advance, and relations between given entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unire.documents import Document, Entity, Relation
from unire.inference.streaming import Prefetcher
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.models.batch import Tensors
from unire.training.markers.data import (
    MarkerRow,
    SentenceReader,
    TokenizedSentence,
    build_rows,
    collate_rows,
    distinct_entities,
)
from unire.training.markers.model import MarkerEnsemble, MarkerModel
from unire.utils import pin_memory
from unire.windows.collator import MAX_SLICE_TOKENS
from unire.windows.spans import TableSpan

__all__ = [
    "PairScores",
    "RelationClassifier",
    "all_probabilities",
    "batch_by_length",
    "best_class",
    "iter_chunks",
    "max_batch_tokens",
    "pin_tensors",
    "predict_batches",
    "shuffle_into_steps",
    "tensors_to_device",
]

T = TypeVar("T")
Result = TypeVar("Result", bound=tuple[Tensor, ...])

POOL_ITEMS = 2048
"""Items that are sorted by length together. The order between pools and between steps is random."""
CHUNK_SENTENCES = 1024
"""Sentences whose batches are prepared while those of the previous chunk are computed. Large chunks allow batches of
similar length: with a quarter of this, half of the tokens of marker models would be padding."""


def shuffle_into_steps(
    lengths: Sequence[int], weights: Sequence[int], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Distribute the items of an epoch to steps. A step is filled until its weight is `size` or more."""
    order = rng.permutation(len(lengths)).tolist()
    steps: list[list[int]] = []
    for start in range(0, len(order), POOL_ITEMS):
        weight = size
        for item in sorted(order[start : start + POOL_ITEMS], key=lengths.__getitem__):
            if weight >= size:
                steps.append([])
                weight = 0
            steps[-1].append(item)
            weight += weights[item]
    return [steps[place] for place in rng.permutation(len(steps))]


def batch_by_length(items: Sequence[int], lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Batches of items, longest first, with at most `max_tokens` padded tokens. A longer item has its own batch."""
    batch: list[int] = []
    for item in sorted(items, key=lengths.__getitem__, reverse=True):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def max_batch_tokens(model: Any) -> int:
    """Padded tokens of a batch: the same limit as for the encoder of a table model on this device."""
    return min(MAX_SLICE_TOKENS, TorchEngine.max_batch_tokens(model.device, model.encoder.config.hidden_size))


def pin_tensors(tensors: Tensors, device: torch.device) -> Tensors:
    """Copy tensors to pinned memory if the device is a GPU, so that later copies are asynchronous."""
    return {name: pin_memory(tensor) for name, tensor in tensors.items()} if device.type == "cuda" else tensors


def tensors_to_device(tensors: Tensors, device: torch.device) -> Tensors:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


def best_class(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely class, and its probability."""
    probability, label = probabilities.max(-1)
    return label, probability


def all_probabilities(probabilities: Tensor) -> tuple[Tensor]:
    """The probabilities of all classes."""
    return (probabilities,)


def iter_chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Chunks of items that are batched together."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK_SENTENCES)):
        yield chunk


@torch.inference_mode()
def predict_batches(
    model: Any,
    chunks: Iterable[Sequence[T]],
    length: Callable[[T], int],
    collate: Callable[[Sequence[T]], Tensors],
    *,
    bf16: bool,
    max_tokens: int,
    select: Callable[[Tensor], Result],
) -> list[tuple[list[T], Result]]:
    """Run a model over all items; for each batch its items and the selected result, on the host.

    Args:
        model: Set to evaluation mode.
        chunks: The items. A thread prepares the next batches while the current one is computed.
        length: Tokens of an item.
        collate: Turns items into tensors.
        bf16: Whether to compute in bfloat16.
        max_tokens: Padded tokens of a batch.
        select: Selects on the device what is copied to the host: `best_class` or `all_probabilities`.
    """
    model.eval()
    device = model.device

    def prepare() -> Iterator[tuple[list[T], Tensors]]:
        for chunk in chunks:
            lengths = [length(item) for item in chunk]
            for batch in batch_by_length(range(len(chunk)), lengths, max_tokens):
                items = [chunk[place] for place in batch]
                yield items, pin_tensors(collate(items), device)

    results = []
    for items, tensors in Prefetcher(prepare()):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            logits = model(tensors_to_device(tensors, device))
        results.append((items, select(logits.float().softmax(-1))))
    return [(items, cast("Result", tuple(tensor.cpu() for tensor in result))) for items, result in results]


@dataclass(frozen=True, eq=False, slots=True)
class PairScores:
    """The probabilities of all ordered entity pairs of a sentence."""

    span: TableSpan
    entities: Sequence[Entity]
    pairs: NDArray[np.int64]
    """[P, 2]: subject and object, as indices into the entities; sorted."""
    probabilities: NDArray[np.float32]
    """[P, 1 + R]: none, then the relation types."""


@dataclass
class RelationClassifier:
    """Predicts relations between given entities."""

    model: MarkerModel | MarkerEnsemble
    reader: SentenceReader
    labels: LabelSpace
    bf16: bool
    max_tokens: int

    def predict(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[Document]:
        """The documents with their entities and predicted relations. Relations of the input are ignored.

        Args:
            documents: With entities. Only pairs inside a sentence are classified.
            notes: Counts sentences that are too long for the encoder.
        """
        relations: list[list[Relation]] = [[] for _ in documents]
        for items, (label, probability) in self._predict(documents, notes, best_class):
            labels, probabilities = label.tolist(), probability.tolist()
            sources = [(item, pair) for item in items for pair in item.row.pairs.tolist()]
            for (item, (head, tail)), number, score in zip(sources, labels, probabilities, strict=True):
                if number:
                    name = self.labels.relation_types[number - 1]
                    relation = Relation(item.entities[head], item.entities[tail], name, score)
                    relations[item.span.document].append(relation)
        return [
            document.annotated(document.entities, found) for document, found in zip(documents, relations, strict=True)
        ]

    def score_pairs(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[PairScores]:
        """The scores of every sentence that fits the encoder and has two entities or more, in order.

        Args:
            documents: With entities.
            notes: Counts sentences that are too long for the encoder.
        """
        batches = self._predict(documents, notes, all_probabilities)
        if not batches:
            return []
        items = [item for batch, _ in batches for item in batch]
        pairs = np.concatenate([item.row.pairs for item in items])
        probabilities = torch.cat([result for _, (result,) in batches]).numpy()
        # a sentence may have several rows, in any order
        keys = [(item.span.document << 32) + item.span.sentence for item in items]
        owner = np.repeat(keys, [len(item.row.pairs) for item in items])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], owner))
        owner, pairs, probabilities = owner[order], pairs[order], probabilities[order]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1)).tolist()
        by_sentence = dict(zip(keys, items, strict=True))
        return [
            PairScores(item.span, item.entities, pairs[first:end], probabilities[first:end])
            for first, end in pairwise([*firsts, len(owner)])
            for item in [by_sentence[int(owner[first])]]
        ]

    @property
    def batch_key(self) -> tuple[object, ...]:
        """Everything that decides how documents become batches. Classifiers with equal keys can share batches."""
        model = self.model
        shape = (model.markers, model.approximate, model.first_position, model.device)
        return (self.reader.layout_key, self.labels, self.bf16, self.max_tokens, *shape)

    def _predict(
        self, documents: Sequence[Document], notes: Counter[str] | None, select: Callable[[Tensor], Result]
    ) -> list[tuple[list[_SentenceRow], Result]]:
        def build(sentences: Sequence[TokenizedSentence]) -> Iterator[_SentenceRow]:
            for sentence in sentences:
                span = sentence.span
                entities = distinct_entities(documents[span.document].sentences[span.sentence].entities)
                for row in build_rows(self.model, sentence, entities, self.labels, notes):
                    yield _SentenceRow(span, entities, row)

        def collate(items: Sequence[_SentenceRow]) -> Tensors:
            return collate_rows([item.row for item in items], self.reader.spec.pad_id, self.model.first_position)

        return predict_batches(
            self.model,
            (list(build(sentences)) for sentences in iter_chunks(self.reader.read(documents))),
            lambda item: len(item.row.ids),
            collate,
            bf16=self.bf16,
            max_tokens=self.max_tokens,
            select=select,
        )


class _SentenceRow(NamedTuple):
    """A row with some pairs of a sentence."""

    span: TableSpan
    entities: Sequence[Entity]
    row: MarkerRow
