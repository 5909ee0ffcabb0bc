"""What counts as right: published numbers differ in it, so every score says which protocol it follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from unire.errors import UnireError

__all__ = ["HEADLINE", "Average", "Protocol", "RelationMatch", "SpanUnit", "SymmetricGold"]

RelationMatch = Literal["strict", "boundaries"]
SymmetricGold = Literal["doubled", "once", "as-annotated"]
SpanUnit = Literal["words", "characters"]
Average = Literal["micro", "macro"]


@dataclass(frozen=True)
class Protocol:
    """How predictions are compared with gold. An entity is always its boundaries and its type."""

    relations: RelationMatch = "strict"
    """`strict`: type, both spans and both entity types; `boundaries`: entity types are ignored."""
    symmetric: SymmetricGold = "doubled"
    """A symmetric relation is, in gold, `doubled`: both directions, each predicted direction counting for itself (the
    paper, PL-Marker); `once`: an unordered pair, predicted if either direction is (SpERT); `as-annotated`: the
    annotated direction alone, each predicted direction counting for itself (PURE)."""
    spans: SpanUnit = "words"
    """`words`: both sides have the same words; `characters`: the same text, however it was split, and the
    exact characters of entities that are not whole words."""
    average: Average = "micro"
    """`micro`: of the counts of all types (the paper); `macro`: the mean over types (ADE's custom)."""
    drop_overlapping: bool = False
    """Leave out sentences with overlapping gold entities, as the released code does, to compare with its scores."""

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
        """The six ways to count relations, `strict` before `boundaries`, otherwise alike."""
        for relations in get_args(RelationMatch):
            for symmetric in get_args(SymmetricGold):
                yield cls(relations, symmetric, spans, average, drop_overlapping)

    @property
    def name(self) -> str:
        """Short and unambiguous; the defaults `words` and "nothing dropped" go without saying."""
        said: list[str] = [self.relations, self.symmetric, self.average]
        if self.spans != "words":
            said.append(self.spans)
        if self.drop_overlapping:
            said.append("overlapping dropped")
        return ", ".join(said)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}

    def __str__(self) -> str:
        return self.name


HEADLINE = Protocol()
"""Strict, doubled, micro, nothing dropped: what is reported when nothing else is said."""
