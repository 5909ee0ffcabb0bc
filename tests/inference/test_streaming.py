"""Chunks of streams, read lazily or ahead."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from unire.inference.streaming import Chunker, Prefetcher


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_items_come_in_order_and_none_is_lost():
    assert list(Prefetcher(range(100))) == list(range(100))
    assert list(Prefetcher([])) == []
    assert list(Prefetcher([None, 1])) == [None, 1]


def test_the_next_item_is_made_while_the_present_one_is_used():
    made = []
    stream = Prefetcher(made.append(i) or i for i in range(3))
    assert next(stream) == 0
    wait_until(lambda: 1 in made)


def test_an_error_is_raised_at_its_item():
    def items():
        yield 1
        raise ValueError("no second item")

    stream = Prefetcher(items())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="no second item"):
        next(stream)


def test_closing_early_stops_the_thread_and_closes_the_source():
    closed = threading.Event()

    def items():
        try:
            yield from count()
        finally:
            closed.set()

    stream = Prefetcher(items())
    assert [next(stream), next(stream)] == [0, 1]
    stream.close()
    wait_until(lambda: not stream._thread.is_alive())
    assert closed.is_set()


def test_close_can_wait_for_the_thread_to_end():
    closed = []

    def items():
        try:
            yield from range(100)
        finally:
            time.sleep(0.2)
            closed.append(True)

    stream = Prefetcher(items())
    assert next(stream) == 0
    stream.close(wait=True)
    assert closed
    Prefetcher(items()).close(wait=True)  # no thread was ever begun


def test_closing_does_not_wait_for_a_blocked_source():
    blocked = threading.Event()

    def items():
        yield 1
        blocked.wait(10)

    inner = Prefetcher(items())
    outer = Prefetcher(item for item in inner)
    assert next(outer) == 1
    began = time.monotonic()
    inner.close()
    outer.close()
    wait_until(lambda: not outer._thread.is_alive())
    assert time.monotonic() - began < 5
    assert list(outer) == []
    blocked.set()


def test_a_stream_that_is_forgotten_stops():
    stream = Prefetcher(count())
    next(stream)
    (thread,) = (thread for thread in threading.enumerate() if thread is stream._thread)
    del stream
    wait_until(lambda: not thread.is_alive())


def test_a_stream_that_was_never_asked_is_closed_like_any_other():
    stream = Prefetcher([1])
    stream.close()
    assert list(stream) == []


def test_next_chunk_waits_for_one_item_or_not_at_all():
    let = threading.Event()

    def items():
        yield from "abc"
        let.wait(10)
        yield from "de"

    stream = Prefetcher(items(), max_size=100)
    assert stream.next_chunk(5, wait=True) == ["a", "b", "c"]
    assert stream.next_chunk(1, wait=False) == []
    let.set()
    wait_until(lambda: stream._buffer.ended)
    assert stream.next_chunk(1, wait=False) == ["d"]
    assert stream.next_chunk(100, wait=False) == ["e"]
    assert stream.next_chunk(1, wait=True) is None


def test_prefetching_stops_at_the_size_limit():
    made = []
    stream = Prefetcher((made.append(i) or i for i in range(100)), size=lambda i: 10, max_size=35)
    assert stream.next_chunk(1, wait=True) == [0]
    wait_until(lambda: len(made) == 5)
    time.sleep(0.05)
    assert len(made) == 5


@pytest.mark.parametrize(
    "source", [lambda items: Prefetcher(items, max_size=100), lambda items: Chunker(items, lambda item: 1)]
)
def test_items_before_an_error_are_yielded_before_it_is_raised(source):
    def items():
        yield from "abc"
        raise OSError("gone")

    stream = source(items())
    assert stream.next_chunk(2, wait=True) == ["a", "b"]
    assert stream.next_chunk(2, wait=True) == ["c"]
    with pytest.raises(OSError, match="gone"):
        stream.next_chunk(2, wait=True)


def test_the_first_chunk_is_small_and_items_are_computed_in_the_calling_thread():
    threads = set()
    stream = Chunker((threads.add(threading.get_ident()) or i for i in range(40)), lambda item: 1, first_size=2)
    assert [len(stream.next_chunk(15, wait=True)) for _ in range(4)] == [2, 15, 15, 8]
    assert stream.next_chunk(15, wait=True) is None
    assert threads == {threading.get_ident()}
