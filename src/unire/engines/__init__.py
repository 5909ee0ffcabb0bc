"""Engines turn a batch of windows into tables of probabilities."""

from __future__ import annotations

from typing import Any, Protocol

from unire.windows import Batch

__all__ = ["Engine"]


class Engine(Protocol):
    """What the extractor needs of an engine."""

    max_cells: int
    """Padded cells of a batch that fit into memory."""
    max_pieces: int
    """Padded pieces of a batch that fit into memory."""

    def tables(self, batch: Batch) -> Any:
        """P of every table, `[T, N, N, |Y|]`, as an array that the decoder reads where it lies."""
