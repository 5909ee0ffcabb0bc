"""Why a relation was missed: the paper's five kinds of error (its Figure 6), defined so that exactly one applies.

The paper names them and does not define them. Here every gold relation is `correct` under the strict protocol, or is of
the first kind that holds for it:

1. `span splitting`: an argument's span is not that of a predicted entity, but shares words with one.
2. `entity not found`: no word of an argument is in a predicted entity.
3. `entity type`: both spans are those of predicted entities, but one of them has another type.
4. `relation not found`: both entities are predicted, and no relation from the one to the other.
5. `relation type`: both entities are predicted, and a relation of another type.

Symmetric relations are looked for in both directions, as in the headline protocol. Only what was predicted is looked
at, not where a table was cut, so that any system's predictions can be diagnosed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace

__all__ = ["ERRORS", "Diagnosis", "ErrorKind", "diagnose"]

ErrorKind = Literal["span splitting", "entity not found", "entity type", "relation not found", "relation type"]
ERRORS: tuple[ErrorKind, ...] = get_args(ErrorKind)
"""In the order in which they are looked for."""

Argument = tuple[int, int, str]
"""Start, end and type."""


@dataclass(frozen=True)
class Diagnosis:
    """What became of a gold relation."""

    relation: Relation
    """In the direction that was looked for."""
    kind: Literal["correct"] | ErrorKind
    sentence: int | None
    """Its position in the document; `None` for a relation across sentences."""


def diagnose(gold: Document, predicted: Document, labels: LabelSpace) -> Iterator[Diagnosis]:
    """What became of each gold relation of a document; repeated ones count once.

    Args:
        gold: The annotated document.
        predicted: The same words with predicted annotation.
        labels: Which relations are symmetric.
    """
    found = _Found(predicted)
    homes = [(i, sentence.relations) for i, sentence in enumerate(gold.sentences)]
    for sentence, relations in [*homes, (None, gold.spanning_relations)]:
        for relation in _directed(relations, labels):
            yield Diagnosis(relation, found.kind(relation), sentence)


def _directed(relations: tuple[Relation, ...], labels: LabelSpace) -> Iterator[Relation]:
    """Each relation once, symmetric ones in both directions."""
    seen = set()
    for relation in relations:
        for head, tail in labels.ways(relation.label, relation.head, relation.tail):
            way = relation if head is relation.head else Relation(head, tail, relation.label)
            key = (_argument(way.head), _argument(way.tail), way.label)
            if key not in seen:
                seen.add(key)
                yield way


class _Found:
    """The predictions for a document, as they are asked for."""

    def __init__(self, predicted: Document) -> None:
        self.entities = {_argument(entity) for entity in predicted.entities}
        self.spans = {entity.span for entity in predicted.entities}
        self.words = {word for start, end in self.spans for word in range(start, end)}
        self.relations: defaultdict[tuple[Argument, Argument], set[str]] = defaultdict(set)
        for relation in predicted.relations:
            self.relations[_argument(relation.head), _argument(relation.tail)].add(relation.label)

    def kind(self, relation: Relation) -> Literal["correct"] | ErrorKind:
        arguments = (relation.head, relation.tail)
        labels = self.relations.get((_argument(relation.head), _argument(relation.tail)), set())
        if relation.label in labels:
            return "correct"
        missed = [entity for entity in arguments if entity.span not in self.spans]
        if any(not self.words.isdisjoint(range(*entity.span)) for entity in missed):
            return "span splitting"
        if missed:
            return "entity not found"
        if any(_argument(entity) not in self.entities for entity in arguments):
            return "entity type"
        return "relation type" if labels else "relation not found"


def _argument(entity: Entity) -> Argument:
    return entity.start, entity.end, entity.label
