"""Batching: who asks together is computed together, nobody waits without end, and nothing accepted is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.server import until
from unire.errors import UnireError
from unire.serving.batcher import QUIET_SECONDS, Batcher, ClosedError, FullError
from unire.serving.limits import ServingLimits


class Held:
    """Computes squares, and only when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: list[int], wanted: Callable[[], bool]) -> list[int]:
        self.batches.append(list(items))
        self.wanted = wanted
        self.let.wait(20)
        return [item * item for item in items]


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def batcher(held):
    batcher = Batcher(
        held,
        lambda item: 1,
        ServingLimits(queue_requests=4, client_percent=100, batch_tokens=3, wait_seconds=0.02, workers=1),
    )
    yield batcher
    held.let.set()
    batcher.close()


def busy(batcher: Batcher, held: Held) -> Future:
    """Give it something to be busy with."""
    future = batcher.submit([0])
    until(lambda: held.batches)
    return future


def test_requests_that_arrive_during_a_batch_form_the_next_ones(batcher, held):
    futures = [busy(batcher, held), *(batcher.submit([i]) for i in range(1, 5))]
    held.let.set()
    assert [future.result(20)[0] for future in futures] == [0, 1, 4, 9, 16]
    assert held.batches == [[0], [1, 2, 3], [4]]


def test_callers_at_the_same_time_share_a_batch():
    held = Held()
    held.let.set()
    batcher = Batcher(held, lambda item: 1, ServingLimits(wait_seconds=0.5))
    with ThreadPoolExecutor(16) as pool:
        barrier = threading.Barrier(16)

        def ask(item: int) -> int:
            barrier.wait()
            return batcher.submit([item]).result(20)[0]

        assert list(pool.map(ask, range(16))) == [i * i for i in range(16)]
    batcher.close()
    assert len(held.batches) < 8


@pytest.mark.slow
def test_while_a_batch_runs_the_next_one_waits_for_more_requests(held):
    batcher = Batcher(held, lambda item: 1, ServingLimits(wait_seconds=0.5, workers=2))
    busy(batcher, held)
    batcher.submit([1])
    time.sleep(10 * QUIET_SECONDS)  # an idle batcher would have begun by now
    batcher.submit([2])
    until(lambda: len(held.batches) == 2)
    assert held.batches == [[0], [1, 2]]
    held.let.set()
    batcher.close()


@pytest.mark.slow
def test_simultaneous_requests_are_shared_among_the_threads(held):
    batcher = Batcher(held, lambda item: 1, ServingLimits(wait_seconds=0.5, workers=2))
    futures = [batcher.submit([i]) for i in range(8)]
    until(lambda: len(held.batches) == 2)
    assert held.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    held.let.set()
    assert [future.result(20)[0] for future in futures] == [i * i for i in range(8)]
    batcher.close()


def test_an_item_of_no_size_is_computed_too():
    batcher = Batcher(lambda items, wanted: items, lambda item: 0)
    assert batcher.submit([1]).result(20) == [1]
    assert batcher.submit([2]).result(20) == [2]
    batcher.close()


def test_one_caller_hardly_waits_for_others():
    batcher = Batcher(lambda items, wanted: items, lambda item: 1, ServingLimits(wait_seconds=5))
    started = time.monotonic()
    assert batcher.submit([1]).result(20) == [1]
    assert time.monotonic() - started < 1
    batcher.close()


def test_a_full_queue_refuses_and_says_when_to_ask_again(batcher, held):
    busy(batcher, held)
    waiting = [batcher.submit([i]) for i in range(4)]
    assert batcher.n_waiting == 4
    with pytest.raises(FullError) as refused:
        batcher.submit([5])
    assert refused.value.seconds == 1
    held.let.set()
    assert [future.result(20)[0] for future in waiting] == [0, 1, 4, 9]
    assert batcher.submit([6]).result(20) == [36]


