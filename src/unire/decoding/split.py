"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

P is symmetrised in passing, to measure distances: nothing of its size is kept.

To decode the same tables for many α, `prepare` them once and call `naming.decode_prepared` for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding import naming
from unire.decoding.arrays import Array, count, distances, full, library, put, stacks, to_float, to_host
from unire.decoding.steps import mirror_weight, refuse_not_finite
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "prepare"]

ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class Prepared(naming.Prepared):
    """Tables, and how far their rows and columns are apart."""

    apart: Array
    """[T, N]: how far each word is from the one before: rows and columns, summed. ∞ for the first; NaN in padding."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: between the words `i` and `i + 1` of a table; NaN in the padding."""
        return to_host(self.apart)[:, 1:].astype(np.float64) / 2

    def begins(self, alpha: float) -> Array:
        """[T, N]: a table is cut where the distance is greater than `alpha`."""
        return self.apart > 2 * alpha


def prepare(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Prepared:
    """Measure how far adjacent rows and columns of the symmetrised tables are apart: Euclidean, the mean of the two."""
    P = to_float(P)
    T, N = P.shape[:2]
    weight = mirror_weight(labels, P)
    n_words = put(lengths, P)
    padding = count(N, P) >= n_words[:, None]
    apart = full((T, N), 0, P)
    for stack, tables, room, more_room in stacks(P, lengths):
        n = tables.shape[1]
        apart[stack, 1:n] = distances(tables, weight, padding[stack, :n], room, more_room)
    # a number that is not finite spoils a distance; or the first cell, where a table of one word has no distance
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        total = float(apart.sum() + P[:, :1, :1].sum())
    if not math.isfinite(total):
        refuse_not_finite(P, lengths, labels)
    apart[:, :1] = np.inf
    return Prepared(P, labels, weight, n_words, library(P).where(padding, np.nan, apart))
