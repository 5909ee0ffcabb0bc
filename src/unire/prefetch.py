"""The next item is made while the present one is used."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import TypeVar

__all__ = ["Ahead"]

T = TypeVar("T")

POLL = 0.1
"""Seconds after which a thread that waits looks whether it still should."""


class Ahead(Iterator[T]):
    """The items in order, made in a thread while their predecessors are being used.

    Whoever stops early calls `close`. An item may never come (a terminal that says nothing more), so the thread that
    makes it is not waited for.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._made: Queue[tuple[T] | BaseException | None] = Queue(maxsize=1)
        self._stopped = threading.Event()
        # The thread knows nothing of this object, so that it can be forgotten, which stops the thread.
        self._thread = threading.Thread(
            target=_make, args=(items, self._made, self._stopped), name="unire-ahead", daemon=True
        )

    def __next__(self) -> T:
        if self._thread.ident is None:
            self._thread.start()
        while not self._stopped.is_set():
            with suppress(Empty):
                made = self._made.get(timeout=POLL)
                if isinstance(made, tuple):
                    return made[0]
                self._stopped.set()
                if made is not None:
                    raise made
        raise StopIteration

    @property
    def ready(self) -> bool:
        """Whether the next item, or the end, can be had without waiting."""
        return self._stopped.is_set() or not self._made.empty()

    def close(self) -> None:
        """Make no more items; any thread may say so. The one in the making is not waited for."""
        self._stopped.set()

    def __del__(self) -> None:
        self._stopped.set()


def _make(items: Iterable[T], made: Queue[tuple[T] | BaseException | None], stopped: threading.Event) -> None:
    def put(item: tuple[T] | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                return made.put(item, timeout=POLL)
        return None

    try:
        for item in items:
            put((item,))
            if stopped.is_set():
                break
        put(None)
    except BaseException as error:  # whoever asks for the item is to know
        put(error)
    finally:
        if isinstance(items, Generator):
            items.close()
