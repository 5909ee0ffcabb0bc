"""The steps that the decoders share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, library, pick, put, to_host
from unire.exceptions import UnireError
from unire.labels import LabelSpace
from unire.runs import runs

__all__ = ["log_odds", "mirror_weight", "ordered_pairs", "permitted", "refuse_not_finite", "winners"]

LITTLE = 2.0**-149
"""The least number above 0 in float32."""


def mirror_weight(labels: LabelSpace, like: Array) -> Array:
    """[|Y|]: what a cell gets of its mirror image, so that P_ijt = P_jit = (P_ijt + P_jit) / 2 for every t in Y_sym.

    ⊥ is not in Y_sym: a symmetric relation may be found one way only.
    """
    weight = np.zeros(len(labels))
    weight[list(labels.symmetric_ids)] = 0.5
    return put(weight, like)


def refuse_not_finite(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
    """Look for a cell that is NaN or infinite, and say which it is."""
    for table, n in enumerate(lengths):
        cells = to_host(P[table, :n, :n])
        for i, j, y in np.argwhere(~np.isfinite(cells)):
            raise UnireError(
                f"table {table} holds {cells[i, j, y]} as the probability of {labels.names[y]!r} for the words {i} and "
                f"{j}: decoding needs finite numbers, so look for an overflow in the model that filled the table"
            )


def winners(scores: Array, ids: slice) -> tuple[Array, Array]:
    """The best of `ids` and ⊥ in every row of [K, |Y|], and its score. A label wins a tie against ⊥."""
    xp = library(scores)
    candidates = xp.concatenate([scores[:, ids], scores[:, LabelSpace.NONE, None]], 1)
    best = candidates.argmax(1)  # the first of equals: the lowest id, and ⊥ last of all
    label = xp.where(best < ids.stop - ids.start, best + ids.start, LabelSpace.NONE)
    return label, pick(candidates, best)


def log_odds(sides: NDArray[Any]) -> NDArray[np.float64]:
    """[K]: ln(for / against), of [2, K]; as if there were a little of each, no less than float32 can hold."""
    logs = np.log(np.maximum(sides, LITTLE, dtype=np.float64))
    odds: NDArray[np.float64] = logs[0] - logs[1]
    return odds


def permitted(
    scores: Array, heads: NDArray[np.int64], tails: NDArray[np.int64], permits: NDArray[np.bool_] | None
) -> Array:
    """[K, |Y|] scores of pairs of entities of the types `heads` and `tails`: -1 where the relation may not join them.

    Then it loses against ⊥ even where that has nothing.
    """
    return scores if permits is None else library(scores).where(put(permits[heads, tails], scores), scores, -1)


def ordered_pairs(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Heads and tails of all ordered pairs of different entities of one table, given the sorted tables of entities."""
    found = np.bincount(table)
    partners = found[table]  # itself among them
    first = (found.cumsum() - found)[table]
    head = np.repeat(np.arange(len(table)), partners)
    tail = runs(first, partners)
    different = head != tail
    return head[different], tail[different]
