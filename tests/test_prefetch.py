"""One item ahead."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from unire.prefetch import ahead


def threads() -> int:
    return sum(thread.name == "unire-ahead" for thread in threading.enumerate())


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_items_come_in_order_and_none_is_lost():
    assert list(ahead(range(100))) == list(range(100))
    assert list(ahead([])) == []
    assert list(ahead([None, 1])) == [None, 1]


def test_the_next_item_is_made_while_the_present_one_is_used():
    made = []
    stream = ahead(made.append(i) or i for i in range(3))
    assert next(stream) == 0
    wait_until(lambda: 1 in made)


def test_an_error_reaches_whoever_asks_for_the_item():
    def items():
        yield 1
        raise ValueError("no second item")

    stream = ahead(items())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="no second item"):
        next(stream)


def test_whoever_stops_early_stops_the_thread_and_closes_what_it_reads():
    closed = threading.Event()

    def items():
        try:
            yield from count()
        finally:
            closed.set()

    before = threads()
    stream = ahead(items())
    assert [next(stream), next(stream)] == [0, 1]
    stream.close()
    assert closed.wait(10)
    wait_until(lambda: threads() == before)


def test_nobody_waits_for_an_item_that_may_never_come():
    blocked = threading.Event()

    def items():
        yield 1
        blocked.wait(10)

    stream = ahead(items())
    next(stream)
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < 5
    blocked.set()
