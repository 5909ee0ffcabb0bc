"""Entities by the span model: what it learns from, and what it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from unire.documents import Document, Entity, Sentence
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch, Tensors
from unire.models.unire import encode_tokens
from unire.studies.pipeline.study import PipelineConfig
from unire.tables import list_spanning
from unire.training.markers.data import SentenceReader, TokenizedSentence
from unire.training.markers.inference import best_class, iter_chunks, predict_batches
from unire.windows.collator import collate

__all__ = ["IGNORED", "TWO_TYPES", "EntityClassifier", "EntityData", "SpanModel", "unreachable"]

IGNORED = -100
"""The gold label of a span that is not there: it would end behind the sentence."""


NONE = 4.0
"""What none is ahead of every type before training, e⁴ : 1: of the spans of a sentence few are entities, and a model
that had to learn that first would see every second span as one, and their pairs by the thousand."""


class SpanModel(nn.Module):
    """h(span) = first token ⊕ last token ⊕ its width, then two hidden layers and a classifier.

    Args:
        encoder: Of its own.
        n_types: Entity types; class 0 is none.
        config: Sizes.
    """

    def __init__(self, encoder: nn.Module, n_types: int, config: PipelineConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.n_hidden: int = encoder.config.hidden_size  # type: ignore[union-attr, assignment]
        self.widths = nn.Embedding(config.max_span, config.d_width)
        self.first = nn.Linear(2 * self.n_hidden + config.d_width, config.d_hidden)
        self.second = nn.Linear(config.d_hidden, config.d_hidden)
        self.classifier = nn.Linear(config.d_hidden, 1 + n_types)
        nn.init.zeros_(self.classifier.bias)
        nn.init.constant_(self.classifier.bias[:1], NONE)
        self.read_dropout = nn.Dropout(0.1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, tensors: Tensors) -> Tensor:
        """The scores of every span by its first word and its width - 1: `[T, N, max_span, 1 + n_types]`."""
        batch = TensorBatch.from_dict(tensors)
        tokens = self.read_dropout(encode_tokens(self.encoder, batch))
        starts, ends = (
            tokens.index_select(0, places.flatten()).view(*places.shape, -1)
            for places in (batch.words, tensors["ends"])
        )  # [T, N, n_hidden]
        # a layer over the three joined is the sum of a layer over each: N products, where N * max_span spans have them
        parts = [self.n_hidden, self.n_hidden, self.widths.embedding_dim]
        of_start, of_end, of_width = torch.split(self.first.weight, parts, 1)
        max_span = self.widths.num_embeddings
        last_words = F.pad(F.linear(ends, of_end), (0, 0, 0, max_span - 1)).unfold(1, max_span, 1).mT
        first_words = F.linear(starts, of_start, self.first.bias).unsqueeze(2)
        hidden = first_words + last_words + F.linear(self.widths.weight, of_width)  # [T, N, max_span, d_hidden]
        hidden = self.dropout(F.relu(hidden))
        hidden = self.dropout(F.relu(self.second(hidden)))
        scores: Tensor = self.classifier(hidden)
        return scores

    def loss(self, tensors: Tensors) -> Tensor:
        """Cross-entropy, summed over all spans of all sentences."""
        scores = self(tensors).float()
        return F.cross_entropy(scores.flatten(0, 2), tensors["gold"].flatten(), ignore_index=IGNORED, reduction="sum")

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device


TWO_TYPES = "entity on a span that already has another type"


def unreachable(documents: Sequence[Document], max_span: int) -> Counter[str]:
    """Annotation that no span model can find, by reason."""
    notes: Counter[str] = Counter()
    for document in documents:
        notes.update(reason for _, reason in list_spanning(document))
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

    def __init__(
        self, documents: Sequence[Document], reader: SentenceReader, labels: LabelSpace, max_span: int
    ) -> None:
        self.reader = reader
        self.notes = unreachable(documents, max_span)
        self.readings = list(reader.read(documents, self.notes))
        self.lengths = [_length(reading) for reading in self.readings]
        self.weights = [1] * len(self.readings)
        self._gold = [
            _gold(documents[reading.span.document].sentences[reading.span.sentence], labels, max_span)
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
class EntityClassifier:
    """Finds entities; of a sentence longer than the encoder too, in overlapping windows."""

    model: SpanModel
    reader: SentenceReader
    labels: LabelSpace
    bf16: bool
    max_tokens: int

    def predict(self, documents: Sequence[Document]) -> list[Document]:
        """The documents with the entities that are found, and nothing else."""
        found: list[list[Entity]] = [[] for _ in documents]
        readings = iter_chunks(self.reader.read(documents))

        def collated(chosen: Sequence[TokenizedSentence]) -> Tensors:
            return _collate(chosen, self.reader)

        for chosen, (label, chance) in predict_batches(
            self.model, readings, _length, collated, bf16=self.bf16, max_tokens=self.max_tokens, select=best_class
        ):
            labels, chances = label.numpy(), chance.numpy()  # [T, N, max_span]
            for row, reading in enumerate(chosen):
                span = reading.span
                document = documents[span.document]
                for start, width in _named(labels[row], len(span)):
                    name = self.labels.entity_types[labels[row, start, width] - 1]
                    first = span.start + start
                    entity = document.entity(first, first + width + 1, name, float(chances[row, start, width]))
                    found[span.document].append(entity)
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


def _length(reading: TokenizedSentence) -> int:
    """Tokens of a sentence with its context; of one in several windows all of them."""
    windows = reading.group.windows
    return len(windows) * max(len(window.tokens) for window in windows)


def _collate(readings: Sequence[TokenizedSentence], reader: SentenceReader) -> Tensors:
    """Sentences as padded tensors, with the places of their words' first tokens and of their last."""
    batch = collate([reading.group for reading in readings], reader.spec)
    ends = batch.words.copy()
    for row, reading in enumerate(readings):
        ends[row, : len(reading.word_sizes)] += reading.word_sizes - 1
    return {**TensorBatch.from_batch(batch, "cpu").to_dict(), "ends": torch.from_numpy(ends)}
