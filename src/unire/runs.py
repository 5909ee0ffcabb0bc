"""Many runs of numbers at once: what `range` is for one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["runs"]


def runs(start: NDArray[np.int64], size: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """`size[k]` numbers from `start[k]` on, `step` apart, for every k; one run after the other."""
    before = size.cumsum() - size
    numbers: NDArray[np.int64] = np.repeat(start - step * before, size) + step * np.arange(size.sum())
    return numbers
