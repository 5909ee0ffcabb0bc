"""Annotation ⇄ label table, and the table spans of a document: the words of one table each.

A label table is an n×n array of label ids. An entity is a square on the diagonal. A relation is the rectangle of its
head's rows and its tail's columns; a symmetric relation is that rectangle and its transpose. Annotation that a table
cannot represent is returned with the table, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace

__all__ = [
    "FilledTable",
    "Omitted",
    "TableSpan",
    "fill_sentence",
    "fill_table",
    "keep_longest",
    "list_spanning",
    "read_table",
    "split_into_tables",
]

EntityCells = tuple[int, int, int]
"""`(start, end, label id)`, in words of the table."""
RelationCells = tuple[int, int, int]
"""`(head, tail, label id)`; `head` and `tail` are indices in the list of entities."""


class Omitted(NamedTuple):
    """Annotation that a table cannot represent, and why."""

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
    """[n, n] label ids."""
    omitted: tuple[Omitted, ...]


def fill_table(
    entities: Iterable[Entity], relations: Iterable[Relation], labels: LabelSpace, start: int, end: int
) -> FilledTable:
    """Build the label table of the words `start` to `end` of a document.

    Of overlapping entities the table keeps the longest, and of equally long ones the first. Of two relations between
    the same entities it keeps the first. Repeated annotation is not reported as omitted.
    """
    table = np.full((end - start, end - start), LabelSpace.NONE, dtype=np.int64)
    omitted: list[Omitted] = []
    inside: list[Entity] = []
    for entity in entities:
        if start <= entity.start and entity.end <= end:
            inside.append(entity)
        else:
            omitted.append(Omitted(entity, OUTSIDE))
    label_of_span: dict[tuple[int, int], int] = {}
    for entity in keep_longest(inside):
        span = (entity.start - start, entity.end - start)
        label_of_span[span] = label = labels.entity_id(entity.label)
        table[slice(*span), slice(*span)] = label
    omitted += [
        Omitted(entity, OVERLAP)
        for entity in inside
        if label_of_span.get((entity.start - start, entity.end - start)) != labels.entity_id(entity.label)
    ]
    for relation in relations:
        label = labels.relation_id(relation.label)
        head = (relation.head.start - start, relation.head.end - start)
        tail = (relation.tail.start - start, relation.tail.end - start)
        arguments = ((head, relation.head.label), (tail, relation.tail.label))
        if any(label_of_span.get(span) != labels.entity_id(name) for span, name in arguments):
            omitted.append(Omitted(relation, NO_ARGUMENT))
            continue
        if head == tail:
            omitted.append(Omitted(relation, REFLEXIVE))
            continue
        rectangles = labels.directions(relation.label, head, tail)
        present = {int(table[rows[0], columns[0]]) for rows, columns in rectangles}
        if present - {LabelSpace.NONE, label}:
            omitted.append(Omitted(relation, TWO_LABELS))
            continue
        for rows, columns in rectangles:
            table[slice(*rows), slice(*columns)] = label
    return FilledTable(table, tuple(omitted))


def keep_longest(entities: Iterable[Entity]) -> list[Entity]:
    """The entities that a table can represent, in their order.

    Of overlapping entities the longest stays, and of equally long ones the first.
    """
    candidates = list(entities)
    covered: set[int] = set()
    kept: list[int] = []
    negative_lengths = [entity.start - entity.end for entity in candidates]
    for i in sorted(range(len(candidates)), key=negative_lengths.__getitem__):
        words = range(candidates[i].start, candidates[i].end)
        if covered.isdisjoint(words):
            covered.update(words)
            kept.append(i)
    return [candidates[i] for i in sorted(kept)]


def fill_sentence(
    sentence: Sentence, labels: LabelSpace, start: int | None = None, end: int | None = None
) -> FilledTable:
    """Build the label table of a sentence, or of its part from word `start` to word `end` of the document.

    Annotation that crosses the parts of a split sentence is reported by the part in which it starts.
    """
    start = sentence.start if start is None else start
    end = sentence.end if end is None else end
    entities = [entity for entity in sentence.entities if start <= entity.start < end]
    relations = [relation for relation in sentence.relations if start <= relation.head.start < end]
    return fill_table(entities, relations, labels, start, end)


def list_spanning(document: Document) -> tuple[Omitted, ...]:
    """The annotation of `document` that crosses sentences, which no table can represent."""
    return (
        *(Omitted(entity, OUTSIDE) for entity in document.spanning_entities),
        *(Omitted(relation, ACROSS) for relation in document.spanning_relations),
    )


def read_table(table: NDArray[np.int64], labels: LabelSpace) -> tuple[list[EntityCells], list[RelationCells]]:
    """Read the annotation off a well-formed table: the inverse of `fill_table`."""
    entities: list[EntityCells] = []
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


# Table spans

SENTENCE_STOPS = ((".", ";", ":", "!", "?"), (",", ")"))
"""Endings of words after which a long sentence is split. The second kind is used only if there is none of the first."""


# Not frozen: there is one per sentence, and creating a frozen one takes four times as long.
@dataclass(slots=True, unsafe_hash=True)
class TableSpan:
    """The words of one table: a sentence, or a part of a very long one."""

    document: int
    """Index of the document, as the caller counts."""
    sentence: int
    """Index of the sentence in the document."""
    start: int
    """First word, counted from the start of the document."""
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def split_into_tables(document: Document, index: int, max_words: int) -> list[TableSpan]:
    """Split a document into table spans: its sentences, without empty ones; long ones in parts of up to `max_words`."""
    spans = []
    for i, sentence in enumerate(document.sentences):
        start = sentence.start
        end = start + len(sentence.words)
        while end - start > max_words:
            cut = _find_cut(document.words, start, end, max_words)
            spans.append(TableSpan(index, i, start, cut))
            start = cut
        if start < end:
            spans.append(TableSpan(index, i, start, end))
    return spans


def _find_cut(words: Sequence[str], start: int, end: int, max_words: int) -> int:
    """Find where to cut the first part off a sentence that is too long for a table.

    Equal parts, as few as possible, are the aim. The cut is after the stop nearest to the aim, unless the part would be
    shorter than half of the aim. If there is no stop in reach, the cut is at the aim.
    """
    n_parts = -(-(end - start) // max_words)
    aim = -(-(end - start) // n_parts)
    reach = sorted(range(start + (aim + 1) // 2, start + max_words + 1), key=lambda cut: abs(cut - start - aim))
    for stops in SENTENCE_STOPS:
        for cut in reach:
            if words[cut - 1].endswith(stops):
                return cut
    return start + aim
