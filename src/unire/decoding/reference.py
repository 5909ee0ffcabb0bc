"""The decoders for one sentence: section 3.4 of the paper, step by step, and the two other decoders.

This page is the specification of decoding, written to be read. `decoders.py` holds the batched forms that unire runs.
Each of them names the function here that it computes, and property tests compare the two.

Every decoder takes the probability tensor P ∈ ℝ^{|s|×|s|×|Y|} of one sentence s, without padding. Spans (i, j) begin at
word i and end before word j.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.config import PAPER_ALPHA
from unire.labels import LabelSpace

__all__ = [
    "SentenceDecoding",
    "argmax_or_none",
    "boundary_distances",
    "decode_boundaries",
    "decode_hard",
    "decode_max_spans",
    "label_entities",
    "label_relations",
    "schedule_intervals",
    "span_evidence",
    "symmetrize",
]

Floats = NDArray[np.floating[Any]]
Span = tuple[int, int]
Entity = tuple[int, int, int]
"""`(start, end, label id)`"""
Relation = tuple[int, int, int]
"""`(head, tail, label id)`; `head` and `tail` are indices of entities."""


@dataclass(frozen=True)
class SentenceDecoding:
    """The entities and relations of one sentence."""

    entities: list[Entity]
    """By start."""
    entity_scores: list[float]
    """Probabilities. The batched decoders return their log-odds."""
    relations: list[Relation]
    relation_scores: list[float]
    cuts: list[int]
    """Split positions: a cut at i separates the words i - 1 and i."""


# The paper's decoder (`split`): Algorithm 1


def decode_boundaries(
    P: Floats,
    labels: LabelSpace,
    alpha: float = PAPER_ALPHA,
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> SentenceDecoding:
    """Span decoding by the distances of adjacent rows and columns, then entity types, then relation types."""
    distances = boundary_distances(symmetrize(P, labels))
    cuts = [i + 1 for i, distance in enumerate(distances) if distance > alpha]
    spans = list(pairwise([0, *cuts, len(P)])) if len(P) else []
    entities, entity_scores = label_entities(P, labels, spans)
    relations, relation_scores = label_relations(P, labels, entities, allowed_relations, relation_odds)
    return SentenceDecoding(entities, entity_scores, relations, relation_scores, cuts)


def symmetrize(P: Floats, labels: LabelSpace) -> Floats:
    """Footnote 7: P_ijt = P_jit = (P_ijt + P_jit) / 2 for every t ∈ Y_sym.

    ⊥ is not in Y_sym, so a symmetric relation may be decoded in one direction only.
    """
    Y_sym = list(labels.symmetric_ids)
    symmetric = P.copy()
    symmetric[:, :, Y_sym] = (P[:, :, Y_sym] + P.transpose(1, 0, 2)[:, :, Y_sym]) / 2
    return symmetric


def boundary_distances(P: Floats) -> Floats:
    """[n - 1]: the mean of the Euclidean distances of adjacent rows and of adjacent columns."""
    n, _, Y = P.shape
    P_row = P.reshape(n, n * Y)
    P_col = P.transpose(1, 0, 2).reshape(n, n * Y)
    between_rows = np.linalg.norm(P_row[1:] - P_row[:-1], axis=1)
    between_columns = np.linalg.norm(P_col[1:] - P_col[:-1], axis=1)
    distances: Floats = (between_rows + between_columns) / 2
    return distances


def label_entities(P: Floats, labels: LabelSpace, spans: Sequence[Span]) -> tuple[list[Entity], list[float]]:
    """Entity type decoding: t̂ = argmax over t ∈ Y_e ∪ {⊥} of Avg(P_{i:j, i:j, t}).

    Args:
        P: [n, n, |Y|] not symmetrised.
        labels: The label space.
        spans: The candidate spans, which do not overlap.

    Returns:
        The entities by start, and their probabilities.
    """
    symmetric = symmetrize(P, labels)
    entities, scores = [], []
    for i, j in sorted(spans):
        t = argmax_or_none(symmetric[i:j, i:j].mean(axis=(0, 1)), labels.entity_ids)
        if t is not None:
            entities.append((i, j, t))
            scores.append(_mean_probability(P, (i, j), (i, j), t, labels))
    return entities, scores


def label_relations(
    P: Floats,
    labels: LabelSpace,
    entities: Sequence[Entity],
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> tuple[list[Relation], list[float]]:
    """Relation type decoding: l̂ = argmax over l ∈ Y_r ∪ {⊥} of Avg(P_{i:j, m:n, l}).

    Args:
        P: [n, n, |Y|] not symmetrised.
        labels: The label space.
        entities: The entities.
        allowed_relations: Which relation types may link which entity types; see `LabelSpace.allowed_relations`.
        relation_odds: A relation must be this many times as probable as ⊥. It is 1 in the paper.

    Returns:
        The relations and their probabilities.
    """
    symmetric = symmetrize(P, labels)
    relations, scores = [], []
    for head, tail in permutations(range(len(entities)), 2):
        (i, j, head_type), (m, n, tail_type) = entities[head], entities[tail]
        means = symmetric[i:j, m:n].mean(axis=(0, 1))
        if allowed_relations is not None:
            means = np.where(allowed_relations[head_type, tail_type], means, -1)
        label = argmax_or_none(means, labels.relation_ids, relation_odds)
        if label is not None:
            relations.append((head, tail, label))
            scores.append(_mean_probability(P, (i, j), (m, n), label, labels))
    return relations, scores


def argmax_or_none(scores: NDArray[Any], ids: slice, odds: float = 1.0) -> int | None:
    """The best label of `ids`, or `None` if ⊥ times `odds` is better. The first of equal labels wins, and ⊥ loses."""
    if ids.start == ids.stop:
        return None
    best = ids.start + int(scores[ids].argmax())
    return best if scores[best] >= odds * scores[LabelSpace.NONE] else None


def _mean_probability(P: Floats, rows: Span, columns: Span, label: int, labels: LabelSpace) -> float:
    """The mean probability of a label in a rectangle; if it is symmetric, in the rectangle and its transpose."""
    means = P[slice(*rows), slice(*columns)].mean(axis=(0, 1))
    if label in labels.symmetric_ids:
        means = (means + P[slice(*columns), slice(*rows)].mean(axis=(0, 1))) / 2
    return float(means[label] / means.sum())


# Maximum-weight spans (`likely`)


def decode_max_spans(
    P: Floats,
    labels: LabelSpace,
    alpha: float = 2.0,
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> SentenceDecoding:
    """Choose the non-overlapping spans with the most evidence, where each span costs α; then label them.

    If cells were independent of each other, these would be the most likely spans, and α would be the log-odds against
    a span being an entity.
    """
    gains = {span: evidence - alpha for span, evidence in span_evidence(P, labels).items() if evidence > alpha}
    spans = schedule_intervals(gains)
    cuts = sorted({border for span in spans for border in span} - {0, len(P)})
    entities, entity_scores = label_entities(P, labels, spans)
    relations, relation_scores = label_relations(P, labels, entities, allowed_relations, relation_odds)
    return SentenceDecoding(entities, entity_scores, relations, relation_scores, cuts)


def span_evidence(P: Floats, labels: LabelSpace, min_probability: float = 0.01) -> dict[Span, float]:
    """The evidence that each span is an entity: the sum of the log-odds of the cells in its square.

    The log-odds of a cell compare all entity types with all other labels. `min_probability` bounds them, so that a
    single confident cell cannot decide alone.
    """
    n = len(P)
    entity = P[:, :, labels.entity_ids].sum(axis=2)
    other = P.sum(axis=2) - entity
    log_odds = np.log(np.maximum(entity, min_probability) / np.maximum(other, min_probability))
    return {(i, j): float(log_odds[i:j, i:j].sum()) for i in range(n) for j in range(i + 1, n + 1)}


def schedule_intervals(weights: dict[Span, float]) -> list[Span]:
    """Weighted interval scheduling: the non-overlapping intervals with the largest total weight.

    The textbook dynamic programme over intervals by their ends. `best[k]` is the largest weight among the first k
    intervals. Interval k is either left out, or combined with the best choice among the intervals before its start.
    """
    intervals = sorted(weights, key=lambda interval: interval[1])
    ends = [end for _, end in intervals]
    compatible = [bisect_right(ends, start) for start, _ in intervals]  # how many intervals end before each starts
    best = [0.0]
    for k, interval in enumerate(intervals):
        best.append(max(best[k], best[compatible[k]] + weights[interval]))
    chosen = []
    k = len(intervals)
    while k > 0:
        if best[k] > best[k - 1]:
            chosen.append(intervals[k - 1])
            k = compatible[k - 1]
        else:
            k -= 1
    return chosen[::-1]


# The paper's baseline (`hard`): section 4.2, "hard decoding"


def decode_hard(
    P: Floats,
    labels: LabelSpace,
    allowed_relations: NDArray[np.bool_] | None = None,
    relation_odds: float = 1.0,
) -> SentenceDecoding:
    """Label every cell, then find entities from the largest square to the smallest, and relations between them.

    A square is an entity if at least as many of its cells carry the most frequent entity type as carry ⊥. The squares
    that it overlaps are then left out. The same applies to relations.
    """
    table = symmetrize(P, labels).argmax(axis=2)
    n = len(table)

    def count_labels(rows: Span, columns: Span) -> NDArray[np.int64]:
        return np.bincount(table[slice(*rows), slice(*columns)].ravel(), minlength=len(labels))

    covered = np.zeros(n, dtype=bool)
    entities = []
    for size in range(n, 0, -1):
        for i in range(n - size + 1):
            j = i + size
            counts = count_labels((i, j), (i, j))
            t = argmax_or_none(counts, labels.entity_ids)
            if t is not None and counts[t] and not covered[i:j].any():
                covered[i:j] = True
                entities.append((i, j, t))
    entities.sort()
    entity_scores = [float((table[i:j, i:j] == t).mean()) for i, j, t in entities]
    relations, relation_scores = [], []
    for head, tail in permutations(range(len(entities)), 2):
        (i, j, head_type), (k, m, tail_type) = entities[head], entities[tail]
        counts = count_labels((i, j), (k, m))
        if allowed_relations is not None:
            counts = np.where(allowed_relations[head_type, tail_type], counts, -1)
        label = argmax_or_none(counts, labels.relation_ids, relation_odds)
        if label is not None and counts[label] > 0:
            relations.append((head, tail, label))
            relation_scores.append(float((table[i:j, k:m] == label).mean()))
    cuts = sorted({border for i, j, _ in entities for border in (i, j)} - {0, n})
    return SentenceDecoding(entities, entity_scores, relations, relation_scores, cuts)
