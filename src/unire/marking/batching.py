"""Items of like length in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["in_parts", "random_steps"]

POOL = 2048
"""Items that are sorted by length together; between pools, and between steps, the order is random."""


def random_steps(
    lengths: Sequence[int], weights: Sequence[int], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Every item in one step of an epoch; a step is filled until it weighs `size` or more."""
    order = rng.permutation(len(lengths)).tolist()
    steps: list[list[int]] = []
    for start in range(0, len(order), POOL):
        weight = size
        for item in sorted(order[start : start + POOL], key=lengths.__getitem__):
            if weight >= size:
                steps.append([])
                weight = 0
            steps[-1].append(item)
            weight += weights[item]
    return [steps[place] for place in rng.permutation(len(steps))]


def in_parts(items: Sequence[int], lengths: Sequence[int], max_pieces: int) -> Iterator[list[int]]:
    """The items, longest first, in batches of at most `max_pieces` padded pieces; a longer item is one by itself."""
    part: list[int] = []
    for item in sorted(items, key=lengths.__getitem__, reverse=True):
        if part and (len(part) + 1) * lengths[part[0]] > max_pieces:
            yield part
            part = []
        part.append(item)
    if part:
        yield part
