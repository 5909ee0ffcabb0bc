"""Relations as a reader is shown them: one that holds both ways, equally surely, is there once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from unire.documents import Entity, Relation

__all__ = ["score_of", "shown_once"]


def shown_once(relations: Sequence[Relation]) -> list[tuple[int, ...]]:
    """Positions of the relations, those of one that holds both ways together, at the place of the first of the two."""
    alone: defaultdict[tuple[Entity, Entity, str, str], deque[int]] = defaultdict(deque)  # one may be given twice
    shown: list[tuple[int, ...]] = []
    for position, relation in enumerate(relations):
        head, tail, label, score = relation.head, relation.tail, relation.label, score_of(relation)
        mirrors = alone[tail, head, label, score] if head != tail else None
        if mirrors:
            shown[mirrors.popleft()] += (position,)
        else:
            alone[head, tail, label, score].append(len(shown))
            shown.append((position,))
    return shown


def score_of(relation: Relation) -> str:
    """Its score as it is shown; nothing if it has none."""
    return "" if relation.score is None else f"{relation.score:.2f}"
