"""Calibration: scores that mean what they say. Of the findings with a score of 0.8, four in five should be right.

A table's mean probability ranks findings well and is far too sure of them. A rising curve, fitted on annotated
documents that the model was not trained on, makes it the chance that a finding is right: an entity by its boundaries
and type, a relation by its type and both entities. What is found, and in which order of confidence, stays the same.

Curves start from the log-odds of a finding, because next to 1 there are too few numbers to tell probabilities apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.errors import FINITE, NATURAL, POSITIVE, check_kinds, check_ranges

__all__ = ["AsItIs", "Calibration", "Curve"]

Floats = NDArray[np.float64]

FLATTEST = 0.01
"""The least slope: a curve rises, even where high scores were wrong more often than low ones."""
BEND = 1 / 8
"""How a fitted curve is bent: at log-odds of 8 the surer half begins, whose differences say less and less."""
TRUST = 1.0
"""Weight of staying as it was, against 1 for each finding: little data moves the curve little."""


@dataclass(frozen=True)
class Curve:
    """x ↦ σ(slope · asinh(bend · x) / bend + intercept): log-odds become chances, just their own until it is fitted.

    Without a bend it is Platt's, straight in the log-odds. A model's log-odds go on rising, to 40 and more, where the
    share of right findings long stopped following; bent, they go on as their logarithm does.
    """

    slope: float = 1.0
    intercept: float = 0.0
    bend: float = 0.0

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "calibration setting")
        ranges = {"slope": POSITIVE, "intercept": FINITE, "bend": NATURAL}
        check_ranges(vars(self), ranges, "calibration setting")

    def __call__(self, log_odds: Floats) -> Floats:
        return _sigmoid(self.slope * _bent(log_odds, self.bend) + self.intercept)

    @classmethod
    def fit(cls, log_odds: Floats, right: NDArray[np.bool_]) -> Curve:
        """The curve under which it is most likely that just these findings are right, and near to none at all.

        Args:
            log_odds: [n] as they come from the table.
            right: [n]
        """
        x, y = _bent(log_odds, BEND), right.astype(np.float64)
        ones = np.ones_like(x)
        slope, intercept = _minimum(np.stack([x, ones], 1), np.zeros_like(x), y, np.array([1.0, 0.0]))
        if slope < FLATTEST:  # the loss is convex: the best of the curves that rise enough is among the flattest
            slope = FLATTEST
            (intercept,) = _minimum(ones[:, None], slope * x, y, np.zeros(1))
        return cls(float(slope), float(intercept), BEND)


class AsItIs(Curve):
    """No curve: leaves log-odds what they are."""

    def __call__(self, log_odds: Floats) -> Floats:
        return log_odds


@dataclass(frozen=True)
class Calibration:
    """The curves of a model."""

    entities: Curve = Curve()
    relations: Curve = Curve()


def _bent(x: Floats, bend: float) -> Floats:
    bent: Floats = np.arcsinh(bend * x) / bend if bend else x
    return bent


def _sigmoid(x: Floats) -> Floats:
    odds_against: Floats = np.negative(x)
    with np.errstate(over="ignore"):  # then the chance is 0
        np.exp(odds_against, out=odds_against)
    odds_against += 1
    return np.reciprocal(odds_against, out=odds_against)


def _minimum(X: Floats, offset: Floats, y: Floats, start: Floats) -> Floats:
    """The weights with the least logistic loss of X·weights + offset, kept near `start`: Newton, with shorter steps."""

    def loss(weights: Floats) -> float:
        z = X @ weights + offset
        return float((np.logaddexp(0, z) - y * z).sum() + TRUST / 2 * ((weights - start) ** 2).sum())

    weights = start
    while True:
        p = _sigmoid(X @ weights + offset)
        gradient = X.T @ (p - y) + TRUST * (weights - start)
        step = np.linalg.solve((X.T * (p * (1 - p))) @ X + TRUST * np.eye(len(start)), gradient)
        while loss(weights - step) > loss(weights):
            step /= 2
        if np.abs(step).max() < 1e-9:
            return weights
        weights = weights - step
