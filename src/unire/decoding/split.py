"""The paper's decoder: cut the table where neighbouring rows and columns differ, then name what lies between the cuts.

The spans between the cuts partition a sentence. With S the m×n membership matrix of its m spans, each row scaled to
sum to one, S P Sᵀ holds the mean of every square and of every rectangle: matrix products over a whole padded batch.
Means commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept: P is symmetrised
in passing, to measure distances, and then only the rectangles are.

`decode` is the way in. To decode the same tables for many α, `prepare` them once and call `decode_prepared` for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import (
    Array,
    all_finite,
    blank,
    column_distances,
    empty,
    matmul,
    put,
    row_distances,
    stacks,
    take,
    to_float,
    to_host,
    toward_mirror,
)
from unire.decoding.decoded import Decoded
from unire.decoding.steps import mirror_weight, not_finite, ordered_pairs, winners
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "decode", "decode_prepared", "prepare"]

ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class Prepared:
    """Tables, and what is known of them before α is."""

    P: Array
    """[T, N, N, |Y|] in float32 at least, not symmetrised, finite in the padding too."""
    lengths: NDArray[np.int64]
    labels: LabelSpace
    distances: NDArray[np.float64]
    """[T, N - 1]: between the words `i` and `i + 1`; NaN in the padding."""


def decode(P: Array, lengths: NDArray[np.int64], labels: LabelSpace, *, alpha: float = ALPHA) -> Decoded:
    """The paper's three steps: spans, entity types, relation types."""
    return decode_prepared(prepare(P, lengths, labels), alpha)


def prepare(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Prepared:
    """Measure how far adjacent rows and columns of the symmetrised tables are apart: Euclidean, the mean of the two."""
    P = to_float(P)
    T, N = P.shape[:2]
    weight = mirror_weight(labels)
    padding = np.arange(N) >= lengths[:, None]
    distances = np.empty((T, max(N - 1, 0)))
    finite = True
    for stack, room, more_room in stacks(P):
        finite = finite and all_finite(P[stack])
        symmetric = toward_mirror(P[stack], weight, out=room)
        blank(symmetric, padding[stack])
        distances[stack] = to_host(row_distances(symmetric, more_room) + column_distances(symmetric, more_room)) / 2
    if not finite:
        P = P + 0
        blank(P, padding)  # NaN in the padding would not vanish when multiplied by 0
        if not all_finite(P):
            raise not_finite(P, lengths, labels)
    distances[padding[:, 1:]] = np.nan
    return Prepared(P, lengths, labels, distances)


def decode_prepared(prepared: Prepared, alpha: float = ALPHA) -> Decoded:
    """Cut where the distance is greater than `alpha`, and name the spans and the pairs of entities."""
    P, lengths, labels = prepared.P, prepared.lengths, prepared.labels
    T, N, _, Y = P.shape
    tables, words = np.arange(T)[:, None], np.arange(N)

    # Spans
    inside = words < lengths[:, None]  # [T, N]
    begins = inside.copy()
    begins[:, 1:] &= prepared.distances > alpha
    table, start = begins.nonzero()
    size = np.bincount(begins[inside].cumsum() - 1, minlength=len(table))
    cuts = np.array([table, start]).T[start > 0]

    # S P, and the squares on the diagonal of S P Sᵀ
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
    entities = np.array([table, start, start + size, label[is_entity]]).T

    # Relation types: the rows and columns of S P Sᵀ that belong to entities
    place = np.arange(len(table)) - np.searchsorted(table, table)  # of each entity in its table
    E = int(place.max(initial=-1)) + 1
    entity_span = np.zeros((T, E), dtype=np.int64)
    entity_span[table, place] = span[table, start]
    spans = put(entity_span + tables * M, P)
    heads = take(SP, spans[:, None, :] * N + put(words, P)[:, None])  # [T, N, E, Y]
    tails = take(S.reshape(T * M, N), spans)  # [T, E, N]
    rectangles = matmul(tails, heads.reshape(T, N, E * Y)).reshape(T * E * E, Y)  # by table, tail and head
    head, tail = ordered_pairs(table)
    first = table[head] * E
    pairs = take(rectangles, put((first + place[tail]) * E + place[head], P))
    mirrored = take(rectangles, put((first + place[head]) * E + place[tail], P))
    pairs += put(mirror_weight(labels), P) * (mirrored - pairs)
    relation, relation_score = (to_host(x) for x in winners(pairs, labels.relation_ids))
    related = relation != LabelSpace.NONE

    return Decoded(
        entities=entities,
        entity_scores=score[is_entity].astype(np.float64),
        relations=np.array([head, tail, relation]).T[related],
        relation_scores=relation_score[related].astype(np.float64),
        cuts=cuts,
    )
