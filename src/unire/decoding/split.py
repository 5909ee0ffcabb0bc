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
    count,
    distances,
    full,
    library,
    owners,
    pick,
    put,
    rectangle_means,
    rows,
    stacks,
    take,
    to_float,
    to_host,
    together,
    where,
)
from unire.decoding.decoded import Decoded
from unire.decoding.steps import Pairs, log_odds, mirror_weight, permitted, refuse_not_finite, winners
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "decode", "decode_prepared", "prepare"]

ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class Prepared:
    """Tables, and what is known of them before α is."""

    P: Array
    """[T, N, N, |Y|] in float32 at least, not symmetrised; padding may hold anything."""
    labels: LabelSpace
    weight: Array
    """[|Y|]: what a cell gets of its mirror image."""
    table: Array
    """[words] where each is, all tables end to end: its table, …"""
    word: Array
    """… and its place in that."""
    apart: Array
    """[words] how far each is from the one before. For the first of a table it means nothing."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: between the words `i` and `i + 1` of a table; NaN in the padding."""
        found = np.full(self.P.shape[:2], np.nan)
        found[to_host(self.table), to_host(self.word)] = to_host(self.apart)
        return found[:, 1:]

    def begins(self, alpha: float) -> Array:
        """[words]: whether a span begins with it, for a table is cut where the distance is greater than `alpha`."""
        return (self.apart > alpha) | (self.word == 0)

    def only(self, tables: NDArray[np.int64]) -> Prepared:
        """Some of the tables, [T'], in their order."""
        chosen = put(tables, self.P)
        place = full((len(self.P),), -1, self.table)
        place[chosen] = count(len(tables), self.P)
        words = where(take(place, self.table) >= 0)
        table, word, apart = (take(x, words) for x in (self.table, self.word, self.apart))
        return Prepared(take(self.P, chosen), self.labels, self.weight, take(place, table), word, apart)


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
    n_words, before = put(np.array([lengths, lengths.cumsum() - lengths]), P)  # of each table, and of those before it
    padding = count(N, P) >= n_words[:, None]
    measured = full((T, N), np.nan, P)
    for stack, tables, room, more_room in stacks(P, lengths):
        n = tables.shape[1]
        measured[stack, 1:n] = distances(tables, weight, padding[stack, :n], room, more_room)
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        measured[:, :1] = P[:, :1, :1].sum((2, 3))
    total = int(lengths.sum())
    table = owners(n_words, total)
    word = count(total, P) - take(before, table)
    apart = take(measured.reshape(T * N), table * N + word) / 2  # the mean of two distances
    # a number that is not finite spoils a distance; or the first cell, where a table of one word has no distance
    if not bool(library(P).isfinite(apart).all()):
        refuse_not_finite(P, lengths, labels)
    return Prepared(P, labels, weight, table, word, apart)


def decode_prepared(prepared: Prepared, alpha: float = ALPHA, permits: NDArray[np.bool_] | None = None) -> Decoded:
    """Cut where the distance is greater than `alpha`, and name the spans and the pairs of entities."""
    P, labels, weight = prepared.P, prepared.labels, prepared.weight

    # Spans
    first = where(prepared.begins(alpha))
    table, start = take(prepared.table, first), take(prepared.word, first)
    end = start + library(P).diff(first, append=full((1,), len(prepared.word), first))

    # Entity types: the squares
    squares = _means(P, table, start, end, start, end)
    label = winners(squares, labels.entity_ids)
    named = where(label != LabelSpace.NONE)
    entities = take(rows(table, start, end, label), named, 1)
    sides = _sides(take(squares, named), entities[3])

    # Relation types: the rectangles
    head, tail, mirrored = Pairs.of(entities[0])
    of_head, of_tail = take(entities, head, 1), take(entities, tail, 1)
    pairs = _means(P, *of_head[:3], *of_tail[1:3])
    to_mirror = take(pairs, mirrored) - pairs
    symmetric = permitted(pairs + weight * to_mirror, of_head[3], of_tail[3], permits)
    label = winners(symmetric, labels.relation_ids)
    related = where(label != LabelSpace.NONE)
    relations = take(rows(head, tail, label), related, 1)
    pairs, to_mirror = take(pairs, related), take(to_mirror, related)
    seen = pairs + take(weight, relations[2])[:, None] * to_mirror  # from where the label is read: one way, or both
    relation_sides = _sides(seen, relations[2])

    spans, entities, relations = together(rows(table, start), entities, relations)
    sides, relation_sides = together(sides, relation_sides)
    inner = np.flatnonzero(spans[1])
    return Decoded(
        entities=entities.T,
        entity_scores=log_odds(sides),
        relations=relations.T,
        relation_scores=log_odds(relation_sides),
        cuts=spans.take(inner, axis=1).T,
    )


def _means(P: Array, table: Array, top: Array, bottom: Array, left: Array, right: Array) -> Array:
    """[K, |Y|]: the mean cell of each rectangle."""
    N = P.shape[1]
    return rectangle_means(P, (table * N + top) * N + left, bottom - top, right - left)


def _sides(means: Array, label: Array) -> Array:
    """[2, K]: what is for each label in its row of `means`, [K, |Y|], and what is against it.

    float32 does not know numbers nearer to 1 than 2⁻²⁴, so that the mean alone would be just 1 for most entities of a
    sure model. What is left for the other labels tells them apart: it is next to 0, where the steps are tiny.
    """
    return rows(pick(means, label), all_but(means, label))
