"""Relations by a marker model: what it learns from, and what it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace
from unire.models.batch import Tensors
from unire.tables import REFLEXIVE, TWO_LABELS, spanning
from unire.training.markers.data import MARKERS, MarkerInput, MarkerReader, Row, approximate_rows, collate, exact_rows
from unire.training.markers.inference import Kept, best, chunks, passes, whole
from unire.training.markers.model import MarkerEnsemble, MarkerModel
from unire.windows.spans import TableSpan

__all__ = ["TOO_LONG", "PairScores", "RelationClassifier", "RelationData", "rows_of", "spare"]

TOO_LONG = "sentence longer than the encoder, whose relations are not read"


def spare(approximate: bool) -> int:
    """Tokens of a window that markers take: behind the text they share the positions of its words, and take none."""
    return 0 if approximate else MARKERS


def rows_of(
    model: MarkerModel | MarkerEnsemble,
    reading: MarkerInput,
    entities: Sequence[Entity],
    labels: LabelSpace,
    notes: Counter[str] | None = None,
) -> list[Row]:
    """All ordered pairs of the entities of a sentence, as the model reads them."""
    n = len(entities)
    if n < 2:
        return []
    if not reading.whole:
        if notes is not None:
            notes[TOO_LONG] += 1
        return []
    firsts, lasts, start = reading.firsts, reading.lasts, reading.place.start
    spans = np.array(
        [
            (firsts[entity.start - start], lasts[entity.end - 1 - start], labels.entity_id(entity.label) - 1)
            for entity in entities
        ]
    )  # [n, 3]
    pairs = np.argwhere(~np.eye(n, dtype=bool))  # [P, 2]
    lay_out = approximate_rows if model.approximate else exact_rows
    return lay_out(reading.tokens, spans[pairs[:, 0]], spans[pairs[:, 1]], pairs, model.markers)


class RelationData:
    """Pairs of gold entities and their gold relations, to learn from; symmetric ones in both directions.

    Args:
        documents: The training data.
        model: Says how pairs are read.
        reader: Of its encoder.
        labels: The label space.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        model: MarkerModel | MarkerEnsemble,
        reader: MarkerReader,
        labels: LabelSpace,
    ) -> None:
        self._model = model
        self._pad_id = reader.spec.pad_id
        self.notes: Counter[str] = Counter(reason for document in documents for _, reason in spanning(document))
        self.rows: list[Row] = []
        self._gold: list[NDArray[np.int64]] = []
        for reading in reader.read(documents):
            sentence = documents[reading.place.document].sentences[reading.place.sentence]
            entities = distinct(sentence.entities)
            gold = _gold(sentence, entities, labels, self.notes)  # [n, n]
            for row in rows_of(model, reading, entities, labels, self.notes):
                self.rows.append(row)
                self._gold.append(gold[row.pairs[:, 0], row.pairs[:, 1]])
        self.lengths = [len(row.ids) for row in self.rows]
        self.weights = [len(row.pairs) for row in self.rows]

    def collate(self, items: Sequence[int]) -> Tensors:
        """Rows, and the class of every pair: `[P]`."""
        tensors = collate([self.rows[item] for item in items], self._pad_id, self._model.first_position)
        return {**tensors, "gold": torch.from_numpy(np.concatenate([self._gold[item] for item in items]))}


@dataclass(frozen=True, eq=False, slots=True)
class PairScores:
    """What a model says of all ordered pairs of the entities of a sentence."""

    place: TableSpan
    entities: Sequence[Entity]
    pairs: NDArray[np.int64]
    """[P, 2]: subject and object among the entities; sorted."""
    chances: NDArray[np.float32]
    """[P, 1 + R]: none, then the relation types."""


