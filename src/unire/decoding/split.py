"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

The spans between the cuts partition a sentence; a square is named by its mean, and so is the rectangle of two entities.
They do not overlap, so at most every cell is gathered once to name the squares, and once to name the rectangles. Means
commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept: P is symmetrised in
passing, to measure distances, and then only the rectangles are.

`decode` is the way in. To decode the same tables for many α, `prepare` them once and call `decode_prepared` for each.
"""

from __future__ import annotations

import math
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
    pick,
    put,
    rectangle_means,
    rows,
    stacks,
    take,
    to_float,
    to_host,
    together,
    toward,
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
    n_words: Array
    """[T]"""
    apart: Array
    """[T, N]: how far each word is from the one before: rows and columns, summed. ∞ for the first; NaN in padding."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: between the words `i` and `i + 1` of a table; NaN in the padding."""
        return to_host(self.apart)[:, 1:].astype(np.float64) / 2

    def begins(self, alpha: float) -> Array:
        """[T, N]: whether a span begins with a word, for a table is cut where the distance is greater than `alpha`."""
        return self.apart > 2 * alpha

    def only(self, tables: NDArray[np.int64]) -> Prepared:
        """Some of the tables, [T'], in their order."""
        chosen = put(tables, self.P)
        P, n_words, apart = (take(x, chosen) for x in (self.P, self.n_words, self.apart))
        return Prepared(P, self.labels, self.weight, n_words, apart)


def decode(
    P: Array,
    lengths: NDArray[np.int64],
    labels: LabelSpace,
    *,
    alpha: float = ALPHA,
    permits: NDArray[np.bool_] | None = None,
    odds: float = 1.0,
) -> Decoded:
    """The paper's three steps: spans, entity types, relation types."""
    return decode_prepared(prepare(P, lengths, labels), alpha, permits, odds)


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


def decode_prepared(
    prepared: Prepared, alpha: float = ALPHA, permits: NDArray[np.bool_] | None = None, odds: float = 1.0
) -> Decoded:
    """Cut where the distance is greater than `alpha`, and name the spans and the pairs of entities."""
    P, labels, weight = prepared.P, prepared.labels, prepared.weight
    xp = library(P)

    # Spans
    T, N = P.shape[:2]
    first = where(prepared.begins(alpha).reshape(T * N))  # words are counted through all tables and their padding
    table, start = first // N, first % N
    until_next = xp.diff(first, append=full((1,), T * N, first))
    size = xp.minimum(until_next, take(prepared.n_words, table) - start)
    row = first * N  # the first cell of its row, counted likewise
    spans = rows(table, start, start + size, size, row)

    # Entity types: the squares
    squares = rectangle_means(P, row + start, size, size)
    named, label = winners(squares, labels.entity_ids)
    entities = take(spans, named, 1)

    # Relation types: the rectangles
    head, tail, mirrored = Pairs.of(entities[0])
    _, _, _, height, row = take(entities, head, 1)
    _, column, _, width, _ = take(entities, tail, 1)
    pairs = rectangle_means(P, row + column, height, width)
    mirror = take(pairs, mirrored)
    symmetric = toward(pairs, mirror, weight)
    if permits is not None:
        symmetric = permitted(symmetric, take(label, head), take(label, tail), permits)
    related, relation = winners(symmetric, labels.relation_ids, odds)
    relations = take(rows(head, tail), related, 1)
    own_weight = take(weight, relation)[:, None]  # a label is read from one way, or from both
    seen = toward(take(pairs, related), take(mirror, related), own_weight)

    label = xp.concatenate([label, relation])
    sides = _sides(xp.concatenate([take(squares, named), seen]), label)
    spans, entities, relations, label, sides = together(spans[:2], entities[:3], relations, label, sides)
    n_entities = entities.shape[1]
    label, relation = label[:n_entities], label[n_entities:]
    scores = log_odds(sides)
    inner = np.flatnonzero(spans[1])
    return Decoded(
        entities=np.array([*entities, label]).T,
        entity_scores=scores[:n_entities],
        relations=np.array([*relations, relation]).T,
        relation_scores=scores[n_entities:],
        cuts=spans.take(inner, axis=1).T,
    )


def _sides(means: Array, label: Array) -> Array:
    """[2, K]: what is for each label in its row of `means`, [K, |Y|], and what is against it.

    float32 does not know numbers nearer to 1 than 2⁻²⁴, so that the mean alone would be just 1 for most entities of a
    sure model. What is left for the other labels tells them apart: it is next to 0, where the steps are tiny.
    """
    return rows(pick(means, label), all_but(means, label))
