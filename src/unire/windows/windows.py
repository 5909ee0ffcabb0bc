"""Stretches and their context → windows that an encoder can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec, Layout
from unire.documents import Document
from unire.errors import UnireError
from unire.utils import concat_ranges
from unire.windows.spans import TableSpan, balance_groups, split_into_spans
from unire.windows.tokenizer import TokenizedWords, WordTokenizer

__all__ = ["Layout", "Window", "WindowBuilder", "WindowGroup"]

SHARED_TABLE_WORDS = 512
"""The tables that share a window have, padded, no more cells than one table of so many words (or of `max_table`)."""


@dataclass(eq=False, slots=True)  # not frozen, as a `Stretch` is not
class Window:
    """One encoder input."""

    tokens: NDArray[np.int64]
    segment_b_start: int
    """First token whose token type is 1; `len(tokens)` when there is none."""


@dataclass(eq=False, slots=True)  # likewise
class WindowGroup:
    """Windows that are encoded together and the tables that are read off them."""

    windows: tuple[Window, ...]
    tables: tuple[TableSpan, ...]
    word_index: NDArray[np.int64]
    """Where the words of all tables are read: [n, 2], window and position of the word's first token."""
    stitched: int = 0
    """Sentences read in overlapping windows because they are longer than the encoder."""
    split: int = 0
    """Sentences cut into several tables."""
    unknown_words: int = 0
    """Words with no token, read as the unknown one."""


