"""Documents → windows that an encoder can read, in one of three layouts.

A document is split into table spans: its sentences, or parts of very long ones. Each span becomes one table. A layout
decides which spans share a window and where their context goes (`InPlaceLayout`, `ReleasedLayout`, `SharedLayout`).
`WindowBuilder` applies it to many documents at once and records where the first token of each word is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.documents import Document
from unire.errors import UnireError
from unire.tables import TableSpan, split_into_tables
from unire.utils import concat_ranges
from unire.windows.tokenizer import TokenizedWords, WordTokenizer

__all__ = [
    "LAYOUTS",
    "InPlaceLayout",
    "ReleasedLayout",
    "SharedLayout",
    "Window",
    "WindowBuilder",
    "WindowGroup",
]

SHARED_TABLE_WORDS = 512
"""The padded tables of a shared window have at most as many cells as one table of this many words."""
MAX_WORD_SHARE = 4
"""A word gets at most 1/4 of a window. Then windows that overlap by half cannot miss a word."""


@dataclass(eq=False, slots=True)  # not frozen, as `TableSpan` is not
class Window:
    """One encoder input."""

    tokens: NDArray[np.int64]
    segment_b_start: int
    """First token whose token type is 1; `len(tokens)` if there is none."""


@dataclass(eq=False, slots=True)
class WindowGroup:
    """Windows that are encoded together, and the tables whose words they contain."""

    windows: tuple[Window, ...]
    table_spans: tuple[TableSpan, ...]
    word_index: NDArray[np.int64]
    """[n, 2] for the n words of all tables: the window, and the position of the word's first token in it."""
    stitched_sentences: int = 0
    """Sentences in overlapping windows, because they are longer than the encoder's input."""
    split_sentences: int = 0
    """Sentences split into several tables."""
    unknown_words: int = 0
    """Words for which the tokenizer has no token; they are read as the unknown token."""

    @property
    def notes(self) -> dict[str, int]:
        """What needed special care, counted, in words for the user."""
        notes = {
            "sentence longer than the encoder, stitched": self.stitched_sentences,
            "sentence larger than a table, split": self.split_sentences,
            "word without a token, read as unknown": self.unknown_words,
        }
        return {what: count for what, count in notes.items() if count}


