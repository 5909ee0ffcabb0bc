"""The counts of a data set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from unire import tables
from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace

__all__ = ["TABLE_2", "DataCounts", "Statistics"]

K = TypeVar("K")


class DataCounts(dict[K, int]):
    """Counts by name, or by number. Unlike those of a `Counter`, zeros stay when they are added."""

    def __add__(self, other: Mapping[K, int]) -> DataCounts[K]:
        return DataCounts({name: self.get(name, 0) + other.get(name, 0) for name in {**self, **other}})

    @property
    def total(self) -> int:
        return sum(self.values())

    def quantile(self: DataCounts[int], share: float) -> int:
        """The smallest number that at least `share` of what was counted does not exceed; of nothing, 0."""
        below = 0
        for number in sorted(self):
            below += self[number]
            if below >= share * self.total:
                return number
        return 0


@dataclass(frozen=True)
class Statistics:
    """Counts of a data set, all as annotated: what is repeated counts again. Those of two sets add up."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    sentence_lengths: DataCounts[int] = field(default_factory=DataCounts)
    """Sentences of each number of words."""
    entity_lengths: DataCounts[int] = field(default_factory=DataCounts)
    """Entities of each number of words."""
    overlapping_entities: int = 0
    """Entities that share a word with another one."""
    entity_types: DataCounts[str] = field(default_factory=DataCounts)
    """Entities of each type."""
    relation_types: DataCounts[str] = field(default_factory=DataCounts)
    """Relations of each type."""
    doubled_types: DataCounts[str] = field(default_factory=DataCounts)
    """The same, a symmetric relation counting for both directions unless the other one is annotated too."""
    unheld: DataCounts[str] = field(default_factory=DataCounts)
    """What no table can hold, by reason."""
    empty_cells: int = 0
    """Cells of ⊥ in the tables of all sentences."""
    entity_cells: DataCounts[str] = field(default_factory=DataCounts)
    """Cells of each entity type."""
    relation_cells: DataCounts[str] = field(default_factory=DataCounts)
    """Cells of each relation type."""

    @classmethod
    def of(cls, documents: Iterable[Document], labels: LabelSpace) -> Statistics:
        """Count `documents`, whose types must be in `labels`; every type of it is counted, if only as 0."""
        no_entities = DataCounts(dict.fromkeys(labels.entity_types, 0))
        no_relations = DataCounts(dict.fromkeys(labels.relation_types, 0))
        total = cls(
            entity_types=no_entities,
            relation_types=no_relations,
            doubled_types=no_relations,
            entity_cells=no_entities,
            relation_cells=no_relations,
        )
        for document in documents:
            labels.check([document])
            total += _of_document(document, labels)
        return total

    @property
    def longest_sentence(self) -> int:
        """In words."""
        return max(self.sentence_lengths, default=0)

    @property
    def entities(self) -> int:
        return self.entity_types.total

    @property
    def relations(self) -> int:
        """Relations as annotated."""
        return self.relation_types.total

    @property
    def relations_doubled(self) -> int:
        return self.doubled_types.total

    @property
    def cells(self) -> int:
        return self.empty_cells + self.entity_cells.total + self.relation_cells.total

    def __add__(self, other: Statistics) -> Statistics:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Statistics(**sums)

    def to_dict(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "words": self.words,
            "longest_sentence": self.longest_sentence,
            "entities": self.entities,
            "relations": self.relations,
            "relations_doubled": self.relations_doubled,
            "overlapping_entities": self.overlapping_entities,
            "entity_types": dict(self.entity_types),
            "relation_types": dict(self.relation_types),
            "doubled_types": dict(self.doubled_types),
            "sentence_lengths": dict(sorted(self.sentence_lengths.items())),
            "entity_lengths": dict(sorted(self.entity_lengths.items())),
            "unheld": dict(self.unheld),
            "cells": {
                "empty": self.empty_cells,
                "entity_types": dict(self.entity_cells),
                "relation_types": dict(self.relation_cells),
            },
        }


def _of_document(document: Document, labels: LabelSpace) -> Statistics:
    cells = np.zeros(len(labels), dtype=np.int64)
    unheld = [reason for _, reason in tables.list_spanning(document)]
    for sentence in document.sentences:
        table = tables.fill_sentence(sentence, labels)
        cells += np.bincount(table.labels.ravel(), minlength=len(labels))
        unheld += [reason for _, reason in table.omitted]
    by_id = cells.tolist()
    relations = DataCounts(Counter(relation.label for relation in document.relations))
    return Statistics(
        documents=1,
        sentences=len(document.sentences),
        words=document.n_words,
        sentence_lengths=DataCounts(Counter(map(len, document.sentences))),
        entity_lengths=DataCounts(Counter(entity.end - entity.start for entity in document.entities)),
        overlapping_entities=_overlapping(document.entities),
        entity_types=DataCounts(Counter(entity.label for entity in document.entities)),
        relation_types=relations,
        doubled_types=relations + _unannotated_mirrors(document.relations, labels),
        unheld=DataCounts(Counter(unheld)),
        empty_cells=by_id[LabelSpace.NONE],
        entity_cells=DataCounts(zip(labels.entity_types, by_id[labels.entity_ids], strict=True)),
        relation_cells=DataCounts(zip(labels.relation_types, by_id[labels.relation_ids], strict=True)),
    )


def _overlapping(entities: Iterable[Entity]) -> int:
    """How many entities share a word with another one; the same one annotated twice is no other."""
    covering: dict[int, set[tuple[int, int, str]]] = defaultdict(set)
    entities = list(entities)
    for entity in entities:
        for word in range(*entity.span):
            covering[word].add((*entity.span, entity.label))
    return sum(any(len(covering[word]) > 1 for word in range(*entity.span)) for entity in entities)


def _unannotated_mirrors(relations: Iterable[Relation], labels: LabelSpace) -> Counter[str]:
    def key(head: Entity, tail: Entity, label: str) -> tuple[object, ...]:
        return head.span, head.label, tail.span, tail.label, label

    relations = list(relations)
    annotated = {key(r.head, r.tail, r.label) for r in relations}
    return Counter(
        r.label for r in relations if r.label in labels.symmetric and key(r.tail, r.head, r.label) not in annotated
    )


TABLE_2 = {
    "ace04": {"sentences": 8_683, "entities": 22_519, "relations_doubled": 4_417},
    "ace05": {"sentences": 14_525, "entities": 38_287, "relations_doubled": 7_691},
    "scierc": {"sentences": 2_687, "entities": 8_094, "relations_doubled": 5_463},
}
"""By the name of the label space; relations count as in `Statistics.relations_doubled`."""