@pytest.mark.slow
def test_a_queue_that_would_take_longer_than_half_of_the_timeout_is_full():
    def slow(items: list[int], wanted: Callable[[], bool]) -> list[int]:
        time.sleep(0.4)
        return items

    limits = ServingLimits(timeout_seconds=4, client_percent=100, batch_tokens=100, workers=1)
    batcher = Batcher(slow, lambda item: 100, limits)
    batcher.submit([0]).result(20)  # now it is known that 100 take 0.4 s
    for i in range(3):
        batcher.submit([i])
    with pytest.raises(FullError) as refused:
        [batcher.submit([i]) for i in range(3)]
    assert 1 <= refused.value.seconds <= 2
    batcher.close()


@pytest.mark.slow
def test_a_small_request_is_accepted_behind_large_ones():
    """Large requests in the queue do not delay it."""

    def slow(items: list[int], wanted: Callable[[], bool]) -> list[int]:
        time.sleep(0.2)
        return items

    limits = ServingLimits(timeout_seconds=20, client_percent=100, batch_tokens=10, wait_seconds=0, workers=2)
    batcher = Batcher(slow, lambda item: item, limits)
    batcher.speed.start(50)
    large = [batcher.submit([40] * 5) for _ in range(2)]
    with pytest.raises(FullError) as refused:
        batcher.submit([40] * 5)
    assert 5 <= refused.value.seconds <= 6
    small = [batcher.submit([1]) for _ in range(8)]
    for future in small:
        assert future.result(20) == [1]
    assert batcher.submit([1]).result(20) == [1]
    for future in large:
        assert future.result(20) == [40] * 5
    batcher.close()


def test_a_request_cancelled_in_the_queue_is_never_computed(batcher, held):
    busy(batcher, held)
    futures = [batcher.submit([i]) for i in (1, 2, 3, 4)]
    assert futures[1].cancel()
    assert batcher.n_waiting == 3
    batcher.submit([5])  # the queue has space again
    held.let.set()
    assert futures[3].result(20) == [16]
    batcher.close()
    assert 2 not in [item for batch in held.batches for item in batch]


def test_a_request_cancelled_during_its_batch_is_marked_as_unwanted(batcher, held):
    first = busy(batcher, held)
    assert held.wanted()
    assert first.cancel()
    assert not held.wanted()
    held.let.set()
    assert batcher.submit([3]).result(20) == [9]


def test_a_batch_is_wanted_as_long_as_one_of_its_callers_waits(batcher, held):
    busy(batcher, held)
    futures = [batcher.submit([i]) for i in (1, 2)]
    held.let.set()
    until(lambda: len(held.batches) == 2 and all(future.done() for future in futures))
    held.let.clear()
    pair = [batcher.submit([i]) for i in (4, 5)]
    until(lambda: held.batches[-1] == [4, 5])
    pair[0].cancel()
    assert held.wanted()
    held.let.set()
    assert pair[1].result(20) == [25]


@pytest.mark.slow
def test_a_queue_emptied_by_cancellation_does_not_stop_the_threads(held):
    batcher = Batcher(held, lambda item: 1, ServingLimits(wait_seconds=0.2, workers=2))
    busy(batcher, held)
    gone = batcher.submit([1])
    time.sleep(0.05)  # beside the other batch, it is waiting for others now
    assert gone.cancel()
    time.sleep(0.5)
    assert all(thread.is_alive() for thread in batcher._threads)
    batcher.submit([2])
    until(lambda: held.batches == [[0], [2]])
    held.let.set()
    batcher.close()


def test_large_requests_take_turns_with_others(batcher, held):
    busy(batcher, held)
    large = batcher.submit([1, 2, 3, 4, 5, 6, 7])
    small = batcher.submit([8])
    assert batcher.n_waiting == 2
    held.let.set()
    assert small.result(20) == [64]
    assert large.result(20) == [1, 4, 9, 16, 25, 36, 49]
    assert held.batches == [[0], [1, 8, 2], [3, 4, 5], [6, 7]]


