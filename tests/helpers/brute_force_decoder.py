"""Checks of the reference decoders: exhaustive search, and how close a decision is to a tie.

Each function takes the table of one sentence, [n, n, |Y|] without padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from unire.decoding import reference
from unire.labels import LabelSpace

Span = tuple[int, int]


def search_spans(weights: dict[Span, float], n: int) -> tuple[list[Span], float]:
    """The non-overlapping spans of n words with the largest total weight, and how far the second best choice is."""

    def choices(start: int) -> Iterator[tuple[Span, ...]]:
        """All choices of non-overlapping spans from a word on."""
        yield ()
        for i in range(start, n):
            for j in range(i + 1, n + 1):
                yield from (((i, j), *rest) for rest in choices(j))

    ranked = sorted((sum(weights[span] for span in choice), choice) for choice in choices(0))
    best, spans = ranked[-1]
    second = ranked[-2][0] if len(ranked) > 1 else -math.inf
    return list(spans), best - second


def boundary_margin(P: NDArray[np.floating], labels: LabelSpace, alpha: float) -> float:
    """How close the closest decision of `reference.decode_boundaries` is to a tie."""
    symmetric = reference.symmetrize(P, labels)
    decoded = reference.decode_boundaries(P, labels, alpha)
    distances = reference.boundary_distances(symmetric)
    return min([label_margin(symmetric, labels, decoded), *(abs(float(d) - alpha) for d in distances)])


def label_margin(symmetric: NDArray[np.floating], labels: LabelSpace, decoded: reference.SentenceDecoding) -> float:
    """How close the closest label of a span or a pair is to a tie, in a symmetrised table."""
    bounds = [0, *decoded.cuts, len(symmetric)] if len(symmetric) else []
    choices = [(symmetric[i:j, i:j], labels.entity_ids) for i, j in pairwise(bounds)]
    choices += [
        (symmetric[i:j, k:m], labels.relation_ids) for (i, j, _), (k, m, _) in permutations(decoded.entities, 2)
    ]
    margins = []
    for cells, ids in choices:
        means = cells.mean(axis=(0, 1))
        second, first = sorted([-math.inf, means[LabelSpace.NONE], *means[ids]])[-2:]
        margins.append(float(first - second))
    return min(margins, default=math.inf)