@dataclass
class RelationClassifier:
    """Finds relations between entities that are there."""

    model: MarkerModel | MarkerEnsemble
    reader: MarkerReader
    labels: LabelSpace
    bf16: bool
    max_tokens: int

    def find(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[Document]:
        """The documents with their entities and the relations that are found; theirs are not looked at.

        Args:
            documents: With entities, of which relations inside a sentence are looked for.
            notes: Counts what could not be read.
        """
        found: list[list[Relation]] = [[] for _ in documents]
        for chosen, (label, chance) in self._passed(documents, notes, best):
            labels, chances = label.tolist(), chance.tolist()
            sources = [(item, pair) for item in chosen for pair in item.row.pairs.tolist()]
            for (item, (head, tail)), named, score in zip(sources, labels, chances, strict=True):
                if named:
                    name = self.labels.relation_types[named - 1]
                    relation = Relation(item.entities[head], item.entities[tail], name, score)
                    found[item.place.document].append(relation)
        return [
            document.annotated(document.entities, relations)
            for document, relations in zip(documents, found, strict=True)
        ]

    def judge(self, documents: Sequence[Document], notes: Counter[str] | None = None) -> list[PairScores]:
        """What the model says of every sentence that it can read and that has two entities or more, in order.

        Args:
            documents: With entities.
            notes: Counts what could not be read.
        """
        passed = self._passed(documents, notes, whole)
        if not passed:
            return []
        items = [item for chosen, _ in passed for item in chosen]
        pairs = np.concatenate([item.row.pairs for item in items])
        chances = torch.cat([chances for _, (chances,) in passed]).numpy()
        # a sentence may have several rows, in any order
        owner = np.repeat(
            [(item.place.document << 32) + item.place.sentence for item in items],
            [len(item.row.pairs) for item in items],
        )
        order = np.lexsort((pairs[:, 1], pairs[:, 0], owner))
        owner, pairs, chances = owner[order], pairs[order], chances[order]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1)).tolist()
        sentences = {(item.place.document << 32) + item.place.sentence: item for item in items}
        return [
            PairScores(item.place, item.entities, pairs[first:end], chances[first:end])
            for first, end in pairwise([*firsts, len(owner)])
            for item in [sentences[int(owner[first])]]
        ]

    @property
    def way(self) -> tuple[object, ...]:
        """All that decides how documents become batches: finders that agree in it read the same ones."""
        model = self.model
        shape = (model.markers, model.approximate, model.first_position, model.device)
        return (self.reader.way, self.labels, self.bf16, self.max_tokens, *shape)

    def _passed(
        self, documents: Sequence[Document], notes: Counter[str] | None, keep: Callable[[Tensor], Kept]
    ) -> list[tuple[list[_Asked], Kept]]:
        """What is kept of the probabilities of all pairs, batch by batch."""

        def asked(readings: Sequence[MarkerInput]) -> Iterator[_Asked]:
            for reading in readings:
                place = reading.place
                entities = distinct(documents[place.document].sentences[place.sentence].entities)
                for row in rows_of(self.model, reading, entities, self.labels, notes):
                    yield _Asked(place, entities, row)

        def collated(chosen: Sequence[_Asked]) -> Tensors:
            return collate([item.row for item in chosen], self.reader.spec.pad_id, self.model.first_position)

        return passes(
            self.model,
            (list(asked(readings)) for readings in chunks(self.reader.read(documents))),
            lambda item: len(item.row.ids),
            collated,
            bf16=self.bf16,
            max_tokens=self.max_tokens,
            keep=keep,
        )


class _Asked(NamedTuple):
    """Some pairs of a sentence, in a row of their own."""

    place: TableSpan
    entities: Sequence[Entity]
    row: Row


def distinct(entities: Sequence[Entity]) -> list[Entity]:
    """Without what is annotated twice."""
    return list({(entity.start, entity.end, entity.label): entity for entity in entities}.values())


def _gold(sentence: Sentence, entities: Sequence[Entity], labels: LabelSpace, notes: Counter[str]) -> NDArray[np.int64]:
    """The class of every ordered pair: `[n, n]`. Of two labels on one pair the first counts."""
    numbers = {(entity.start, entity.end, entity.label): i for i, entity in enumerate(entities)}
    gold = np.zeros((len(entities), len(entities)), np.int64)
    for relation in sentence.relations:
        head, tail = (numbers[end.start, end.end, end.label] for end in (relation.head, relation.tail))
        label = labels.relation_id(relation.label) - labels.relation_ids.start + 1
        if head == tail:
            notes[REFLEXIVE] += 1
            continue
        ways = labels.ways(relation.label, head, tail)
        if any(gold[way] not in (0, label) for way in ways):
            notes[TWO_LABELS] += 1
            continue
        for way in ways:
            gold[way] = label
    return gold
