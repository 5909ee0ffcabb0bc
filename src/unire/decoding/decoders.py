"""The most likely squares: cut the table around them, then name what lies between the cuts.

A cell speaks for an entity, of whichever type, by how much more probable that is than everything else; a square by the
sum of what its cells say. Of all ways to lay squares on the diagonal that do not overlap, the one with the largest sum
is taken (dynamic programming over their ends), where each square costs α: it must have so much in its favour. If cells
were independent of each other it would be the most likely one, and α would say how rare entities are.

The paper's decoder, `split`, looks at whole rows and columns, and judges each border by itself; this one looks at the
squares alone, and judges their two borders together. Which of the two finds more depends on the model: dev tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unire.decoding import kernels
from unire.decoding.backend import (
    Array,
    all_finite,
    arange_like,
    as_precise,
    asarray_like,
    distances,
    full,
    gather,
    gather_columns,
    high_priority_stream,
    lerp_transpose,
    library,
    nonzero,
    stack_rows,
    tiles,
    to_float,
    to_host,
    to_numpy,
    zero_padding,
)
from unire.decoding.kernels import Decoded, Pairs, argmax_or_none, check_finite, log_odds, mask_forbidden, mirror_weight
from unire.errors import UnireError
from unire.labels import LabelSpace

__all__ = [
    "BOUNDARY_ALPHA",
    "DECODERS",
    "MAX_SPAN_ALPHA",
    "SPAN_SCORERS",
    "BoundaryScorer",
    "Decoded",
    "MaxSpanScorer",
    "decode",
    "decode_hard",
    "default_alpha",
    "score_boundaries",
    "score_max_spans",
]

BOUNDARY_ALPHA = 1.4
"""The paper's threshold. A model has its own: tuned on dev, and saved with it."""


