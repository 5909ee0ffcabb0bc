"""What decoders do that cut tables: name what lies between the cuts.

The spans between the cuts partition a sentence; a square is named by its mean, and so is the rectangle of two entities.
They do not overlap, so at most every cell is gathered once to name the squares, and once to name the rectangles. Means
commute with symmetrising and a square is its own mirror image; so nothing of P's size is kept, and only the rectangles
are symmetrised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from unire.decoding.arrays import (
    Array,
    all_but,
    full,
    library,
    pick,
    put,
    rectangle_means,
    rows,
    take,
    together,
    toward,
    where,
)
from unire.decoding.decoded import Decoded
from unire.decoding.steps import Pairs, log_odds, permitted, winners
from unire.labels import LabelSpace

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GAP", "Prepared", "decode_prepared"]

GAP = 2
"""A span begins that is no entity, whatever its mean says."""


@dataclass(frozen=True)
class Prepared(ABC):
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
        chosen = put(tables, self.P)
        shared = ("labels", "weight")
        return replace(
            self, **{f.name: take(getattr(self, f.name), chosen) for f in fields(self) if f.name not in shared}
        )


def decode_prepared(
    prepared: Prepared, alpha: float, permits: NDArray[np.bool_] | None = None, odds: float = 1.0
) -> Decoded:
    """Cut the tables by `alpha`, and name the spans and the pairs of entities."""
    P, labels, weight = prepared.P, prepared.labels, prepared.weight
    xp = library(P)

    # Spans
    T, N = P.shape[:2]
    begins = prepared.begins(alpha).reshape(T * N)
    first = where(begins)  # words are counted through all tables and their padding
    table, start = first // N, first % N
    until_next = xp.diff(first, append=full((1,), T * N, first))
    size = xp.minimum(until_next, take(prepared.n_words, table) - start)
    row = first * N  # the first cell of its row, counted likewise
    spans = rows(table, start, start + size, size, row)

    # Entity types: the squares
    candidates = take(spans, where(take(begins, first) != GAP), 1) if prepared.gaps else spans
    _, start, _, size, row = candidates
    squares = rectangle_means(P, row + start, size, size)
    named, label = winners(squares, labels.entity_ids)
    entities = take(candidates, named, 1)

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
