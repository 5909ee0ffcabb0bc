"""Stretches and their context → windows that an encoder can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.documents import Document
from unire.exceptions import UnireError
from unire.windows.pieces import Pieces, WordTokenizer
from unire.windows.spec import EncoderSpec
from unire.windows.stretches import Stretch, balanced_runs, cut_into_stretches

__all__ = ["Layout", "Passage", "Window", "Windower"]

Layout = Literal["in-place", "released", "shared"]

SHARED_TABLE = 512
"""The tables that share a window have, padded, no more cells than one table of so many words (or of `max_table`)."""


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """One encoder input."""

    pieces: NDArray[np.int64]
    second: int
    """First piece whose token type is 1; `len(pieces)` when there is none."""


@dataclass(frozen=True, eq=False, slots=True)
class Passage:
    """Windows that are encoded together and the tables that are read off them."""

    windows: tuple[Window, ...]
    tables: tuple[Stretch, ...]
    reads: tuple[NDArray[np.int64], ...]
    """Where the words of each table are read: [n, 2], window and position of the word's first piece."""
    stitched: int = 0
    """Sentences read in overlapping windows because they are longer than the encoder."""
    split: int = 0
    """Sentences cut into several tables."""
    unknown_words: int = 0
    """Words with no piece, read as the unknown one."""


class Windower:
    """Lays out documents for an encoder.

    Every word of a document is in exactly one table, and is read where its first piece stands. A word is given at most
    a quarter of a window: of a longer one (a genome, a line of base64) only the first pieces are kept.

    Args:
        tokenizer: The encoder's.
        spec: What else is known of the encoder.
        layout: `in-place`: context, sentence, context; `released`: context, separator, sentence; `shared`: a run of
            whole sentences, as equally long as can be, each of them context to the others.
        window: W, words of a window counting the sentence: each side gets (W − n)//2, from neighbouring sentences too;
            what one side cannot use is not given to the other. Where they are too many pieces, the longer side loses
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
                f"an encoder that reads {spec.max_pieces} pieces has no room for words beside its special pieces"
            )
        # At a quarter, windows that overlap by half cannot miss a word.
        self.tokenize = WordTokenizer(tokenizer, spec, longest=max(1, self._room // 4))

    def passages(self, document: Document, index: int = 0) -> list[Passage]:
        """The windows of `document`, in the order of its words; none if it has no words.

        Args:
            document: What to lay out.
            index: Written into each `Stretch`, to tell documents apart.
        """
        return self._passages(document, index, self.tokenize(document.words))

    def passages_of(self, documents: Sequence[Document]) -> list[Passage]:
        """The windows of some documents, which have their positions as `index`; faster than one after the other."""
        sentences = chain.from_iterable(document.sentences for document in documents)
        pieces = self.tokenize(list(chain.from_iterable(sentence.words for sentence in sentences)))
        passages: list[Passage] = []
        start = 0
        for index, document in enumerate(documents):
            end = start + document.n_words
            passages += self._passages(document, index, pieces.part(start, end))
            start = end
        return passages

    def _passages(self, document: Document, index: int, pieces: Pieces) -> list[Passage]:
        passages = []
        last_stitched = -1
        has_unknown = pieces.unknown.any()
        cut = {sentence.start for sentence in document.sentences if len(sentence.words) > self.max_table}
        for run in self._runs(cut_into_stretches(document, index, self.max_table), pieces):
            start, end = run[0].start, run[-1].end
            windows, reads = self._read(pieces, start, end)
            # A sentence counts once, whichever of its parts are stitched.
            stitched = len(windows) > 1 and run[0].sentence != last_stitched
            if stitched:
                last_stitched = run[0].sentence
            passages.append(
                Passage(
                    windows=windows,
                    tables=tuple(run),
                    reads=tuple([reads[stretch.start - start : stretch.end - start] for stretch in run]),
                    stitched=int(stitched),
                    split=sum(stretch.start in cut for stretch in run) if cut else 0,
                    unknown_words=int(np.count_nonzero(pieces.unknown[start:end])) if has_unknown else 0,
                )
            )
        return passages

    def _runs(self, stretches: list[Stretch], pieces: Pieces) -> list[list[Stretch]]:
        """Stretches that are read off the same windows."""
        if self.layout != "shared" or self.window == 0:
            return [[stretch] for stretch in stretches]
        return balanced_runs(
            stretches,
            [pieces.count(stretch.start, stretch.end) for stretch in stretches],
            max_pieces=self._room,
            max_cells=max(self.max_table, SHARED_TABLE) ** 2,
        )

    def _read(self, pieces: Pieces, start: int, end: int) -> tuple[tuple[Window, ...], NDArray[np.int64]]:
        """Windows for the words `start` to `end`, and for each word the window and the position of its first piece."""
        reads = np.zeros((end - start, 2), np.int64)
        bounds = pieces.bounds[start : end + 1] - pieces.bounds[start]
        if bounds[-1] <= self._room:
            left, right = self._context(pieces, start, end)
            window, first = self._window(pieces, left, start, end, right)
            reads[:, 1] = first + bounds[:-1]
            return (window,), reads
        begins, ends = _overlapping(bounds, self._room)
        framed = [self._window(pieces, b, b, e, e) for b, e in zip(start + begins, start + ends, strict=True)]
        # The next window is the better one for a word that stands farther from its left edge than from the right edge
        # of this one.
        home = np.searchsorted(bounds[begins[1:]] + bounds[ends[:-1]], bounds[:-1] + bounds[1:])
        reads[:, 0] = home
        reads[:, 1] = framed[0][1] + bounds[:-1] - bounds[begins[home]]
        return tuple(window for window, _ in framed), reads

    def _context(self, pieces: Pieces, start: int, end: int) -> tuple[int, int]:
        """The first word of the left context and the end of the right one."""
        if self.layout == "shared":
            return start, end
        # A word is at least one piece, so more words than pieces would only have to be left out again.
        side = min(max(0, self.window - (end - start)) // 2, self._room)
        left, right = max(0, start - side), min(len(pieces), end + side)
        excess = pieces.count(left, right) - self._room
        while excess > 0:
            if start - left >= right - end:
                excess -= pieces.count(left, left + 1)
                left += 1
            else:
                right -= 1
                excess -= pieces.count(right, right + 1)
        return left, right

    def _window(self, pieces: Pieces, left: int, start: int, end: int, right: int) -> tuple[Window, int]:
        """A window of the words `start` to `end` amid the words `left` to `right`, and where its first word stands."""
        if self.layout == "released":
            context = (pieces.of(left, start), pieces.of(end, right))
            first = len(self._prefix) + sum(map(len, context)) + len(self._middle)
            framed = np.concatenate((self._prefix, *context, self._middle, pieces.of(start, end), self._suffix))
            return Window(framed, second=first), first
        framed = np.concatenate((self._prefix, pieces.of(left, right), self._suffix))
        return Window(framed, second=len(framed)), len(self._prefix) + pieces.count(left, start)


def _overlapping(bounds: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First words and ends of evenly spaced windows that overlap by half or more.

    Args:
        bounds: First piece of each word, and the end of the last: more than `room`.
        room: Pieces that a window holds.
    """
    surplus = bounds[-1] - room
    steps = -(-surplus // max(1, room // 2))
    begins = np.searchsorted(bounds, np.linspace(0, surplus, steps + 1))
    ends = np.searchsorted(bounds, bounds[begins] + room, side="right") - 1
    return begins, ends
