"""The decoders as one would first write them: one sentence at a time, slices and loops.

The tests compare the batched decoders with these, and `benchmarks/decoding.py` measures their speed. Each takes the
table of one sentence, [n, n, |Y|] without padding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.labels import LabelSpace

Array = NDArray[np.floating]


class Reference(NamedTuple):
    entities: list[tuple[int, int, int]]
    """`(start, end, label id)`, by start."""
    entity_scores: list[float]
    relations: list[tuple[int, int, int]]
    """`(head, tail, label id)`, `head` and `tail` being positions in `entities`."""
    relation_scores: list[float]
    cuts: list[int]


def symmetrize(P: Array, labels: LabelSpace) -> Array:
    ids = list(labels.symmetric_ids)
    P = P.copy()
    P[:, :, ids] = (P[:, :, ids] + P.transpose(1, 0, 2)[:, :, ids]) / 2
    return P


def distances(P: Array) -> Array:
    n, _, Y = P.shape
    rows = P.reshape(n, n * Y)
    columns = P.transpose(1, 0, 2).reshape(n, n * Y)
    between_rows = np.linalg.norm(rows[1:] - rows[:-1], axis=1)
    between_columns = np.linalg.norm(columns[1:] - columns[:-1], axis=1)
    return (between_rows + between_columns) / 2


def spans(cuts: list[int], n: int) -> list[tuple[int, int]]:
    bounds = [0, *cuts, n] if n else []
    return list(pairwise(bounds))


def winner(scores: Array, ids: slice) -> int | None:
    """The best of `ids`, where it is at least as good as ⊥."""
    if ids.start == ids.stop:
        return None
    best = ids.start + int(scores[ids].argmax())
    return best if scores[best] >= scores[LabelSpace.NONE] else None


def share(P: Array, rows: slice, columns: slice, label: int, labels: LabelSpace) -> float:
    """The label's mean probability, of what all labels have; where it is symmetric, both ways."""
    means = P[rows, columns].mean(axis=(0, 1))
    if label in labels.symmetric_ids:
        means = (means + P[columns, rows].mean(axis=(0, 1))) / 2
    return float(means[label] / means.sum())


def split(given: Array, labels: LabelSpace, alpha: float = 1.4) -> Reference:
    P = symmetrize(given, labels)
    return named(given, labels, [int(i) + 1 for i in np.flatnonzero(distances(P) > alpha)])


def likely(given: Array, labels: LabelSpace, alpha: float = 2.0) -> tuple[Reference, float]:
    """And by how much the best squares are better than the next best."""
    squares = evidence(given, labels)
    n = len(given)

    def laid(start: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """All ways to lay squares from a word on that do not overlap."""
        yield ()
        for a in range(start, n):
            for b in range(a + 1, n + 1):
                yield from (((a, b), *rest) for rest in laid(b))

    ways = sorted((sum(squares[square] - alpha for square in way), way) for way in laid(0))
    worth, way = ways[-1]
    second = ways[-2][0] if len(ways) > 1 else -math.inf
    cuts = sorted({border for square in way for border in square} - {0, n})
    return named(given, labels, cuts, way), worth - second


def evidence(P: Array, labels: LabelSpace, least: float = 0.01) -> dict[tuple[int, int], float]:
    """What speaks for the square of every two borders."""
    entity = P[:, :, labels.entity_ids].sum(axis=2)
    other = P.sum(axis=2) - entity
    odds = np.log(np.maximum(entity, least) / np.maximum(other, least))
    return {(a, b): float(odds[a:b, a:b].sum()) for a in range(len(P)) for b in range(a + 1, len(P) + 1)}


def named(
    given: Array, labels: LabelSpace, cuts: list[int], only: Collection[tuple[int, int]] | None = None
) -> Reference:
    """What lies between the cuts; of that perhaps only some spans."""
    P = symmetrize(given, labels)
    found = Reference([], [], [], [], cuts)
    for start, end in spans(cuts, len(P)) if only is None else sorted(only):
        means = P[start:end, start:end].mean(axis=(0, 1))
        if (label := winner(means, labels.entity_ids)) is not None:
            found.entities.append((start, end, label))
            found.entity_scores.append(share(given, slice(start, end), slice(start, end), label, labels))
    for head, tail in permutations(range(len(found.entities)), 2):
        (a, b, _), (c, d, _) = found.entities[head], found.entities[tail]
        means = P[a:b, c:d].mean(axis=(0, 1))
        if (label := winner(means, labels.relation_ids)) is not None:
            found.relations.append((head, tail, label))
            found.relation_scores.append(share(given, slice(a, b), slice(c, d), label, labels))
    return found


def margin(P: Array, labels: LabelSpace, alpha: float) -> float:
    """How near the closest decision of `split` is to falling otherwise."""
    P = symmetrize(P, labels)
    found = split(P, labels, alpha)
    return min([undecided(P, labels, found), *(abs(float(d) - alpha) for d in distances(P))])


def undecided(P: Array, labels: LabelSpace, found: Reference) -> float:
    """How near the closest name is to being another; of a symmetrised table."""
    choices = [(P[a:b, a:b], labels.entity_ids) for a, b in spans(found.cuts, len(P))]
    choices += [(P[a:b, c:d], labels.relation_ids) for (a, b, _), (c, d, _) in permutations(found.entities, 2)]
    margins = []
    for cells, ids in choices:
        means = cells.mean(axis=(0, 1))
        second, first = sorted([-math.inf, means[LabelSpace.NONE], *means[ids]])[-2:]
        margins.append(float(first - second))
    return min(margins, default=math.inf)


def hard(P: Array, labels: LabelSpace) -> Reference:
    table = symmetrize(P, labels).argmax(axis=2)
    n = len(table)
    taken = np.zeros(n, dtype=bool)
    found = Reference([], [], [], [], [])
    for size in range(n, 0, -1):
        for start in range(n - size + 1):
            end = start + size
            counts = np.bincount(table[start:end, start:end].ravel(), minlength=len(labels))
            label = winner(counts, labels.entity_ids)
            if label is not None and counts[label] and not taken[start:end].any():
                taken[start:end] = True
                found.entities.append((start, end, label))
    found.entities.sort()
    for a, b, label in found.entities:
        found.entity_scores.append(float((table[a:b, a:b] == label).mean()))
    for head, tail in permutations(range(len(found.entities)), 2):
        (a, b, _), (c, d, _) = found.entities[head], found.entities[tail]
        counts = np.bincount(table[a:b, c:d].ravel(), minlength=len(labels))
        label = winner(counts, labels.relation_ids)
        if label is not None and counts[label]:
            found.relations.append((head, tail, label))
            found.relation_scores.append(float(counts[label] / counts.sum()))
    bounds = {bound for a, b, _ in found.entities for bound in (a, b)}
    found.cuts.extend(sorted(bounds - {0, n}))
    return found
