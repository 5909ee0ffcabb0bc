"""Words → pieces, each word by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.treebank import plain
from unire.windows.spec import EncoderSpec, unbound

__all__ = ["Pieces", "WordTokenizer"]

CACHED_WORDS = 2**17
CACHED_LENGTH = 64
"""Characters of the longest word that is remembered: whatever is longer is seen once."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of some words, end to end. Every word has at least one."""

    ids: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Word `i` has the pieces `bounds[i]` to `bounds[i + 1]`."""
    unknown: NDArray[np.bool_]
    """Words of which the tokenizer left nothing: they have the unknown piece."""

    def __len__(self) -> int:
        """Number of words."""
        return len(self.unknown)

    def of(self, start: int, end: int) -> NDArray[np.int64]:
        """The pieces of the words `start` to `end`."""
        return self.ids[self.bounds[start] : self.bounds[end]]

    def count(self, start: int, end: int) -> int:
        """How many pieces the words `start` to `end` have."""
        return int(self.bounds[end] - self.bounds[start])


class WordTokenizer:
    """Spells words, and remembers those that it has seen.

    An escaped bracket or quote is spelt as the character that it stands for, so that a model which was trained on
    Treebank words reads ordinary text as it was taught.

    Args:
        tokenizer: The encoder's.
        spec: Says whether words need a leading space, and what the unknown piece is.
        longest: Pieces that are kept of a word. Only the first is ever read; the others are its context.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, longest: int) -> None:
        self._tokenizer = unbound(tokenizer)
        self._space = " " if spec.prefix_space else ""
        self._unknown = (spec.unk_id,)
        self._longest = longest
        self._marks = spec.case_marks
        self._cache: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> Pieces:
        found = self._look_up(words)
        counts = np.fromiter(map(len, found), np.int64, len(found))
        unknown = counts == 0
        if unknown.any():
            found = [pieces or self._unknown for pieces in found]
            counts[unknown] = 1
        bounds = np.zeros(len(found) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        return Pieces(np.fromiter(chain.from_iterable(found), np.int64, int(bounds[-1])), bounds, unknown)

    def _look_up(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        cache = self._cache
        with suppress(KeyError):
            return list(map(cache.__getitem__, words))
        missing = {word for word in words if word not in cache}
        if len(cache) + len(missing) > CACHED_WORDS:
            # A new cache, not an emptied one: another thread may be reading the old.
            cache = self._cache = {}
            missing = set(words)
        # Half a surrogate pair, which JSON can hold, is no text to a tokenizer: it becomes a question mark.
        texts = [f"{self._space}{plain(word)}".encode(errors="replace").decode() for word in missing]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        spelt = {
            word: self._marked(word, tuple(encoding.ids)) for word, encoding in zip(missing, encodings, strict=True)
        }
        cache.update((word, pieces) for word, pieces in spelt.items() if len(word) <= CACHED_LENGTH)
        return [spelt[word] if word in spelt else cache[word] for word in words]

    def _marked(self, word: str, pieces: tuple[int, ...]) -> tuple[int, ...]:
        """The pieces that are kept, and behind them, where nothing is read off, a mark of the word's capitals."""
        if not self._marks or not word[:1].isupper() or not pieces:
            return pieces[: self._longest]
        mark = self._marks[1] if len(word) > 1 and word.isupper() else self._marks[0]
        return (*pieces[: max(1, self._longest - 1)], mark)[: self._longest]
