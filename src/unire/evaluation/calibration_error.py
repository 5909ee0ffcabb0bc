"""How far scores can be believed: what findings claim to be, against how many of them are right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.evaluation.protocol import HEADLINE
from unire.evaluation.scorer import Matches, compared
from unire.labels import LabelSpace

__all__ = ["BINS", "Bin", "Confidence", "Outcomes", "Reliability", "outcomes", "outcomes_of_matches"]

BINS = 10
"""Of equal width, from 0 to 1."""


class Scored(NamedTuple):
    """Findings of one kind: entities, or relations."""

    scores: NDArray[np.float64]
    right: NDArray[np.bool_]


class Outcomes(NamedTuple):
    """How findings turned out."""

    entities: Scored
    relations: Scored


def outcomes(gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace) -> Outcomes:
    """All predictions that have a score: whether each is right, under the headline protocol."""
    return outcomes_of_matches(compared(gold, predicted, labels, HEADLINE), labels)


def outcomes_of_matches(matches: Iterable[Matches], labels: LabelSpace) -> Outcomes:
    """All predictions that have a score: whether each is right, under the protocol of the matches."""
    entities: list[tuple[float, bool]] = []
    relations: list[tuple[float, bool]] = []
    for document in matches:
        for key, score in document.found.items():
            if score is not None:
                (entities if key[0] < labels.entity_ids.stop else relations).append((score, key in document.true))
    columns = (np.reshape(found, (-1, 2)).T for found in (entities, relations))
    return Outcomes(*(Scored(scores, right > 0) for scores, right in columns))


@dataclass(frozen=True)
class Bin:
    """Findings whose scores are alike."""

    low: float
    high: float
    n: int
    score: float
    """Their mean score."""
    right: float
    """The share of them that is right."""


@dataclass(frozen=True)
class Reliability:
    """Findings by their scores."""

    bins: tuple[Bin, ...]
    """Those that hold any finding, from low scores to high ones."""

    @classmethod
    def of(cls, scores: NDArray[np.float64], right: NDArray[np.bool_]) -> Reliability:
        place = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
        filled, n = np.unique(place, return_counts=True)
        means = ((np.bincount(place, weights=values)[filled] / n).tolist() for values in (scores, right))
        edges = (filled / BINS).tolist(), ((filled + 1) / BINS).tolist()
        return cls(tuple(Bin(*values) for values in zip(*edges, n.tolist(), *means, strict=True)))

    @property
    def n(self) -> int:
        return sum(part.n for part in self.bins)

    @property
    def error(self) -> float:
        """The expected calibration error: how far score and share of right ones are apart, in the mean of findings."""
        return sum(part.n * abs(part.score - part.right) for part in self.bins) / max(self.n, 1)

    def to_dict(self) -> dict[str, Any]:
        return {"n": self.n, "error": self.error, "bins": [asdict(part) for part in self.bins]}


@dataclass(frozen=True)
class Confidence:
    """How far a model's scores can be believed."""

    entities: Reliability
    relations: Reliability

    @classmethod
    def of(cls, found: Outcomes) -> Confidence:
        return cls(Reliability.of(*found.entities), Reliability.of(*found.relations))

    def to_dict(self) -> dict[str, Any]:
        return {"entities": self.entities.to_dict(), "relations": self.relations.to_dict()}

    def __str__(self) -> str:
        parts = (("entities", self.entities), ("relations", self.relations))
        return ", ".join(f"{100 * part.error:.1f}% for {part.n:,} {name}" for name, part in parts)
