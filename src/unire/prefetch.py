"""Items of a stream, some at a time: as they are asked for, or made by a thread while others are used.

Both give what they have before they tell of an error, so that an item which cannot be made does not lose those before
it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["ChunkSource", "Chunker", "Prefetcher"]

T = TypeVar("T")

POLL = 0.5
"""Seconds after which somebody who waits can be interrupted, where a signal does not do it."""
PATIENCE = 0.05
"""Seconds for which somebody who has nothing else to do waits for more than one item."""


class ChunkSource(Protocol[T]):
    """What gives items, a few or many at a time."""

    def take(self, enough: int, *, wait: bool) -> list[T] | None:
        """The next items, `enough` of them by size or a little more, or as many as there are; `None` at the end.

        Args:
            enough: What to aim for.
            wait: Whether to wait for an item. Otherwise none are given where there are not enough yet.
        """

    def close(self) -> None:
        """Make no more items."""


class Chunker(Generic[T]):
    """Items that are made when they are asked for, by the thread that asks.

    Args:
        items: Where they come from.
        size: What an item counts.
        first: What is enough at first; then sixteen times that, and so on. So the first results come soon.
    """

    def __init__(self, items: Iterable[T], size: Callable[[T], int], first: int | None = None) -> None:
        self._items = iter(items)
        self._size = size
        self._most = first
        self._error: Exception | None = None

    def take(self, enough: int, *, wait: bool) -> list[T] | None:
        if self._error:
            raise self._error
        if self._most is not None:
            enough, self._most = min(enough, self._most), 16 * self._most
        taken: list[T] = []
        total = 0
        try:
            for item in self._items:
                taken.append(item)
                total += self._size(item)
                if total >= enough:
                    break
        except Exception as error:
            if not taken:
                raise
            self._error = error
        return taken or None

    def close(self) -> None:
        if isinstance(self._items, Generator):
            self._items.close()


class Prefetcher(Iterator[T]):
    """Items that a thread makes ahead of those who take them, some at a time or one by one.

    Whoever stops early calls `close`. An item may never come (a terminal that says nothing more), so the thread that
    makes it is not waited for.

    Args:
        items: What the thread goes through.
        size: What an item counts.
        room: How much is made ahead: no further item once there is so much.
    """

    def __init__(self, items: Iterable[T], size: Callable[[T], int] = lambda item: 1, room: int = 2) -> None:
        self._made = _Made[T]()
        # The thread knows nothing of this object, so that it can be forgotten, which stops the thread.
        self._thread = threading.Thread(
            target=_make, args=(items, size, room, self._made), name="unire-ahead", daemon=True
        )

    def take(self, enough: int, *, wait: bool) -> list[T] | None:
        if self._thread.ident is None:
            self._thread.start()
        made = self._made
        with made.changed:
            if wait:
                while not made.items and not made.ended:
                    made.changed.wait(POLL)
                made.changed.wait_for(lambda: made.size >= enough or made.ended, PATIENCE)
            elif made.size < enough and not made.ended:
                return []
            if made.items:
                return made.taken(enough)
            if made.error:
                raise made.error
            return None

    def __next__(self) -> T:
        taken = self.take(1, wait=True)
        if taken is None:
            raise StopIteration
        return taken[0]

    def close(self, *, wait: bool = False) -> None:
        """Make no more items, and forget those that were not taken; any thread may say so.

        Args:
            wait: Until the thread has ended, and has let go of what it went through: for items that are sure to come.
        """
        self._made.forget()
        if wait and self._thread.ident is not None:
            self._thread.join()

    def __del__(self) -> None:
        self._made.end()


class _Made(Generic[T]):
    """What a thread has made and nobody has taken yet."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.items: deque[tuple[T, int]] = deque()
        self.size = 0
        self.ended = False
        self.error: BaseException | None = None

    def put(self, item: T, size: int, room: int) -> bool:
        """Add an item, and wait until there is room for another; whether there will be."""
        with self.changed:
            if self.ended:
                return False
            self.items.append((item, size))
            self.size += size
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.size < room or self.ended)
            return not self.ended

    def taken(self, enough: int) -> list[T]:
        taken: list[T] = []
        total = 0
        while self.items and total < enough:
            item, size = self.items.popleft()
            taken.append(item)
            total += size
        self.size -= total
        self.changed.notify_all()
        return taken

    def forget(self) -> None:
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


def _make(items: Iterable[T], size: Callable[[T], int], room: int, made: _Made[T]) -> None:
    stream: Iterator[T] = iter(items)
    try:
        for item in stream:
            if not made.put(item, size(item), room):
                break
        made.end()
    except BaseException as error:  # whoever asks for the item is to know
        made.end(error)
    finally:
        if isinstance(stream, Generator):
            stream.close()
