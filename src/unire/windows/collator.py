"""Window groups → batches of padded arrays: length bucketing and collation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from unire.config import EncoderSpec
from unire.tables import TableSpan
from unire.utils import concat_ranges
from unire.windows.windows import WindowGroup

__all__ = [
    "MAX_SLICE_TOKENS",
    "Batch",
    "Padding",
    "bucket_groups",
    "bucket_items",
    "bucket_tables",
    "collate",
]

T = TypeVar("T")

Padding = Literal["exact", "bucketed", "fixed", "packed"]
"""How a batch is padded. Kernels and CUDA graphs are prepared per shape, so on a GPU the shapes should be few.

- `exact`: to the longest window and table. For a CPU.
- `bucketed`: windows are padded in slices, whose shapes are few; tables are sorted, the longest first. For inference on
  a GPU.
- `fixed`: numbers and lengths of windows and tables are rounded up, so that shapes are few. For CUDA graphs.
- `packed`: as `fixed`, with several windows in a row of one length, which needs less padding. The encoder must keep
  the windows of a row apart (`Batch.window_starts`)."""

BUCKET_TOKENS = 16
"""Windows whose lengths differ by less than this are in one bucket. A bucket is sorted by the length of its tables."""
MAX_SLICE_TOKENS = 2**16
"""Tokens of a slice: enough to keep a GPU busy, and few enough that the windows of a slice have similar lengths."""
MIN_BUSY_WINDOWS = 32
"""Fewer windows do not keep a GPU busy. Then padding costs less than a new shape."""
SHORT_TABLE_WORDS = 32
"""Tables up to this length are in one group; above it, there are groups from a length to its double."""
PACKED_ROW_TOKENS = (256, 384, 512)
"""Lengths of rows of packed windows. Of those that hold the longest window, the one with the least padding is used."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded arrays for an engine: B rows of L tokens, T tables of N words. Unless packed, a row is a window."""

    table_spans: tuple[TableSpan, ...]
    input_ids: NDArray[np.int64]
    """[B, L]"""
    row_lengths: NDArray[np.int64]
    """[B], tokens of each row. It is 1 for a row of padding, because attention over no token would be NaN."""
    window_starts: NDArray[np.int64] | None
    """[B, L], where the window of each token begins in its row; `None` unless packed."""
    segment_b_starts: NDArray[np.int64] | None
    """[B, 1], or if packed [B, L]: where token type 1 begins in its row; `None` if the encoder has no token types."""
    slices: tuple[tuple[slice, int], ...]
    """Rows to encode together, and the number of tokens to cut them to. Unless bucketed, one slice of all rows."""
    words: NDArray[np.int64]
    """[T, N], the first token of each word: an index into the concatenated tokens of all slices; 0 on padding."""
    lengths: NDArray[np.int64]
    """[T], words of each table; 0 for a table of padding."""

    @cached_property
    def attention_mask(self) -> NDArray[np.int64]:
        """[B, L], 1 on tokens and 0 on padding."""
        return (np.arange(self.input_ids.shape[1]) < self.row_lengths[:, None]).astype(np.int64)

    @cached_property
    def token_type_ids(self) -> NDArray[np.int64] | None:
        """[B, L]; `None` if the encoder has no token types."""
        if self.segment_b_starts is None:
            return None
        return self.attention_mask * (np.arange(self.input_ids.shape[1]) >= self.segment_b_starts)


