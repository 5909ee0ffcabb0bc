"""Chunks of a stream of documents, read lazily by the caller's thread or ahead by a background thread.

Both sources return the items they have before they raise an error. An unreadable item loses none of those before it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

from unire.documents import Document

__all__ = [
    "ChunkSource",
    "Chunker",
    "Prefetcher",
    "chunk_characters",
    "chunk_weight",
    "iter_chunks",
    "iter_runs",
    "to_chunk_source",
]

T = TypeVar("T")

CHUNK_CHARACTERS = 2**17
"""Characters of the documents that are bucketed into batches together, for an engine of `ENGINE_TOKENS` or less."""
ENGINE_TOKENS = 2**16
"""An engine that takes k times as many tokens in a batch gets chunks of k times as many characters."""
MIN_DOCUMENT_CHARACTERS = 2**7
"""A shorter document counts as this many characters, because each document has a constant cost."""
FIRST_CHUNK_FRACTION = 1 / 32
"""Size of the first chunk of a stream. Later chunks grow, so that the first results come soon."""
CHUNK_GROWTH = 16
POLL_SECONDS = 0.5
"""A waiting thread wakes up this often, because on some platforms a signal does not interrupt the wait."""
GATHER_SECONDS = 0.05
"""After the first item has come, a consumer without other work waits this long for a full chunk."""


class ChunkSource(Protocol[T]):
    """A source of items that returns them in chunks."""

    def next_chunk(self, size: int, *, wait: bool) -> list[T] | None:
        """Return the next items, of total size `size` or a little more, or fewer at the end; `None` after the end.

        Args:
            size: Total size to aim for.
            wait: Wait for at least one item. Otherwise return an empty list unless a full chunk is ready.
        """

    def close(self) -> None:
        """Stop reading."""


class Chunker(Generic[T]):
    """Reads items in the thread that requests them, which always waits.

    Args:
        items: The items.
        size: Size of an item.
        first_size: Largest size of the first chunk. The limit grows by `CHUNK_GROWTH` from chunk to chunk.
    """

    def __init__(self, items: Iterable[T], size: Callable[[T], int], first_size: int | None = None) -> None:
        self._items = iter(items)
        self._size = size
        self._max_size = first_size
        self._error: Exception | None = None

    def next_chunk(self, size: int, *, wait: bool) -> list[T] | None:
        if self._error:
            raise self._error
        if self._max_size is not None:
            size, self._max_size = min(size, self._max_size), CHUNK_GROWTH * self._max_size
        chunk: list[T] = []
        total = 0
        try:
            for item in self._items:
                chunk.append(item)
                total += self._size(item)
                if total >= size:
                    break
        except Exception as error:
            if not chunk:
                raise
            self._error = error
        return chunk or None

    def close(self) -> None:
        if isinstance(self._items, Generator):
            self._items.close()


class Prefetcher(Iterator[T]):
    """Reads items ahead in a background thread. Consumers take them in chunks or one by one.

    A consumer that stops early calls `close`. The thread is a daemon and is not joined by default, because an item may
    never come, for example from a terminal.

    Args:
        items: Iterated by the thread.
        size: Size of an item.
        max_size: The thread pauses while the items that wait have this total size.
    """

    def __init__(self, items: Iterable[T], size: Callable[[T], int] = lambda item: 1, max_size: int = 2) -> None:
        self._buffer = _Buffer[T](max_size)
        # The thread holds no reference to this object. So garbage collection of this object stops the thread.
        self._thread = threading.Thread(
            target=_fill, args=(items, size, self._buffer), name="unire-prefetch", daemon=True
        )

    def next_chunk(self, size: int, *, wait: bool) -> list[T] | None:
        if self._thread.ident is None:
            self._thread.start()
        buffer = self._buffer
        with buffer.changed:
            if wait:
                while not buffer.items and not buffer.ended:
                    buffer.changed.wait(POLL_SECONDS)
                buffer.changed.wait_for(lambda: buffer.has_chunk(size), GATHER_SECONDS)
            elif not buffer.has_chunk(size):
                return []
            if buffer.items:
                return buffer.pop_chunk(size)
            if buffer.error:
                raise buffer.error
            return None

    def __next__(self) -> T:
        chunk = self.next_chunk(1, wait=True)
        if chunk is None:
            raise StopIteration
        return chunk[0]

    def close(self, *, wait: bool = False) -> None:
        """Stop reading and drop the items that wait. Any thread may call this.

        Args:
            wait: Join the thread, so that it has released its iterator. Only for items that are sure to come.
        """
        self._buffer.clear()
        if wait and self._thread.ident is not None:
            self._thread.join()

    def __del__(self) -> None:
        self._buffer.end()


class _Buffer(Generic[T]):
    """Items that the thread has read and the consumer has not taken."""

    def __init__(self, max_size: int) -> None:
        self.changed = threading.Condition()
        self.items: deque[tuple[T, int]] = deque()
        self.size = 0
        self.max_size = max_size
        self.ended = False
        self.error: BaseException | None = None

    def has_chunk(self, size: int) -> bool:
        """Whether a chunk of this size is ready, or the last one, or as much as the buffer holds."""
        return self.size >= min(size, self.max_size) or self.ended

    def put(self, item: T, size: int) -> bool:
        """Add an item and wait until there is space for another. Return False once the buffer has ended."""
        with self.changed:
            if self.ended:
                return False
            self.items.append((item, size))
            self.size += size
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.size < self.max_size or self.ended)
            return not self.ended

    def pop_chunk(self, size: int) -> list[T]:
        chunk: list[T] = []
        total = 0
        while self.items and total < size:
            item, item_size = self.items.popleft()
            chunk.append(item)
            total += item_size
        self.size -= total
        self.changed.notify_all()
        return chunk

    def clear(self) -> None:
        with self.changed:
            self.items.clear()
            self.size = 0
            self.ended = True
            self.changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        with self.changed:
            self.ended = True
            self.error = self.error or error
            self.changed.notify_all()


def _fill(items: Iterable[T], size: Callable[[T], int], buffer: _Buffer[T]) -> None:
    """Body of the background thread."""
    stream: Iterator[T] = iter(items)
    try:
        for item in stream:
            if not buffer.put(item, size(item)):
                break
        buffer.end()
    except BaseException as error:  # the consumer raises it
        buffer.end(error)
    finally:
        if isinstance(stream, Generator):
            stream.close()


def iter_runs(source: ChunkSource[T], size: int) -> Iterator[Iterator[list[T]]]:
    """Yield runs of chunks: the first chunk of a run may be waited for, the others are ready.

    Within a run, an engine reads ahead: to keep batches in flight, it takes the next chunk before the last batches of
    this one are decoded. At the end of a run nothing is in flight. So all results of what was read are out before the
    consumer waits for input, which may be long in coming.
    """
    while (chunk := source.next_chunk(size, wait=True)) is not None:
        yield chain([chunk], _iter_ready_chunks(source, size))


def _iter_ready_chunks(source: ChunkSource[T], size: int) -> Iterator[list[T]]:
    while chunk := source.next_chunk(size, wait=False):
        yield chunk


def iter_chunks(
    documents: Iterable[Document] | ChunkSource[Document], max_batch_tokens: int
) -> Iterator[list[Document]]:
    """Yield the chunks in which an engine with batches of `max_batch_tokens` reads a stream."""
    return chain.from_iterable(iter_runs(to_chunk_source(documents), chunk_characters(max_batch_tokens)))


def chunk_characters(max_batch_tokens: int) -> int:
    """Characters of a chunk for an engine with batches of `max_batch_tokens`."""
    return CHUNK_CHARACTERS * max(1, max_batch_tokens // ENGINE_TOKENS)


def chunk_weight(document: Document) -> int:
    """What a document counts towards the size of a chunk: its characters, or more if it is very short."""
    return max(MIN_DOCUMENT_CHARACTERS, len(document.text))


def to_chunk_source(documents: Iterable[Document] | ChunkSource[Document]) -> ChunkSource[Document]:
    """Return a source that already returns chunks as it is; read anything else in the caller's thread."""
    if isinstance(documents, Iterable) and not isinstance(documents, Prefetcher):
        return Chunker(documents, chunk_weight, first_size=int(CHUNK_CHARACTERS * FIRST_CHUNK_FRACTION))
    return documents
