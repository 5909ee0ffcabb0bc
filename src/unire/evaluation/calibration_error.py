"""Calibration error: how far the scores of predictions are from the share of predictions that are correct."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.evaluation.scorer import Matches, match_documents
from unire.evaluation.scores import DEFAULT_PROTOCOL
from unire.labels import LabelSpace

__all__ = [
    "N_BINS",
    "CalibrationErrors",
    "Outcomes",
    "Reliability",
    "ReliabilityBin",
    "ScoredPredictions",
    "collect_outcomes",
    "outcomes_of_matches",
]

N_BINS = 10
"""Bins of a reliability diagram. They have equal width and cover the scores from 0 to 1."""


class ScoredPredictions(NamedTuple):
    """The predictions of one kind: entities or relations."""

    scores: NDArray[np.float64]
    """[n]"""
    correct: NDArray[np.bool_]
    """[n]"""
    labels: NDArray[np.int64]
    """[n] ids of their types in the label space."""


class Outcomes(NamedTuple):
    """Predictions with their scores, and whether they are correct."""

    entities: ScoredPredictions
    relations: ScoredPredictions


def collect_outcomes(gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace) -> Outcomes:
    """Compare all predictions that have a score with gold, under the default protocol."""
    return outcomes_of_matches(match_documents(gold, predicted, labels, DEFAULT_PROTOCOL), labels)


def outcomes_of_matches(matched: Iterable[Matches], labels: LabelSpace) -> Outcomes:
    """The outcomes of all predictions that have a score."""
    entities: list[tuple[float, bool, Any]] = []
    relations: list[tuple[float, bool, Any]] = []
    for matches in matched:
        for key, score in matches.predicted_keys.items():
            if score is not None:
                kind = entities if key[0] < labels.entity_ids.stop else relations
                kind.append((score, key in matches.gold_keys, key[0]))
    columns = (np.reshape(rows, (-1, 3)).T for rows in (entities, relations))
    return Outcomes(*(ScoredPredictions(scores, correct > 0, ids.astype(np.int64)) for scores, correct, ids in columns))


@dataclass(frozen=True)
class ReliabilityBin:
    """The predictions whose scores are from `low` to `high`."""

    low: float
    high: float
    n: int
    score: float
    """Their mean score."""
    right: float
    """The share of them that is correct."""


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: predictions binned by score."""

    bins: tuple[ReliabilityBin, ...]
    """The bins that are not empty, by increasing score."""

    @classmethod
    def of(cls, scores: NDArray[np.float64], correct: NDArray[np.bool_]) -> Reliability:
        bin_of_each = np.minimum((scores * N_BINS).astype(np.int64), N_BINS - 1)
        filled, n = np.unique(bin_of_each, return_counts=True)
        means = ((np.bincount(bin_of_each, weights=values)[filled] / n).tolist() for values in (scores, correct))
        edges = (filled / N_BINS).tolist(), ((filled + 1) / N_BINS).tolist()
        return cls(tuple(ReliabilityBin(*values) for values in zip(*edges, n.tolist(), *means, strict=True)))

    @property
    def n(self) -> int:
        return sum(part.n for part in self.bins)

    @property
    def error(self) -> float:
        """The expected calibration error: Σ n_b / n · |mean score − share correct| over the bins b."""
        return sum(part.n * abs(part.score - part.right) for part in self.bins) / max(self.n, 1)

    def to_dict(self) -> dict[str, Any]:
        return {"n": self.n, "error": self.error, "bins": [asdict(part) for part in self.bins]}


@dataclass(frozen=True)
class CalibrationErrors:
    """How well the scores of a model are calibrated."""

    entities: Reliability
    relations: Reliability

    @classmethod
    def of(cls, outcomes: Outcomes) -> CalibrationErrors:
        return cls(*(Reliability.of(kind.scores, kind.correct) for kind in outcomes))

    def to_dict(self) -> dict[str, Any]:
        return {"entities": self.entities.to_dict(), "relations": self.relations.to_dict()}

    def __str__(self) -> str:
        parts = (("entities", self.entities), ("relations", self.relations))
        return ", ".join(f"{100 * part.error:.1f}% for {part.n:,} {name}" for name, part in parts)
