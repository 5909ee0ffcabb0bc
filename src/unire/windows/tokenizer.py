"""Words → tokens. Each word is tokenized separately, and its tokens are cached."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.config import EncoderSpec, copy_without_limits
from unire.model_files import explain_tokenizer_errors, max_growth_of
from unire.segmentation import normalize_word
from unire.utils import concat_ranges

__all__ = ["TokenizedWords", "WordTokenizer"]

MAX_CACHED_WORDS = 2**17
MAX_CACHED_CHARACTERS = 64
"""Length of the longest word that is cached. Longer words hardly ever occur twice."""
MAX_NORMALIZED_CHARACTERS = 2**22
"""Characters that the tokenizer reads at a time, as long as its normalizer may make them. Longer words are cut: of the
words that most tokenizers read, only those with more than 100,000 characters, of which the first few tokens count."""


@dataclass(frozen=True, eq=False)
class TokenizedWords:
    """The concatenated tokens of words. Every word has at least one."""

    ids: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Word `i` has the tokens `bounds[i]` to `bounds[i + 1]`."""
    unknown: NDArray[np.bool_]
    """Words without tokens. They get the unknown token."""

    def __len__(self) -> int:
        """Number of words."""
        return len(self.unknown)

    def of(self, start: int, end: int) -> NDArray[np.int64]:
        """The tokens of the words `start` to `end`."""
        return self.ids[self.bounds[start] : self.bounds[end]]

    def count(self, start: int, end: int) -> int:
        """The number of tokens of the words `start` to `end`."""
        return int(self.bounds[end] - self.bounds[start])


TOKENIZER_FAILS = "the tokenizer of the model fails"


class WordTokenizer:
    """Tokenizes words, with a cache. Several threads may use it.

    Treebank escapes of brackets and quotes are tokenized as the characters that they encode. So a model that was
    trained on Treebank words reads ordinary text in the same way.

    Args:
        tokenizer: The encoder's tokenizer.
        spec: Says whether words need a leading space, what the unknown token is, and whether capitals are marked.
        max_word_tokens: Tokens that are kept of a word. Its first token represents it; the others are context.
    """

    def __init__(self, tokenizer: Tokenizer, spec: EncoderSpec, max_word_tokens: int) -> None:
        with explain_tokenizer_errors(TOKENIZER_FAILS):
            self._tokenizer = copy_without_limits(tokenizer)
        self._space = " " if spec.prefix_space else ""
        self._unknown = spec.unk_id
        self._max_word_tokens = max_word_tokens
        self._case_marks = spec.case_marks
        self._max_characters = MAX_NORMALIZED_CHARACTERS // max_growth_of(tokenizer)
        self._reset()
        _TOKENIZERS.add(self)

    def __call__(self, words: Sequence[str]) -> TokenizedWords:
        with self._lock:
            try:
                return self._cache.look_up(words)
            except KeyError:
                missing = self._cache.find_missing(words)
        tokenized = self._tokenize(missing)  # takes longest, so other threads may use the cache meanwhile
        with self._lock:
            return self._add_and_look_up(words, tokenized)

    def _reset(self) -> None:
        self._cache = _TokenCache()
        self._lock = Lock()

    def _add_and_look_up(self, words: Sequence[str], tokenized: dict[str, list[int]]) -> TokenizedWords:
        """Look up words of which some are new."""
        try:
            n_cached = self._add(words, tokenized)
            tokens = self._cache.look_up(words)
            self._cache.truncate(n_cached)
        except BaseException:  # for example Ctrl-C: a half-filled cache would give wrong tokens from then on
            self._cache = _TokenCache()
            raise
        return tokens

    def _add(self, words: Sequence[str], tokenized: dict[str, list[int]]) -> int:
        """Add the words that are new; the number of all words in the cache that are to stay in it."""
        missing = self._cache.find_missing(words)
        if len(self._cache.positions) + len(missing) > MAX_CACHED_WORDS:
            self._cache.truncate(0)
            missing = self._cache.find_missing(words)
        missing.sort(key=lambda word: len(word) > MAX_CACHED_CHARACTERS)
        tokenized = tokenized | self._tokenize([word for word in missing if word not in tokenized])
        for word in missing:
            self._cache.add(word, tokenized[word] or [self._unknown], unknown=not tokenized[word])
        return len(self._cache.positions) - sum(len(word) > MAX_CACHED_CHARACTERS for word in missing)

    def _tokenize(self, words: Sequence[str]) -> dict[str, list[int]]:
        """The tokens of each word; some have none."""
        # Tokenizers refuse half of a surrogate pair, which JSON can hold: it becomes a question mark.
        texts = [
            f"{self._space}{normalize_word(word[: self._max_characters])}".encode(errors="replace").decode()
            for word in words
        ]
        tokens: list[list[int]] = []
        with explain_tokenizer_errors(TOKENIZER_FAILS):
            for batch in _split_by_length(texts, self._max_characters):
                encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
                tokens += [encoding.ids for encoding in encodings]
        return {word: self._mark_case(word, ids) for word, ids in zip(words, tokens, strict=True)}

    def _mark_case(self, word: str, tokens: list[int]) -> list[int]:
        """Cut the tokens, and append a mark if the word has capitals."""
        if not self._case_marks or not word[:1].isupper() or not tokens:
            return tokens[: self._max_word_tokens]
        mark = self._case_marks[1] if len(word) > 1 and word.isupper() else self._case_marks[0]
        return [*tokens[: max(1, self._max_word_tokens - 1)], mark][: self._max_word_tokens]


