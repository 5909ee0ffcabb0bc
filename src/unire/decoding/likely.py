"""The most likely squares: cut the table around them, then name what lies between the cuts.

A cell speaks for an entity, of whichever type, by how much more probable that is than everything else; a square by the
sum of what its cells say. Of all ways to lay squares on the diagonal that do not overlap, the one with the largest sum
is taken (dynamic programming over their ends), where each square costs α: it must have so much in its favour. If cells
were independent of each other it would be the most likely one, and α would say how rare entities are.

The paper's decoder, `split`, looks at whole rows and columns, and judges each border by itself; this one looks at the
squares alone, and judges their two borders together. Which of the two finds more depends on the model: dev tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding import naming
from unire.decoding.arrays import (
    Array,
    all_finite,
    as_precise,
    blank,
    count,
    full,
    library,
    put,
    rows,
    stacks,
    take,
    to_float,
    together,
    where,
)
from unire.decoding.steps import mirror_weight, refuse_not_finite
from unire.labels import LabelSpace

__all__ = ["ALPHA", "Prepared", "prepare"]

ALPHA = 2.0
"""Where dev has not said what a square must have in its favour: about e² = 7 to 1."""

LEAST = 0.01
"""A cell counts as no less probable than this: one alone, sure as it may be, says little more than ln 100."""


@dataclass(frozen=True)
class Prepared(naming.Prepared):
    """Tables, and what speaks for each of their squares."""

    evidence: Array
    """[T, N + 1, N + 1]: for the square from one border (the last axis) to another; -∞ where there is none."""

    gaps = True

    def begins(self, alpha: float) -> Array:
        """[T, N]: a table is cut before and behind each square that is taken; what lies between them are gaps."""
        T, N = self.P.shape[:2]
        evidence = self.evidence.reshape(-1)
        place = where(evidence > alpha)
        said = rows(*(take(evidence, some) for some in (place, place + 1, place - (N + 1))))
        place, said, n_words = together(place, said, self.n_words)
        # no square is taken if with a word less, at its start or its end, it says more
        place, gain = (x[said[0] >= said[1:].max(0)] for x in (place, said[0] - alpha))
        end, start = np.divmod(place, N + 1)  # the borders of all tables in one line
        start += end // (N + 1) * (N + 1)
        taken = _best(start, end, gain)
        begins = np.zeros((T, N + 1), np.int8)
        begins[:, 0] = naming.GAP
        begins.flat[end[taken]] = naming.GAP
        begins.flat[start[taken]] = True  # also where another one ends
        begins[np.arange(T), n_words] = False  # the end of the last word
        return put(begins[:, :N], self.P)


def prepare(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Prepared:
    """Sum up what the cells of every square say."""
    P = to_float(P)
    T, N = P.shape[:2]
    xp = library(P)
    n_words = put(lengths, P)
    padding = count(N, P) >= n_words[:, None]
    is_entity = np.zeros(len(labels))
    is_entity[labels.entity_ids] = 1
    sides = put(np.stack([is_entity, 1 - is_entity], axis=1), P)
    evidence = full((T, N + 1, N + 1), -np.inf, P)
    for stack, tables, _, _ in stacks(P, lengths):
        n = tables.shape[1]
        with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
            cells = tables @ sides
        blank(cells, padding[stack, :n])  # which then says nothing
        if not all_finite(cells):  # whichever label is not
            refuse_not_finite(P, lengths, labels)
        said = xp.log(cells.clip(LEAST))
        evidence[stack, : n + 1, : n + 1] = as_precise(_squares(said[..., 0] - said[..., 1]), P)
    border = count(N + 1, P)
    there = (border < border[:, None]) & (border[:, None] <= n_words[:, None, None])
    return Prepared(P, labels, mirror_weight(labels, P), n_words, xp.where(there, evidence, -np.inf))


def _squares(cells: Array) -> Array:
    """[T, N + 1, N + 1] sums over the squares between every two borders, of [T, N, N]."""
    T, N, _ = cells.shape
    xp = library(cells)
    summed = xp.cumsum(xp.cumsum(cells, 1, dtype=xp.float64), 2)  # of which small differences are taken
    above_left = full((T, N + 1, N + 1), 0, summed)
    above_left[:, 1:, 1:] = summed
    corner = above_left.diagonal(0, 1, 2)
    return corner[:, :, None] + corner[:, None] - above_left - above_left.swapaxes(1, 2)


def _best(start: NDArray[np.int64], end: NDArray[np.int64], gain: NDArray[np.float64]) -> NDArray[np.int64]:
    """[K]: which squares do not overlap and are worth most together.

    Most squares are near few others. So all groups that do not touch each other go side by side: the first square of
    each, then the second of each that has two, and so on.

    Args:
        start: [S]
        end: [S], by which squares are sorted.
        gain: [S]: what each is worth, above 0.
    """
    if not len(start):
        return start
    # a group ends where nothing that follows reaches back
    apart = np.minimum.accumulate(start[::-1])[::-1][1:] >= end[:-1]
    firsts = np.append(0, np.flatnonzero(apart) + 1)
    sizes = np.diff(firsts, append=len(start))
    n_groups = len(sizes)
    # a row for the first squares of all groups, one for the second ones, …, and before them one for no square at all;
    # the largest group is the first of each row
    widths = n_groups - np.append(0, np.bincount(sizes).cumsum()[:-1])
    lines = widths.cumsum() - widths
    smaller = (sizes.max() - sizes).astype(np.min_scalar_type(sizes.max()))  # of few bits, which are sorted quickly
    largest = np.argsort(smaller, kind="stable")
    columns = np.empty(n_groups, np.int64)
    columns[largest] = np.arange(n_groups)
    column, first = np.repeat([columns, firsts], sizes, axis=1)  # of the group of each
    place = lines[np.arange(len(start)) - first + 1] + column
    clear = np.searchsorted(end, start, side="right") - first  # squares of its group that it does not overlap
    behind, gains = np.zeros(n_groups + len(start), np.int64), np.zeros(n_groups + len(start))
    behind[place], gains[place] = lines[clear] + column, gain
    worth, last = np.zeros(len(gains)), np.arange(len(gains))  # of squares up to each; the last one that is worth it
    for above, row, width in zip(lines[:-1].tolist(), lines[1:].tolist(), widths[1:].tolist(), strict=True):
        these, without = slice(row, row + width), slice(above, above + width)
        with_it = worth[behind[these]] + gains[these]
        worth[these] = np.maximum(worth[without], with_it)
        last[these] = np.where(with_it > worth[without], last[these], last[without])
    taken = np.zeros(len(gains), bool)
    at = last[lines[sizes[largest]] + np.arange(n_groups)]
    while len(at := at[at >= n_groups]):
        taken[at] = True
        at = last[behind[at]]
    return np.flatnonzero(taken[place])