@dataclass(frozen=True)
class BoundaryScorer(kernels.SpanScorer):
    """Tables, and how far their rows and columns are apart."""

    apart: Array
    """[T, N]: how far each word is from the one before: rows and columns, summed. ∞ for the first; NaN in padding."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """[T, N - 1]: between the words `i` and `i + 1` of a table; NaN in the padding."""
        return to_host(self.apart)[:, 1:].astype(np.float64) / 2

    def begins(self, alpha: float) -> Array:
        """[T, N]: a table is cut where the distance is greater than `alpha`."""
        return self.apart > 2 * alpha


def score_boundaries(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> BoundaryScorer:
    """Measure how far adjacent rows and columns of the symmetrised tables are apart: Euclidean, the mean of the two."""
    P = to_float(P)
    T, N = P.shape[:2]
    weight = mirror_weight(labels, P)
    n_words = asarray_like(lengths, P)
    padding = arange_like(N, P) >= n_words[:, None]
    apart = full((T, N), 0, P)
    for stack, tables, room, more_room in tiles(P, lengths):
        n = tables.shape[1]
        apart[stack, 1:n] = distances(tables, weight, padding[stack, :n], room, more_room)
    # a number that is not finite spoils a distance; or the first cell, where a table of one word has no distance
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        total = float(apart.sum() + P[:, :1, :1].sum())
    if not math.isfinite(total):
        check_finite(P, lengths, labels)
    apart[:, :1] = np.inf
    return BoundaryScorer(P, labels, weight, n_words, library(P).where(padding, np.nan, apart))


MAX_SPAN_ALPHA = 2.0
"""Where dev has not said what a square must have in its favour: about e² = 7 to 1."""

MIN_PROBABILITY = 0.01
"""A cell counts as no less probable than this: one alone, sure as it may be, says little more than ln 100."""


@dataclass(frozen=True)
class MaxSpanScorer(kernels.SpanScorer):
    """Tables, and what speaks for each of their squares."""

    evidence: Array
    """[T, N + 1, N + 1]: for the square from one border (the last axis) to another; -∞ where there is none."""

    gaps = True

    def begins(self, alpha: float) -> Array:
        """[T, N]: a table is cut before and behind each square that is taken; what lies between them are gaps."""
        T, N = self.P.shape[:2]
        evidence = self.evidence.reshape(-1)
        place = nonzero(evidence > alpha)
        said = stack_rows(*(gather(evidence, some) for some in (place, place + 1, place - (N + 1))))
        place, said, n_words = to_numpy(place, said, self.n_words)
        # no square is taken if with a word less, at its start or its end, it says more
        place, gain = (x[said[0] >= said[1:].max(0)] for x in (place, said[0] - alpha))
        end, start = np.divmod(place, N + 1)  # the borders of all tables in one line
        start += end // (N + 1) * (N + 1)
        taken = _schedule_intervals(start, end, gain)
        begins = np.zeros((T, N + 1), np.int8)
        begins[:, 0] = kernels.OUTSIDE
        begins.flat[end[taken]] = kernels.OUTSIDE
        begins.flat[start[taken]] = True  # also where another one ends
        begins[np.arange(T), n_words] = False  # the end of the last word
        return asarray_like(begins[:, :N], self.P)


def score_max_spans(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> MaxSpanScorer:
    """Sum up what the cells of every square say."""
    P = to_float(P)
    T, N = P.shape[:2]
    xp = library(P)
    n_words = asarray_like(lengths, P)
    padding = arange_like(N, P) >= n_words[:, None]
    is_entity = np.zeros(len(labels))
    is_entity[labels.entity_ids] = 1
    sides = asarray_like(np.stack([is_entity, 1 - is_entity], axis=1), P)
    evidence = full((T, N + 1, N + 1), -np.inf, P)
    for stack, tables, _, _ in tiles(P, lengths):
        n = tables.shape[1]
        with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
            cells = tables @ sides
        zero_padding(cells, padding[stack, :n])  # which then says nothing
        if not all_finite(cells):  # whichever label is not
            check_finite(P, lengths, labels)
        said = xp.log(cells.clip(MIN_PROBABILITY))
        evidence[stack, : n + 1, : n + 1] = as_precise(_squares(said[..., 0] - said[..., 1]), P)
    border = arange_like(N + 1, P)
    there = (border < border[:, None]) & (border[:, None] <= n_words[:, None, None])
    return MaxSpanScorer(P, labels, mirror_weight(labels, P), n_words, xp.where(there, evidence, -np.inf))


def _squares(cells: Array) -> Array:
    """[T, N + 1, N + 1] sums over the squares between every two borders, of [T, N, N]."""
    T, N, _ = cells.shape
    xp = library(cells)
    summed = xp.cumsum(xp.cumsum(cells, 1, dtype=xp.float64), 2)  # of which small differences are taken
    above_left = full((T, N + 1, N + 1), 0, summed)
    above_left[:, 1:, 1:] = summed
    corner = above_left.diagonal(0, 1, 2)
    return corner[:, :, None] + corner[:, None] - above_left - above_left.swapaxes(1, 2)


def _schedule_intervals(
    start: NDArray[np.int64], end: NDArray[np.int64], gain: NDArray[np.float64]
) -> NDArray[np.int64]:
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


def decode_hard(
    P: Array,
    lengths: NDArray[np.int64],
    labels: LabelSpace,
    *,
    alpha: float = 0.0,
    allowed_relations: NDArray[np.bool_] | None = None,
    odds: float = 1.0,
) -> Decoded:
    """Decode a batch. `alpha` is not used: it is there so that all decoders are called alike."""
    P = to_float(P)
    counts = _counts(P, lengths, labels)
    border = asarray_like(np.arange(P.shape[1] + 1), P)

    # Squares from every border to every later one
    of_entities = counts[..., : labels.entity_ids.stop]
    corner = of_entities[:, border, border]
    squares = corner[:, :, None] + corner[:, None, :] - of_entities - of_entities.swapaxes(1, 2)
    place = library(P).where((border[:, None] < border) & (border <= asarray_like(lengths, P)[:, None, None]))
    squares = squares[place]
    found, label = argmax_or_none(squares, labels.entity_ids)
    count = gather_columns(gather(squares, found), label)
    candidates = np.array([to_host(x) for x in (*(gather(x, found) for x in place), label, count)])
    candidates = candidates[:, candidates[4] > 0]
    table, start, end, label, count = candidates[:, _apart(*candidates[:3])]
    size = end - start
    borders = np.array([[table, start], [table, end]]).swapaxes(1, 2).reshape(-1, 2)
    interior = (borders[:, 1] > 0) & (borders[:, 1] < lengths[borders[:, 0]])

    # Rectangles of all pairs
    head, tail, _ = Pairs.of(table)
    here, top, bottom, left, right = (
        asarray_like(x, P) for x in (table[head], start[head], end[head], start[tail], end[tail])
    )
    upper = counts[here, top, right] - counts[here, top, left]
    rectangles = counts[here, bottom, right] - counts[here, bottom, left] - upper
    if allowed_relations is not None:
        rectangles = mask_forbidden(
            rectangles, asarray_like(label[head], P), asarray_like(label[tail], P), allowed_relations
        )
    related, relation = argmax_or_none(rectangles, labels.relation_ids, odds)
    shared = to_host(gather_columns(gather(rectangles, related), relation))
    related, relation, shared = (x[shared > 0] for x in (to_host(related), to_host(relation), shared))
    head, tail = head[related], tail[related]
    share, relation_share = count / size**2, shared / (size[head] * size[tail])

    return Decoded(
        entities=np.array([table, start, end, label]).T,
        entity_scores=log_odds(np.array([share, 1 - share])),
        relations=np.array([head, tail, relation]).T,
        relation_scores=log_odds(np.array([relation_share, 1 - relation_share])),
        cuts=np.unique(borders[interior], axis=0),
    )


def _counts(P: Array, lengths: NDArray[np.int64], labels: LabelSpace) -> Array:
    """[T, N + 1, N + 1, |Y|]: how many of the cells above and left of a corner carry a label (an integral image)."""
    T, N, _, Y = P.shape
    xp = library(P)
    ids = asarray_like(np.arange(Y), P)
    cells = full((T, N + 1, N + 1), -1, ids)

    weight = mirror_weight(labels, P)
    padding = asarray_like(np.arange(N) >= lengths[:, None], P)
    for stack, tables, _, _ in tiles(P, lengths):
        n = tables.shape[1]
        symmetric = lerp_transpose(tables, weight)
        zero_padding(symmetric, padding[stack, :n])
        if not all_finite(symmetric):
            check_finite(P, lengths, labels)
        cells[stack, 1 : n + 1, 1 : n + 1] = symmetric.argmax(3)
    return xp.cumsum(xp.cumsum(cells[..., None] == ids, 1, dtype=xp.int32), 2, dtype=xp.int32)


def _apart(table: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which squares stay when each discards the smaller ones that it overlaps; sorted by table and start."""
    left = np.lexsort((start, start - end, table))
    kept = [left[:0]]
    while len(left):
        first = np.append(True, np.diff(table[left]) > 0)  # the largest that is left in each table
        chosen = left[first]
        kept.append(chosen)
        rival = chosen[first.cumsum() - 1]
        left = left[(end[left] <= start[rival]) | (start[left] >= end[rival])]
    result = np.concatenate(kept)
    return result[np.lexsort((start[result], table[result]))]


