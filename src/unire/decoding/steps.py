"""The steps that the decoders share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, library, to_float, to_host, toward_mirror
from unire.exceptions import UnireError
from unire.labels import LabelSpace

__all__ = ["ordered_pairs", "symmetrize", "winners"]


def symmetrize(P: Array, lengths: NDArray[np.int64], labels: LabelSpace, stack: slice, out: Array) -> None:
    """Write to `out` the tables P[stack] with P_ijt = P_jit = (P_ijt + P_jit) / 2 for t in Y_sym, and 0 as padding.

    ⊥ is not in Y_sym, so a symmetric relation can still be found one way only.
    """
    weight = np.zeros(len(labels))
    weight[list(labels.symmetric_ids)] = 0.5
    toward_mirror(to_float(P[stack]), weight, out)
    table, word = (np.arange(P.shape[1]) >= lengths[stack, None]).nonzero()
    out[table, word] = 0
    out[table, :, word] = 0
    if not library(out).isfinite(out).all():
        raise UnireError(_not_finite(P, lengths, labels))


def _not_finite(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> str:
    """Say where the first cell is that is NaN or infinite."""
    cells = (
        (table, i, j, y, cell[i, j, y])
        for table, n in enumerate(lengths)
        for cell in [to_host(to_float(P[table, :n, :n]))]
        for i, j, y in np.argwhere(~np.isfinite(cell))
    )
    table, i, j, y, value = next(cells)
    return (
        f"table {table} holds {value} as the probability of {labels.names[y]!r} for the words {i} and {j}; "
        "decoding needs finite probabilities, so look for an overflow in the model that filled the table"
    )


def winners(scores: Array, ids: slice) -> tuple[Array, Array]:
    """The best of `ids` and ⊥ along the last axis, and its score. A label wins a tie against ⊥."""
    xp = library(scores)
    candidates = xp.concatenate([scores[..., ids], scores[..., LabelSpace.NONE, None]], -1)
    best = candidates.argmax(-1)  # the first of equals: the lowest id, and ⊥ last of all
    label = xp.where(best < ids.stop - ids.start, best + ids.start, LabelSpace.NONE)
    return label, xp.amax(candidates, -1)


def ordered_pairs(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Heads and tails of all ordered pairs of different entities in one table, given the (sorted) table of each entity."""
    first = np.searchsorted(table, table)
    partners = np.searchsorted(table, table, side="right") - first  # itself among them
    head = np.repeat(np.arange(len(table)), partners)
    tail = first[head] + np.arange(len(head)) - np.repeat(partners.cumsum() - partners, partners)
    different = head != tail
    return head[different], tail[different]