def test_a_request_larger_than_a_batch_occupies_one_thread(held):
    batcher = Batcher(held, lambda item: item, ServingLimits(batch_tokens=3, wait_seconds=0, workers=2))
    large = [batcher.submit([9, 8]), batcher.submit([7])]
    until(lambda: held.batches == [[9]])
    small = [batcher.submit([1]), batcher.submit([2])]
    until(lambda: len(held.batches) == 2)
    assert held.batches[1][0] == 1
    held.let.set()
    assert [future.result(20) for future in large + small] == [[81, 64], [49], [1], [4]]
    assert [batch for batch in held.batches if batch[0] > 3] == [[9], [7], [8]]
    batcher.close()


def test_the_rest_of_a_cancelled_or_failed_request_is_not_computed():
    seen: list[int] = []

    def fussy(items: list[int], wanted: Callable[[], bool]) -> list[float]:
        seen.extend(items)
        return [1 / item for item in items]

    batcher = Batcher(fussy, lambda item: 1, ServingLimits(batch_tokens=1, workers=1))
    with pytest.raises(ZeroDivisionError):
        batcher.submit([1, 0, 2, 3]).result(20)
    assert batcher.submit([4]).result(20) == [0.25]
    assert seen == [1, 0, 4]
    batcher.close()


def test_an_empty_request_is_answered_without_a_batch(batcher, held):
    assert batcher.submit([]).result(0) == []
    assert held.batches == []


def test_an_error_fails_only_its_own_request():
    def fussy(items: list[int], wanted: Callable[[], bool]) -> list[float]:
        return [1 / item for item in items]

    batcher = Batcher(fussy, lambda item: 1, ServingLimits(wait_seconds=0.1))
    futures = [batcher.submit([item]) for item in (1, 0, 2)]
    assert (futures[0].result(20), futures[2].result(20)) == ([1], [0.5])
    with pytest.raises(ZeroDivisionError):
        futures[1].result(20)
    batcher.close()


def test_closing_finishes_what_was_accepted_and_takes_nothing_more(batcher, held):
    futures = [busy(batcher, held), *(batcher.submit([i]) for i in range(1, 5))]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    until(lambda: batcher._closed)
    with pytest.raises(ClosedError):
        batcher.submit([9])
    held.let.set()
    closing.join(20)
    assert [future.result(0)[0] for future in futures] == [0, 1, 4, 9, 16]


def test_closing_cancels_requests_after_the_grace_period(batcher, held):
    futures = [busy(batcher, held), *(batcher.submit([i]) for i in range(1, 5))]
    started = time.monotonic()
    batcher.close(0.2)
    assert 0.15 < time.monotonic() - started < 5
    for future in futures:
        with pytest.raises(ClosedError):
            future.result(0)
    assert not held.wanted()
    held.let.set()
    batcher.close()
    assert held.batches == [[0]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 12))
def test_batches_are_as_large_as_they_may_be_and_in_order(sizes, most):
    seen: list[list[int]] = []

    def note(items, wanted):
        seen.append(list(items))
        return items

    batcher = Batcher(
        note, lambda item: sizes[item], ServingLimits(queue_requests=99, batch_tokens=most, wait_seconds=0, workers=1)
    )
    futures = [batcher.submit([i]) for i in range(len(sizes))]
    assert [future.result(20)[0] for future in futures] == list(range(len(sizes)))
    batcher.close()
    assert [item for batch in seen for item in batch] == list(range(len(sizes)))
    assert all(len(batch) == 1 or sum(sizes[item] for item in batch) <= most for batch in seen)


@pytest.mark.parametrize(
    ("name", "value"), [("queue_requests", 0), ("timeout_seconds", -1.0), ("body_bytes", 0), ("wait_seconds", -0.1)]
)
def test_limits_that_make_no_sense_are_refused(name, value):
    with pytest.raises(UnireError, match=f"the limit '{name}' must be [01] or more"):
        ServingLimits(**{name: value})
