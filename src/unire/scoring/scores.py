"""What a scorer returns: one object that adds, compares and prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unire.exceptions import UnireError
from unire.scoring.counts import Counts, TypedCounts
from unire.scoring.protocol import Protocol

__all__ = ["Scores"]


@dataclass(frozen=True)
class Scores:
    """Scores of predictions under one protocol.

    `a + b` are the scores of both sets of documents together (the counts add; rates follow from them), and `a > b`
    compares Ent F1 + Rel F1, by which models are selected.
    """

    protocol: Protocol
    entities: TypedCounts
    relations: TypedCounts
    spans: Counts | None
    """Split positions; `None` under `spans="characters"`, where the two sides need not have the same words."""
    dropped: int = 0
    """Sentences left out because their gold entities overlap; 0 unless the protocol asks for it."""

    def __add__(self, other: Scores) -> Scores:
        self._require_same_protocol(other)
        return Scores(
            self.protocol,
            self.entities + other.entities,
            self.relations + other.relations,
            None if self.spans is None or other.spans is None else self.spans + other.spans,
            self.dropped + other.dropped,
        )

    @property
    def ent_plus_rel(self) -> float:
        """Ent F1 + Rel F1: what model selection looks at."""
        return self.entities.f1 + self.relations.f1

    def __lt__(self, other: Scores) -> bool:
        self._require_same_protocol(other)
        return self.ent_plus_rel < other.ent_plus_rel

    def __gt__(self, other: Scores) -> bool:
        return other < self

    def _require_same_protocol(self, other: Scores) -> None:
        if self.protocol != other.protocol:
            raise UnireError(
                f"scores under different protocols neither add nor compare: [{self.protocol}] and [{other.protocol}]; "
                "score both under one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values, rates as fractions."""
        return {
            "protocol": self.protocol.to_dict(),
            "entities": self.entities.to_dict(),
            "relations": self.relations.to_dict(),
            "spans": self.spans and self.spans.to_dict(),
            "dropped_sentences": self.dropped,
        }

    def __str__(self) -> str:
        said = [f"Ent {self.entities}", f"Rel {self.relations}"]
        if self.spans is not None:
            said.append(f"Span {100 * self.spans.f1:.1f}")
        dropped = f": {self.dropped} sentences" if self.protocol.drop_overlapping else ""
        return "  ".join([*said, f"[{self.protocol}{dropped}]"])
