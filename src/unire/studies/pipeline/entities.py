"""Entities by the span model: what it learns from, and what it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unire.documents import Document, Entity, Sentence
from unire.labels import LabelSpace
from unire.marking.reading import Reader, Reading
from unire.marking.running import best, chunks, passes
from unire.modeling.model import TensorBatch
from unire.modeling.recording import Tensors
from unire.studies.pipeline.span_model import IGNORED, SpanModel
from unire.tables import spanning
from unire.windows import collate

__all__ = ["TWO_TYPES", "EntityData", "EntityFinder", "unreachable"]

TWO_TYPES = "entity on a span that already has another type"


def unreachable(documents: Sequence[Document], max_span: int) -> Counter[str]:
    """Annotation that no span model can find, by reason."""
    notes: Counter[str] = Counter()
    for document in documents:
        notes.update(reason for _, reason in spanning(document))
        for sentence in document.sentences:
            spans = {(entity.start, entity.end, entity.label) for entity in sentence.entities}
            notes[_longer(max_span)] += sum(end - start > max_span for start, end, _ in spans)
            short = [span for span in spans if span[1] - span[0] <= max_span]
            notes[TWO_TYPES] += len(short) - len({span[:2] for span in short})
    return +notes


def _longer(max_span: int) -> str:
    return f"entity of more than {max_span} words"


class EntityData:
    """Sentences and their gold spans, to learn from.

    Args:
        documents: The training data.
        reader: Of the model's encoder.
        labels: Its label space.
        max_span: Words of the longest span.
    """

    def __init__(self, documents: Sequence[Document], reader: Reader, labels: LabelSpace, max_span: int) -> None:
        self.reader = reader
        self.notes = unreachable(documents, max_span)
        self.readings = list(reader.read(documents, self.notes))
        self.lengths = [_length(reading) for reading in self.readings]
        self.weights = [1] * len(self.readings)
        self._gold = [
            _gold(documents[reading.place.document].sentences[reading.place.sentence], labels, max_span)
            for reading in self.readings
        ]

    def collate(self, items: Sequence[int]) -> Tensors:
        """Sentences and their gold: `[T, N, max_span]`."""
        tensors = _collate([self.readings[item] for item in items], self.reader)
        gold = np.full((*tensors["words"].shape, self._gold[items[0]].shape[1]), IGNORED)
        for row, item in enumerate(items):
            gold[row, : len(self._gold[item])] = self._gold[item]
        return {**tensors, "gold": torch.from_numpy(gold)}


@dataclass
class EntityFinder:
    """Finds entities; of a sentence longer than the encoder too, in overlapping windows."""

    model: SpanModel
    reader: Reader
    labels: LabelSpace
    bf16: bool
    max_pieces: int

    def find(self, documents: Sequence[Document]) -> list[Document]:
        """The documents with the entities that are found, and nothing else."""
        found: list[list[Entity]] = [[] for _ in documents]
        readings = chunks(self.reader.read(documents))

        def collated(chosen: Sequence[Reading]) -> Tensors:
            return _collate(chosen, self.reader)

        for chosen, (label, chance) in passes(
            self.model, readings, _length, collated, bf16=self.bf16, max_pieces=self.max_pieces, keep=best
        ):
            labels, chances = label.numpy(), chance.numpy()  # [T, N, max_span]
            for row, reading in enumerate(chosen):
                place = reading.place
                document = documents[place.document]
                for start, width in _named(labels[row], len(place)):
                    name = self.labels.entity_types[labels[row, start, width] - 1]
                    first = place.start + start
                    entity = document.entity(first, first + width + 1, name, float(chances[row, start, width]))
                    found[place.document].append(entity)
        return [document.annotated(entities) for document, entities in zip(documents, found, strict=True)]


def _named(labels: NDArray[np.int64], length: int) -> Iterator[tuple[int, int]]:
    """First word and width - 1 of the spans inside a sentence that have a type."""
    for start, width in np.argwhere(labels[:length] > 0).tolist():
        if start + width < length:
            yield start, width


def _gold(sentence: Sentence, labels: LabelSpace, max_span: int) -> NDArray[np.int64]:
    """The class of every span: `[n, max_span]`."""
    n = len(sentence)
    inside = np.arange(n)[:, None] + np.arange(max_span) < n
    gold = np.where(inside, 0, IGNORED)
    for entity in sentence.entities:
        width = entity.end - entity.start - 1
        if width < max_span and gold[entity.start - sentence.start, width] == 0:
            gold[entity.start - sentence.start, width] = labels.entity_id(entity.label)
    return gold


def _length(reading: Reading) -> int:
    """Pieces of a sentence with its context; of one in several windows all of them."""
    windows = reading.passage.windows
    return len(windows) * max(len(window.pieces) for window in windows)


def _collate(readings: Sequence[Reading], reader: Reader) -> Tensors:
    """Sentences as padded tensors, with the places of their words' first pieces and of their last."""
    batch = collate([reading.passage for reading in readings], reader.spec)
    ends = batch.words.copy()
    for row, reading in enumerate(readings):
        ends[row, : len(reading.sizes)] += reading.sizes - 1
    return {**TensorBatch.of(batch, "cpu").named(), "ends": torch.from_numpy(ends)}
