"""`ResultFilter`: which entities and relations of an extraction are kept, by score and by type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from unire.documents import Document, restrict_clusters
from unire.errors import UnireError, shorten
from unire.labels import LabelSpace

__all__ = ["ResultFilter"]


@dataclass(frozen=True)
class ResultFilter:
    """Drops entities and relations by score and by type, and relations that lose an argument.

    Clusters keep the mentions that are still entities.

    >>> keep = ResultFilter.build(extractor.labels, min_score=0.5, relations=["USED-FOR"])  # doctest: +SKIP
    >>> keep(document)  # doctest: +SKIP
    """

    min_score: float = 0.0
    """The lowest score. Items without a score are kept."""
    entity_types: tuple[str, ...] | None = None
    """The entity types to keep; `None` keeps all."""
    relation_types: tuple[str, ...] | None = None
    """The relation types to keep; `None` keeps all."""
    arguments_only: bool = False
    """Whether entities are dropped that are not an argument of a kept relation."""

    @classmethod
    def build(
        cls,
        labels: LabelSpace,
        min_score: float = 0.0,
        types: str | Iterable[str] | None = None,
        *,
        entities: str | Iterable[str] | None = None,
        relations: str | Iterable[str] | None = None,
    ) -> Self:
        """Check a score and the names of types, and build the filter.

        Args:
            labels: The label space of the model.
            min_score: The lowest score.
            types: Names of entity and relation types, as an iterable or separated by commas. Without any entity type,
                all entities are kept; without any relation type, all relations are. [default: all types]
            entities: The entity types to keep. Relations are kept between entities of these types. [default: all]
            relations: The relation types to keep. Without `entities`, only the arguments of these relations are kept.
                [default: all]

        Raises:
            UnireError: The score is out of range, or the label space does not have a type.
        """
        if isinstance(min_score, bool) or not isinstance(min_score, (int, float)) or not 0 <= min_score <= 1:
            raise UnireError(f"min_score must be from 0 to 1, not {min_score!r}")
        if types is not None and not (entities is relations is None):
            raise UnireError("types=... names types of both kinds; leave it out beside entities=... or relations=...")
        known = (
            f"the entity types are {', '.join(labels.entity_types)}; "
            f"the relation types are {', '.join(labels.relation_types) or 'none'}"
        )
        if types is not None:
            names = _names("types", "type", types, (*labels.entity_types, *labels.relation_types), known)
            spaces = (labels.entity_types, labels.relation_types)
            kept = [tuple(name for name in space if name in names) or None for space in spaces]
            return cls(min_score, kept[0], kept[1])
        return cls(
            min_score,
            None if entities is None else _names("entities", "entity type", entities, labels.entity_types, known),
            None
            if relations is None
            else _names("relations", "relation type", relations, labels.relation_types, known),
            arguments_only=entities is None and relations is not None,
        )

    @property
    def types(self) -> dict[str, Any] | None:
        """The filter of types as plain JSON values, or `None` if all types are kept."""
        if self.entity_types is self.relation_types is None:
            return None
        return {
            "entities": self.entity_types and list(self.entity_types),
            "relations": self.relation_types and list(self.relation_types),
            "arguments only": self.arguments_only,
        }

    def __call__(self, document: Document) -> Document:
        """Return the document with the annotation that is kept."""
        if self == ResultFilter():
            return document
        kept = {entity for entity in document.entities if self._keeps(entity.score, entity.label, self.entity_types)}
        relations = [
            relation
            for relation in document.relations
            if relation.head in kept and relation.tail in kept
            if self._keeps(relation.score, relation.label, self.relation_types)
        ]
        if self.arguments_only:
            kept = set(chain.from_iterable((relation.head, relation.tail) for relation in relations))
        return document.annotated(
            (entity for entity in document.entities if entity in kept),
            relations,
            [sentence.cuts for sentence in document.sentences],
            restrict_clusters(document.clusters, {entity.span for entity in kept}),
        )

    def _keeps(self, score: float | None, label: str, types: tuple[str, ...] | None) -> bool:
        return (score is None or score >= self.min_score) and (types is None or label in types)


def _names(
    argument: str, kind: str, given: str | Iterable[str], available: tuple[str, ...], known: str
) -> tuple[str, ...]:
    """The names that an argument gives, in the order of the label space."""
    names = {name.strip() for name in (given.split(",") if isinstance(given, str) else given) if name.strip()}
    if not names:
        raise UnireError(f"{argument}=... names no {kind}; {known}")
    for name in sorted(names.difference(available)):
        raise UnireError(f"{argument}=... names {shorten(name)}, which the model does not have; {known}")
    return tuple(name for name in available if name in names)
