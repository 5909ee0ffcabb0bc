"""Calibration: turn log-odds into probabilities that predictions are correct.

The mean probability of a rectangle ranks predictions well, but it is overconfident. A monotonic curve, fitted on
annotated documents that the model was not trained on, corrects that. An entity is correct if its boundaries and its
type are; a relation is correct if its type and both entities are. Calibration changes neither the predictions nor
their order.

Curves start from log-odds, because float32 cannot tell probabilities close to 1 apart.

A `Calibration` also holds the recommended `min_score` of every type, which are fitted to calibrated probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.errors import FINITE, NATURAL, POSITIVE, UnireError, check_kinds, check_ranges
from unire.labels import LabelSpace

__all__ = ["Calibration", "CalibrationCurve", "IdentityCurve"]

Floats = NDArray[np.float64]

MIN_SLOPE = 0.01
"""The smallest slope that is fitted. Curves must rise, even if high scores were wrong more often than low ones."""
LOG_ODDS_BEND = 1 / 8
"""The `bend` of fitted curves: they are about linear for log-odds below 8, and about logarithmic above."""
PRIOR_WEIGHT = 1.0
"""The weight of the prior (slope 1, intercept 0); each prediction has weight 1. Little data moves the curve little."""
SHIFT_DEVIATION = 0.4
"""The expected difference of a relation type from the curve of all relations, in log-odds: the prior of its shift.
Values from 0.35 to 0.5 had the best likelihood in a cross-validation on the dev sets of SciERC and CoNLL04."""


@dataclass(frozen=True)
class CalibrationCurve:
    """x ↦ σ(slope · asinh(bend · x) / bend + intercept), from log-odds to probabilities; by default the sigmoid.

    Without a bend this is Platt scaling. The log-odds of a model rise to 40 and more, while the share of correct
    predictions stops rising much earlier. The bend makes the curve follow the logarithm of large log-odds.
    """

    slope: float = 1.0
    intercept: float = 0.0
    bend: float = 0.0

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "calibration setting")
        ranges = {"slope": POSITIVE, "intercept": FINITE, "bend": NATURAL}
        check_ranges(vars(self), ranges, "calibration setting")

    def __call__(self, log_odds: Floats, shift: Floats | float = 0.0) -> Floats:
        """The probabilities of log-odds [n], with a shift for each."""
        return _sigmoid(self.slope * _bend(log_odds, self.bend) + self.intercept + shift)

    @classmethod
    def fit(cls, log_odds: Floats, correct: NDArray[np.bool_]) -> CalibrationCurve:
        """Fit the curve by maximum a posteriori logistic regression.

        Args:
            log_odds: [n] as the decoder returns them.
            correct: [n] whether each prediction is correct.
        """
        x, y = _bend(log_odds, LOG_ODDS_BEND), correct.astype(np.float64)
        ones = np.ones_like(x)
        slope, intercept = _fit_logistic(np.stack([x, ones], 1), np.zeros_like(x), y, np.array([1.0, 0.0]))
        if slope < MIN_SLOPE:  # the loss is convex, so the best allowed curve has the smallest allowed slope
            slope = MIN_SLOPE
            (intercept,) = _fit_logistic(ones[:, None], slope * x, y, np.zeros(1))
        return cls(float(slope), float(intercept), LOG_ODDS_BEND)

    def fit_shift(self, log_odds: Floats, correct: NDArray[np.bool_]) -> float:
        """Fit the shift of a part of the predictions. The fewer there are, the closer it is to 0."""
        scale = np.full((len(log_odds), 1), SHIFT_DEVIATION)
        on_curve = self.slope * _bend(log_odds, self.bend) + self.intercept
        (shift,) = _fit_logistic(scale, on_curve, correct.astype(np.float64), np.zeros(1))
        return float(shift) * SHIFT_DEVIATION


class IdentityCurve(CalibrationCurve):
    """Returns log-odds unchanged."""

    def __call__(self, log_odds: Floats, shift: Floats | float = 0.0) -> Floats:
        return log_odds


@dataclass(frozen=True)
class Calibration:
    """The calibration curves of a model, and the scores that it recommends as thresholds."""

    entities: CalibrationCurve = CalibrationCurve()
    relations: CalibrationCurve = CalibrationCurve()
    relation_shifts: Mapping[str, float] = field(default_factory=dict)
    """What is added to the log-odds of relations of a type. Types without predictions on dev have none."""
    entity_min_scores: Mapping[str, float] = field(default_factory=dict)
    """The recommended `min_score` by entity type; empty if nothing is recommended."""
    relation_min_scores: Mapping[str, float] = field(default_factory=dict)
    """The recommended `min_score` by relation type."""

    def __post_init__(self) -> None:
        for name in ("relation_shifts", "entity_min_scores", "relation_min_scores"):
            values = getattr(self, name)
            known: Iterable[Any] = values.values() if isinstance(values, Mapping) else [None]
            if not all(type(value) in (int, float) and isfinite(value) for value in known):
                raise UnireError(f"calibration setting {name} must be an object with a finite number for each type")

    def shift_relations(self, labels: LabelSpace) -> Floats:
        """[|Y|]: the shift of every label id."""
        shifts = np.zeros(len(labels))
        shifts[labels.relation_ids] = [self.relation_shifts.get(name, 0.0) for name in labels.relation_types]
        return shifts


def _bend(x: Floats, bend: float) -> Floats:
    bent: Floats = np.arcsinh(bend * x) / bend if bend else x
    return bent


def _sigmoid(x: Floats) -> Floats:
    odds_against: Floats = np.negative(x)
    with np.errstate(over="ignore"):  # an overflow gives the probability 0
        np.exp(odds_against, out=odds_against)
    odds_against += 1
    return np.reciprocal(odds_against, out=odds_against)


def _fit_logistic(X: Floats, offset: Floats, y: Floats, prior: Floats) -> Floats:
    """Minimise the logistic loss of X·w + offset plus ½ · PRIOR_WEIGHT · ‖w − prior‖², by damped Newton steps."""

    def loss(weights: Floats) -> float:
        z = X @ weights + offset
        return float((np.logaddexp(0, z) - y * z).sum() + PRIOR_WEIGHT / 2 * ((weights - prior) ** 2).sum())

    weights = prior
    while True:
        p = _sigmoid(X @ weights + offset)
        gradient = X.T @ (p - y) + PRIOR_WEIGHT * (weights - prior)
        step = np.linalg.solve((X.T * (p * (1 - p))) @ X + PRIOR_WEIGHT * np.eye(len(prior)), gradient)
        while loss(weights - step) > loss(weights):
            step /= 2
        if np.abs(step).max() < 1e-9:
            return weights
        weights = weights - step