class WindowBuilder:
    """Builds the windows of documents.

    Every word of a document is in exactly one table. A word is represented by its first token. Words are cut to a
    quarter of a window, so of a very long one (a genome, a line of base64) only the first tokens are kept.

    Args:
        tokenizer: The encoder's tokenizer.
        spec: The encoder's special tokens and limits.
        layout: `in-place`: context, sentence, context. `released`: context, separator, sentence, as in the authors'
            code. `shared`: consecutive sentences, which are context to each other, in windows of about equal length.
        window: W, the words of a window including the sentence. Each side gets (W − n)//2 words of context, which may
            come from several sentences. Unused words of one side are not given to the other. If the context has too
            many tokens, the longer side loses its farthest words first. `shared` windows are filled up to the
            encoder's limit instead. In every layout, 0 means no context.
        max_table: Words of the largest table. Longer sentences are split; the parts are treated as sentences.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        spec: EncoderSpec,
        *,
        layout: str = "in-place",
        window: int = 200,
        max_table: int = 512,
    ) -> None:
        if layout not in LAYOUTS:
            raise UnireError(f"unknown window layout {layout!r}; give one of {', '.join(LAYOUTS)}")
        if window < 0 or max_table < 1:
            raise UnireError(
                f"a window of {window} words and tables of {max_table} are too small; use at least 0 and 1"
            )
        self.spec = spec
        self.window = window
        self.max_table = max_table
        self.layout = LAYOUTS[layout](spec, window, max_table)
        self.tokenize = WordTokenizer(
            tokenizer, spec, max_word_tokens=max(1, self.layout.max_window_tokens // MAX_WORD_SHARE)
        )

    def build(self, documents: Sequence[Document], first_index: int = 0) -> list[WindowGroup]:
        """Build the windows of `documents`, in the order of their words. A document without words has none.

        One call for many documents is faster than one call for each of them.

        Args:
            documents: The documents to lay out.
            first_index: `TableSpan.document` of the first document; the next one has `first_index + 1`, and so on.
        """
        sentences = chain.from_iterable(document.sentences for document in documents)
        tokens = self.tokenize(list(chain.from_iterable(sentence.words for sentence in sentences)))
        groups = self._group_tables(documents, first_index, tokens)
        if not groups:
            return []
        words = _GroupWords.of(groups, len(tokens))
        fits = tokens.bounds[words.end] - tokens.bounds[words.start] <= self.layout.max_window_tokens
        left, right = self.layout.find_context(tokens, words, fits)
        framed = self.layout.frame(tokens, words, left, right)

        # The first token of a word is as far behind that of its group's first word as there are tokens between them.
        word_index = np.zeros((len(tokens), 2), np.int64)
        offsets = framed.first_words - tokens.bounds[words.start]
        word_index[:, 1] = np.repeat(offsets, words.end - words.start) + tokens.bounds[:-1]

        n_unknown = np.add.reduceat(tokens.unknown, words.start, dtype=np.int64)
        built = []
        last_stitched = None
        for group, fit, begin, end, segment_b_start, unknown_words in zip(
            groups,
            fits.tolist(),
            [0, *framed.ends[:-1].tolist()],
            framed.ends.tolist(),
            framed.segment_b_starts.tolist(),
            n_unknown.tolist(),
            strict=True,
        ):
            spans = group.table_spans
            first, last = group.document_start + spans[0].start, group.document_start + spans[-1].end
            stitched = 0
            if fit:
                windows: tuple[Window, ...] = (Window(framed.tokens[begin:end], segment_b_start),)
            else:
                windows, word_index[first:last] = self.layout.stitch(tokens, first, last)
                # several parts of a sentence may be stitched; it counts once
                sentence = spans[0].document, spans[0].sentence
                stitched, last_stitched = int(sentence != last_stitched), sentence
            built.append(
                WindowGroup(
                    windows=windows,
                    table_spans=spans,
                    word_index=word_index[first:last],
                    stitched_sentences=stitched,
                    split_sentences=sum(span.start in group.split for span in spans) if group.split else 0,
                    unknown_words=unknown_words,
                )
            )
        return built

    def _group_tables(
        self, documents: Sequence[Document], first_index: int, tokens: TokenizedWords
    ) -> list[_TableGroup]:
        """Split documents into table spans, and group the spans that share windows."""
        spans = [split_into_tables(document, i, self.max_table) for i, document in enumerate(documents, first_index)]
        starts = list(accumulate((document.n_words for document in documents), initial=0))
        grouped = self.layout.group_spans(spans, starts, tokens)
        groups = []
        for document, shared, start, end in zip(documents, grouped, starts, starts[1:], strict=False):
            split = {sentence.start for sentence in document.sentences if len(sentence.words) > self.max_table}
            groups += [_TableGroup(tuple(own), start, end, split) for own in shared]
        return groups


class _TableGroup(NamedTuple):
    """Table spans of a document that share windows. Words are counted over all documents of a call."""

    table_spans: tuple[TableSpan, ...]
    document_start: int
    document_end: int
    split: set[int]
    """First words, counted in the document, of the sentences that are split into several tables."""


class _GroupWords(NamedTuple):
    """The words of all groups, which follow each other without a gap, and those of their documents."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    document_start: NDArray[np.int64]
    document_end: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Sequence[_TableGroup], n_words: int) -> _GroupWords:
        document_start = np.array([group.document_start for group in groups])
        document_end = np.array([group.document_end for group in groups])
        start = document_start + np.array([group.table_spans[0].start for group in groups])
        return cls(start, np.append(start[1:], n_words), document_start, document_end)


class _FramedWindows(NamedTuple):
    """One window per group, concatenated."""

    tokens: NDArray[np.int64]
    ends: NDArray[np.int64]
    """Where each window ends among `tokens`."""
    first_words: NDArray[np.int64]
    """Position of the group's first word in its window."""
    segment_b_starts: NDArray[np.int64]


