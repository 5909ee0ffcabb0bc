"""The paper's baseline: name every cell by itself, then look for squares and rectangles of one name.

Every cell gets its most probable label, after the same symmetrising as in `split`; of equal ones the lowest id. Squares
on the diagonal are judged from the largest down, equal ones from the left: a square is an entity if its most frequent
entity label is at least as frequent as ⊥, and is discarded if it overlaps an entity found before. A pair of entities is
related if the most frequent relation label in its rectangle is at least as frequent as ⊥. A score is the log-odds
of the share of the cells that carry the label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import (
    Array,
    all_finite,
    blank,
    full,
    library,
    pick,
    put,
    stacks,
    take,
    to_float,
    to_host,
    toward_mirror,
)
from unire.decoding.decoded import Decoded
from unire.decoding.steps import Pairs, log_odds, mirror_weight, permitted, refuse_not_finite, winners
from unire.labels import LabelSpace

__all__ = ["decode"]


def decode(
    P: Array,
    lengths: NDArray[np.int64],
    labels: LabelSpace,
    *,
    alpha: float = 0.0,
    permits: NDArray[np.bool_] | None = None,
    odds: float = 1.0,
) -> Decoded:
    """Decode a batch. `alpha` is not used: it is there so that all decoders are called alike."""
    P = to_float(P)
    counts = _counts(P, lengths, labels)
    border = put(np.arange(P.shape[1] + 1), P)

    # Squares from every border to every later one
    of_entities = counts[..., : labels.entity_ids.stop]
    corner = of_entities[:, border, border]
    squares = corner[:, :, None] + corner[:, None, :] - of_entities - of_entities.swapaxes(1, 2)
    place = library(P).where((border[:, None] < border) & (border <= put(lengths, P)[:, None, None]))
    squares = squares[place]
    found, label = winners(squares, labels.entity_ids)
    count = pick(take(squares, found), label)
    candidates = np.array([to_host(x) for x in (*(take(x, found) for x in place), label, count)])
    candidates = candidates[:, candidates[4] > 0]
    table, start, end, label, count = candidates[:, _apart(*candidates[:3])]
    size = end - start
    borders = np.array([[table, start], [table, end]]).swapaxes(1, 2).reshape(-1, 2)
    interior = (borders[:, 1] > 0) & (borders[:, 1] < lengths[borders[:, 0]])

    # Rectangles of all pairs
    head, tail, _ = Pairs.of(table)
    here, top, bottom, left, right = (put(x, P) for x in (table[head], start[head], end[head], start[tail], end[tail]))
    upper = counts[here, top, right] - counts[here, top, left]
    rectangles = counts[here, bottom, right] - counts[here, bottom, left] - upper
    if permits is not None:
        rectangles = permitted(rectangles, put(label[head], P), put(label[tail], P), permits)
    related, relation = winners(rectangles, labels.relation_ids, odds)
    shared = to_host(pick(take(rectangles, related), relation))
    related, relation, shared = (x[shared > 0] for x in (to_host(related), to_host(relation), shared))
    head, tail = head[related], tail[related]
    share, relation_share = count / size**2, shared / (size[head] * size[tail])

    return Decoded(
        entities=np.array([table, start, end, label]).T,
        entity_scores=log_odds(np.array([share, 1 - share])),
        relations=np.array([head, tail, relation]).T,
        relation_scores=log_odds(np.array([relation_share, 1 - relation_share])),
        cuts=np.unique(borders[interior], axis=0),
    )


def _counts(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Array:
    """[T, N + 1, N + 1, |Y|]: how many of the cells above and left of a corner carry a label (an integral image)."""
    T, N, _, Y = P.shape
    xp = library(P)
    ids = put(np.arange(Y), P)
    cells = full((T, N + 1, N + 1), -1, ids)

    weight = mirror_weight(labels, P)
    padding = put(np.arange(N) >= lengths[:, None], P)
    for stack, tables, _, _ in stacks(P, lengths):
        n = tables.shape[1]
        symmetric = toward_mirror(tables, weight)
        blank(symmetric, padding[stack, :n])
        if not all_finite(symmetric):
            refuse_not_finite(P, lengths, labels)
        cells[stack, 1 : n + 1, 1 : n + 1] = symmetric.argmax(3)
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