SPAN_SCORERS: dict[str, Callable[..., kernels.SpanScorer]] = {"split": score_boundaries, "likely": score_max_spans}
"""Those that cut tables by a threshold α, and what prepares tables for it: `naming.decode_prepared` does the rest."""


def default_alpha(decoder: str) -> float:
    """A decoder's threshold where dev has not said what it should be; one that has none takes any."""
    return MAX_SPAN_ALPHA if decoder == "likely" else BOUNDARY_ALPHA


def _cutting(prepare: Callable[..., kernels.SpanScorer]) -> Callable[..., Decoded]:
    """The decoder that cuts tables which were prepared so."""

    def decode(
        P: Array,
        lengths: NDArray[np.int64],
        labels: LabelSpace,
        *,
        alpha: float,
        allowed_relations: NDArray[np.bool_] | None,
        odds: float,
    ) -> Decoded:
        return kernels.label_spans(prepare(P, lengths, labels), alpha, allowed_relations, odds)

    return decode


DECODERS: dict[str, Callable[..., Decoded]] = {
    "split": _cutting(score_boundaries),
    "hard": decode_hard,
    "likely": _cutting(score_max_spans),
}


def decode(
    P: Array,
    lengths: NDArray[np.int64] | Sequence[int],
    labels: LabelSpace,
    *,
    decoder: str = "split",
    alpha: float | None = None,
    allowed_relations: NDArray[np.bool_] | None = None,
    odds: float = 1.0,
) -> Decoded:
    """Find the entities and relations of a batch of tables.

    Args:
        P: [T, N, N, |Y|] probabilities, a numpy array or a torch tensor on any device, where it stays. It is read in
            float32 at least. Padding may hold anything.
        lengths: [T] words of each table.
        labels: The label space, in the order of P's last axis.
        decoder: `split` (the paper's), `hard` (its baseline) or `likely`.
        alpha: The distance above which `split` cuts, or what a square must have in its favour where `likely` does.
        allowed_relations: As `LabelSpace.allowed_relations` returns them. By default all relations are allowed.
        odds: How many times as probable as ⊥ a relation must be to be found; 1 in the paper.
    """
    if decoder not in DECODERS:
        raise UnireError(f"no decoder {decoder!r}: there are {', '.join(DECODERS)}")
    lengths = _checked(P, lengths, labels)
    threshold = default_alpha(decoder) if alpha is None else alpha
    with high_priority_stream(P):
        return DECODERS[decoder](P, lengths, labels, alpha=threshold, allowed_relations=allowed_relations, odds=odds)


def _checked(P: Array, lengths: NDArray[np.int64] | Sequence[int], labels: LabelSpace) -> NDArray[np.int64]:
    """The lengths as an array, if P is a batch of such tables."""
    words = np.asarray(lengths, dtype=np.int64)
    T, N = len(words), words.max(initial=0)
    if P.ndim != 4 or P.shape[0] != T or P.shape[1] != P.shape[2] or P.shape[1] < N or P.shape[3] != len(labels):
        raise UnireError(
            f"P has the shape {tuple(P.shape)}, but {T} tables of up to {N} words and {len(labels)} labels need "
            f"({T}, n, n, {len(labels)}) with n of at least {N}"
        )
    return words
