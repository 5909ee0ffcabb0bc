"""Inputs of marker models: sentences with context, and rows with typed markers in the text or behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.documents import Document, Entity, Sentence
from unire.labels import LabelSpace
from unire.models.batch import Tensors
from unire.tables import REFLEXIVE, TWO_LABELS, TableSpan, list_spanning
from unire.windows.windows import WindowBuilder, WindowGroup

if TYPE_CHECKING:
    from unire.training.markers.model import MarkerEnsemble, MarkerModel

__all__ = [
    "MARKERS_PER_PAIR",
    "PADDING_OWNER",
    "TOO_LONG",
    "MarkerRow",
    "MarkerVocabulary",
    "RelationData",
    "SentenceReader",
    "TokenizedSentence",
    "build_approximate_rows",
    "build_attention_mask",
    "build_exact_rows",
    "build_rows",
    "collate_rows",
    "count_text_markers",
    "distinct_entities",
]

MARKERS_PER_PAIR = 4
"""Start and end of the subject, start and end of the object."""
MAX_PAIRS_PER_ROW = 128
"""Pairs behind one copy of the text. A sentence with more pairs has several rows. The result is the same, because pairs
do not see each other."""
PADDING_OWNER = -1
"""The owner of padding tokens. The text has owner 0, and the markers of pair k have owner k, counted from 1."""
LENGTH_MULTIPLE = 8
"""L is a multiple of this, as the fastest kernels need."""
UNLIMITED_TABLE_WORDS = 2**31
"""Sentences are not split, because marker models have no tables."""
TOO_LONG = "sentence longer than the encoder, whose relations are not read"

EntityTokens = NDArray[np.int64]
"""[P, 3]: first token, last token and type of an entity. Tokens are counted in their window."""


@dataclass(frozen=True, eq=False, slots=True)
class TokenizedSentence:
    """A sentence as an encoder reads it."""

    span: TableSpan
    group: WindowGroup
    """Its window, or several windows if the sentence is longer than the encoder."""
    word_sizes: NDArray[np.int64]
    """Tokens of each word."""

    @property
    def fits(self) -> bool:
        """Whether one window holds the sentence."""
        return len(self.group.windows) == 1

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens of the only window."""
        return self.group.windows[0].tokens

    @property
    def first_tokens(self) -> NDArray[np.int64]:
        """The position of every word's first token in its window."""
        return self.group.word_index[:, 1]

    @property
    def last_tokens(self) -> NDArray[np.int64]:
        """The position of every word's last token in its window."""
        return self.first_tokens + self.word_sizes - 1


class SentenceReader:
    """Tokenizes sentences, each with words of its document to the left and right.

    Args:
        tokenizer: The encoder's.
        spec: Other facts about the encoder.
        window: Words of a window, including the sentence.
        reserved: Tokens of a window that are left free for markers.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, window: int, *, reserved: int = 0) -> None:
        available = replace(spec, max_pieces=spec.max_pieces - reserved)
        self.tokenizer = tokenizer
        self.spec = spec
        self.window_builder = WindowBuilder(
            tokenizer, available, layout="in-place", window=window, max_table=UNLIMITED_TABLE_WORDS
        )

    @property
    def layout_key(self) -> tuple[object, ...]:
        """Everything that decides how documents are tokenized. Readers with equal keys give the same result."""
        return self.tokenizer.to_str(), self.window_builder.spec, self.window_builder.window

    def read(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> Iterator[TokenizedSentence]:
        """All sentences with words, in order. `notes` counts long or unknown words and similar problems."""
        for index, document in enumerate(documents):
            bounds = self.window_builder.tokenize(document.words).bounds
            for group in self.window_builder.build([document], index):
                (span,) = group.table_spans
                if notes is not None:
                    notes.update(group.notes)
                yield TokenizedSentence(span, group, np.diff(bounds[span.start : span.end + 1]))


@dataclass(frozen=True)
class MarkerVocabulary:
    """The ids of the markers: new embeddings behind the encoder's vocabulary, four for each entity type."""

    first: int
    """Size of the encoder's own vocabulary."""
    n_types: int

    def __len__(self) -> int:
        return MARKERS_PER_PAIR * self.n_types

    def ids(self, subjects: EntityTokens, objects: EntityTokens) -> NDArray[np.int64]:
        """[P, 4]: `<S:type>`, `</S:type>`, `<O:type>`, `</O:type>` of every pair."""
        roles = np.arange(MARKERS_PER_PAIR)
        types = np.stack([subjects[:, 2], subjects[:, 2], objects[:, 2], objects[:, 2]], 1)
        return self.first + MARKERS_PER_PAIR * types + roles


