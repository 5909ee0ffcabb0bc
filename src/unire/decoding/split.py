"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

The spans between the cuts partition a sentence; a square is named by its mean, and so is the rectangle of two entities.
They do not overlap, so at most every cell is gathered once to name the squares, and once to name the rectangles. Means
commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept: P is symmetrised in
passing, to measure distances, and then only the rectangles are.

`decode` is the way in. To decode the same tables for many α, `prepare` them once and call `decode_prepared` for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    apart: NDArray[np.float64]
    """How far each word is from the one before, all tables end to end. For the first of a table it means nothing."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: between the words `i` and `i + 1` of a table; NaN in the padding."""
        T, N = self.P.shape[:2]
        found = np.full((T, N), np.nan)
        found[np.arange(N) < self.lengths[:, None]] = self.apart
        return found[:, 1:]

    def only(self, tables: NDArray[np.bool_]) -> Prepared:
        """Some of the tables: `tables` is [T]."""
        P = take(self.P, put(np.flatnonzero(tables), self.P))
        return Prepared(P, self.lengths[tables], self.labels, self.weight, self.apart[np.repeat(tables, self.lengths)])


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
    inside = np.arange(N) < lengths[:, None]
    padding = put(~inside, P)
    measured = full((T, N), np.nan, P)
    for stack, tables, room, more_room in stacks(P, lengths):
        n = tables.shape[1]
        measured[stack, 1:n] = distances(tables, weight, padding[stack, :n], room, more_room)
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        measured[:, :1] = P[:, :1, :1].sum((2, 3))
    apart = to_host(measured)[inside].astype(np.float64) / 2  # the mean of two distances
    # a number that is not finite spoils a distance; or the first cell, where a table of one word has no distance
    if not np.isfinite(apart).all():
        refuse_not_finite(P, lengths, labels)
    return Prepared(P, lengths, labels, weight, apart)


def decode_prepared(prepared: Prepared, alpha: float = ALPHA, permits: NDArray[np.bool_] | None = None) -> Decoded:
    """Cut where the distance is greater than `alpha`, and name the spans and the pairs of entities."""
    P, lengths, labels, weight = prepared.P, prepared.lengths, prepared.labels, prepared.weight

    # Spans
    before = lengths.cumsum() - lengths  # words of other tables
    begins = prepared.apart > alpha
    begins[before[lengths > 0]] = True
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(begins))
    table = np.repeat(np.arange(len(lengths)), lengths)[first]
    start = first - before[table]
    cuts = np.array([table, start]).T[start > 0]

    # Entity types: the squares
    squares = _means(P, table, start, size, start, size)
    best, mean = winners(squares, labels.entity_ids)
    label, sides = _sides(squares, best, mean)
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
    relation, relation_sides = _sides(seen, best, mean)
    related = relation != LabelSpace.NONE

    return Decoded(
        entities=entities,
        entity_scores=log_odds(sides[:, is_entity]),
        relations=np.array([head, tail, relation]).T[related],
        relation_scores=log_odds(relation_sides[:, related]),
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


def _sides(means: Array, label: Array, mean: Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """[K] labels, on the host; and [2, K] what is for each in its row of `means`, [K, |Y|], and what is against it.

    float32 does not know numbers nearer to 1 than 2⁻²⁴, so that the mean alone would be just 1 for most entities of a
    sure model. What is left for the other labels tells them apart: it is next to 0, where the steps are tiny.
    """
    # at once, for each time a GPU makes whoever asks wait
    together = to_host(library(means).stack([label, mean, all_but(means, label)]))
    return together[0].astype(np.int64), together[1:]