def collate(groups: Sequence[WindowGroup], spec: EncoderSpec, *, padding: Padding = "exact") -> Batch:
    """Pad windows and tables into one batch.

    Args:
        groups: One group or more.
        spec: The encoder's limits and its padding token.
        padding: How to pad.
    """
    windows = [window for group in groups for window in group.windows]
    n_tokens = np.array([len(window.tokens) for window in windows])
    rows = _arrange_rows(n_tokens, spec.max_pieces, padding)
    positions = concat_ranges(rows.row * rows.length + rows.offset, n_tokens)  # of all tokens, in the flattened rows
    input_ids = np.full((rows.n_rows, rows.length), spec.pad_id, np.int64)
    input_ids.reshape(-1)[positions] = np.concatenate([window.tokens for window in windows])
    filled = np.bincount(rows.row, n_tokens, rows.n_rows).astype(np.int64)  # [B] tokens of each row
    segment_b_start = np.array([window.segment_b_start for window in windows])
    if padding == "packed":
        window_starts = np.repeat(filled, rows.length).reshape(input_ids.shape)  # padding is a window, the last one
        window_starts.reshape(-1)[positions] = np.repeat(rows.offset, n_tokens)
        segment_b_starts = np.full(input_ids.shape, rows.length)
        segment_b_starts.reshape(-1)[positions] = np.repeat(rows.offset + segment_b_start, n_tokens)
    else:
        window_starts = None
        filler = np.ones(rows.n_rows - len(windows), np.int64)
        segment_b_starts = np.append(segment_b_start, filler)[:, None]

    spans = tuple([span for group in groups for span in group.table_spans])
    n_words = [span.end - span.start for span in spans]
    n_tables, longest = len(spans), max(n_words)
    if padding in ("fixed", "packed"):
        n_tables = _round_up(n_tables, 16)
        longest = _round_up(longest, 16 if longest <= 64 else 32 if longest <= 128 else 64)
    lengths = np.array(n_words + [0] * (n_tables - len(spans)))
    words = np.zeros((n_tables, longest), np.int64)
    words[np.arange(longest) < lengths[:, None]] = _index_words(groups, rows.first_tokens)
    if padding == "bucketed":  # a GPU is faster if neighbouring tables have similar lengths
        order = np.argsort(-lengths, kind="stable")
        spans, words, lengths = tuple([spans[k] for k in order.tolist()]), words[order], lengths[order]
    return Batch(
        spans,
        input_ids,
        row_lengths=np.maximum(filled, 1),
        window_starts=window_starts,
        segment_b_starts=segment_b_starts if spec.token_types else None,
        slices=rows.slices,
        words=words,
        lengths=lengths,
    )


