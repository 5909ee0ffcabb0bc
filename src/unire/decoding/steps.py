"""The steps that the decoders share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, count, library, owners, put, rows, take, to_host
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


def winners(scores: Array, ids: slice) -> Array:
    """The best of `ids` and ⊥ in every row of [K, |Y|]. A label wins a tie against ⊥."""
    xp = library(scores)
    candidates = xp.concatenate([scores[:, ids], scores[:, LabelSpace.NONE, None]], 1)
    best = candidates.argmax(1)  # the first of equals: the lowest id, and ⊥ last of all
    return xp.where(best < ids.stop - ids.start, best + ids.start, LabelSpace.NONE)


def log_odds(sides: NDArray[Any]) -> NDArray[np.float64]:
    """[K]: ln(for / against), of [2, K]; as if there were a little of each, no less than float32 can hold."""
    logs = sides.astype(np.float64)
    np.log(np.maximum(logs, LITTLE, out=logs), out=logs)
    odds: NDArray[np.float64] = logs[0] - logs[1]
    return odds


def permitted(scores: Array, heads: Array, tails: Array, permits: NDArray[np.bool_] | None) -> Array:
    """[K, |Y|] scores of pairs of entities of the types `heads` and `tails`: -1 where the relation may not join them.

    Then it loses against ⊥ even where that has nothing.
    """
    return scores if permits is None else library(scores).where(put(permits, scores)[heads, tails], scores, -1)


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
        first, end = (xp.searchsorted(table, table, side=side) for side in ("left", "right"))  # of its table
        everyone = count(len(table), table)
        rank = everyone - first
        partners = end - first - 1
        before = partners.cumsum(0) - partners  # pairs of heads that come earlier
        total = int(partners.sum())
        head = owners(partners, total)
        known = rows(before, rank, first)
        before_head, of_head, first = take(known, head, 1)
        nth = count(total, table) - before_head
        tail = first + nth + (nth >= of_head)  # all but itself
        before_tail, of_tail, _ = take(known, tail, 1)
        return cls(head, tail, before_tail + of_head - 1 + (of_head < of_tail))
