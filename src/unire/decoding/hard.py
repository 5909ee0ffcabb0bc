"""The paper's baseline: name every cell by itself, then look for squares and rectangles of one name.

Every cell gets its most probable label (after the same symmetrising as in `split`; of equal ones the lowest id). Squares
on the diagonal are judged from the largest down, equal ones from the left: a square is an entity if its most frequent
entity label is at least as frequent as ⊥, and is discarded if it overlaps an entity found before. A pair of entities is
related if the most frequent relation label of its rectangle is at least as frequent as ⊥. A score is the share of the
cells that carry the label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, empty, in_stacks, library, put, to_float, to_host
from unire.decoding.decoded import Decoded
from unire.decoding.steps import ordered_pairs, symmetrize, winners
from unire.labels import LabelSpace

__all__ = ["decode"]


def decode(P: Array, lengths: NDArray[np.int64], labels: LabelSpace, *, alpha: float = 0.0) -> Decoded:
    """Decode a batch. `alpha` is not used: it is there so that every decoder is called alike."""
    xp = library(P)
    counts = _counts(P, lengths, labels)
    border = put(np.arange(P.shape[1] + 1), P)

    # Squares from border i to border j, for all i and j at once
    of_entities = counts[..., : labels.entity_ids.stop]
    corner = of_entities[:, border, border]  # [T, N + 1, K]
    squares = corner[:, :, None] + corner[:, None, :] - of_entities - of_entities.swapaxes(1, 2)
    label, count = winners(squares, labels.entity_ids)
    real = (border[:, None] < border) & (border <= put(lengths, P)[:, None, None])
    found = xp.where(real & (label != LabelSpace.NONE) & (count > 0))
    candidates = np.stack([to_host(x) for x in (*found, label[found], count[found])], axis=1)
    table, start, end, label, count = candidates[_apart(*candidates.T[:3])].T
    entities = np.stack([table, start, end, label], axis=1)

    # Rectangles of all pairs
    head, tail = ordered_pairs(table)
    here, top, bottom, left, right = (put(x, P) for x in (table[head], start[head], end[head], start[tail], end[tail]))
    rectangles = (
        counts[here, bottom, right] - counts[here, top, right] - counts[here, bottom, left] + counts[here, top, left]
    )
    relation, common = (to_host(x) for x in winners(rectangles, labels.relation_ids))
    related = (relation != LabelSpace.NONE) & (common > 0)
    size = end - start
    borders = np.concatenate([entities[:, [0, 1]], entities[:, [0, 2]]])
    interior = (borders[:, 1] > 0) & (borders[:, 1] < lengths[borders[:, 0]])
    return Decoded(
        entities=entities,
        entity_scores=count / size**2,
        relations=np.stack([head, tail, relation], axis=1)[related],
        relation_scores=(common / (size[head] * size[tail]))[related],
        cuts=np.unique(borders[interior], axis=0),
    )


def _counts(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Array:
    """[T, N + 1, N + 1, |Y|]: how many of the cells above and left of a corner carry a label (an integral image)."""
    xp = library(P)
    T, N, _, Y = P.shape
    ids = put(np.arange(Y), P)
    cells = empty((T, N + 1, N + 1), ids)
    cells[:] = -1

    def name(stack: slice) -> None:
        tables = empty(P[stack].shape, to_float(P[:0]))
        symmetrize(P, lengths, labels, stack, out=tables)
        cells[stack, 1:, 1:] = tables.argmax(3)

    in_stacks(name, P)
    return xp.cumsum(xp.cumsum(cells[..., None] == ids, 1, dtype=xp.int32), 2, dtype=xp.int32)


def _apart(table: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which squares stay when each discards the smaller ones that it overlaps; sorted by table and start."""
    left = np.lexsort((start, start - end, table))
    kept = [left[:0]]
    while len(left):
        first = np.append(True, np.diff(table[left]) > 0)  # the largest that is left in each table
        chosen = left[first]
        kept.append(chosen)
        rival = chosen[first.cumsum() - 1]
        left = left[(end[left] <= start[rival]) | (start[left] >= end[rival])]
    result = np.concatenate(kept)
    return result[np.lexsort((start[result], table[result]))]
