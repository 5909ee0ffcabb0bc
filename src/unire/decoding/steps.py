"""The steps that the decoders share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, count, library, owners, put, take, to_host, where
from unire.exceptions import UnireError
from unire.labels import LabelSpace

__all__ = ["Pairs", "log_odds", "mirror_weight", "permitted", "refuse_not_finite", "winners"]

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


def winners(scores: Array, ids: slice, odds: float = 1.0) -> tuple[Array, Array]:
    """The rows of [K, |Y|] in which the best of `ids` has at least `odds` times what ⊥ has; and which it is in each."""
    none = scores[:, LabelSpace.NONE, None]
    if odds != 1:
        none = odds * none
    best = library(scores).concatenate([scores[:, ids], none], 1).argmax(1)  # the first of equals: the lowest id
    won = where(best < ids.stop - ids.start)
    return won, take(best, won) + ids.start


def log_odds(sides: NDArray[Any]) -> NDArray[np.float64]:
    """[K]: ln(for / against), of [2, K]; as if there were a little of each, no less than float32 can hold."""
    logs = sides.astype(np.float64)
    np.log(np.maximum(logs, LITTLE, out=logs), out=logs)
    odds: NDArray[np.float64] = logs[0] - logs[1]
    return odds


def permitted(scores: Array, heads: Array, tails: Array, permits: NDArray[np.bool_]) -> Array:
    """[K, |Y|] scores of pairs of entities of the types `heads` and `tails`: -1 where the relation may not join them.

    Then it loses against ⊥ even where that has nothing.
    """
    return library(scores).where(put(permits, scores)[heads, tails], scores, -1)


class Pairs(NamedTuple):
    """All ordered pairs of different entities of one table, sorted; entities are told by their number."""

    head: Array
    tail: Array
    mirrored: Array
    """Which pair is the other way round."""

    @classmethod
    def of(cls, table: Array) -> Pairs:
        """Those of entities whose tables are `table`, which is sorted."""
        xp = library(table)
        first = xp.searchsorted(table, table)  # of its table
        last = xp.searchsorted(table, table, side="right") - 1
        partners = last - first
        shift = last - partners.cumsum(0)  # from the number of a pair to its tail, if that comes before the head
        total = int(partners.sum())
        head = owners(partners, total)
        tail = count(total, table) + take(shift, head)
        later = tail >= head
        tail = tail + later  # all but itself
        return cls(head, tail, head - take(shift, tail) + later - 1)
