"""Words → tokens, each word by itself."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec, unbound
from unire.segmentation import plain
from unire.utils import concat_ranges

__all__ = ["TokenizedWords", "WordTokenizer"]

CACHED_WORDS = 2**17
CACHED_LENGTH = 64
"""Characters of the longest word that is remembered: whatever is longer is seen once."""


@dataclass(frozen=True, eq=False)
class TokenizedWords:
    """The tokens of some words, end to end. Every word has at least one."""

    ids: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Word `i` has the tokens `bounds[i]` to `bounds[i + 1]`."""
    unknown: NDArray[np.bool_]
    """Words of which the tokenizer left nothing: they have the unknown token."""

    def __len__(self) -> int:
        """Number of words."""
        return len(self.unknown)

    def of(self, start: int, end: int) -> NDArray[np.int64]:
        """The tokens of the words `start` to `end`."""
        return self.ids[self.bounds[start] : self.bounds[end]]

    def count(self, start: int, end: int) -> int:
        """How many tokens the words `start` to `end` have."""
        return int(self.bounds[end] - self.bounds[start])


class WordTokenizer:
    """Spells words, and remembers those that it has seen.

    An escaped bracket or quote is spelt as the character that it stands for, so that a model which was trained on
    Treebank words reads ordinary text as it was taught.

    Args:
        tokenizer: The encoder's.
        spec: Says whether words need a leading space, and what the unknown token is.
        longest: Tokens that are kept of a word. Only the first is ever read; the others are its context.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, longest: int) -> None:
        self._tokenizer = unbound(tokenizer)
        self._space = " " if spec.prefix_space else ""
        self._unknown = spec.unk_id
        self._longest = longest
        self._marks = spec.case_marks
        self._begin_anew()
        _TOKENIZERS.add(self)

    def __call__(self, words: Sequence[str]) -> TokenizedWords:
        with self._lock:
            try:
                return self._known.of(words)
            except KeyError:
                missing = self._known.missing(words)
        spelt = self._spelt(missing)  # takes longest, so that other threads go on meanwhile
        with self._lock:
            return self._learnt(words, spelt)

    def _begin_anew(self) -> None:
        self._known = _Spellings()
        self._lock = Lock()

    def _learnt(self, words: Sequence[str], spelt: dict[str, list[int]]) -> TokenizedWords:
        """The tokens of words of which some are new."""
        try:
            remembered = self._learn(words, spelt)
            tokens = self._known.of(words)
            self._known.forget_after(remembered)
        except BaseException:  # Ctrl-C, say: a table that was left half filled would be wrong from then on
            self._known = _Spellings()
            raise
        return tokens

    def _learn(self, words: Sequence[str], spelt: dict[str, list[int]]) -> int:
        """Add the words that are new, and say how many of all known ones are to be remembered."""
        missing = self._known.missing(words)
        if len(self._known.places) + len(missing) > CACHED_WORDS:
            self._known.forget_after(0)
            missing = self._known.missing(words)
        missing.sort(key=lambda word: len(word) > CACHED_LENGTH)
        spelt = spelt | self._spelt([word for word in missing if word not in spelt])  # those that were forgotten
        for word in missing:
            self._known.add(word, spelt[word] or [self._unknown], unknown=not spelt[word])
        return len(self._known.places) - sum(len(word) > CACHED_LENGTH for word in missing)

    def _spelt(self, words: Sequence[str]) -> dict[str, list[int]]:
        """The tokens of each word; of some there are none."""
        # Half a surrogate pair, which JSON can hold, is no text to a tokenizer: it becomes a question mark.
        texts = [f"{self._space}{plain(word)}".encode(errors="replace").decode() for word in words]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return {word: self._marked(word, encoding.ids) for word, encoding in zip(words, encodings, strict=True)}

    def _marked(self, word: str, tokens: list[int]) -> list[int]:
        """The tokens that are kept, and behind them, where nothing is read off, a mark of the word's capitals."""
        if not self._marks or not word[:1].isupper() or not tokens:
            return tokens[: self._longest]
        mark = self._marks[1] if len(word) > 1 and word.isupper() else self._marks[0]
        return [*tokens[: max(1, self._longest - 1)], mark][: self._longest]


class _Spellings:
    """Words and their tokens, which lie end to end in tables: so those of many words are gathered by few calls."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self._ids = array("q")
        self._bounds = array("q", [0])
        self._unknown = array("b")

    def add(self, word: str, tokens: Sequence[int], *, unknown: bool) -> None:
        self.places[word] = len(self.places)
        self._ids.extend(tokens)
        self._bounds.append(len(self._ids))
        self._unknown.append(unknown)

    def of(self, words: Sequence[str]) -> TokenizedWords:
        """The tokens of words that were added; a `KeyError` where one was not."""
        places = np.fromiter(map(self.places.__getitem__, words), np.int64, len(words))
        if not len(places):
            return TokenizedWords(places, np.zeros(1, np.int64), places.astype(bool))
        known = np.frombuffer(self._bounds, np.int64)
        starts = known[places]
        sizes = known[places + 1] - starts
        bounds = np.zeros(len(places) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        ids = np.frombuffer(self._ids, np.int64)[concat_ranges(starts, sizes)]
        return TokenizedWords(ids, bounds, np.frombuffer(self._unknown, np.bool_)[places])

    def missing(self, words: Sequence[str]) -> list[str]:
        """Those that were not added, once each."""
        return [word for word in dict.fromkeys(words) if word not in self.places]

    def forget_after(self, count: int) -> None:
        """Keep the words that were added first."""
        while len(self.places) > count:
            self.places.popitem()
        del self._ids[self._bounds[count] :], self._bounds[count + 1 :], self._unknown[count:]


_TOKENIZERS: WeakSet[WordTokenizer] = WeakSet()


def _after_fork() -> None:
    """Let go of what another thread held as this process was forked: that thread is not here to give it back."""
    for tokenizer in _TOKENIZERS:
        if tokenizer._lock.locked():
            tokenizer._begin_anew()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