def _split_by_length(texts: Sequence[str], max_characters: int) -> Iterator[Sequence[str]]:
    """Split texts into batches of at most this number of characters, or of one longer text."""
    start = size = 0
    for position, text in enumerate(texts):
        if size and size + len(text) > max_characters:
            yield texts[start:position]
            start, size = position, 0
        size += len(text)
    yield texts[start:]


class _TokenCache:
    """Words and their tokens, concatenated in arrays, so that few calls gather those of many words."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self._ids = array("q")
        self._bounds = array("q", [0])
        self._unknown = array("b")

    def add(self, word: str, tokens: Sequence[int], *, unknown: bool) -> None:
        self.positions[word] = len(self.positions)
        self._ids.extend(tokens)
        self._bounds.append(len(self._ids))
        self._unknown.append(unknown)

    def look_up(self, words: Sequence[str]) -> TokenizedWords:
        """The tokens of words; a `KeyError` if one is missing."""
        positions = np.fromiter(map(self.positions.__getitem__, words), np.int64, len(words))
        if not len(positions):
            return TokenizedWords(positions, np.zeros(1, np.int64), positions.astype(bool))
        cached_bounds = np.frombuffer(self._bounds, np.int64)
        starts = cached_bounds[positions]
        sizes = cached_bounds[positions + 1] - starts
        bounds = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        ids = np.frombuffer(self._ids, np.int64)[concat_ranges(starts, sizes)]
        return TokenizedWords(ids, bounds, np.frombuffer(self._unknown, np.bool_)[positions])

    def find_missing(self, words: Sequence[str]) -> list[str]:
        """The words that are not in the cache, once each."""
        return [word for word in dict.fromkeys(words) if word not in self.positions]

    def truncate(self, count: int) -> None:
        """Keep the first `count` words."""
        while len(self.positions) > count:
            self.positions.popitem()
        del self._ids[self._bounds[count] :], self._bounds[count + 1 :], self._unknown[count:]


_TOKENIZERS: WeakSet[WordTokenizer] = WeakSet()


def _reset_after_fork() -> None:
    """Replace the locks that another thread held when this process was forked: that thread does not exist here."""
    for tokenizer in _TOKENIZERS:
        if tokenizer._lock.locked():
            tokenizer._reset()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_reset_after_fork)
