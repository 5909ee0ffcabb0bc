"""Passages → padded arrays, of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.config import EncoderSpec
from unire.utils import concat_ranges
from unire.windows.spans import TableSpan
from unire.windows.windows import WindowGroup

__all__ = ["MAX_SLICE_TOKENS", "Batch", "Padding", "bucket_batches", "collate", "group_by_length"]

Padding = Literal["exact", "bucketed", "fixed", "packed"]
"""What of a batch is padded more, so that shapes are few: nothing, the slices of its windows, or all of it.

`bucketed` is what a GPU that decodes is given, so its tables are sorted too, the longest first. `packed` is all of it,
with windows one behind the other in rows of one length, so that less is padding: who reads them must keep them apart
(`Batch.window_starts`)."""

BUCKET_TOKENS = 16
"""Windows are alike within so many tokens: the tables of those are then sorted among themselves."""
MAX_SLICE_TOKENS = 2**16
"""Tokens of a slice, at most: enough to keep a GPU busy, and few enough for its windows to be alike."""
MIN_BUSY_WINDOWS = 32
"""Windows that do not keep a GPU busy: then padding costs less than a new shape does."""
SHORT_TABLE_WORDS = 32
"""Tables of so many words or fewer are alike; above that, those between a length and its double are."""
PACKED_ROW_TOKENS = (256, 384, 512)
"""Tokens of a row in which windows are packed: of those that hold the longest, as many as leave least padding."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded arrays, ready for an engine: B rows of L tokens, a window each if not packed, T tables of N words."""

    tables: tuple[TableSpan, ...]
    input_ids: NDArray[np.int64]
    """[B, L]"""
    row_lengths: NDArray[np.int64]
    """[B] tokens of each row; 1 where a whole row is padding, for attention to nothing is not a number."""
    window_starts: NDArray[np.int64] | None
    """[B, L] where in its row the window of each token begins; `None` where every window has a row of its own."""
    segment_b_starts: NDArray[np.int64] | None
    """[B, 1], or if packed [B, L]: where in its row token type 1 begins; `None` where the encoder has none."""
    slices: tuple[tuple[slice, int], ...]
    """Windows to be encoded together, and the tokens that are enough for them: all windows and L if exact."""
    words: NDArray[np.int64]
    """[T, N] index of each word's first token into those of all slices, end to end; 0 on padding."""
    lengths: NDArray[np.int64]
    """[T] words of each table; 0 where a whole table is padding."""

    @cached_property
    def attention_mask(self) -> NDArray[np.int64]:
        """[B, L]"""
        return (np.arange(self.input_ids.shape[1]) < self.row_lengths[:, None]).astype(np.int64)

    @cached_property
    def token_type_ids(self) -> NDArray[np.int64] | None:
        """[B, L]; `None` where the encoder has none."""
        if self.segment_b_starts is None:
            return None
        return self.attention_mask * (np.arange(self.input_ids.shape[1]) >= self.segment_b_starts)


