"""The next item is made while the present one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in order, each made in a thread while its predecessor is being used."""
    stream = iter(items)
    end = object()
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, stream, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, stream, end)
            yield item  # type: ignore[misc]
