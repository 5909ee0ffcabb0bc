"""Annotation ⇄ label table.

A table is an n×n array of label ids. An entity is a square on the diagonal, a relation the rectangle where its head's
rows meet its tail's columns, and a symmetric relation that rectangle and its mirror image. What a table cannot hold is
returned beside it, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace

__all__ = ["FilledTable", "Unheld", "fill", "fill_sentence", "longest", "read", "spanning"]

EntityCell = tuple[int, int, int]
"""`(start, end, label id)`, in words of the table."""
RelationCell = tuple[int, int, int]
"""`(head, tail, label id)`, `head` and `tail` being positions in the list of entities."""


class Unheld(NamedTuple):
    """Something that a table could not hold, and why."""

    item: Entity | Relation
    reason: str


OVERLAP = "entity overlaps a longer one"
OUTSIDE = "entity crosses a table boundary"
NO_ARGUMENT = "relation whose argument is not in the table"
ACROSS = "relation across sentences"
TWO_LABELS = "relation between two entities that already have one"
REFLEXIVE = "relation from an entity to itself"


@dataclass(frozen=True)
class FilledTable:
    labels: NDArray[np.int64]
    """n×n label ids."""
    unheld: tuple[Unheld, ...]


def fill(
    entities: Iterable[Entity], relations: Iterable[Relation], labels: LabelSpace, start: int, end: int
) -> FilledTable:
    """The label table of the words `start` to `end` of a document.

    Of overlapping entities the table keeps the longest (of equally long ones the first); of two labels on one pair it
    keeps the first. Repeating the same annotation loses nothing and is not reported.
    """
    table = np.full((end - start, end - start), LabelSpace.NONE, dtype=np.int64)
    unheld: list[Unheld] = []
    inside: list[Entity] = []
    for entity in entities:
        if start <= entity.start and entity.end <= end:
            inside.append(entity)
        else:
            unheld.append(Unheld(entity, OUTSIDE))
    held: dict[tuple[int, int], int] = {}
    for entity in longest(inside):
        span = (entity.start - start, entity.end - start)
        held[span] = label = labels.entity_id(entity.label)
        table[slice(*span), slice(*span)] = label
    unheld += [
        Unheld(entity, OVERLAP)
        for entity in inside
        if held.get((entity.start - start, entity.end - start)) != labels.entity_id(entity.label)
    ]
    for relation in relations:
        label = labels.relation_id(relation.label)
        head = (relation.head.start - start, relation.head.end - start)
        tail = (relation.tail.start - start, relation.tail.end - start)
        arguments = ((head, relation.head.label), (tail, relation.tail.label))
        if any(held.get(span) != labels.entity_id(name) for span, name in arguments):
            unheld.append(Unheld(relation, NO_ARGUMENT))
            continue
        if head == tail:
            unheld.append(Unheld(relation, REFLEXIVE))
            continue
        rectangles = labels.ways(relation.label, head, tail)
        found = {int(table[rows[0], columns[0]]) for rows, columns in rectangles}
        if found - {LabelSpace.NONE, label}:
            unheld.append(Unheld(relation, TWO_LABELS))
            continue
        for rows, columns in rectangles:
            table[slice(*rows), slice(*columns)] = label
    return FilledTable(table, tuple(unheld))


def longest(entities: Iterable[Entity]) -> list[Entity]:
    """Those that a table holds, in their order: of overlapping ones the longest, of equally long ones the first."""
    given = list(entities)
    taken: set[int] = set()
    kept: list[int] = []
    lengths = [entity.start - entity.end for entity in given]
    for i in sorted(range(len(given)), key=lengths.__getitem__):
        words = range(given[i].start, given[i].end)
        if taken.isdisjoint(words):
            taken.update(words)
            kept.append(i)
    return [given[i] for i in sorted(kept)]


def fill_sentence(
    sentence: Sentence, labels: LabelSpace, start: int | None = None, end: int | None = None
) -> FilledTable:
    """The label table of a sentence, or of its part from word `start` to word `end` of the document.

    What crosses the parts of a split sentence is reported by the part in which it starts.
    """
    start = sentence.start if start is None else start
    end = sentence.end if end is None else end
    entities = [entity for entity in sentence.entities if start <= entity.start < end]
    relations = [relation for relation in sentence.relations if start <= relation.head.start < end]
    return fill(entities, relations, labels, start, end)


def spanning(document: Document) -> tuple[Unheld, ...]:
    """What no table of `document` can hold, because it crosses sentences."""
    return (
        *(Unheld(entity, OUTSIDE) for entity in document.spanning_entities),
        *(Unheld(relation, ACROSS) for relation in document.spanning_relations),
    )


def read(table: NDArray[np.int64], labels: LabelSpace) -> tuple[list[EntityCell], list[RelationCell]]:
    """The annotation that a well-formed table stands for: the inverse of `fill`."""
    entities: list[EntityCell] = []
    row = 0
    while row < len(table):
        label = int(table[row, row])
        end = row + 1
        if label != LabelSpace.NONE:
            while end < len(table) and table[row, end] == label:
                end += 1
            entities.append((row, end, label))
        row = end
    relations = [
        (head, tail, int(table[first[0], second[0]]))
        for head, first in enumerate(entities)
        for tail, second in enumerate(entities)
        if head != tail and table[first[0], second[0]] >= labels.relation_ids.start
    ]
    return entities, relations