def collate(passages: Sequence[WindowGroup], spec: EncoderSpec, *, padding: Padding = "exact") -> Batch:
    """Pad the windows and tables of `passages`, of which there is at least one.

    Args:
        passages: What to pad.
        spec: The encoder's.
        padding: What is padded more than it must be, so that many batches have the same shape.
    """
    windows = [window for passage in passages for window in passage.windows]
    tables = tuple([table for passage in passages for table in passage.tables])
    n_tokens = np.array([len(window.tokens) for window in windows])
    rows = _Rows.of(n_tokens, spec.max_pieces, padding)
    tokens = concat_ranges(rows.row * rows.length + rows.offset, n_tokens)  # where each stands
    input_ids = np.full((rows.n_rows, rows.length), spec.pad_id, np.int64)
    input_ids.reshape(-1)[tokens] = np.concatenate([window.tokens for window in windows])
    filled = np.bincount(rows.row, n_tokens, rows.n_rows).astype(np.int64)
    second = np.array([window.segment_b_start for window in windows])
    if padding == "packed":
        starts, seconds = np.repeat(filled, rows.length).reshape(input_ids.shape), np.full(input_ids.shape, rows.length)
        starts.reshape(-1)[tokens] = np.repeat(rows.offset, n_tokens)  # padding is a window of its own, the last one
        seconds.reshape(-1)[tokens] = np.repeat(rows.offset + second, n_tokens)
    else:
        starts, seconds = None, np.append(second, np.ones(rows.n_rows - len(windows), np.int64))[:, None]

    n_words = [table.end - table.start for table in tables]
    n_tables, longest = len(tables), max(n_words)
    if padding in ("fixed", "packed"):
        n_tables, longest = _up(n_tables, 16), _up(longest, 16 if longest <= 64 else 32 if longest <= 128 else 64)
    lengths = np.array(n_words + [0] * (n_tables - len(tables)))
    words = np.zeros((n_tables, longest), np.int64)
    word_index = np.concatenate([passage.word_index for passage in passages])  # [words of all tables, 2]
    n_windows = np.array([len(passage.windows) for passage in passages])
    window = word_index[:, 0] + np.repeat(
        n_windows.cumsum() - n_windows, [len(passage.word_index) for passage in passages]
    )
    words[np.arange(longest) < lengths[:, None]] = rows.firsts[window] + word_index[:, 1]
    if padding == "bucketed":  # for a GPU, which is quicker at tables of like length that are neighbours
        order = np.argsort(-lengths, kind="stable")
        tables, words, lengths = tuple([tables[k] for k in order[: len(tables)].tolist()]), words[order], lengths[order]
    sizes, types = np.maximum(filled, 1), seconds if spec.token_types else None
    return Batch(tables, input_ids, sizes, starts, types, rows.slices, words, lengths)


