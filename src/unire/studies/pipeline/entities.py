"""The pipeline's span model: it classifies every span of up to `max_span` words as an entity type or none."""

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
from unire.training.markers.classifier import best_class, iter_item_chunks, predict_batches
from unire.training.markers.data import SentenceReader, TokenizedSentence
from unire.windows.collator import collate

__all__ = ["TWO_TYPES", "EntityClassifier", "EntityData", "SpanModel", "count_unreachable"]

IGNORED_LABEL = -100
"""The gold label of spans that would end outside the sentence."""
INITIAL_NONE_BIAS = 4.0
"""Initial logit of class none, so that none is e⁴ times as likely as a type. Few spans are entities. Without it, an
untrained model would predict thousands of entity pairs."""
TWO_TYPES = "entity on a span that already has another type"


class SpanModel(nn.Module):
    """h(span) = first token ⊕ last token ⊕ width embedding, then two hidden layers and a classifier.

    Args:
        encoder: The model's own encoder.
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
        nn.init.constant_(self.classifier.bias[:1], INITIAL_NONE_BIAS)
        self.read_dropout = nn.Dropout(0.1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, tensors: Tensors) -> Tensor:
        """Logits of every span, by first word and width - 1: `[T, N, max_span, 1 + n_types]`."""
        batch = TensorBatch.from_dict(tensors)
        tokens = self.read_dropout(encode_tokens(self.encoder, batch))
        starts, ends = (
            tokens.index_select(0, places.flatten()).view(*places.shape, -1)
            for places in (batch.words, tensors["ends"])
        )  # [T, N, n_hidden]
        # a linear layer over the concatenation is the sum of three layers: N products instead of N * max_span
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
        return F.cross_entropy(
            scores.flatten(0, 2), tensors["gold"].flatten(), ignore_index=IGNORED_LABEL, reduction="sum"
        )

    @property
    def device(self) -> torch.device:
        return self.classifier.weight.device


def count_unreachable(documents: Sequence[Document], max_span: int) -> Counter[str]:
    """Count annotation that no span model can find, by reason."""
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
    """Training data of a span model: sentences with their gold spans.

    Args:
        documents: The annotated documents.
        reader: Of the model's encoder.
        labels: The label space.
        max_span: Words of the longest span.
    """

    def __init__(
        self, documents: Sequence[Document], reader: SentenceReader, labels: LabelSpace, max_span: int
    ) -> None:
        self.reader = reader
        self.notes = count_unreachable(documents, max_span)
        self.readings = list(reader.read(documents, self.notes))
        self.lengths = [_length(reading) for reading in self.readings]
        self.weights = [1] * len(self.readings)
        self._gold = [
            _gold_classes(documents[reading.span.document].sentences[reading.span.sentence], labels, max_span)
            for reading in self.readings
        ]

    def collate(self, items: Sequence[int]) -> Tensors:
        """Sentences with their gold classes, `[T, N, max_span]`."""
        tensors = _collate([self.readings[item] for item in items], self.reader)
        gold = np.full((*tensors["words"].shape, self._gold[items[0]].shape[1]), IGNORED_LABEL)
        for row, item in enumerate(items):
            gold[row, : len(self._gold[item])] = self._gold[item]
        return {**tensors, "gold": torch.from_numpy(gold)}


@dataclass
class EntityClassifier:
    """Predicts entities. Sentences that are longer than the encoder are read in overlapping windows."""

    model: SpanModel
    reader: SentenceReader
    labels: LabelSpace
    bf16: bool
    max_batch_tokens: int

    def predict(self, documents: Sequence[Document]) -> list[Document]:
        """The documents with the predicted entities, and no relations."""
        found: list[list[Entity]] = [[] for _ in documents]
        readings = iter_item_chunks(self.reader.read(documents))

        def collate_sentences(chosen: Sequence[TokenizedSentence]) -> Tensors:
            return _collate(chosen, self.reader)

        for chosen, (label, probability) in predict_batches(
            self.model,
            readings,
            _length,
            collate_sentences,
            bf16=self.bf16,
            max_batch_tokens=self.max_batch_tokens,
            select=best_class,
        ):
            labels, probabilities = label.numpy(), probability.numpy()  # [T, N, max_span]
            for row, reading in enumerate(chosen):
                span = reading.span
                document = documents[span.document]
                for start, width in _iter_entities(labels[row], len(span)):
                    name = self.labels.entity_types[labels[row, start, width] - 1]
                    first = span.start + start
                    entity = document.entity(first, first + width + 1, name, float(probabilities[row, start, width]))
                    found[span.document].append(entity)
        return [document.annotated(entities) for document, entities in zip(documents, found, strict=True)]


def _iter_entities(labels: NDArray[np.int64], length: int) -> Iterator[tuple[int, int]]:
    """First word and width - 1 of the spans inside a sentence that have an entity type."""
    for start, width in np.argwhere(labels[:length] > 0).tolist():
        if start + width < length:
            yield start, width


def _gold_classes(sentence: Sentence, labels: LabelSpace, max_span: int) -> NDArray[np.int64]:
    """The class of every span: `[n, max_span]`."""
    n = len(sentence)
    inside = np.arange(n)[:, None] + np.arange(max_span) < n
    gold = np.where(inside, 0, IGNORED_LABEL)
    for entity in sentence.entities:
        width = entity.end - entity.start - 1
        if width < max_span and gold[entity.start - sentence.start, width] == 0:
            gold[entity.start - sentence.start, width] = labels.entity_id(entity.label)
    return gold


def _length(reading: TokenizedSentence) -> int:
    """Tokens of a sentence with its context, over all of its windows."""
    windows = reading.group.windows
    return len(windows) * max(len(window.tokens) for window in windows)


def _collate(readings: Sequence[TokenizedSentence], reader: SentenceReader) -> Tensors:
    """Sentences as padded tensors, with the positions of the first and last token of every word."""
    batch = collate([reading.group for reading in readings], reader.spec)
    ends = batch.words.copy()
    for row, reading in enumerate(readings):
        ends[row, : len(reading.word_sizes)] += reading.word_sizes - 1
    return {**TensorBatch.from_batch(batch, "cpu").to_dict(), "ends": torch.from_numpy(ends)}
