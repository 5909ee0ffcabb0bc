"""The next item is made while the present one is used."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from queue import Queue
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in order, each made in a thread while its predecessor is being used.

    Whoever stops early does not wait for the item in the making, which may depend on a terminal that says nothing
    more; the thread ends when it is made.
    """
    made: Queue[tuple[T] | BaseException | None] = Queue(maxsize=1)
    stopped = threading.Event()

    def make() -> None:
        try:
            for item in items:
                made.put((item,))
                if stopped.is_set():
                    return
            made.put(None)
        except BaseException as error:  # whoever asks for the item is to know
            made.put(error)
        finally:
            if isinstance(items, Generator):
                items.close()

    threading.Thread(target=make, name="unire-ahead", daemon=True).start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stopped.set()
        while not made.empty():  # the thread may be waiting for room
            made.get_nowait()
