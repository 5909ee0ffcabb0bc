"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

The spans between the cuts partition a sentence. With S the m×n membership matrix of its m spans, each row scaled to
sum to one, S P Sᵀ holds the mean of every square and of every rectangle: matrix products over a whole padded batch.

`decode` is the way in. To decode the same tables for many α, `prepare` them once and call `decode_prepared` for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import Array, empty, flipped, in_stacks, matmul, norms, put, take, to_float, to_host
from unire.decoding.decoded import Decoded
from unire.decoding.steps import ordered_pairs, symmetrize, winners
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "decode", "decode_prepared", "prepare"]

ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class Prepared:
    """Tables after all that does not depend on α."""

    P: Array
    """[T, N, N, |Y|]: symmetrised, 0 in the padding."""
    lengths: NDArray[np.int64]
    labels: LabelSpace
    distances: NDArray[np.float64]
    """[T, N - 1]: between the words `i` and `i + 1`; NaN in the padding."""


def decode(P: Array, lengths: NDArray[np.int64], labels: LabelSpace, *, alpha: float = ALPHA) -> Decoded:
    return decode_prepared(prepare(P, lengths, labels), alpha)


def prepare(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Prepared:
    """Symmetrise the tables and measure the distances of adjacent rows and columns (Euclidean, the mean of the two)."""
    T, N, _, Y = P.shape
    symmetric = empty(P.shape, to_float(P[:0]))
    distances = np.full((T, max(N - 1, 0)), np.nan)

    def between_rows(P: Array) -> Array:
        rows = P.reshape(len(P), N, N * Y)
        return norms(rows[:, 1:] - rows[:, :-1])

    def measure(stack: slice) -> None:
        tables = symmetric[stack]
        symmetrize(P, lengths, labels, stack, out=tables)
        distances[stack] = to_host(between_rows(tables) + between_rows(flipped(tables))) / 2

    in_stacks(measure, P)
    distances[np.arange(1, max(N, 1)) >= lengths[:, None]] = np.nan
    return Prepared(symmetric, lengths, labels, distances)


def decode_prepared(prepared: Prepared, alpha: float = ALPHA) -> Decoded:
    P, lengths, labels = prepared.P, prepared.lengths, prepared.labels
    T, N, _, Y = P.shape
    tables, words = np.arange(T)[:, None], np.arange(N)

    # Spans
    inside = words < lengths[:, None]  # [T, N]
    begins = inside.copy()
    begins[:, 1:] &= prepared.distances > alpha
    table, start = begins.nonzero()
    size = np.bincount(begins[inside].cumsum() - 1, minlength=len(table))

    # Means: S P, and from it the squares on the diagonal of S P Sᵀ
    span = np.maximum(begins.cumsum(1) - 1, 0)  # [T, N]: the span of each word, counted in its table
    M = int(span.max(initial=0)) + 1
    share = np.zeros((T, N))
    share[inside] = np.repeat(1 / size, size)
    own = put((tables * M + span) * N + words, P)  # [T, N]: where S has each word in its own span
    S = empty((T * M * N,), P)
    S[:] = 0
    S[own] = put(share, P)
    S = S.reshape(T, M, N)
    SP = matmul(S, P.reshape(T, N, N * Y)).reshape(T * M * N, Y)
    squares = to_host(matmul(S, take(SP, own)))[table, span[table, start]]  # [spans, Y]

    # Entity types
    label, score = winners(squares, labels.entity_ids)
    is_entity = label != LabelSpace.NONE
    table, start, size = table[is_entity], start[is_entity], size[is_entity]
    entities = np.stack([table, start, start + size, label[is_entity]], axis=1)

    # Relation types: the rows and columns of S P Sᵀ that belong to entities
    place = np.arange(len(table)) - np.searchsorted(table, table)  # of each entity in its table
    E = int(place.max(initial=-1)) + 1
    entity_span = np.zeros((T, E), dtype=np.int64)
    entity_span[table, place] = span[table, start]
    entity_span += tables * M
    heads = take(SP, put(entity_span[:, None, :] * N + words[:, None], P))  # [T, N, E, Y]
    tails = take(S.reshape(T * M, N), put(entity_span, P))  # [T, E, N]
    rectangles = matmul(tails, heads.reshape(T, N, E * Y)).reshape(T * E * E, Y)  # by table, tail, head
    head, tail = ordered_pairs(table)
    pairs = take(rectangles, put((table[head] * E + place[tail]) * E + place[head], P))
    relation, relation_score = (to_host(x) for x in winners(pairs, labels.relation_ids))
    related = relation != LabelSpace.NONE

    return Decoded(
        entities=entities,
        entity_scores=score[is_entity].astype(np.float64),
        relations=np.stack([head, tail, relation], axis=1)[related],
        relation_scores=relation_score[related].astype(np.float64),
        cuts=np.argwhere(begins & (words > 0)),
    )
