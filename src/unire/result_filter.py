"""`ResultFilter`: which entities and relations of an extraction are kept, by score and by type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = ["ResultFilter"]


@dataclass(frozen=True)
class ResultFilter:
    """Drops entities and relations by score and by type, and relations that lose an argument.

    >>> keep = ResultFilter.build(extractor.labels, min_score=0.5, types=["Method", "USED-FOR"])  # doctest: +SKIP
    >>> keep(document)  # doctest: +SKIP
    """

    min_score: float = 0.0
    """The lowest score. Items without a score are kept."""
    entity_types: tuple[str, ...] | None = None
    """The entity types to keep; `None` keeps all."""
    relation_types: tuple[str, ...] | None = None
    """The relation types to keep; `None` keeps all."""

    @classmethod
    def build(cls, labels: LabelSpace, min_score: float = 0.0, types: str | Iterable[str] | None = None) -> Self:
        """Check a score and the names of types, and build the filter.

        Args:
            labels: The label space of the model.
            min_score: The lowest score.
            types: Names of entity and relation types, as an iterable or separated by commas. Without any entity type,
                all entities are kept; without any relation type, all relations are. [default: all types]

        Raises:
            UnireError: The score is out of range, or the label space does not have a type.
        """
        if isinstance(min_score, bool) or not isinstance(min_score, (int, float)) or not 0 <= min_score <= 1:
            raise UnireError(f"min_score must be from 0 to 1, not {min_score!r}")
        if types is None:
            return cls(min_score)
        names = [name.strip() for name in (types.split(",") if isinstance(types, str) else types) if name.strip()]
        known = (
            f"the entity types are {', '.join(labels.entity_types)}; "
            f"the relation types are {', '.join(labels.relation_types) or 'none'}"
        )
        if not names:
            raise UnireError(f"types=... names no type; {known}")
        for name in names:
            if name not in (*labels.entity_types, *labels.relation_types):
                raise UnireError(f"types=... names {name!r}, which the model does not have; {known}")
        kept = [tuple(name for name in all_ if name in names) for all_ in (labels.entity_types, labels.relation_types)]
        return cls(min_score, kept[0] or None, kept[1] or None)

    @property
    def types(self) -> list[str] | None:
        """All types to keep, or `None` if all types are kept."""
        kept = (*(self.entity_types or ()), *(self.relation_types or ()))
        return sorted(set(kept)) or None

    def __call__(self, document: Document) -> Document:
        """Return the document with the annotation that is kept."""
        if self == ResultFilter():
            return document
        kept = {entity for entity in document.entities if self._keeps(entity.score, entity.label, self.entity_types)}
        return document.annotated(
            (entity for entity in document.entities if entity in kept),
            (
                relation
                for relation in document.relations
                if relation.head in kept and relation.tail in kept
                if self._keeps(relation.score, relation.label, self.relation_types)
            ),
            [sentence.cuts for sentence in document.sentences],
        )

    def _keeps(self, score: float | None, label: str, types: tuple[str, ...] | None) -> bool:
        return (score is None or score >= self.min_score) and (types is None or label in types)
