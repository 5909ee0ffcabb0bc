"""Calibration: turn log-odds into probabilities that predictions are correct.

The mean probability of a rectangle ranks predictions well, but it is overconfident. A monotonic curve, fitted on
annotated documents that the model was not trained on, corrects that. An entity is correct if its boundaries and its
type are; a relation is correct if its type and both entities are. Calibration changes neither the predictions nor
their order.

Curves start from log-odds, because float32 cannot tell probabilities close to 1 apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.errors import FINITE, NATURAL, POSITIVE, check_kinds, check_ranges

__all__ = ["Calibration", "CalibrationCurve", "IdentityCurve"]

Floats = NDArray[np.float64]

MIN_SLOPE = 0.01
"""The smallest slope that is fitted. Curves must rise, even if high scores were wrong more often than low ones."""
LOG_ODDS_BEND = 1 / 8
"""The `bend` of fitted curves: they are about linear for log-odds below 8, and about logarithmic above."""
PRIOR_WEIGHT = 1.0
"""The weight of the prior (slope 1, intercept 0); each prediction has weight 1. Little data moves the curve little."""


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

    def __call__(self, log_odds: Floats) -> Floats:
        return _sigmoid(self.slope * _bend(log_odds, self.bend) + self.intercept)

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


class IdentityCurve(CalibrationCurve):
    """Returns log-odds unchanged."""

    def __call__(self, log_odds: Floats) -> Floats:
        return log_odds


@dataclass(frozen=True)
class Calibration:
    """The calibration curves of a model."""

    entities: CalibrationCurve = CalibrationCurve()
    relations: CalibrationCurve = CalibrationCurve()


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