class InPlaceLayout:
    """Layout `in-place`: `[CLS]` left context, sentence, right context `[SEP]`.

    Args:
        spec: The encoder's special tokens and limits.
        window: W, words of a window.
        max_table: Words of the largest table.
    """

    PARTS: ClassVar[tuple[str, ...]] = ("prefix", "left", "sentence", "right", "suffix")
    """The parts of a window in their order: special tokens of `EncoderSpec`, contexts and the sentence."""

    def __init__(self, spec: EncoderSpec, window: int, max_table: int) -> None:
        self.window = window
        self.max_table = max_table
        special = {"prefix": spec.prefix, "middle": spec.middle, "suffix": spec.suffix}
        self._special = {name: np.array(ids, np.int64) for name, ids in special.items() if name in self.PARTS}
        self.max_window_tokens = spec.max_pieces - sum(map(len, self._special.values()))
        """Tokens of words that fit into a window, without the special tokens."""
        if self.max_window_tokens < 1:
            raise UnireError(f"an encoder input of {spec.max_pieces} tokens is too short for special tokens and words")

    def group_spans(
        self, spans: Sequence[Sequence[TableSpan]], document_starts: Sequence[int], tokens: TokenizedWords
    ) -> Iterable[list[list[TableSpan]]]:
        """Group the spans of each document that share windows: none do.

        Args:
            spans: The spans of every document.
            document_starts: The first word of every document, counted over all documents.
            tokens: The tokens of all words.
        """
        return ([[span] for span in of_document] for of_document in spans)

    def find_context(
        self, tokens: TokenizedWords, words: _GroupWords, fits: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the first word of the left context and the end of the right context of every group.

        Args:
            tokens: The tokens of all words.
            words: The words of the groups.
            fits: Which groups fit into a window.
        """
        start, end = words.start, words.end
        # A word has at least one token, so more words than tokens of a window would be trimmed again.
        side = np.minimum(np.maximum(0, self.window - (end - start)) // 2, self.max_window_tokens)
        left, right = np.maximum(words.document_start, start - side), np.minimum(words.document_end, end + side)
        excess = tokens.bounds[right] - tokens.bounds[left] - self.max_window_tokens
        for k in np.flatnonzero(fits & (excess > 0)):
            left[k], right[k] = self._trim_context(tokens, *(int(x[k]) for x in (left, start, end, right)))
        return left, right

    def _trim_context(self, tokens: TokenizedWords, left: int, start: int, end: int, right: int) -> tuple[int, int]:
        """Remove the farthest word of the longer side until the window fits."""
        excess = tokens.count(left, right) - self.max_window_tokens
        while excess > 0:
            if start - left >= right - end:
                excess -= tokens.count(left, left + 1)
                left += 1
            else:
                right -= 1
                excess -= tokens.count(right, right + 1)
        return left, right

    def frame(
        self, tokens: TokenizedWords, words: _GroupWords, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> _FramedWindows:
        """Put special tokens, sentence and context together, for all groups at once.

        Every part of a window is a range of one source array: all words, then the special tokens. Groups that do not
        fit into a window get one too, which is not used.
        """
        bounds, source = tokens.bounds, [tokens.ids]
        start, end = bounds[words.start], bounds[words.end]
        first, last = bounds[left], bounds[right]
        ranges = {"left": (first, start - first), "sentence": (start, end - start), "right": (end, last - end)}
        n_source = len(tokens.ids)
        for name, ids in self._special.items():
            ranges[name] = np.full(len(start), n_source), np.full(len(start), len(ids))
            source.append(ids)
            n_source += len(ids)
        starts, sizes = (np.stack(column, 1) for column in zip(*(ranges[name] for name in self.PARTS), strict=True))
        lengths = sizes.sum(1)
        first_words = sizes[:, : self.PARTS.index("sentence")].sum(1)
        return _FramedWindows(
            np.concatenate(source)[concat_ranges(starts.ravel(), sizes.ravel())],
            lengths.cumsum(),
            first_words,
            self._segment_b_start(first_words, lengths),
        )

    def _segment_b_start(self, first_word: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where token type 1 begins: nowhere."""
        return length

    def stitch(self, tokens: TokenizedWords, start: int, end: int) -> tuple[tuple[Window, ...], NDArray[np.int64]]:
        """Cover the words `start` to `end`, which do not fit into one window, by overlapping windows without context.

        Returns:
            The windows, and [n, 2] the window of each word and the position of its first token in it.
        """
        bounds = tokens.bounds[start : end + 1] - tokens.bounds[start]
        begins, ends = _cover(bounds, self.max_window_tokens)
        sentence = self.PARTS.index("sentence")
        before, after = (
            np.concatenate([self._special[name] for name in parts if name in self._special])
            for parts in (self.PARTS[:sentence], self.PARTS[sentence:])
        )
        windows = []
        for first, last in zip(start + begins, start + ends, strict=True):
            ids = np.concatenate((before, tokens.of(first, last), after))
            segment_b_start = self._segment_b_start(np.array(len(before)), np.array(len(ids)))
            windows.append(Window(ids, int(segment_b_start)))
        # A word belongs to the next window as soon as it is farther from that window's left edge than from the right
        # edge of this one.
        home = np.searchsorted(bounds[begins[1:]] + bounds[ends[:-1]], bounds[:-1] + bounds[1:])
        return tuple(windows), np.stack((home, len(before) + bounds[:-1] - bounds[begins[home]]), 1)


class ReleasedLayout(InPlaceLayout):
    """Layout `released`, of the authors' code: `[CLS]` left context, right context `[SEP]` sentence `[SEP]`.

    The sentence is segment B, so it has token type 1.
    """

    PARTS = ("prefix", "left", "right", "middle", "sentence", "suffix")

    def _segment_b_start(self, first_word: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where token type 1 begins: at the sentence."""
        return first_word


class SharedLayout(InPlaceLayout):
    """Layout `shared`: `[CLS]` consecutive sentences `[SEP]`, so that the encoder reads the text once."""

    PARTS = ("prefix", "sentence", "suffix")

    def group_spans(
        self, spans: Sequence[Sequence[TableSpan]], document_starts: Sequence[int], tokens: TokenizedWords
    ) -> Iterable[list[list[TableSpan]]]:
        """Group consecutive spans, as many as fit. With W = 0, each span has its own window."""
        if self.window == 0:
            yield from super().group_spans(spans, document_starts, tokens)
            return
        first_words = [start + span.start for start, own in zip(document_starts, spans, strict=False) for span in own]
        # spans follow each other without a gap, so that a span ends where the next one begins
        n_tokens = iter(np.diff(tokens.bounds[first_words], append=tokens.bounds[-1]).tolist())
        max_cells = max(self.max_table, SHARED_TABLE_WORDS) ** 2
        for own in spans:
            sizes = list(islice(n_tokens, len(own)))
            yield _balance_groups(own, sizes, max_tokens=self.max_window_tokens, max_cells=max_cells)

    def find_context(
        self, tokens: TokenizedWords, words: _GroupWords, fits: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """No context: the sentences of a group are context to each other."""
        return words.start, words.end


LAYOUTS: dict[str, type[InPlaceLayout]] = {
    "in-place": InPlaceLayout,
    "released": ReleasedLayout,
    "shared": SharedLayout,
}
"""The layouts by config value."""


def _cover(bounds: NDArray[np.int64], max_window_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and end words of evenly spaced windows that overlap by half or more.

    Args:
        bounds: First token of each word, and the end of the last one, which is above `max_window_tokens`.
        max_window_tokens: Tokens that fit into a window.
    """
    surplus = bounds[-1] - max_window_tokens
    n_steps = -(-surplus // max(1, max_window_tokens // 2))
    begins = np.searchsorted(bounds, np.linspace(0, surplus, n_steps + 1))
    ends = np.searchsorted(bounds, bounds[begins] + max_window_tokens, side="right") - 1
    return begins, ends


def _balance_groups(
    spans: Sequence[TableSpan], n_tokens: Sequence[int], *, max_tokens: int, max_cells: int
) -> list[list[TableSpan]]:
    """Group consecutive spans into as few groups as possible, of sizes as equal as possible.

    Args:
        spans: The spans of one document, in order.
        n_tokens: Tokens of each span.
        max_tokens: Tokens of a group. A longer span is a separate group.
        max_cells: Padded cells of a group: spans × longest².
    """

    def fill(capacity: int) -> list[int]:
        """Fill one group after the other with up to `capacity` tokens; the end of each."""
        ends, count, size, longest = [], 0, 0, 0
        for i, (span, n) in enumerate(zip(spans, n_tokens, strict=True)):
            count, size, longest = count + 1, size + n, max(longest, len(span))
            if count > 1 and (size > capacity or count * longest**2 > max_cells):
                ends.append(i)
                count, size, longest = 1, n, len(span)
        return [*ends, len(spans)]

    if not spans:
        return []
    longest = max([span.end - span.start for span in spans])
    if sum(n_tokens) <= max_tokens and len(spans) * longest**2 <= max_cells:
        return [list(spans)]
    fewest = len(fill(max_tokens))
    # The smallest capacity that needs no more groups fills them evenly. The number of groups falls with the capacity.
    capacity = bisect_left(range(max_tokens), True, key=lambda capacity: len(fill(capacity)) <= fewest)
    cuts = fill(capacity)
    return [list(spans[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]