@dataclass(frozen=True, eq=False, slots=True)
class MarkerRow:
    """An encoder input, and the pairs that are read from it."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    """The position of each token. Markers behind the text have the positions of their words."""
    owners: NDArray[np.int64]
    """0 for the text, k for the markers of pair k. All tokens see the text; markers also see those of their pair."""
    marker_starts: NDArray[np.int64]
    """[P, 2]: the opening markers of subject and object."""
    pairs: NDArray[np.int64]
    """[P, 2]: subject and object, as indices into the entities of the sentence."""


def build_exact_rows(
    text: NDArray[np.int64],
    subjects: EntityTokens,
    objects: EntityTokens,
    pairs: NDArray[np.int64],
    markers: MarkerVocabulary,
) -> list[MarkerRow]:
    """One row per pair, with the markers in the text."""
    n_pairs, length = len(pairs), len(text)
    ids = markers.ids(subjects, objects)
    # the token that follows each marker; of several before one token, closing markers come first
    before = np.stack([subjects[:, 0], subjects[:, 1] + 1, objects[:, 0], objects[:, 1] + 1], 1)  # [P, 4]
    order = MARKERS_PER_PAIR * before + np.array([2, 0, 3, 1])
    places = before + (order[:, None, :] < order[:, :, None]).sum(2)
    rows = np.empty((n_pairs, length + MARKERS_PER_PAIR), np.int64)
    tokens = np.arange(length)
    shifted = tokens + (before[:, :, None] <= tokens).sum(1)  # [P, length]
    np.put_along_axis(rows, shifted, np.broadcast_to(text, shifted.shape), 1)
    np.put_along_axis(rows, places, ids, 1)
    positions, owners = np.arange(length + MARKERS_PER_PAIR), np.zeros(length + MARKERS_PER_PAIR, np.int64)
    return [MarkerRow(rows[p], positions, owners, places[p : p + 1, ::2], pairs[p : p + 1]) for p in range(n_pairs)]


def build_approximate_rows(
    text: NDArray[np.int64],
    subjects: EntityTokens,
    objects: EntityTokens,
    pairs: NDArray[np.int64],
    markers: MarkerVocabulary,
) -> list[MarkerRow]:
    """The text once, with the markers of all pairs behind it. Very many pairs make several rows."""
    length = len(text)
    ids = markers.ids(subjects, objects)
    marked = np.stack([subjects[:, 0], subjects[:, 1], objects[:, 0], objects[:, 1]], 1)  # [P, 4]
    rows = []
    for start in range(0, len(pairs), MAX_PAIRS_PER_ROW):
        chosen = slice(start, start + MAX_PAIRS_PER_ROW)
        numbers = np.arange(len(pairs[chosen]))
        rows.append(
            MarkerRow(
                np.concatenate([text, ids[chosen].ravel()]),
                np.concatenate([np.arange(length), marked[chosen].ravel()]),
                np.concatenate([np.zeros(length, np.int64), np.repeat(numbers + 1, MARKERS_PER_PAIR)]),
                length + MARKERS_PER_PAIR * numbers[:, None] + np.array([0, 2]),
                pairs[chosen],
            )
        )
    return rows


def build_rows(
    model: MarkerModel | MarkerEnsemble,
    sentence: TokenizedSentence,
    entities: Sequence[Entity],
    labels: LabelSpace,
    notes: Counter[str] | None = None,
) -> list[MarkerRow]:
    """The rows of all ordered pairs of the entities of a sentence. `notes` counts sentences that are too long."""
    n = len(entities)
    if n < 2:
        return []
    if not sentence.fits:
        if notes is not None:
            notes[TOO_LONG] += 1
        return []
    firsts, lasts, start = sentence.first_tokens, sentence.last_tokens, sentence.span.start
    spans = np.array(
        [
            (firsts[entity.start - start], lasts[entity.end - 1 - start], labels.entity_id(entity.label) - 1)
            for entity in entities
        ]
    )  # [n, 3]
    pairs = np.argwhere(~np.eye(n, dtype=bool))  # [P, 2]
    build = build_approximate_rows if model.approximate else build_exact_rows
    return build(sentence.tokens, spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, model.markers)


def count_text_markers(approximate: bool) -> int:
    """Markers that take positions in a window: 0 if they follow the text and share positions."""
    return 0 if approximate else MARKERS_PER_PAIR


def collate_rows(rows: Sequence[MarkerRow], pad_id: int, first_position: int) -> dict[str, torch.Tensor]:
    """Rows as padded tensors on the host.

    Args:
        rows: At least one.
        pad_id: The encoder's.
        first_position: The encoder's id of position 0.
    """
    lengths = np.array([len(row.ids) for row in rows])
    filled = np.arange(-(-lengths.max() // LENGTH_MULTIPLE) * LENGTH_MULTIPLE) < lengths[:, None]  # [B, L]
    arrays = {}
    for name, padding in (("ids", pad_id), ("positions", 0), ("owners", PADDING_OWNER)):
        arrays[name] = np.full(filled.shape, padding, np.int64)
        arrays[name][filled] = np.concatenate([getattr(row, name) for row in rows])
    numbers = np.repeat(np.arange(len(rows)), [len(row.marker_starts) for row in rows])
    starts = numbers[:, None] * filled.shape[1] + np.concatenate([row.marker_starts for row in rows])
    return {
        "input_ids": torch.from_numpy(arrays["ids"]),
        "position_ids": torch.from_numpy(arrays["positions"] + first_position),
        "owners": torch.from_numpy(arrays["owners"]),
        "marker_starts": torch.from_numpy(starts),
    }


def build_attention_mask(owners: torch.Tensor) -> torch.Tensor:
    """Which token sees which: `[B, 1, L, L]`. The text sees itself; markers see the text and those of their pair."""
    column, row = owners.unsqueeze(1), owners.unsqueeze(2)
    return ((column == 0) | ((column == row) & (column > 0))).unsqueeze(1)


class RelationData:
    """Training data of a marker model: all pairs of gold entities with their gold relations.

    Symmetric relations hold in both directions.

    Args:
        documents: The annotated documents.
        model: Decides how pairs become rows.
        reader: Of the model's encoder.
        labels: The label space.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        model: MarkerModel | MarkerEnsemble,
        reader: SentenceReader,
        labels: LabelSpace,
    ) -> None:
        self._model = model
        self._pad_id = reader.spec.pad_id
        self.notes: Counter[str] = Counter(reason for document in documents for _, reason in list_spanning(document))
        self.rows: list[MarkerRow] = []
        self._gold: list[NDArray[np.int64]] = []
        for tokenized in reader.read(documents):
            sentence = documents[tokenized.span.document].sentences[tokenized.span.sentence]
            entities = distinct_entities(sentence.entities)
            gold = _gold_classes(sentence, entities, labels, self.notes)  # [n, n]
            for row in build_rows(model, tokenized, entities, labels, self.notes):
                self.rows.append(row)
                self._gold.append(gold[row.pairs[:, 0], row.pairs[:, 1]])
        self.lengths = [len(row.ids) for row in self.rows]
        self.weights = [len(row.pairs) for row in self.rows]

    def collate(self, items: Sequence[int]) -> Tensors:
        """Rows with the class of every pair, `[P]`."""
        tensors = collate_rows([self.rows[item] for item in items], self._pad_id, self._model.first_position)
        return {**tensors, "gold": torch.from_numpy(np.concatenate([self._gold[item] for item in items]))}


def distinct_entities(entities: Sequence[Entity]) -> list[Entity]:
    """The entities without duplicates of span and type."""
    return list({(entity.start, entity.end, entity.label): entity for entity in entities}.values())


def _gold_classes(
    sentence: Sentence, entities: Sequence[Entity], labels: LabelSpace, notes: Counter[str]
) -> NDArray[np.int64]:
    """The class of every ordered pair: `[n, n]`. The first of two labels on one pair counts."""
    numbers = {(entity.start, entity.end, entity.label): i for i, entity in enumerate(entities)}
    gold = np.zeros((len(entities), len(entities)), np.int64)
    for relation in sentence.relations:
        head, tail = (numbers[end.start, end.end, end.label] for end in (relation.head, relation.tail))
        label = labels.relation_id(relation.label) - labels.relation_ids.start + 1
        if head == tail:
            notes[REFLEXIVE] += 1
            continue
        directions = labels.directions(relation.label, head, tail)
        if any(gold[direction] not in (0, label) for direction in directions):
            notes[TWO_LABELS] += 1
            continue
        for direction in directions:
            gold[direction] = label
    return gold