class WindowBuilder:
    """Lays out documents for an encoder.

    Every word of a document is in exactly one table, and is read where its first token stands. A word is given at most
    a quarter of a window: of a longer one (a genome, a line of base64) only the first tokens are kept.

    Args:
        tokenizer: The encoder's.
        spec: What else is known of the encoder.
        layout: `in-place`: context, sentence, context; `released`: context, separator, sentence; `shared`: a run of
            whole sentences, as equally long as can be, each of them context to the others.
        window: W, words of a window counting the sentence: each side gets (W − n)//2, from neighbouring sentences too;
            what one side cannot use is not given to the other. Where they are too many tokens, the longer side loses
            its farthest words first. `shared` windows are filled by the encoder's limit instead. In every layout, 0
            means no context.
        max_table: Words of the largest table. Longer sentences are split, and the parts are neighbouring sentences.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        spec: EncoderSpec,
        *,
        layout: Layout = "in-place",
        window: int = 200,
        max_table: int = 512,
    ) -> None:
        if layout not in get_args(Layout):
            raise UnireError(f"no window layout {layout!r}; there are {', '.join(get_args(Layout))}")
        if window < 0 or max_table < 1:
            raise UnireError(
                f"a window of {window} words and tables of {max_table} are impossible: use at least 0 and 1"
            )
        self.spec = spec
        self.layout = layout
        self.window = window
        self.max_table = max_table
        self._prefix = np.array(spec.prefix, np.int64)
        self._middle = np.array(spec.middle if layout == "released" else (), np.int64)
        self._suffix = np.array(spec.suffix, np.int64)
        self._room = spec.max_pieces - len(self._prefix) - len(self._middle) - len(self._suffix)
        if self._room < 1:
            raise UnireError(
                f"an encoder that reads {spec.max_pieces} tokens has no room for words beside its special tokens"
            )
        # At a quarter, windows that overlap by half cannot miss a word.
        self.tokenize = WordTokenizer(tokenizer, spec, longest=max(1, self._room // 4))

    def build(self, documents: Sequence[Document], first_index: int = 0) -> list[WindowGroup]:
        """Build the windows of `documents`, in the order of their words. A document without words has none.

        One call for many documents is faster than one call for each of them.

        Args:
            documents: The documents to lay out.
            first_index: `TableSpan.document` of the first document; the next one has `first_index + 1`, and so on.
        """
        sentences = chain.from_iterable(document.sentences for document in documents)
        tokens = self.tokenize(list(chain.from_iterable(sentence.words for sentence in sentences)))
        groups = self._groups(documents, first_index, tokens)
        if not groups:
            return []
        spans = _Spans.of(groups, len(tokens))
        fits = tokens.bounds[spans.end] - tokens.bounds[spans.start] <= self._room
        left, right = self._contexts(tokens, spans, fits)
        framed, ends, firsts, seconds = self._framed(tokens, spans, left, right)

        # a word stands so far behind the first of its group as there are tokens between them
        word_index = np.zeros((len(tokens), 2), np.int64)
        sizes = spans.end - spans.start
        word_index[:, 1] = np.repeat(firsts - tokens.bounds[spans.start], sizes) + tokens.bounds[:-1]

        unknown = np.add.reduceat(tokens.unknown, spans.start, dtype=np.int64)
        passages = []
        stitched = None
        for group, fit, begin, end, second, count in zip(
            groups,
            fits.tolist(),
            [0, *ends[:-1].tolist()],
            ends.tolist(),
            seconds.tolist(),
            unknown.tolist(),
            strict=True,
        ):
            tables = group.tables
            first, last = group.base + tables[0].start, group.base + tables[-1].end
            if fit:
                windows: tuple[Window, ...] = (Window(framed[begin:end], second),)
                is_stitched = False
            else:
                windows, word_index[first:last] = self._stitched(tokens, first, last)
                # a sentence counts once, whichever of its parts are stitched
                is_stitched = (tables[0].document, tables[0].sentence) != stitched
                stitched = tables[0].document, tables[0].sentence
            passages.append(
                WindowGroup(
                    windows=windows,
                    tables=tables,
                    word_index=word_index[first:last],
                    stitched=int(is_stitched),
                    split=sum(table.start in group.split for table in tables) if group.split else 0,
                    unknown_words=count,
                )
            )
        return passages

    def _groups(self, documents: Sequence[Document], first_index: int, tokens: TokenizedWords) -> list[_Group]:
        """The stretches of all documents, those together that are read off the same windows."""
        cut = [split_into_spans(document, i, self.max_table) for i, document in enumerate(documents, start=first_index)]
        bases = list(accumulate((document.n_words for document in documents), initial=0))
        together = self.layout == "shared" and self.window > 0
        if together:  # stretches follow each other without a gap, so a size is the way to the next
            firsts = [base + stretch.start for base, some in zip(bases, cut, strict=False) for stretch in some]
            sizes = iter(np.diff(tokens.bounds[firsts], append=tokens.bounds[-1]).tolist())
            cells = max(self.max_table, SHARED_TABLE_WORDS) ** 2
        groups = []
        for document, stretches, base, end in zip(documents, cut, bases, bases[1:], strict=False):
            split = {sentence.start for sentence in document.sentences if len(sentence.words) > self.max_table}
            if together:
                own = list(islice(sizes, len(stretches)))
                parted = balance_groups(stretches, own, max_tokens=self._room, max_cells=cells)
            else:
                parted = [[stretch] for stretch in stretches]
            groups += [_Group(tuple(tables), base, end, split) for tables in parted]
        return groups

    def _contexts(
        self, tokens: TokenizedWords, spans: _Spans, fits: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first word of each left context and the end of the right one."""
        start, end = spans.start, spans.end
        if self.layout == "shared":
            return start, end
        # A word is at least one token, so more words than tokens would only have to be left out again.
        side = np.minimum(np.maximum(0, self.window - (end - start)) // 2, self._room)
        left, right = np.maximum(spans.document_start, start - side), np.minimum(spans.document_end, end + side)
        excess = tokens.bounds[right] - tokens.bounds[left] - self._room
        for k in np.flatnonzero(fits & (excess > 0)):
            left[k], right[k] = self._trimmed(tokens, *(int(x[k]) for x in (left, start, end, right)))
        return left, right

    def _trimmed(self, tokens: TokenizedWords, left: int, start: int, end: int, right: int) -> tuple[int, int]:
        """A context without the farthest words of the longer side, until it fits."""
        excess = tokens.count(left, right) - self._room
        while excess > 0:
            if start - left >= right - end:
                excess -= tokens.count(left, left + 1)
                left += 1
            else:
                right -= 1
                excess -= tokens.count(right, right + 1)
        return left, right

    def _framed(
        self, tokens: TokenizedWords, spans: _Spans, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Windows end to end: their tokens, where each ends, and in each the places of its first word and second text.

        Windows of spans that do not fit are there too, and nobody reads them.
        """
        bounds, ids = tokens.bounds, tokens.ids
        begin, end = bounds[spans.start], bounds[spans.end]
        source = np.concatenate((ids, self._prefix, self._middle, self._suffix))
        special = np.cumsum([len(ids), len(self._prefix), len(self._middle)])
        prefix, middle, suffix = (
            (np.full(len(begin), place), np.full(len(begin), len(part)))
            for place, part in zip(special, (self._prefix, self._middle, self._suffix), strict=True)
        )
        before, after = (bounds[left], begin - bounds[left]), (end, bounds[right] - end)
        own = (begin, end - begin)
        moved = self.layout == "released"
        parts = (prefix, before, after, middle, own, suffix) if moved else (prefix, before, own, after, suffix)
        starts, sizes = (np.stack(column, 1) for column in zip(*parts, strict=True))
        ends = sizes.sum(1).cumsum()
        firsts = sizes[:, : 4 if moved else 2].sum(1)
        return source[concat_ranges(starts.ravel(), sizes.ravel())], ends, firsts, firsts if moved else sizes.sum(1)

    def _stitched(self, tokens: TokenizedWords, start: int, end: int) -> tuple[tuple[Window, ...], NDArray[np.int64]]:
        """Overlapping windows for the words `start` to `end`, and in which of them, and where, each word is read."""
        bounds = tokens.bounds[start : end + 1] - tokens.bounds[start]
        begins, ends = _overlapping(bounds, self._room)
        frame = np.concatenate((self._prefix, self._middle))
        places = zip(start + begins, start + ends, strict=True)
        framed = [np.concatenate((frame, tokens.of(*place), self._suffix)) for place in places]
        # The next window is the better one for a word that stands farther from its left edge than from the right edge
        # of this one.
        home = np.searchsorted(bounds[begins[1:]] + bounds[ends[:-1]], bounds[:-1] + bounds[1:])
        word_index = np.stack((home, len(frame) + bounds[:-1] - bounds[begins[home]]), 1)
        seconds = [len(frame) if self.layout == "released" else len(window) for window in framed]
        return tuple(map(Window, framed, seconds)), word_index


class _Group(NamedTuple):
    """Stretches of a document that are read off the same windows."""

    tables: tuple[TableSpan, ...]
    base: int
    """Words of the documents before."""
    end: int
    """Words up to the end of its document."""
    split: set[int]
    """First words of the document's sentences that were cut into several stretches."""


class _Spans(NamedTuple):
    """The words of all groups, which follow each other without a gap, and where their documents begin and end."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    document_start: NDArray[np.int64]
    document_end: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Sequence[_Group], n_words: int) -> _Spans:
        start = np.array([group.base + group.tables[0].start for group in groups])
        bases, ends = (np.array([getattr(group, name) for group in groups]) for name in ("base", "end"))
        return cls(start, np.append(start[1:], n_words), bases, ends)


def _overlapping(bounds: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First words and ends of evenly spaced windows that overlap by half or more.

    Args:
        bounds: First token of each word, and the end of the last: more than `room`.
        room: Tokens that a window holds.
    """
    surplus = bounds[-1] - room
    steps = -(-surplus // max(1, room // 2))
    begins = np.searchsorted(bounds, np.linspace(0, surplus, steps + 1))
    ends = np.searchsorted(bounds, bounds[begins] + room, side="right") - 1
    return begins, ends
