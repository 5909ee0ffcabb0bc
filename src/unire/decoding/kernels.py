"""The steps of the batched decoders, for numpy arrays and torch tensors.

Each kernel names the function of `reference.py` that it computes, for many tables at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.calibration import Calibration
from unire.decoding.backend import (
    Array,
    all_finite,
    arange_like,
    array_namespace,
    asarray_like,
    cast_like,
    full,
    gather,
    gather_columns,
    iter_tiles,
    lerp,
    lerp_transpose,
    nonzero,
    rectangle_means,
    row_and_column_distances,
    segment_ids,
    stack_rows,
    sum_except,
    to_host,
    to_numpy,
    zero_padding,
)
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = [
    "NOT_ENTITY",
    "START",
    "Decoded",
    "EntityPairs",
    "argmax_or_none",
    "check_finite",
    "compute_log_odds",
    "count_labels",
    "keep_largest",
    "label_spans",
    "mask_forbidden",
    "mirror_weight",
    "schedule_intervals",
    "sum_boundary_distances",
    "sum_span_evidence",
]

START, NOT_ENTITY = 1, 2
"""Mark the start of a span: one whose mean decides on its type, and one that is no entity, whatever its mean."""

MIN_FLOAT32 = 2.0**-149
"""The smallest positive float32."""

MIN_PROBABILITY = 0.01
"""A lower bound of cell probabilities for `likely`: the log-odds of a cell are at most ln 100."""


@dataclass(frozen=True)
class Decoded:
    """The entities and relations of a batch of tables, as flat arrays on the host. Positions are words of the table."""

    entities: NDArray[np.int64]
    """[E, 4]: table, start, end, label id; sorted by table and start."""
    entity_scores: NDArray[np.float64]
    """[E]: log-odds from a decoder; probabilities once `calibrated`."""
    relations: NDArray[np.int64]
    """[R, 3]: head and tail (rows of `entities`), label id; sorted by head and tail."""
    relation_scores: NDArray[np.float64]
    """[R]: like `entity_scores`."""
    cuts: NDArray[np.int64]
    """[C, 2]: table, position `i` of a cut between the words `i - 1` and `i`; sorted."""

    def calibrated(self, calibration: Calibration, labels: LabelSpace) -> Decoded:
        """The same entities and relations with probabilities instead of log-odds."""
        if np.isnan(self.entity_scores).any() or np.isnan(self.relation_scores).any():
            raise UnireError("the model computes probabilities that are not numbers; its weights are damaged")
        return replace(
            self,
            entity_scores=calibration.entities(self.entity_scores),
            relation_scores=calibration.relations(
                self.relation_scores, calibration.shift_relations(labels)[self.relations[:, 2]]
            ),
        )


# Types of spans and pairs


def label_spans(
    P: Array,
    n_words: Array,
    span_starts: Array,
    labels: LabelSpace,
    weight: Array,
    *,
    has_non_entities: bool,
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> Decoded:
    """Decode entity types and relation types: `reference.label_entities` and `reference.label_relations`.

    Spans do not overlap, so every cell is read at most twice: once for the type of an entity, once for that of a
    relation. Means commute with symmetrising, and a square is its own transpose. So no copy of P is made, and only the
    means of rectangles are symmetrised.

    Args:
        P: [T, N, N, |Y|] in float32 at least, not symmetrised; padding may hold anything.
        n_words: [T]
        span_starts: [T, N]: `START` or `NOT_ENTITY` where a span starts, else 0. The first word of every table starts
            one.
        labels: The label space.
        weight: [|Y|] from `mirror_weight`.
        has_non_entities: Whether `span_starts` marks some spans as `NOT_ENTITY`.
        allowed_relations: [|Y|, |Y|, |Y|] from `LabelSpace.allowed_relations`.
        relation_odds: A relation must be this many times as probable as ⊥.
    """
    xp = array_namespace(P)

    # Spans: positions count words through all tables and their padding. Spans, candidates and entities are arrays
    # [5, S] with the rows table, start, end, size, and the number of the first cell of the span's first row.
    T, N = P.shape[:2]
    span_starts = span_starts.reshape(T * N)
    first = nonzero(span_starts)
    table, start = first // N, first % N
    until_next = xp.diff(first, append=full((1,), T * N, first))
    size = xp.minimum(until_next, gather(n_words, table) - start)
    row_offset = first * N  # among all cells of P
    spans = stack_rows(table, start, start + size, size, row_offset)

    # entity types: means of squares
    candidates = gather(spans, nonzero(gather(span_starts, first) != NOT_ENTITY), 1) if has_non_entities else spans
    _, start, _, size, row_offset = candidates
    squares = rectangle_means(P, row_offset + start, size, size)
    is_entity, label = argmax_or_none(squares, labels.entity_ids)
    entities = gather(candidates, is_entity, 1)

    # relation types: means of rectangles
    head, tail, mirrored = EntityPairs.of(entities[0])
    _, _, _, height, row_offset = gather(entities, head, 1)  # the rows of a rectangle are the words of the head,
    _, column, _, width, _ = gather(entities, tail, 1)  # its columns those of the tail
    means = rectangle_means(P, row_offset + column, height, width)
    transposed = gather(means, mirrored)
    symmetric = lerp(means, transposed, weight)
    if allowed_relations is not None:
        symmetric = mask_forbidden(symmetric, gather(label, head), gather(label, tail), allowed_relations)
    is_relation, relation = argmax_or_none(symmetric, labels.relation_ids, relation_odds)
    relations = gather(stack_rows(head, tail), is_relation, 1)
    # `symmetric` mixes labels of both kinds; all labels of a score are symmetrised if its own is, else none
    own_weight = gather(weight, relation)[:, None]
    relation_means = lerp(gather(means, is_relation), gather(transposed, is_relation), own_weight)

    # one copy to the host for everything
    label = xp.concatenate([label, relation])
    evidence = _evidence_for_against(xp.concatenate([gather(squares, is_entity), relation_means]), label)
    spans, entities, relations, label, evidence = to_numpy(spans[:2], entities[:3], relations, label, evidence)
    n_entities = entities.shape[1]
    label, relation = label[:n_entities], label[n_entities:]
    scores = compute_log_odds(evidence)
    inner = np.flatnonzero(spans[1])
    return Decoded(
        entities=np.array([*entities, label]).T,
        entity_scores=scores[:n_entities],
        relations=np.array([*relations, relation]).T,
        relation_scores=scores[n_entities:],
        cuts=spans.take(inner, axis=1).T,
    )


def argmax_or_none(scores: Array, ids: slice, odds: float = 1.0) -> tuple[Array, Array]:
    """The rows of [K, |Y|] that get a label of `ids`, and their labels: `reference.argmax_or_none` for every row."""
    none = scores[:, LabelSpace.NONE, None]
    if odds != 1:
        none = odds * none
    best = array_namespace(scores).concatenate([scores[:, ids], none], 1).argmax(1)  # the first of equals
    labelled = nonzero(best < ids.stop - ids.start)
    return labelled, gather(best, labelled) + ids.start


def mask_forbidden(scores: Array, heads: Array, tails: Array, allowed_relations: NDArray[np.bool_]) -> Array:
    """Set [K, |Y|] scores of relations that may not link the types `heads` and `tails` to -1, below any score of ⊥."""
    xp = array_namespace(scores)
    return xp.where(asarray_like(allowed_relations, scores)[heads, tails], scores, -1)


def _evidence_for_against(means: Array, label: Array) -> Array:
    """[2, K]: the mean probability of each row's label, and that of all other labels, from [K, |Y|].

    1 minus the first would be 0 for most entities of a confident model, because float32 has no numbers between 1 - 2⁻²⁴
    and 1. The sum of the other labels is close to 0, where float32 is precise.
    """
    return stack_rows(gather_columns(means, label), sum_except(means, label))


def compute_log_odds(evidence: NDArray[Any]) -> NDArray[np.float64]:
    """[K]: ln(for / against), from [2, K]. Zeros count as the smallest positive float32."""
    logs = evidence.astype(np.float64)
    np.log(np.maximum(logs, MIN_FLOAT32, out=logs), out=logs)
    log_odds: NDArray[np.float64] = logs[0] - logs[1]
    return log_odds


class EntityPairs(NamedTuple):
    """All ordered pairs of different entities of the same table, sorted by head and tail."""

    head: Array
    """[K] indices of entities."""
    tail: Array
    """[K]"""
    mirrored: Array
    """[K]: the index of the pair with head and tail exchanged."""

    @classmethod
    def of(cls, table: Array) -> EntityPairs:
        """The pairs of entities whose tables are `table`, which is sorted."""
        xp = array_namespace(table)
        first = xp.searchsorted(table, table)  # the first entity of the same table
        last = xp.searchsorted(table, table, side="right") - 1
        partners = last - first
        shift = last - partners.cumsum(0)  # pair index + shift = tail, for tails before the head
        total = int(partners.sum())
        head = segment_ids(partners, total)
        tail = arange_like(total, table) + gather(shift, head)
        later = tail >= head
        tail = tail + later  # skip the head itself
        # the same equation, solved for the index of the pair (tail, head), whose tail is later exactly if ours is not
        return cls(head, tail, head - gather(shift, tail) + later - 1)


# Spans


def mirror_weight(labels: LabelSpace, like: Array) -> Array:
    """[|Y|]: ½ for every label in Y_sym, else 0; P + weight · (Pᵀ - P) is `reference.symmetrize`."""
    weight = np.zeros(len(labels))
    weight[list(labels.symmetric_ids)] = 0.5
    return asarray_like(weight, like)


def sum_boundary_distances(
    P: Array, lengths: NDArray[np.int64], n_words: Array, labels: LabelSpace, weight: Array
) -> Array:
    """[T, N]: twice `reference.boundary_distances` of the symmetrised tables, between each word and the one before.

    It is ∞ for the first word of a table, and NaN in the padding.
    """
    T, N = P.shape[:2]
    padding = arange_like(N, P) >= n_words[:, None]
    distances = full((T, N), 0, P)
    for index, tables, scratch in iter_tiles(P, lengths):
        n = tables.shape[1]
        distances[index, 1:n] = row_and_column_distances(tables, weight, padding[index, :n], scratch)
    # a cell that is not finite spoils a distance; a table of one word has no distance, so its cell is added
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        total = float(distances.sum() + P[:, :1, :1].sum())
    if not np.isfinite(total):
        check_finite(P, lengths, labels)
    distances[:, :1] = np.inf
    return array_namespace(P).where(padding, np.nan, distances)


def sum_span_evidence(P: Array, lengths: NDArray[np.int64], n_words: Array, labels: LabelSpace) -> Array:
    """[T, N + 1, N + 1]: `reference.span_evidence` of the span from border j (last axis) to border i; -∞ if j ≥ i."""
    T, N = P.shape[:2]
    xp = array_namespace(P)
    padding = arange_like(N, P) >= n_words[:, None]
    is_entity = np.zeros(len(labels))
    is_entity[labels.entity_ids] = 1
    entity_or_other = asarray_like(np.stack([is_entity, 1 - is_entity], axis=1), P)
    evidence = full((T, N + 1, N + 1), -np.inf, P)
    for index, tables, _ in iter_tiles(P, lengths):
        n = tables.shape[1]
        with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
            cells = tables @ entity_or_other
        zero_padding(cells, padding[index, :n])  # log-odds of 0
        if not all_finite(cells):
            check_finite(P, lengths, labels)
        logs = xp.log(cells.clip(MIN_PROBABILITY))
        evidence[index, : n + 1, : n + 1] = cast_like(_sum_squares(logs[..., 0] - logs[..., 1]), P)
    border = arange_like(N + 1, P)
    is_span = (border < border[:, None]) & (border[:, None] <= n_words[:, None, None])
    return xp.where(is_span, evidence, -np.inf)


def _sum_squares(cells: Array) -> Array:
    """[T, N + 1, N + 1]: the sum over the square between every two borders of [T, N, N], by an integral image."""
    T, N, _ = cells.shape
    xp = array_namespace(cells)
    cumulated = xp.cumsum(xp.cumsum(cells, 1, dtype=xp.float64), 2)  # float64, because small differences matter
    integral = full((T, N + 1, N + 1), 0, cumulated)
    integral[:, 1:, 1:] = cumulated
    corner = integral.diagonal(0, 1, 2)
    return corner[:, :, None] + corner[:, None] - integral - integral.swapaxes(1, 2)


def schedule_intervals(
    table: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64], weight: NDArray[np.float64]
) -> list[int]:
    """Weighted interval scheduling for every table: the indices that `reference.schedule_intervals` chooses.

    Args:
        table: [S], sorted.
        start: [S], positive positions that differ from table to table.
        end: [S], sorted within each table.
        weight: [S], positive.
    """
    compatible = np.searchsorted(end, start, side="right").tolist()  # how many intervals end before each starts
    weights = weight.tolist()
    chosen = []
    # one table at a time, so that rounding cannot depend on the other tables of a batch
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(table)) + 1).tolist(), len(weights)]):
        best = [0.0]
        for k in range(first, last):
            best.append(max(best[-1], best[compatible[k] - first] + weights[k]))
        k = last
        while k > first:
            if best[k - first] > best[k - first - 1]:
                chosen.append(k - 1)
                k = compatible[k - 1]
            else:
                k -= 1
    return chosen


# Hard decoding


def count_labels(P: Array, lengths: NDArray[np.int64], n_words: Array, labels: LabelSpace, weight: Array) -> Array:
    """[T, N + 1, N + 1, |Y|]: how many cells above and left of a corner carry a label (an integral image).

    A cell carries the label with the highest probability in the symmetrised table, as in `reference.decode_hard`.
    """
    T, N = P.shape[:2]
    xp = array_namespace(P)
    padding = arange_like(N, P) >= n_words[:, None]
    ids = arange_like(len(labels), P)
    cells = full((T, N + 1, N + 1), -1, ids)
    for index, tables, _ in iter_tiles(P, lengths):
        n = tables.shape[1]
        symmetric = lerp_transpose(tables, weight)
        zero_padding(symmetric, padding[index, :n])
        if not all_finite(symmetric):
            check_finite(P, lengths, labels)
        cells[index, 1 : n + 1, 1 : n + 1] = symmetric.argmax(3)
    return xp.cumsum(xp.cumsum(cells[..., None] == ids, 1, dtype=xp.int32), 2, dtype=xp.int32)


def keep_largest(table: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Greedily keep the largest square of each table and drop those that overlap it; sorted by table and start."""
    remaining = np.lexsort((start, start - end, table))
    kept = [remaining[:0]]
    while len(remaining):
        is_largest = np.append(True, np.diff(table[remaining]) > 0)  # the first of each table
        largest = remaining[is_largest]
        kept.append(largest)
        rival = largest[is_largest.cumsum() - 1]
        remaining = remaining[(end[remaining] <= start[rival]) | (start[remaining] >= end[rival])]
    result = np.concatenate(kept)
    return result[np.lexsort((start[result], table[result]))]


def check_finite(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
    """Raise an error that names the first cell that is NaN or infinite."""
    for table, n in enumerate(lengths):
        cells = to_host(P[table, :n, :n])
        for i, j, y in np.argwhere(~np.isfinite(cells)):
            raise UnireError(
                f"table {table} holds {cells[i, j, y]} as the probability of {labels.names[y]!r} for the words {i} and "
                f"{j}; probabilities must be finite, so look for an overflow in the model"
            )