def bucket_batches(
    passages: Iterable[WindowGroup],
    *,
    max_cells: int,
    max_tokens: int,
    max_padding: int | None = None,
    padding: Padding = "exact",
) -> Iterator[list[WindowGroup]]:
    """Group passages of like length, the longest first, so that little is padding.

    Args:
        passages: All that may be grouped together.
        max_cells: Padded cells of a batch, T·N². A passage that has more makes a batch by itself.
        max_tokens: Padded tokens of a batch, B·L, but for a row of padding if packed; likewise.
        max_padding: As many tokens more of padding are better than a batch more; any number when left out.
        padding: How batches will be collated.
    """
    passages = list(passages)
    shapes = _Shape.of_each(passages)
    if padding == "fixed":
        shapes = shapes._replace(longest_window=_rounded_length(shapes.longest_window))
    order = np.lexsort((-shapes.longest_table, -((shapes.longest_window - 1) // BUCKET_TOKENS)))
    sizes, n_windows = shapes.longest_window[order], shapes.n_windows[order]
    for part in _least_padded(sizes, n_windows, max_padding) if max_padding is not None else [slice(0, len(order))]:
        rest = order[part]
        while len(rest):
            packed = padding == "packed"
            some = rest if packed else rest[: 1 + max_tokens // shapes.longest_window[rest[0]]]  # no batch holds more
            each = _Shape(*(numbers[some] for numbers in shapes))
            grown = each.joined()
            full = (grown.cells > max_cells) | ((_tokens_taken(each) if packed else grown.tokens) > max_tokens)
            full[0] = False
            batch = some[: full.argmax() if full.any() else len(some)]
            yield [passages[k] for k in batch.tolist()]
            rest = rest[len(batch) :]


class _Rows(NamedTuple):
    """Where the windows of a batch stand."""

    row: NDArray[np.int64]
    """[W]"""
    offset: NDArray[np.int64]
    """[W] where in its row each begins."""
    n_rows: int
    length: int
    slices: tuple[tuple[slice, int], ...]

    @classmethod
    def of(cls, sizes: NDArray[np.int64], most: int, padding: Padding) -> _Rows:
        """Rows for windows of so many tokens, `most` of all."""
        row, offset, length = np.arange(len(sizes)), np.zeros(len(sizes), np.int64), int(sizes.max())
        n_rows = len(sizes)
        if padding == "bucketed":
            slices = tuple(_slices(sizes, most))
            length = max(n for _, n in slices)  # a last slice of few windows may be padded most
            return cls(row, offset, slices[-1][0].stop, length, slices)
        if padding == "fixed":
            length = int(_rounded_length(length))
            n_rows = _up(n_rows, 16 if length <= 64 else 8 if length <= 128 else 4)
        elif padding == "packed":
            ways = [(_packed(sizes, room), room) for room in _row_lengths(length, most)]
            (row, offset), length = min(ways, key=lambda way: (way[0][0].max() + 1) * way[1])
            n_rows = _up(int(row.max()) + 1, 2)
        length = min(length, most)  # which holds every window
        return cls(row, offset, n_rows, length, ((slice(0, n_rows), length),))

    @property
    def firsts(self) -> NDArray[np.int64]:
        """[W] the first token of each window, among those of all slices, end to end."""
        widths = np.repeat([n for _, n in self.slices], [some.stop - some.start for some, _ in self.slices])
        places: NDArray[np.int64] = (widths.cumsum() - widths)[self.row] + self.offset
        return places


def _row_lengths(longest: int, most: int) -> list[int]:
    """How long rows of packed windows may be, if the longest window has so many tokens, and no row more than `most`."""
    return sorted({min(room, most) for room in PACKED_ROW_TOKENS if min(room, most) >= longest}) or [longest]


def _packed(sizes: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[W] and [W]: the row of each window, and where it begins there: one by one, in the first row that has room."""
    row, offset = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.int64)
    filled: list[int] = []
    for window, size in enumerate(sizes.tolist()):
        place = next((k for k, used in enumerate(filled) if used + size <= room), len(filled))
        if place == len(filled):
            filled.append(0)
        row[window], offset[window] = place, filled[place]
        filled[place] += size
    return row, offset


def _tokens_taken(shapes: _Shape) -> NDArray[np.int64]:
    """[P] tokens of the rows that the first passage takes if packed, the first two, and so on."""
    room = _row_lengths(int(shapes.longest_window.max()), PACKED_ROW_TOKENS[-1])[0]
    row, _ = _packed(np.repeat(shapes.longest_window, shapes.n_windows), room)
    taken: NDArray[np.int64] = room * (np.maximum.accumulate(row)[shapes.n_windows.cumsum() - 1] + 1)
    return taken


def _least_padded(sizes: NDArray[np.int64], n_windows: NDArray[np.int64], max_padding: int) -> list[slice]:
    """Cut passages into neighbours, so that all padding, and `max_padding` for every part, are as little as can be.

    Args:
        sizes: Tokens of the longest window of each, in about falling order.
        n_windows: How many windows each has.
        max_padding: What a part costs.
    """
    longest = np.maximum.accumulate(sizes[::-1])[::-1]  # from each passage on
    firsts = np.flatnonzero(np.diff(longest, prepend=0))  # between passages of one length nothing is gained by a cut
    bounds = np.append(firsts, len(sizes))
    before = np.append(0, n_windows.cumsum())[bounds]  # windows before each bound
    costs, last = np.zeros(len(bounds), np.int64), np.zeros(len(bounds), np.int64)
    for end in range(1, len(bounds)):
        ways = costs[:end] + max_padding + longest[firsts[:end]] * (before[end] - before[:end])
        last[end] = ways.argmin()  # where the last of the parts up to here begins
        costs[end] = ways[last[end]]
    parts: list[slice] = []
    end = len(bounds) - 1
    while end > 0:
        parts.append(slice(bounds[last[end]], bounds[end]))
        end = last[end]
    return parts[::-1]


def group_by_length(
    lengths: NDArray[np.int64], groups_per_doubling: int = 1, max_padding: int = 0
) -> Iterator[tuple[slice | NDArray[np.int64], int]]:
    """Group the tables of a batch, so that each can be cut to the length of its group: most of a batch is padding.

    Yields positions of tables, a slice where they are neighbours, and the number of words that all of them fit in. More
    groups would be less padding, but more calls of a GPU, which take the host longer than padding takes the GPU; unless
    tables are many.

    Args:
        lengths: [T] words of each table; those that have none are in no group.
        groups_per_doubling: How many groups there are from a length to twice that length.
        max_padding: As many cells more of padding are better than a group more.
    """
    n_tables = np.bincount(lengths)  # of every length: there are far fewer lengths than tables
    present = np.flatnonzero(n_tables[1:]) + 1
    steps = np.ceil(groups_per_doubling * np.log2(np.maximum(present, SHORT_TABLE_WORDS // groups_per_doubling)))
    longest = present[np.diff(steps, append=np.inf) > 0]
    sizes = np.diff(n_tables.cumsum()[longest], prepend=n_tables[:1].sum())
    limits: list[int] = []
    for n, size in zip(longest[::-1].tolist(), sizes[::-1].tolist(), strict=True):
        if not limits or size * (limits[-1] ** 2 - n**2) > max_padding:
            limits.append(n)
    for n, shorter in pairwise([*limits, 0]):
        group = np.flatnonzero((lengths <= n) & (lengths > shorter))
        first, end = int(group[0]), int(group[-1]) + 1
        yield slice(first, end) if end - first == len(group) else group, n


class _Shape(NamedTuple):
    """T, N, B and L of a batch; or arrays of them, for many."""

    n_tables: Any
    longest_table: Any
    n_windows: Any
    longest_window: Any

    @classmethod
    def of_each(cls, passages: Sequence[WindowGroup]) -> _Shape:
        """What each of `passages` would need by itself."""
        tables, windows = ([getattr(passage, kind) for passage in passages] for kind in ("tables", "windows"))
        lengths = [table.end - table.start for some in tables for table in some]
        sizes = [len(window.tokens) for some in windows for window in some]
        n_tables, n_windows = (np.array([len(some) for some in kind], np.int64) for kind in (tables, windows))
        return cls(n_tables, _greatest(lengths, n_tables), n_windows, _greatest(sizes, n_windows))

    def joined(self) -> _Shape:
        """What the first needs, the first two, and so on."""
        T, N, B, L = self
        return _Shape(T.cumsum(), np.maximum.accumulate(N), B.cumsum(), np.maximum.accumulate(L))

    @property
    def cells(self) -> Any:
        return self.n_tables * self.longest_table**2

    @property
    def tokens(self) -> Any:
        return self.n_windows * self.longest_window


def _slices(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[slice, int]]:
    """Neighbouring windows, a power of two of them, and the tokens that they are padded to, `most` of all.

    cuDNN makes a plan of attention for every shape, which takes it longer than a slice does: so for every number of
    tokens there is one number of windows. Only the last slice has fewer, and is filled up with windows of one token.
    """
    longest = np.maximum.accumulate(sizes[::-1])[::-1]  # from each window on
    start = 0
    while start < len(sizes):
        rest = len(sizes) - start
        unit = BUCKET_TOKENS if rest >= MIN_BUSY_WINDOWS else 2 * BUCKET_TOKENS
        n_tokens = min(_up(int(longest[start]), unit), most)
        n_windows = 1 << max(0, (MAX_SLICE_TOKENS // n_tokens).bit_length() - 1)
        if rest < n_windows:
            n_windows = _up(rest, 1 << max(0, rest.bit_length() - 2))
        yield slice(start, start + n_windows), n_tokens
        start += n_windows


def _rounded_length(n_tokens: Any) -> Any:
    """The tokens that windows are padded to, so that shapes are few; above 128, what kernels of cuDNN are made for."""
    return _up(n_tokens, np.where(n_tokens <= 128, 32, 128))


def _up(size: Any, unit: Any) -> Any:
    """The next multiple of `unit`."""
    return -(-size // unit) * unit


def _greatest(numbers: Sequence[int], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The greatest of the first `sizes[0]` numbers, of the next `sizes[1]`, and so on; each time there is one."""
    return np.maximum.reduceat(np.array(numbers, np.int64), sizes.cumsum() - sizes) if len(sizes) else sizes
