"""Many runs of numbers at once: what `range` is for one."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

__all__ = ["concat_ranges", "cpu_count"]


def concat_ranges(start: NDArray[np.int64], size: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """`size[k]` numbers from `start[k]` on, `step` apart, for every k; one run after the other."""
    before = size.cumsum() - size
    numbers: NDArray[np.int64] = np.repeat(start - step * before, size) + step * np.arange(size.sum())
    return numbers


def cpu_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
