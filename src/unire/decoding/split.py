"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

The spans between the cuts partition a sentence; a square is named by its mean, and so is the rectangle of two entities.
They do not overlap, so at most every cell is gathered once to name the squares, and once to name the rectangles. Means
commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept: P is symmetrised in
passing, to measure distances, and then only the rectangles are.

`decode` is the way in. To decode the same tables for many α, `prepare` them once and call `decode_prepared` for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import (
    Array,
    all_but,
    distances,
    full,
    library,
    put,
    rectangle_means,
    stacks,
    take,
    to_float,
    to_host,
)
from unire.decoding.decoded import Decoded
from unire.decoding.steps import log_odds, mirror_weight, ordered_pairs, permitted, refuse_not_finite, winners
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "decode", "decode_prepared", "prepare"]

ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class Prepared:
    """Tables, and what is known of them before α is."""

    P: Array
    """[T, N, N, |Y|] in float32 at least, not symmetrised; padding may hold anything."""
    lengths: NDArray[np.int64]
    labels: LabelSpace
    weight: Array
    """[|Y|]: what a cell gets of its mirror image."""
    distances: NDArray[np.float64]
    """[T, N - 1]: between the words `i` and `i + 1`; NaN in the padding."""


def decode(
    P: Array,
    lengths: NDArray[np.int64],
    labels: LabelSpace,
    *,
    alpha: float = ALPHA,
    permits: NDArray[np.bool_] | None = None,
) -> Decoded:
    """The paper's three steps: spans, entity types, relation types."""
    return decode_prepared(prepare(P, lengths, labels), alpha, permits)


def prepare(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Prepared:
    """Measure how far adjacent rows and columns of the symmetrised tables are apart: Euclidean, the mean of the two."""
    P = to_float(P)
    T, N = P.shape[:2]
    weight = mirror_weight(labels, P)
    beyond = np.arange(N) >= lengths[:, None]
    padding = put(beyond, P)
    apart = full((T, N), np.nan, P)  # each word from the one before
    for stack, tables, room, more_room in stacks(P, lengths):
        n = tables.shape[1]
        apart[stack, 1:n] = distances(tables, weight, padding[stack, :n], room, more_room)
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        apart[:, :1] = P[:, :1, :1].sum((2, 3))
    found = to_host(apart).astype(np.float64) / 2  # the mean of two distances
    # a number that is not finite spoils a distance; or the first cell, where a table of one word has no distance
    if not (np.isfinite(found) | beyond).all():
        refuse_not_finite(P, lengths, labels)
    np.putmask(found, beyond, np.nan)
    return Prepared(P, lengths, labels, weight, found[:, 1:])


def decode_prepared(prepared: Prepared, alpha: float = ALPHA, permits: NDArray[np.bool_] | None = None) -> Decoded:
    """Cut where the distance is greater than `alpha`, and name the spans and the pairs of entities."""
    P, lengths, labels, weight = prepared.P, prepared.lengths, prepared.labels, prepared.weight

    # Spans
    N = P.shape[1]
    begins = np.concatenate((lengths[:, None] > 0, prepared.distances > alpha), 1)  # [T, N]
    first = np.flatnonzero(begins)
    table, start = np.divmod(first, max(1, N))
    size = np.minimum(np.append(first[1:], begins.size), table * N + lengths[table]) - first
    cuts = np.array([table, start]).T[start > 0]

    # Entity types: the squares
    squares = _means(P, table, start, size, start, size)
    best, mean = winners(squares, labels.entity_ids)
    score, label = _scored(squares, best, mean)
    is_entity = label != LabelSpace.NONE
    table, start, size = table[is_entity], start[is_entity], size[is_entity]
    entities = np.array([table, start, start + size, label[is_entity]]).T

    # Relation types: the rectangles
    head, tail = ordered_pairs(table)
    mirrored = np.lexsort((head, tail))  # the pairs by tail and head: the other way round of each
    pairs = _means(P, table[head], start[head], size[head], start[tail], size[tail])
    to_mirror = take(pairs, put(mirrored, P)) - pairs
    symmetric = permitted(pairs + weight * to_mirror, entities[head, 3], entities[tail, 3], permits)
    best, mean = winners(symmetric, labels.relation_ids)
    seen = pairs + weight[best][:, None] * to_mirror  # all labels from where the best one is read: one way, or both
    relation_score, relation = _scored(seen, best, mean)
    related = relation != LabelSpace.NONE

    return Decoded(
        entities=entities,
        entity_scores=score[is_entity],
        relations=np.array([head, tail, relation]).T[related],
        relation_scores=relation_score[related],
        cuts=cuts,
    )


def _means(
    P: Array,
    table: NDArray[np.int64],
    top: NDArray[np.int64],
    height: NDArray[np.int64],
    left: NDArray[np.int64],
    width: NDArray[np.int64],
) -> Array:
    """[K, |Y|]: the mean cell of each rectangle."""
    N = P.shape[1]
    return rectangle_means(P, (table * N + top) * N + left, height, width)


def _scored(means: Array, label: Array, mean: Array) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """[K] twice: the log-odds of `label` in every row of [K, |Y|], of which it has `mean`; and the labels themselves.

    float32 does not know numbers nearer to 1 than 2⁻²⁴, so that the mean alone would be just 1 for most entities of a
    sure model. What is left for the other labels tells them apart: it is next to 0, where the steps are tiny.
    """
    together = to_host(
        library(means).stack([mean, all_but(means, label), label])
    )  # at once: a GPU makes whoever asks wait
    return log_odds(together[:2]), together[2].astype(np.int64)
