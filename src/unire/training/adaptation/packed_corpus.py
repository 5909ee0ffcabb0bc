"""Plain text as rows of packed tokens. Threads tokenize it while the training already uses the first rows."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer

from unire.config import copy_without_limits
from unire.segmentation import JOINTS, LETTER, SIGNS, WORD, split_word
from unire.training.text_corpus import no_text, read_texts

__all__ = ["PackedCorpus"]

SHARD_CHARACTERS = 1 << 30
"""Characters of text that are read into memory and shuffled together."""
CHUNK_DOCUMENTS = 256
"""Documents that a thread tokenizes in one call."""

_WORD = re.compile(
    rf"(?=[^a-z\s!-@\[-`{{-~])(?<!{LETTER})(?<!{LETTER}[{JOINTS}])(?<![{SIGNS}])(?:{WORD.pattern})", re.VERBOSE
)
"""Words of `segment` that may begin with a capital. The lookahead skips all other words at their first letter."""


class PackedCorpus:
    """An endless sequence of rows of `length` tokens, without padding.

    Documents are shuffled and joined, each followed by `suffix`. The result is cut into rows, and each row is put
    between `prefix` and `suffix`. A row may have parts of several documents. The first pass uses the rows in this
    order; every later pass shuffles them again. Row n is the same in every run with the same seed, so a number is
    enough to resume.

        with PackedCorpus(files, tokenizer, prefix=(0,), suffix=(2,), length=256) as corpus:
            corpus.rows(0, 64)  # [64, 256]

    Args:
        files: Text files with one document per line.
        tokenizer: The tokenizer of the encoder.
        prefix: Special tokens at the start of a row.
        suffix: Special tokens at the end of a row and of a document.
        length: Tokens of a row, including special tokens.
        seed: Seed of the shuffling.
        case_marks: The tokens that mark a capital and a word in capitals, for an uncased encoder. They follow the word,
            as in `windows/`. Text is not split into sentences, so an initial at the end of one keeps its full stop.
    """

    def __init__(
        self,
        files: Sequence[Path],
        tokenizer: Tokenizer,
        *,
        prefix: tuple[int, ...],
        suffix: tuple[int, ...],
        length: int,
        seed: int = 0,
        case_marks: tuple[int, ...] = (),
    ) -> None:
        self.files = files
        self.prefix = prefix
        self.suffix = suffix
        self.length = length
        self.seed = seed
        self._tokenizer = copy_without_limits(tokenizer)
        self._marks = [tokenizer.id_to_token(mark) for mark in case_marks]
        self._tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in self._marks])
        dtype = np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.int32
        self._store: NDArray[Any] = np.empty((1024, length - len(prefix) - len(suffix)), dtype)
        self._stored = 0
        self._complete = False
        self._closed = False
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._fill, name="tokenizing", daemon=True)
        self._thread.start()

    def __enter__(self) -> PackedCorpus:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop tokenizing."""
        self._closed = True
        self._thread.join()

    @property
    def pass_rows(self) -> int | None:
        """Rows of one pass over the text; `None` until all of it is tokenized."""
        return self._stored if self._complete else None

    def rows(self, start: int, count: int) -> NDArray[np.int32]:
        """Rows `start` to `start + count` of the endless sequence. Waits until they are tokenized.

        Raises:
            UnireError: A file cannot be read, or there is no text in any of them.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stored >= start + count or self._complete or self._error)
            if self._error:
                raise self._error
            rows = np.empty((count, self.length), np.int32)
            rows[:, : len(self.prefix)] = self.prefix
            rows[:, self.length - len(self.suffix) :] = self.suffix
            rows[:, len(self.prefix) : self.length - len(self.suffix)] = self._store[self._row_indices(start, count)]
            return rows

    def _row_indices(self, start: int, count: int) -> NDArray[np.int64]:
        """Where these rows of the endless sequence are stored."""
        numbers = np.arange(start, start + count)
        if not self._complete:
            return numbers
        passes, places = np.divmod(numbers, self._stored)
        for repeat in np.unique(passes[passes > 0]):
            places[passes == repeat] = _order(self._stored, self.seed, int(repeat))[places[passes == repeat]]
        return places

    def _fill(self) -> None:
        """Read, shuffle, tokenize and pack the text. `rows` raises any error."""
        # not the threads of the tokenizer, which are idle if TOKENIZERS_PARALLELISM=false
        threads = ThreadPoolExecutor(thread_name_prefix="tokenizing")
        try:
            rest = np.empty(0, self._store.dtype)
            shuffle = random.Random(self.seed).shuffle  # noqa: S311
            for shard in _shards(takewhile(lambda _: not self._closed, read_texts(self.files))):
                shuffle(shard)
                chunks = (shard[first : first + CHUNK_DOCUMENTS] for first in range(0, len(shard), CHUNK_DOCUMENTS))
                for tokens in threads.map(self._tokenize, chunks):
                    if self._closed:
                        return
                    rest = self._append(np.concatenate([rest, tokens]))
            if len(rest):
                self._append(np.resize(rest, self._store.shape[1]))  # the last row is filled by repeating it
            if not self._stored:
                raise no_text(self.files)
            with self._changed:
                self._complete = True
                self._changed.notify_all()
        except Exception as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
        finally:
            threads.shutdown(cancel_futures=True)

    def _tokenize(self, documents: list[str]) -> NDArray[Any]:
        texts = [_WORD.sub(self._mark_word, text) for text in documents] if self._marks else documents
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids = chain.from_iterable(chain(encoding.ids, self.suffix) for encoding in encodings)
        return np.fromiter(ids, self._store.dtype)

    def _mark_word(self, match: re.Match[str]) -> str:
        """Split a word as `segment` does, and add the case marks that `windows/` would add."""
        return "".join(map(self._with_mark, split_word(match[0])))

    def _with_mark(self, word: str) -> str:
        if not word[0].isupper():
            return word
        capital, all_capitals = self._marks
        return f"{word} {all_capitals if len(word) > 1 and word.isupper() else capital} "

    def _append(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """Store the full rows of `tokens` and return the rest."""
        width = self._store.shape[1]
        count = len(tokens) // width
        end = self._stored + count
        with self._changed:
            if end > len(self._store):
                self._store = np.concatenate([self._store, np.empty((end, width), self._store.dtype)])
            self._store[self._stored : end] = tokens[: count * width].reshape(count, width)
            self._stored = end
            self._changed.notify_all()
        return tokens[count * width :]


@lru_cache(maxsize=2)
def _order(rows: int, seed: int, repeat: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, repeat)).permutation(rows)


def _shards(documents: Iterable[str]) -> Iterator[list[str]]:
    """Documents in lists that fit into memory."""
    shard: list[str] = []
    size = 0
    for document in documents:
        shard.append(document)
        size += len(document)
        if size >= SHARD_CHARACTERS:
            yield shard
            shard, size = [], 0
    yield shard
