"""Passages → padded arrays, of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.windows.spec import EncoderSpec
from unire.windows.stretches import Stretch
from unire.windows.windower import Passage

__all__ = ["Batch", "Rounded", "collate", "in_batches", "of_like_length"]

Rounded = Literal["not", "windows", "all"]
"""What of a batch is padded more: nothing; many windows a little, few ones coarsely; or all of it, coarsely."""

SHORT = 16
"""Tables of so many words or fewer are alike; above that, those between a length and its double are."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded arrays, ready for an engine: B windows of L pieces, T tables of N words."""

    tables: tuple[Stretch, ...]
    input_ids: NDArray[np.int64]
    """[B, L]"""
    attention_mask: NDArray[np.int64]
    """[B, L]"""
    token_type_ids: NDArray[np.int64] | None
    """[B, L]; `None` where the encoder has none."""
    words: NDArray[np.int64]
    """[T, N] index of each word's first piece into the flattened B·L pieces; 0 on padding."""
    lengths: NDArray[np.int64]
    """[T] words of each table; 0 where a whole table is padding."""


def collate(passages: Sequence[Passage], spec: EncoderSpec, *, rounded: Rounded = "not") -> Batch:
    """Pad the windows and tables of `passages`, of which there is at least one.

    Args:
        passages: What to pad.
        spec: The encoder's.
        rounded: What is padded more than it must be, so that many batches have the same shape.
    """
    windows = [window for passage in passages for window in passage.windows]
    tables = tuple(table for passage in passages for table in passage.tables)
    shape = _Shape(len(tables), max(map(len, tables)), len(windows), max(len(window.pieces) for window in windows))
    shape = shape.rounded_up(rounded)
    shape = shape._replace(longest_window=min(shape.longest_window, spec.max_pieces))  # which holds every window
    # a window that is padding has one piece, for attention to nothing is not a number
    spare = shape.n_windows - len(windows)
    sizes = np.array([len(window.pieces) for window in windows] + [1] * spare)
    positions = np.arange(shape.longest_window)
    filled = positions < sizes[:, None]  # [B, L]
    input_ids = np.full(filled.shape, spec.pad_id, np.int64)
    input_ids[filled] = np.concatenate([*(window.pieces for window in windows), np.full(spare, spec.pad_id)])
    seconds = np.array([window.second for window in windows] + [1] * spare)
    token_type_ids = (filled & (positions >= seconds[:, None])).astype(np.int64) if spec.token_types else None

    lengths = np.zeros(shape.n_tables, np.int64)
    lengths[: len(tables)] = [len(table) for table in tables]
    words = np.zeros((shape.n_tables, shape.longest_table), np.int64)
    reads = np.concatenate([read for passage in passages for read in passage.reads])  # [words of all tables, 2]
    first_window = np.cumsum([0, *(len(passage.windows) for passage in passages[:-1])])
    n_words = [sum(map(len, passage.tables)) for passage in passages]
    rows = reads[:, 0] + np.repeat(first_window, n_words)
    words[np.arange(words.shape[1]) < lengths[:, None]] = rows * len(positions) + reads[:, 1]
    return Batch(tables, input_ids, filled.astype(np.int64), token_type_ids, words, lengths)


def in_batches(
    passages: Iterable[Passage], *, max_cells: int, max_pieces: int, rounded: Rounded = "not"
) -> Iterator[list[Passage]]:
    """Group passages of like length, the longest first, so that little is padding.

    Args:
        passages: All that may be grouped together.
        max_cells: Padded cells of a batch, T·N². A passage that has more makes a batch by itself.
        max_pieces: Padded pieces of a batch, B·L; likewise.
        rounded: What `collate` will pad more than it must: then batches are filled up to a shape that it pads to.
    """
    batch: list[Passage] = []
    shape = _Shape()
    shapes = ((_Shape.of(passage), passage) for passage in passages)
    for own, passage in sorted(shapes, key=_likeness, reverse=True):
        grown = shape.joined(own)
        if batch and (grown.cells > max_cells or grown.rounded_up(rounded).pieces > max_pieces):
            yield batch
            batch, grown = [], own
        batch.append(passage)
        shape = grown
    if batch:
        yield batch


def of_like_length(lengths: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Group the tables of a batch, so that each can be cut to the length of its group: most of a batch is padding.

    Yields positions of tables and the number of words that all of them fit in. More groups would be less padding, but
    more calls of a GPU, which take the host longer than padding takes the GPU.
    """
    steps = np.ceil(np.log2(np.maximum(lengths, SHORT)))
    for step in np.unique(steps[lengths > 0]):
        group = np.flatnonzero((steps == step) & (lengths > 0))
        yield group, int(lengths[group].max())


class _Shape(NamedTuple):
    """T, N, B and L of a batch."""

    n_tables: int = 0
    longest_table: int = 0
    n_windows: int = 0
    longest_window: int = 0

    @classmethod
    def of(cls, passage: Passage) -> _Shape:
        tables, windows = passage.tables, passage.windows
        longest_table = max([table.end - table.start for table in tables])
        return cls(len(tables), longest_table, len(windows), max([len(window.pieces) for window in windows]))

    def rounded_up(self, what: Rounded) -> _Shape:
        """The smallest of few shapes that holds this one."""
        T, N, B, L = self
        if what == "windows":
            few = B < 32  # too few to keep a GPU busy: then padding costs less than a new shape does
            return _Shape(T, N, _up(B, 1 << max(0, B.bit_length() - (3 if few else 5))), _up(L, 32 if few else 8))
        if what == "all":
            return _Shape(_up(T, 16), _up(N, 16), _up(B, 4), _up(L, 32 if L <= 128 else 128))
        return self

    def joined(self, other: _Shape) -> _Shape:
        return _Shape(
            self.n_tables + other.n_tables,
            max(self.longest_table, other.longest_table),
            self.n_windows + other.n_windows,
            max(self.longest_window, other.longest_window),
        )

    @property
    def cells(self) -> int:
        return self.n_tables * self.longest_table**2

    @property
    def pieces(self) -> int:
        return self.n_windows * self.longest_window


def _up(size: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-size // unit) * unit


def _likeness(shaped: tuple[_Shape, Passage]) -> tuple[int, int]:
    """Windows are alike within 16 pieces: the tables of such a group are then sorted among themselves."""
    shape, _ = shaped
    return shape.longest_window // 16, shape.longest_table
