"""What a decoder found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unire.calibration import Calibration

__all__ = ["Decoded"]


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
