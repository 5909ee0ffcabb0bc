"""Relations as a reader is shown them: one that holds both ways, equally surely, is there once."""

from __future__ import annotations

from collections.abc import Sequence

from unire.documents import Entity, Relation

__all__ = ["score_of", "shown_once"]


def shown_once(relations: Sequence[Relation]) -> list[tuple[int, ...]]:
    """Positions of the relations, those of one that holds both ways together, at the place of the first of the two."""
    places: dict[tuple[Entity, Entity, str, str], int] = {}
    shown: list[tuple[int, ...]] = []
    for position, relation in enumerate(relations):
        head, tail, label, score = relation.head, relation.tail, relation.label, score_of(relation)
        mirror = places.pop((tail, head, label, score), None) if head != tail else None
        if mirror is None:
            places[head, tail, label, score] = len(shown)
            shown.append((position,))
        else:
            shown[mirror] += (position,)
    return shown


def score_of(relation: Relation) -> str:
    """Its score as it is shown; nothing if it has none."""
    return "" if relation.score is None else f"{relation.score:.2f}"
