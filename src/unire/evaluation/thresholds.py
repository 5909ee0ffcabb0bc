"""Thresholds for calibrated scores, from annotated documents: values to choose from, and recommended ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.calibration import Calibration
from unire.config import ModelConfig
from unire.documents import Document
from unire.evaluation.calibration_error import ScoredPredictions, collect_outcomes
from unire.evaluation.scorer import count_matches, score, sum_scores
from unire.evaluation.scores import Scores
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.result_filter import ResultFilter

__all__ = ["MIN_F1_DIFFERENCE", "recommend_min_scores", "suggest_thresholds", "with_thresholds"]

MIN_F1_DIFFERENCE = 0.001
"""A smaller difference in F1 (a tenth of a point) counts as none."""
KEPT_SHARES = (1.0, 0.75, 0.5, 0.25)
"""The shares of the predicted relations that the suggested thresholds keep."""
RATES = ("precision", "recall", "f1")


def suggest_thresholds(
    gold: Sequence[Document], predicted: Iterable[Document], labels: LabelSpace
) -> list[dict[str, Any]]:
    """Find the highest `min_score` that keeps each of `KEPT_SHARES` of the predicted relations.

    If there are no relations, it is a share of the entities.

    Returns:
        For each value, as plain JSON: `min_score`, and P, R and F1 of entities and relations. All predictions are kept
        at 0. Values that would repeat are left out.
    """
    predicted = list(predicted)
    scores = [
        min(item.score or 0.0 for item in (relation, relation.head, relation.tail))
        for document in predicted
        for relation in document.relations
    ] or [entity.score or 0.0 for document in predicted for entity in document.entities]
    falling = sorted(scores, reverse=True)
    values = {0.0} | {
        math.floor(100 * falling[math.ceil(share * len(falling)) - 1]) / 100 for share in KEPT_SHARES[1:] if falling
    }
    rows = []
    for min_score in sorted(values):
        kept = score(gold, [document.confident(min_score) for document in predicted], labels)
        rows.append({"min_score": min_score, **_rates(kept)})
    return rows


def _rates(scores: Scores) -> dict[str, Any]:
    """P, R and F1 of entities and relations, as plain JSON."""
    kinds = {"entities": scores.entities, "relations": scores.relations}
    return {kind: {rate: getattr(counts, rate) for rate in RATES} for kind, counts in kinds.items()}


MIN_TYPE_PREDICTIONS = 50
"""A type with fewer predictions on dev gets the recommended score of its kind, not one of its own."""
WANTED_PRECISION, WANTED_RECALL = 0.75, 0.4
"""Scores that give both are preferred."""
SCORE_GRID = np.arange(100) / 100


def recommend_min_scores(
    calibration: Calibration, gold: Sequence[Document], predicted: Sequence[Document], labels: LabelSpace
) -> Calibration:
    """Find the `min_score` of every type: those of entities with the best F1, those of relations with the best F0.5.

    In F0.5, precision counts twice. If some scores reach `WANTED_PRECISION` and `WANTED_RECALL`, the best of these are
    taken. First all types of a kind get the same score, then each with enough predictions one of its own, if the
    whole gains from it. Relations are judged without those whose entities are dropped.

    Returns:
        The calibration with the recommended scores.
    """
    entities = _best_scores(collect_outcomes(gold, predicted, labels).entities, gold, labels.entity_ids, 1.0, labels)
    with_entities = replace(calibration, entity_min_scores=entities, relation_min_scores={})
    keep = ResultFilter.build(labels, "auto", calibration=with_entities)
    outcomes = collect_outcomes(gold, map(keep, predicted), labels)
    return replace(
        with_entities, relation_min_scores=_best_scores(outcomes.relations, gold, labels.relation_ids, 0.5, labels)
    )


def _best_scores(
    outcomes: ScoredPredictions, gold: Sequence[Document], ids: slice, beta: float, labels: LabelSpace
) -> dict[str, float]:
    """The best `min_score` of the types with some ids: coordinate ascent on the grid of scores."""
    n_types, grid = ids.stop - ids.start, len(SCORE_GRID)
    # [types, grid]: predictions, and correct ones, with at least this score
    n_predicted, n_correct = np.zeros((2, n_types, grid), np.int64)
    for row in range(n_types):
        of_type = outcomes.labels == ids.start + row
        reached = outcomes.scores[of_type, None] >= SCORE_GRID
        n_predicted[row], n_correct[row] = reached.sum(0), reached[outcomes.correct[of_type]].sum(0)
    counts = sum_scores(count_matches(gold, gold, labels), labels)
    n_gold = (counts.entities if ids == labels.entity_ids else counts.relations).total.gold

    def value(chosen: NDArray[np.int64]) -> tuple[bool, float]:
        rows = np.arange(n_types)
        predicted, correct = n_predicted[rows, chosen].sum(), n_correct[rows, chosen].sum()
        precision, recall = correct / max(predicted, 1), correct / max(n_gold, 1)
        f = (1 + beta**2) * precision * recall / max(beta**2 * precision + recall, 1e-12)
        return bool(precision >= WANTED_PRECISION and recall >= WANTED_RECALL), float(f)

    best = max((np.full(n_types, k) for k in range(grid)), key=value)
    for row in np.flatnonzero(n_predicted[:, 0] >= MIN_TYPE_PREDICTIONS).tolist():
        for k in range(grid):
            other = best.copy()
            other[row] = k
            reaches, f = value(best)
            if value(other) > (reaches, f + MIN_F1_DIFFERENCE):
                best = other
    names = labels.names[ids]
    return dict(zip(names, SCORE_GRID[best].tolist(), strict=True))


def with_thresholds(extractor: Extractor, documents: Sequence[Document]) -> ModelConfig:
    """The calibrated config of a model, with thresholds that are suggested by `documents`."""
    labels = extractor.labels
    predicted = list(extractor.annotate([document.bare for document in documents]))
    thresholds = suggest_thresholds(documents, predicted, labels)
    calibration = recommend_min_scores(extractor.config.calibration, documents, predicted, labels)
    keep = ResultFilter.build(labels, "auto", calibration=calibration)
    recommended = _rates(score(documents, map(keep, predicted), labels))
    provenance = extractor.config.provenance
    record = {**provenance["calibration"], "thresholds": thresholds, "recommended": recommended}
    return extractor.config.with_(calibration=calibration, provenance={**provenance, "calibration": record})