def _index_words(groups: Sequence[WindowGroup], first_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """[words of all tables]: index of each word's first token, given that of the first token of each window [W]."""
    word_index = np.concatenate([group.word_index for group in groups])
    n_windows = np.array([len(group.windows) for group in groups])
    first_window = np.repeat(n_windows.cumsum() - n_windows, [len(group.word_index) for group in groups])
    indices: NDArray[np.int64] = first_tokens[word_index[:, 0] + first_window] + word_index[:, 1]
    return indices


class _Rows(NamedTuple):
    """The arrangement of W windows in the rows of a batch."""

    row: NDArray[np.int64]
    """[W], the row of each window."""
    offset: NDArray[np.int64]
    """[W], where each window begins in its row."""
    n_rows: int
    length: int
    slices: tuple[tuple[slice, int], ...]
    """As in `Batch`."""

    @property
    def first_tokens(self) -> NDArray[np.int64]:
        """[W], the first token of each window: an index into the concatenated tokens of all slices."""
        lengths = np.repeat([n for _, n in self.slices], [rows.stop - rows.start for rows, _ in self.slices])
        indices: NDArray[np.int64] = (lengths.cumsum() - lengths)[self.row] + self.offset
        return indices


def _arrange_rows(n_tokens: NDArray[np.int64], max_length: int, padding: Padding) -> _Rows:
    """Arrange windows, whose lengths are [W], in rows of up to `max_length` tokens, which holds every window."""
    row, offset = np.arange(len(n_tokens)), np.zeros(len(n_tokens), np.int64)
    n_rows, length = len(n_tokens), int(n_tokens.max())
    if padding == "bucketed":
        slices = tuple(_slice_windows(n_tokens, max_length))
        length = max(n for _, n in slices)  # the last slice may be the longest, if it has few windows
        return _Rows(row, offset, slices[-1][0].stop, length, slices)
    if padding == "fixed":
        length = int(_round_length(length))
        n_rows = _round_up(n_rows, 16 if length <= 64 else 8 if length <= 128 else 4)
    elif padding == "packed":
        ways = [(_pack(n_tokens, each), each) for each in _packed_lengths(length, max_length)]
        (row, offset), length = min(ways, key=lambda way: (way[0][0].max() + 1) * way[1])
        n_rows = _round_up(int(row.max()) + 1, 2)
    length = min(length, max_length)
    return _Rows(row, offset, n_rows, length, ((slice(0, n_rows), length),))


def _slice_windows(n_tokens: NDArray[np.int64], max_length: int) -> Iterator[tuple[slice, int]]:
    """Cut windows into slices; yields the rows of each slice and their padded length.

    cuDNN plans attention for every shape, which takes longer than computing a slice. So there is one number of windows
    for every length, a power of two. Only the last slice has fewer windows. It is filled up with windows of one token,
    so that few numbers of windows occur.
    """
    longest = np.maximum.accumulate(n_tokens[::-1])[::-1]  # from each window on
    start = 0
    while start < len(n_tokens):
        rest = len(n_tokens) - start
        unit = BUCKET_TOKENS if rest >= MIN_BUSY_WINDOWS else 2 * BUCKET_TOKENS
        length = min(_round_up(int(longest[start]), unit), max_length)
        n_windows = 1 << max(0, (MAX_SLICE_TOKENS // length).bit_length() - 1)
        if rest < n_windows:
            n_windows = _round_up(rest, 1 << max(0, rest.bit_length() - 2))
        yield slice(start, start + n_windows), length
        start += n_windows


def _packed_lengths(longest: int, max_length: int) -> list[int]:
    """Candidate lengths for rows of packed windows, of which the longest has `longest` tokens."""
    candidates = {min(length, max_length) for length in PACKED_ROW_TOKENS}
    return sorted(length for length in candidates if length >= longest) or [longest]


def _pack(n_tokens: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First-fit packing of windows into rows of `length` tokens: [W] the row of each window, and [W] its offset."""
    row, offset = np.empty(len(n_tokens), np.int64), np.empty(len(n_tokens), np.int64)
    filled: list[int] = []
    for window, size in enumerate(n_tokens.tolist()):
        place = next((k for k, used in enumerate(filled) if used + size <= length), len(filled))
        if place == len(filled):
            filled.append(0)
        row[window], offset[window] = place, filled[place]
        filled[place] += size
    return row, offset


def bucket_groups(
    groups: Iterable[WindowGroup],
    *,
    max_cells: int,
    max_tokens: int,
    max_padding: int | None = None,
    padding: Padding = "exact",
) -> Iterator[list[WindowGroup]]:
    """Batch window groups of similar length, the longest first, so that there is little padding.

    Args:
        groups: All groups that may be batched together.
        max_cells: Padded cells of a batch, T·N². A larger group is a separate batch.
        max_tokens: Padded tokens of a batch, B·L, without rows of padding. A larger group is a separate batch.
        max_padding: Split a batch only if that saves more than this many padding tokens. No limit by default.
        padding: How the batches will be collated.
    """
    groups = list(groups)
    shapes = _Shapes.of(groups)
    if padding == "fixed":
        shapes = shapes._replace(longest_window=_round_length(shapes.longest_window))
    order = np.lexsort((-shapes.longest_table, -((shapes.longest_window - 1) // BUCKET_TOKENS)))
    cuts: list[int] = []
    if max_padding is not None:
        cuts = _find_cuts(shapes.longest_window[order], shapes.n_windows[order], max_padding)
    for start, end in pairwise([0, *cuts, len(order)]):
        for batch in _fill_batches(shapes, order[start:end], max_cells, max_tokens, packed=padding == "packed"):
            yield [groups[k] for k in batch.tolist()]


def bucket_items(items: Sequence[T], length: Callable[[T], int], max_tokens: int) -> Iterator[list[T]]:
    """Batch items of similar length, the longest first.

    Args:
        items: Any items, for example token sequences or their positions.
        length: The length of an item in tokens, at least 1.
        max_tokens: Padded tokens of a batch. A longer item is a separate batch.
    """
    lengths = np.array([length(item) for item in items], np.int64)
    shapes = _Shapes(np.zeros_like(lengths), np.zeros_like(lengths), np.ones_like(lengths), lengths)
    for batch in _fill_batches(shapes, np.argsort(-lengths, kind="stable"), max_cells=0, max_tokens=max_tokens):
        yield [items[k] for k in batch.tolist()]


class _Shapes(NamedTuple):
    """The numbers of tables and windows, and the lengths of the longest ones, of K items: four arrays [K]."""

    n_tables: Any
    longest_table: Any
    """Words."""
    n_windows: Any
    longest_window: Any
    """Tokens."""

    @classmethod
    def of(cls, groups: Sequence[WindowGroup]) -> _Shapes:
        spans, windows = ([getattr(group, name) for group in groups] for name in ("table_spans", "windows"))
        n_words = [span.end - span.start for each in spans for span in each]
        n_tokens = [len(window.tokens) for each in windows for window in each]
        n_tables, n_windows = (np.array([len(each) for each in parts], np.int64) for parts in (spans, windows))
        return cls(n_tables, _segment_max(n_words, n_tables), n_windows, _segment_max(n_tokens, n_windows))

    def select(self, items: NDArray[np.int64]) -> _Shapes:
        return _Shapes(*(numbers[items] for numbers in self))

    def accumulate(self) -> _Shapes:
        """The shapes of batches of the first item, of the first two items, and so on."""
        T, N, B, L = self
        return _Shapes(T.cumsum(), np.maximum.accumulate(N), B.cumsum(), np.maximum.accumulate(L))

    @property
    def cells(self) -> Any:
        return self.n_tables * self.longest_table**2

    @property
    def tokens(self) -> Any:
        return self.n_windows * self.longest_window


def _fill_batches(
    shapes: _Shapes, order: NDArray[np.int64], max_cells: int, max_tokens: int, *, packed: bool = False
) -> Iterator[NDArray[np.int64]]:
    """Fill one batch after the other with the items in `order`; yields the items of each batch."""
    while len(order):
        # no batch holds more items than these
        next_items = order if packed else order[: 1 + max_tokens // shapes.longest_window[order[0]]]
        each = shapes.select(next_items)
        batch = each.accumulate()
        full = (batch.cells > max_cells) | ((_packed_tokens(each) if packed else batch.tokens) > max_tokens)
        full[0] = False
        n_items = full.argmax() if full.any() else len(next_items)
        yield next_items[:n_items]
        order = order[n_items:]


def _packed_tokens(shapes: _Shapes) -> NDArray[np.int64]:
    """[K], tokens of the rows of a packed batch of the first item, of the first two items, and so on."""
    length = _packed_lengths(int(shapes.longest_window.max()), PACKED_ROW_TOKENS[-1])[0]
    row, _ = _pack(np.repeat(shapes.longest_window, shapes.n_windows), length)
    n_tokens: NDArray[np.int64] = length * (np.maximum.accumulate(row)[shapes.n_windows.cumsum() - 1] + 1)
    return n_tokens


def _find_cuts(longest_window: NDArray[np.int64], n_windows: NDArray[np.int64], cost_per_part: int) -> list[int]:
    """Cut a sequence of items into parts, so that the padded tokens, and a cost for every part, are minimal.

    Dynamic programming over the positions where a cut can help: between items of one length none does.

    Args:
        longest_window: [K], tokens of the longest window of each item, roughly descending.
        n_windows: [K], windows of each item.
        cost_per_part: What a part costs, in tokens.
    """
    longest = np.maximum.accumulate(longest_window[::-1])[::-1]  # from each item on
    firsts = np.flatnonzero(np.diff(longest, prepend=0))
    bounds = np.append(firsts, len(longest))
    before = np.append(0, n_windows.cumsum())[bounds]  # windows before each bound
    costs, last = np.zeros(len(bounds), np.int64), np.zeros(len(bounds), np.int64)
    for end in range(1, len(bounds)):
        ways = costs[:end] + cost_per_part + longest[firsts[:end]] * (before[end] - before[:end])
        last[end] = ways.argmin()  # where the last part up to this bound begins
        costs[end] = ways[last[end]]
    cuts: list[int] = []
    end = int(last[-1])
    while end > 0:
        cuts.append(int(bounds[end]))
        end = int(last[end])
    return cuts[::-1]


def bucket_tables(
    lengths: NDArray[np.int64], groups_per_doubling: int = 1, max_padding: int = 0
) -> Iterator[tuple[slice | NDArray[np.int64], int]]:
    """Group the tables of a batch by length, so that each group can be cut to its longest table.

    Yields the positions of the tables of a group, as a slice if they are neighbours, and the length to cut them to.
    More groups would have less padding, but need more kernel launches. Unless there are many tables, launches take the
    host longer than padding takes the GPU.

    Args:
        lengths: [T], words of each table. Tables without words are in no group.
        groups_per_doubling: Number of groups from a length to its double.
        max_padding: Split a group only if that saves more than this many padding cells.
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
        are_neighbours = end - first == len(group)
        yield (slice(first, end) if are_neighbours else group), n


def _round_length(n_tokens: Any) -> Any:
    """Round the lengths of windows up, so that there are few; above 128 tokens to multiples that suit cuDNN."""
    return _round_up(n_tokens, np.where(n_tokens <= 128, 32, 128))


def _round_up(size: Any, unit: Any) -> Any:
    """The next multiple of `unit`."""
    return -(-size // unit) * unit


def _segment_max(numbers: Sequence[int], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The maximum of the first `sizes[0]` numbers, of the next `sizes[1]`, and so on. No size is 0."""
    return np.maximum.reduceat(np.array(numbers, np.int64), sizes.cumsum() - sizes) if len(sizes) else sizes
