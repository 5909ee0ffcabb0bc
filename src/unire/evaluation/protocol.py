"""Evaluation protocols: what counts as correct. Published numbers differ in it, so every score names its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from unire.errors import UnireError

__all__ = ["DEFAULT_PROTOCOL", "Average", "Protocol", "RelationMatch", "SpanUnit", "SymmetricGold"]

RelationMatch = Literal["strict", "boundaries"]
SymmetricGold = Literal["doubled", "once", "as-annotated"]
SpanUnit = Literal["words", "characters"]
Average = Literal["micro", "macro"]


@dataclass(frozen=True)
class Protocol:
    """How predictions are compared with gold. An entity is always compared by its boundaries and its type."""

    relations: RelationMatch = "strict"
    """`strict`: relation type, both spans and both entity types; `boundaries`: entity types are ignored."""
    symmetric: SymmetricGold = "doubled"
    """How gold counts a symmetric relation. `doubled`: as two directed relations (the paper, PL-Marker). `once`: as an
    unordered pair, which is predicted if either direction is (SpERT). `as-annotated`: in the annotated direction only
    (PURE). Except for `once`, each predicted direction counts separately."""
    spans: SpanUnit = "words"
    """`words`: gold and predictions have the same words. `characters`: they have the same text, and exact character
    spans are compared."""
    average: Average = "micro"
    """`micro`: over the counts of all types (the paper); `macro`: the mean over types (usual for ADE)."""
    drop_overlapping: bool = False
    """Leave out sentences with overlapping gold entities, as the released code does."""

    def __post_init__(self) -> None:
        for field, choices in (
            ("relations", get_args(RelationMatch)),
            ("symmetric", get_args(SymmetricGold)),
            ("spans", get_args(SpanUnit)),
            ("average", get_args(Average)),
        ):
            if (value := getattr(self, field)) not in choices:
                raise UnireError(f"a scoring protocol has no {field}={value!r}; choose from {', '.join(choices)}")

    @classmethod
    def all(
        cls, *, spans: SpanUnit = "words", average: Average = "micro", drop_overlapping: bool = False
    ) -> Iterator[Protocol]:
        """All six combinations of `relations` and `symmetric`, `strict` before `boundaries`."""
        for relations in get_args(RelationMatch):
            for symmetric in get_args(SymmetricGold):
                yield cls(relations, symmetric, spans, average, drop_overlapping)

    @property
    def name(self) -> str:
        """A short, unambiguous name. It omits the defaults `words` and "nothing dropped"."""
        parts: list[str] = [self.relations, self.symmetric, self.average]
        if self.spans != "words":
            parts.append(self.spans)
        if self.drop_overlapping:
            parts.append("overlapping dropped")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}

    def __str__(self) -> str:
        return self.name


DEFAULT_PROTOCOL = Protocol()
"""Strict, doubled, micro, nothing dropped."""
