"""The types that annotated data has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from unire.documents import Document

__all__ = ["types_of"]


def types_of(documents: Iterable[Document]) -> dict[str, Counter[str]]:
    """How many there are of every type of entity and of relation; the two may share a name."""
    entities: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for document in documents:
        entities.update(entity.label for entity in document.entities)
        relations.update(relation.label for relation in document.relations)
    return {"entity": entities, "relation": relations}
