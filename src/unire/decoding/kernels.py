"""What decoders do that cut tables: name what lies between the cuts.

The spans between the cuts partition a sentence; a square is named by its mean, and so is the rectangle of two entities.
They do not overlap, so at most every cell is gathered once to name the squares, and once to name the rectangles. Means
commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept, and only the rectangles
are symmetrised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unire.calibration import Calibration
from unire.decoding.backend import (
    Array,
    arange_like,
    asarray_like,
    full,
    gather,
    gather_columns,
    lerp,
    library,
    nonzero,
    rectangle_means,
    segment_ids,
    stack_rows,
    sum_except,
    to_host,
    to_numpy,
)
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = [
    "OUTSIDE",
    "Decoded",
    "Pairs",
    "SpanScorer",
    "argmax_or_none",
    "check_finite",
    "label_spans",
    "log_odds",
    "mask_forbidden",
    "mirror_weight",
]


@dataclass(frozen=True)
class Decoded:
    """The entities and relations of a batch of tables, as flat arrays on the host. Positions are words of the table."""

    entities: NDArray[np.int64]
    """[E, 4]: table, start, end, label id; sorted by table and start."""
    entity_scores: NDArray[np.float64]
    """[E]: log-odds, as a decoder gives them; chances, once they are `calibrated`."""
    relations: NDArray[np.int64]
    """[R, 3]: head and tail (rows of `entities`), label id; sorted by head and tail."""
    relation_scores: NDArray[np.float64]
    """[R]: likewise"""
    cuts: NDArray[np.int64]
    """[C, 2]: table, position `i` of a cut between the words `i - 1` and `i`; sorted."""

    def calibrated(self, calibration: Calibration) -> Decoded:
        """The same, with chances for log-odds."""
        return replace(
            self,
            entity_scores=calibration.entities(self.entity_scores),
            relation_scores=calibration.relations(self.relation_scores),
        )


MIN_FLOAT32 = 2.0**-149
"""The least number above 0 in float32."""


def mirror_weight(labels: LabelSpace, like: Array) -> Array:
    """[|Y|]: what a cell gets of its mirror image, so that P_ijt = P_jit = (P_ijt + P_jit) / 2 for every t in Y_sym.

    ⊥ is not in Y_sym: a symmetric relation may be found one way only.
    """
    weight = np.zeros(len(labels))
    weight[list(labels.symmetric_ids)] = 0.5
    return asarray_like(weight, like)


def check_finite(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> None:
    """Look for a cell that is NaN or infinite, and say which it is."""
    for table, n in enumerate(lengths):
        cells = to_host(P[table, :n, :n])
        for i, j, y in np.argwhere(~np.isfinite(cells)):
            raise UnireError(
                f"table {table} holds {cells[i, j, y]} as the probability of {labels.names[y]!r} for the words {i} and "
                f"{j}: decoding needs finite numbers, so look for an overflow in the model that filled the table"
            )


def argmax_or_none(scores: Array, ids: slice, odds: float = 1.0) -> tuple[Array, Array]:
    """The rows of [K, |Y|] in which the best of `ids` has at least `odds` times what ⊥ has; and which it is in each."""
    none = scores[:, LabelSpace.NONE, None]
    if odds != 1:
        none = odds * none
    best = library(scores).concatenate([scores[:, ids], none], 1).argmax(1)  # the first of equals: the lowest id
    won = nonzero(best < ids.stop - ids.start)
    return won, gather(best, won) + ids.start


def log_odds(sides: NDArray[Any]) -> NDArray[np.float64]:
    """[K]: ln(for / against), of [2, K]; as if there were a little of each, no less than float32 can hold."""
    logs = sides.astype(np.float64)
    np.log(np.maximum(logs, MIN_FLOAT32, out=logs), out=logs)
    odds: NDArray[np.float64] = logs[0] - logs[1]
    return odds


def mask_forbidden(scores: Array, heads: Array, tails: Array, allowed_relations: NDArray[np.bool_]) -> Array:
    """[K, |Y|] scores of pairs of entities of the types `heads` and `tails`: -1 where the relation may not join them.

    Then it loses against ⊥ even where that has nothing.
    """
    return library(scores).where(asarray_like(allowed_relations, scores)[heads, tails], scores, -1)


class Pairs(NamedTuple):
    """All ordered pairs of different entities of one table, sorted; entities are told by their number."""

    head: Array
    tail: Array
    mirrored: Array
    """Which pair is the other way round."""

    @classmethod
    def of(cls, table: Array) -> Pairs:
        """Those of entities whose tables are `table`, which is sorted."""
        xp = library(table)
        first = xp.searchsorted(table, table)  # of its table
        last = xp.searchsorted(table, table, side="right") - 1
        partners = last - first
        shift = last - partners.cumsum(0)  # from the number of a pair to its tail, if that comes before the head
        total = int(partners.sum())
        head = segment_ids(partners, total)
        tail = arange_like(total, table) + gather(shift, head)
        later = tail >= head
        tail = tail + later  # all but itself
        return cls(head, tail, head - gather(shift, tail) + later - 1)


OUTSIDE = 2
"""A span begins that is no entity, whatever its mean says."""


@dataclass(frozen=True)
class SpanScorer(ABC):
    """Tables, and what is known of them before α is."""

    P: Array
    """[T, N, N, |Y|] in float32 at least, not symmetrised; padding may hold anything."""
    labels: LabelSpace
    weight: Array
    """[|Y|]: what a cell gets of its mirror image."""
    n_words: Array
    """[T]"""

    gaps: ClassVar[bool] = False
    """Whether some spans are known to be no entities."""

    @abstractmethod
    def begins(self, alpha: float) -> Array:
        """[T, N]: whether a span begins with a word, if tables are cut by this α. The first word of each begins one.

        Where there are gaps, `GAP` says that one begins.
        """

    def only(self, tables: NDArray[np.int64]) -> Self:
        """Some of the tables, [T'], in their order."""
        chosen = asarray_like(tables, self.P)
        shared = ("labels", "weight")
        return replace(
            self, **{f.name: gather(getattr(self, f.name), chosen) for f in fields(self) if f.name not in shared}
        )


def label_spans(
    prepared: SpanScorer, alpha: float, allowed_relations: NDArray[np.bool_] | None = None, odds: float = 1.0
) -> Decoded:
    """Cut the tables by `alpha`, and name the spans and the pairs of entities."""
    P, labels, weight = prepared.P, prepared.labels, prepared.weight
    xp = library(P)

    # Spans
    T, N = P.shape[:2]
    begins = prepared.begins(alpha).reshape(T * N)
    first = nonzero(begins)  # words are counted through all tables and their padding
    table, start = first // N, first % N
    until_next = xp.diff(first, append=full((1,), T * N, first))
    size = xp.minimum(until_next, gather(prepared.n_words, table) - start)
    row = first * N  # the first cell of its row, counted likewise
    spans = stack_rows(table, start, start + size, size, row)

    # Entity types: the squares
    candidates = gather(spans, nonzero(gather(begins, first) != OUTSIDE), 1) if prepared.gaps else spans
    _, start, _, size, row = candidates
    squares = rectangle_means(P, row + start, size, size)
    named, label = argmax_or_none(squares, labels.entity_ids)
    entities = gather(candidates, named, 1)

    # Relation types: the rectangles
    head, tail, mirrored = Pairs.of(entities[0])
    _, _, _, height, row = gather(entities, head, 1)
    _, column, _, width, _ = gather(entities, tail, 1)
    pairs = rectangle_means(P, row + column, height, width)
    mirror = gather(pairs, mirrored)
    symmetric = lerp(pairs, mirror, weight)
    if allowed_relations is not None:
        symmetric = mask_forbidden(symmetric, gather(label, head), gather(label, tail), allowed_relations)
    related, relation = argmax_or_none(symmetric, labels.relation_ids, odds)
    relations = gather(stack_rows(head, tail), related, 1)
    own_weight = gather(weight, relation)[:, None]  # a label is read from one way, or from both
    seen = lerp(gather(pairs, related), gather(mirror, related), own_weight)

    label = xp.concatenate([label, relation])
    sides = _sides(xp.concatenate([gather(squares, named), seen]), label)
    spans, entities, relations, label, sides = to_numpy(spans[:2], entities[:3], relations, label, sides)
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
    return stack_rows(gather_columns(means, label), sum_except(means, label))
