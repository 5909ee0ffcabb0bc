"""Bootstrap: confidence intervals of scores, and significance of differences, by resampling documents.

Each document is counted once. A resample is a weighted sum of these counts, so the scorer does not run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import MatchCounts, count_matches
from unire.evaluation.scores import DEFAULT_PROTOCOL, Protocol, average_rates
from unire.labels import LabelSpace

__all__ = [
    "Comparison",
    "Difference",
    "Interval",
    "Intervals",
    "RateIntervals",
    "bootstrap",
    "bootstrap_counts",
    "paired_bootstrap",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value on the original documents, and its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class RateIntervals:
    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True, slots=True)
class Intervals:
    """Percentile confidence intervals of one system's scores."""

    protocol: Protocol
    entities: RateIntervals
    relations: RateIntervals
    confidence: float
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values, rates as fractions."""
        return {**asdict(self), "protocol": self.protocol.to_dict()}

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:g}% confidence"
        return f"Ent {self.entities.f1}  Rel {self.relations.f1}  [{self.protocol}; {sure}]"


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of the second system minus F1 of the first."""

    f1: Interval
    p_value: float
    """Two-sided: twice the smaller share of resamples, those with a difference ≤ 0 or those with one ≥ 0. One is added
    to numerator and denominator, so it is never 0."""

    def __str__(self) -> str:
        return f"{self.f1} (p = {self.p_value:.3f})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same resamples."""

    protocol: Protocol
    entities: Difference
    relations: Difference
    confidence: float
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values, differences as fractions."""
        return {**asdict(self), "protocol": self.protocol.to_dict()}

    def __str__(self) -> str:
        sure = f"{100 * self.confidence:g}% confidence"
        return f"Ent {self.entities}  Rel {self.relations}  [{self.protocol}; {sure}]"


def bootstrap(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    labels: LabelSpace,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Intervals:
    """Percentile confidence intervals of precision, recall and F1.

    Documents are resampled, because the sentences of one document are not independent.

    Args:
        gold: The annotated documents, at least two.
        predicted: The same documents with predicted annotation. The order may differ if all documents have ids.
        labels: The types to count, and which relations are symmetric.
        protocol: What counts as correct.
        samples: The number of resamples.
        seed: The same seed gives the same intervals.
        confidence: The confidence level.
    """
    counts = count_matches(gold, predicted, labels, protocol)
    return bootstrap_counts(counts, labels, protocol, samples=samples, seed=seed, confidence=confidence)


def bootstrap_counts(
    counts: Iterable[MatchCounts],
    labels: LabelSpace,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Intervals:
    """Compute the intervals of `bootstrap` from the match counts of each document."""
    [value], resampled = _resample([counts], labels, protocol, samples, seed)
    low, high = _bounds(resampled[:, 0], confidence)
    entities, relations = (
        RateIntervals(*(Interval(*map(float, rate)) for rate in zip(value[kind], low[kind], high[kind], strict=True)))
        for kind in (0, 1)
    )
    return Intervals(protocol, entities, relations, confidence, samples)


def paired_bootstrap(
    gold: Iterable[Document],
    first: Iterable[Document],
    second: Iterable[Document],
    labels: LabelSpace,
    protocol: Protocol = DEFAULT_PROTOCOL,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Test whether `second` is better than `first`, on the same resamples.

    Args:
        gold: The annotated documents, at least two.
        first: Predictions of one system (the baseline).
        second: Predictions of the other.
        labels: The types to count, and which relations are symmetric.
        protocol: What counts as correct.
        samples: The number of resamples.
        seed: The same seed gives the same comparison.
        confidence: The confidence level.
    """
    gold = list(gold)
    systems = [count_matches(gold, system, labels, protocol) for system in (first, second)]
    value, resampled = _resample(systems, labels, protocol, samples, seed)
    f1 = 2
    difference = value[1, :, f1] - value[0, :, f1]
    differences = resampled[:, 1, :, f1] - resampled[:, 0, :, f1]
    low, high = _bounds(differences, confidence)
    tail = np.minimum((differences <= 0).sum(axis=0), (differences >= 0).sum(axis=0))
    p_value = np.minimum(2 * (tail + 1) / (samples + 1), 1)
    entities, relations = (
        Difference(Interval(float(difference[kind]), float(low[kind]), float(high[kind])), float(p_value[kind]))
        for kind in (0, 1)
    )
    return Comparison(protocol, entities, relations, confidence, samples)


def _resample(
    systems: Sequence[Iterable[MatchCounts]], labels: LabelSpace, protocol: Protocol, samples: int, seed: int
) -> tuple[Floats, Floats]:
    """Rates on the original documents and on each resample: `[systems, 2, 3]` and `[samples, systems, 2, 3]`.

    The last two axes are entities and relations; precision, recall and F1.
    """
    if samples < 1:
        raise UnireError(f"a bootstrap needs at least 1 sample, not {samples}")
    counts = np.stack([[document.counts for document in system] for system in systems], axis=1, dtype=float)
    n = len(counts)
    if n < 2:
        raise UnireError(f"a bootstrap needs at least 2 documents, not {n}")
    rng = np.random.default_rng(seed)
    by_document = counts.reshape(n, -1)
    # one resample at a time, so memory does not grow with their number
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) @ by_document for _ in range(samples)]
    totals = np.stack([by_document.sum(axis=0), *drawn]).reshape(samples + 1, *counts.shape[1:])
    rates = np.stack(
        [average_rates(totals[..., kind, :], protocol.average) for kind in (labels.entity_ids, labels.relation_ids)],
        axis=-2,
    )
    return rates[0], rates[1:]


def _bounds(resampled: Floats, confidence: float) -> Floats:
    """The lower and upper percentiles of the resampled values."""
    if not 0 < confidence < 1:
        raise UnireError(f"the confidence must be between 0 and 1, not {confidence:g}")
    bounds: Floats = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return bounds
