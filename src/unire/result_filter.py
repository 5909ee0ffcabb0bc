"""`ResultFilter`: which entities and relations of an extraction are kept, by score and by type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, Self

from unire.calibration import Calibration
from unire.documents import Document, Entity, Relation, restrict_clusters
from unire.errors import UnireError, shorten
from unire.labels import LabelSpace

__all__ = ["MinScore", "ResultFilter"]

MinScore = float | Literal["auto"]
"""The lowest score of a prediction that is kept; `auto` stands for the scores that the model recommends."""


@dataclass(frozen=True)
class ResultFilter:
    """Drops entities and relations by score and by type, and relations that lose an argument.

    Clusters keep the mentions that are still entities.

    >>> keep = ResultFilter.build(extractor.labels, min_score=0.5, relations=["USED-FOR"])  # doctest: +SKIP
    >>> keep(document)  # doctest: +SKIP
    """

    min_score: MinScore = 0.0
    """The lowest score. Items without a score are kept."""
    entity_types: tuple[str, ...] | None = None
    """The entity types to keep; `None` keeps all."""
    relation_types: tuple[str, ...] | None = None
    """The relation types to keep; `None` keeps all."""
    arguments_only: bool = False
    """Whether entities are dropped that are not an argument of a kept relation."""
    recommended: Calibration = field(default_factory=Calibration)
    """Has the lowest score of every type, if `min_score` is `auto`."""

    @classmethod
    def build(
        cls,
        labels: LabelSpace,
        min_score: MinScore = 0.0,
        types: str | Iterable[str] | None = None,
        entities: str | Iterable[str] | None = None,
        relations: str | Iterable[str] | None = None,
        calibration: Calibration | None = None,
    ) -> Self:
        """Check a score and the names of types, and build the filter.

        Args:
            labels: The label space of the model.
            min_score: The lowest score, or `auto`.
            types: Names of entity and relation types, as an iterable or separated by commas. Without any entity type,
                all entities are kept; without any relation type, all relations are. [default: all types]
            entities: The entity types to keep. Relations are kept between entities of these types. [default: all]
            relations: The relation types to keep. Without `entities`, only the arguments of these relations are kept.
                [default: all]
            calibration: That of the model, with its recommended scores for `auto`.

        Raises:
            UnireError: The score is out of range, or the label space does not have a type.
        """
        recommended = Calibration()
        if min_score == "auto":
            if calibration is None or not calibration.entity_min_scores:
                raise UnireError("the model recommends no scores; give min_score a number, or calibrate the model")
            recommended = calibration
        elif isinstance(min_score, bool) or not isinstance(min_score, (int, float)) or not 0 <= min_score <= 1:
            raise UnireError(f"min_score must be from 0 to 1, or 'auto', not {min_score!r}")
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
            return cls(min_score, kept[0], kept[1], recommended=recommended)
        return cls(
            min_score,
            None if entities is None else _names("entities", "entity type", entities, labels.entity_types, known),
            None
            if relations is None
            else _names("relations", "relation type", relations, labels.relation_types, known),
            arguments_only=entities is None and relations is not None,
            recommended=recommended,
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
        kept = {entity for entity in document.entities if self._keeps(entity)}
        relations = [
            relation
            for relation in document.relations
            if relation.head in kept and relation.tail in kept
            if self._keeps(relation)
        ]
        if self.arguments_only:
            kept = set(chain.from_iterable((relation.head, relation.tail) for relation in relations))
        return document.annotated(
            (entity for entity in document.entities if entity in kept),
            relations,
            [sentence.cuts for sentence in document.sentences],
            restrict_clusters(document.clusters, {entity.span for entity in kept}),
        )

    def _keeps(self, item: Entity | Relation) -> bool:
        return self._has_type(item) and (item.score is None or item.score >= self._min_score_of(item))

    def scores_below(self, document: Document) -> list[float]:
        """The scores of the items that are dropped by score alone."""
        items: list[Entity | Relation] = [*document.entities, *document.relations]
        items = [item for item in items if self._has_type(item)]
        return [item.score for item in items if item.score is not None and item.score < self._min_score_of(item)]

    def _has_type(self, item: Entity | Relation) -> bool:
        types = self.entity_types if isinstance(item, Entity) else self.relation_types
        return types is None or item.label in types

    def _min_score_of(self, item: Entity | Relation) -> float:
        """The lowest score for items of this type."""
        if self.min_score != "auto":
            return self.min_score
        by_type = self.recommended
        scores = by_type.entity_min_scores if isinstance(item, Entity) else by_type.relation_min_scores
        return scores.get(item.label, 0.0)


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
