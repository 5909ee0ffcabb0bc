"""Calibration: scores that mean what they say. Of the findings with a score of 0.8, four in five should be right.

A table's mean probability ranks findings well and is far too sure of them. A rising curve, fitted on annotated
documents that the model was not trained on, makes it the chance that a finding is right: an entity by its boundaries
and type, a relation by its type and both entities. What is found, and in which order of confidence, stays the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.checks import check_kinds
from unire.exceptions import UnireError

__all__ = ["Calibration", "Curve"]

Floats = NDArray[np.float64]

MARGIN = 2.0**-25
"""How near to 0 and 1 a score is told apart: half the distance between 1 and the float32 below it."""
FLATTEST = 0.01
"""The least slope: a curve rises, even where high scores were wrong more often than low ones."""
TRUST = 1.0
"""Weight of staying as it was, against 1 for each finding: little data moves the curve little."""


@dataclass(frozen=True)
class Curve:
    """score ↦ σ(slope · logit(score) + intercept): Platt's, which leaves scores as they are until it is fitted."""

    slope: float = 1.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "calibration setting")
        if not 0 < self.slope < math.inf or not math.isfinite(self.intercept):
            raise UnireError(f"a calibration of slope {self.slope} and intercept {self.intercept} makes no sense")

    def __call__(self, scores: Floats) -> Floats:
        if self == Curve():
            return scores
        calibrated: Floats = _sigmoid(self.slope * _logit(scores) + self.intercept)
        return calibrated

    @classmethod
    def fit(cls, scores: Floats, right: NDArray[np.bool_]) -> Curve:
        """The curve under which it is most likely that just these findings are right, and near to none at all.

        Args:
            scores: [n] as they come from the table.
            right: [n]
        """
        logits, y = _logit(scores), right.astype(np.float64)
        ones = np.ones_like(logits)
        slope, intercept = _minimum(np.stack([logits, ones], 1), np.zeros_like(logits), y, np.array([1.0, 0.0]))
        if slope < FLATTEST:  # the loss is convex: the best of the curves that rise enough is among the flattest
            slope = FLATTEST
            (intercept,) = _minimum(ones[:, None], slope * logits, y, np.zeros(1))
        return cls(float(slope), float(intercept))


@dataclass(frozen=True)
class Calibration:
    """The curves of a model."""

    entities: Curve = Curve()
    relations: Curve = Curve()


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, MARGIN, 1 - MARGIN)
    return np.log(inside) - np.log1p(-inside)


def _sigmoid(x: Floats) -> Floats:
    return (1 + np.tanh(x / 2)) / 2


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
