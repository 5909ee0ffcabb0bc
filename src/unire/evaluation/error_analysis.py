"""Error analysis: the paper's five kinds of error (Figure 6), defined so that exactly one applies.

The paper names the kinds without defining them. Here a gold relation is `correct` under the strict protocol, or has the
first kind of error that applies:

1. `span splitting`: the span of an argument was not predicted, but a predicted entity shares words with it.
2. `entity not found`: no predicted entity shares a word with an argument.
3. `entity type`: both spans were predicted, at least one with a different type.
4. `relation not found`: both entities were predicted, but no relation between them.
5. `relation type`: both entities were predicted, with a relation of a different type.

Symmetric relations count in both directions, as in the default protocol. Only predictions matter, not the cuts of
tables, so the predictions of any system can be diagnosed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace

__all__ = ["ERROR_KINDS", "Diagnosis", "ErrorKind", "diagnose"]

ErrorKind = Literal["span splitting", "entity not found", "entity type", "relation not found", "relation type"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
"""In the order in which they are checked."""

Argument = tuple[int, int, str]
"""Start, end and type."""


@dataclass(frozen=True)
class Diagnosis:
    """The outcome of a gold relation."""

    relation: Relation
    """In the direction that is diagnosed."""
    kind: Literal["correct"] | ErrorKind
    sentence: int | None
    """The index of its sentence; `None` for a relation across sentences."""


def diagnose(gold: Document, predicted: Document, labels: LabelSpace) -> Iterator[Diagnosis]:
    """Diagnose each gold relation of a document; repeated relations count once.

    Args:
        gold: The annotated document.
        predicted: The same words with predicted annotation.
        labels: Which relations are symmetric.
    """
    predictions = _Predictions(predicted)
    by_sentence = [(i, sentence.relations) for i, sentence in enumerate(gold.sentences)]
    for sentence, relations in [*by_sentence, (None, gold.spanning_relations)]:
        for relation in _expand_symmetric(relations, labels):
            yield Diagnosis(relation, predictions.diagnose(relation), sentence)


def _expand_symmetric(relations: tuple[Relation, ...], labels: LabelSpace) -> Iterator[Relation]:
    """Yield each relation once, symmetric relations in both directions."""
    seen = set()
    for relation in relations:
        for head, tail in labels.directions(relation.label, relation.head, relation.tail):
            directed = relation if head is relation.head else Relation(head, tail, relation.label)
            key = (_argument(head), _argument(tail), relation.label)
            if key not in seen:
                seen.add(key)
                yield directed


class _Predictions:
    """The predictions for a document, indexed for lookup."""

    def __init__(self, predicted: Document) -> None:
        self.entities = {_argument(entity) for entity in predicted.entities}
        self.spans = {entity.span for entity in predicted.entities}
        self.words = {word for start, end in self.spans for word in range(start, end)}
        self.relations: defaultdict[tuple[Argument, Argument], set[str]] = defaultdict(set)
        for relation in predicted.relations:
            self.relations[_argument(relation.head), _argument(relation.tail)].add(relation.label)

    def diagnose(self, relation: Relation) -> Literal["correct"] | ErrorKind:
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
