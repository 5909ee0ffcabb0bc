"""Coreference scores: MUC, B³, CEAF-φ4 and their mean, the CoNLL F1 (Pradhan et al., 2012).

The key K is the set of gold clusters, the response R that of predicted ones. Mentions are equal if their spans are.
Clusters of a single mention are left out of both.

    MUC      recall = Σ_k (|k| − parts of k in R) / Σ_k (|k| − 1)                  Vilain et al., 1995
    B³       recall = Σ_k Σ_r |k ∩ r|² / |k| / Σ_k |k|                             Bagga and Baldwin, 1998
    CEAF-φ4  recall = max over one-to-one alignments of Σ φ4(k, r) / |K|,          Luo, 2005
             φ4(k, r) = 2 |k ∩ r| / (|k| + |r|)

Precision is the same with key and response exchanged. Numerators and denominators are summed over documents.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unire.documents import Document
from unire.evaluation.scorer import align_documents
from unire.evaluation.scores import SpanUnit

__all__ = ["CoreferenceScores", "Fractions", "max_assignment", "score_clusters", "score_coreference"]

Clusters = Iterable[Collection[Hashable]]
"""Sets of mentions."""


@dataclass(frozen=True)
class Fractions:
    """Precision and recall of one metric, as sums over documents of numerators and denominators."""

    correct_predicted: float = 0.0
    """The numerator of precision."""
    predicted: float = 0.0
    """The denominator of precision."""
    correct_gold: float = 0.0
    """The numerator of recall."""
    gold: float = 0.0
    """The denominator of recall."""

    @property
    def precision(self) -> float:
        return self.correct_predicted / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct_gold / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: Fractions) -> Fractions:
        return Fractions(
            self.correct_predicted + other.correct_predicted,
            self.predicted + other.predicted,
            self.correct_gold + other.correct_gold,
            self.gold + other.gold,
        )


@dataclass(frozen=True)
class CoreferenceScores:
    """The three metrics of coreference; scores of documents add up."""

    muc: Fractions = Fractions()
    """Counts links."""
    b_cubed: Fractions = Fractions()
    """Counts mentions."""
    ceaf: Fractions = Fractions()
    """Counts clusters: CEAF-φ4."""

    @property
    def f1(self) -> float:
        """The CoNLL F1, which is the mean of the three."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf.f1) / 3

    @property
    def rows(self) -> dict[str, Fractions]:
        """The metrics by their names."""
        return {"MUC": self.muc, "B³": self.b_cubed, "CEAF-φ4": self.ceaf}

    def __add__(self, other: CoreferenceScores) -> CoreferenceScores:
        return CoreferenceScores(self.muc + other.muc, self.b_cubed + other.b_cubed, self.ceaf + other.ceaf)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        names = {"muc": self.muc, "b_cubed": self.b_cubed, "ceaf": self.ceaf}
        rates = {
            name: {"precision": metric.precision, "recall": metric.recall, "f1": metric.f1}
            for name, metric in names.items()
        }
        return {"f1": self.f1, **rates}

    def __str__(self) -> str:
        parts = "  ".join(f"{name} {100 * metric.f1:.1f}" for name, metric in self.rows.items())
        return f"Coref {100 * self.f1:.1f}  ({parts})"


def score_coreference(
    gold: Iterable[Document], predicted: Iterable[Document], spans: SpanUnit = "words"
) -> CoreferenceScores:
    """Compare the clusters of predicted documents with those of gold documents.

    >>> score_coreference(gold, extractor.annotate(gold)).f1  # doctest: +SKIP

    Args:
        gold: The annotated documents.
        predicted: The same documents with predicted clusters. The order may differ if all documents have ids.
        spans: Compare mentions by their words or by their characters.

    Returns:
        MUC, B³ and CEAF-φ4 over all documents.

    Raises:
        UnireError: The two are not the same documents.
    """
    pairs = align_documents(gold, predicted)
    scores = (score_clusters(_mentions(truth, spans), _mentions(guess, spans)) for truth, guess in pairs)
    return sum(scores, start=CoreferenceScores())


def score_clusters(gold: Clusters, predicted: Clusters) -> CoreferenceScores:
    """Compare the clusters of one document.

    >>> score_clusters([{"a", "b", "c"}], [{"a", "b"}]).muc.recall
    0.5
    """
    key, response = ([set(cluster) for cluster in clusters if len(set(cluster)) > 1] for clusters in (gold, predicted))
    common = np.array([[len(k & r) for r in response] for k in key], np.float64).reshape(len(key), len(response))
    n_key, n_response = (np.array([len(cluster) for cluster in side], np.float64) for side in (key, response))
    similarity = float(max_assignment(2 * common / (n_key[:, None] + n_response)))
    return CoreferenceScores(
        Fractions(
            _links(common.T, n_response), float((n_response - 1).sum()), _links(common, n_key), float((n_key - 1).sum())
        ),
        Fractions(
            float((common**2 / n_response).sum()),
            float(n_response.sum()),
            float((common**2 / n_key[:, None]).sum()),
            float(n_key.sum()),
        ),
        Fractions(similarity, len(response), similarity, len(key)),
    )


def _links(common: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """Σ |k| − the parts of k in the other side, in which every mention of no cluster is a part of its own."""
    parts = (common > 0).sum(1) + sizes - common.sum(1)
    return float((sizes - parts).sum())


def max_assignment(weights: ArrayLike) -> float:
    """The largest total weight of a one-to-one assignment of rows to columns (the Hungarian algorithm).

    Rows are added one by one, each along the shortest augmenting path under the potentials of rows and columns.
    """
    costs = -np.asarray(weights, np.float64)
    if not costs.size:
        return 0.0
    if costs.shape[0] > costs.shape[1]:
        costs = costs.T
    n_rows, n_columns = costs.shape
    row_potential, column_potential = np.zeros(n_rows), np.zeros(n_columns + 1)
    row_of = np.full(n_columns + 1, -1)  # the last column is a start for the path
    for row in range(n_rows):
        row_of[n_columns] = row
        column = n_columns
        distance, previous = np.full(n_columns, np.inf), np.full(n_columns, n_columns)
        visited = np.zeros(n_columns + 1, bool)
        while row_of[column] >= 0:
            visited[column] = True
            current = row_of[column]
            reduced = costs[current] - row_potential[current] - column_potential[:n_columns]
            closer = ~visited[:n_columns] & (reduced < distance)
            distance[closer], previous[closer] = reduced[closer], column
            following = int(np.where(visited[:n_columns], np.inf, distance).argmin())
            step = distance[following]
            row_potential[row_of[visited]] += step
            column_potential[visited] -= step
            distance[~visited[:n_columns]] -= step
            column = following
        while column != n_columns:
            row_of[column] = row_of[previous[column]]
            column = int(previous[column])
    assigned = np.flatnonzero(row_of[:n_columns] >= 0)
    return -float(costs[row_of[assigned], assigned].sum())


def _mentions(document: Document, spans: SpanUnit) -> Sequence[Collection[Hashable]]:
    if spans == "words":
        return document.clusters
    offsets = document.offsets
    return [[(offsets[start][0], offsets[end - 1][1]) for start, end in cluster] for cluster in document.clusters]
