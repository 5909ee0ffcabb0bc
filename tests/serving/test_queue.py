"""The queue and the measured load: who is next, how fast the server is, and whether it is overloaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.server import until
from unire.serving import queue
from unire.serving.batcher import Batcher, FullError, TooLargeError
from unire.serving.limits import ServingLimits
from unire.serving.queue import FairQueue, Overload, QueuedPart, QueuedRequest, Speed


class Clock:
    """A clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 1000.0
        monkeypatch.setattr(queue, "monotonic", lambda: self.time)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def request(client: str, sizes: list[int], since: float = 0.0) -> QueuedRequest[str, None]:
    made: QueuedRequest[str, None] = QueuedRequest(client, since=since)
    made.parts.extend(QueuedPart(made, i, len(sizes), f"{client}{i}", size) for i, size in enumerate(sizes))
    return made


def drain(waiting: FairQueue[str, None], may_start: Callable[[QueuedPart[str, None]], bool] = lambda part: True) -> str:
    order = []
    while part := waiting.first(may_start):
        waiting.pop(part)
        order.append(part.part)
    return " ".join(order)


# Who is next


def test_clients_take_turns_and_so_do_the_requests_of_a_client():
    waiting: FairQueue[str, None] = FairQueue(1e9)
    for client, sizes in (("a", [1, 1, 1]), ("a", [2]), ("b", [1, 1]), ("c", [1])):
        waiting.add(request(client, sizes, since=time.monotonic()))
    assert drain(waiting) == "a0 b0 c0 a0 b1 a1 a2"
    assert (len(waiting), waiting.size) == (0, 0)


def test_a_request_that_has_waited_for_long_goes_before_all_younger_ones(clock):
    waiting: FairQueue[str, None] = FairQueue(15)
    waiting.add(request("a", [1, 1, 1], since=clock.time - 16))
    waiting.add(request("b", [1, 1], since=clock.time - 15))
    waiting.add(request("c", [1], since=clock.time - 1))
    assert drain(waiting) == "a0 a1 a2 b0 b1 c0"


def test_a_part_that_may_not_start_yet_keeps_back_nobody():
    waiting: FairQueue[str, None] = FairQueue(1e9)
    for client, sizes in (("a", [9, 1]), ("b", [1]), ("a", [2])):
        waiting.add(request(client, sizes, since=time.monotonic()))
    assert drain(waiting, lambda part: part.size < 9) == "a0 b0"
    assert len(waiting) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 5), min_size=1, max_size=4)), max_size=12))
def test_no_client_is_served_twice_while_another_waits(requests):
    waiting: FairQueue[str, None] = FairQueue(1e9)
    for client, sizes in requests:
        waiting.add(request(client, sizes, since=time.monotonic()))
    assert waiting.size == sum(sum(sizes) for _, sizes in requests)
    left = {client: sum(len(sizes) for each, sizes in requests if each == client) for client in "abc"}
    last = dict.fromkeys("abc", -1)
    for turn, part in enumerate(drain(waiting).split()):
        assert all(last[part[0]] <= last[other] or not left[other] for other in "abc")
        last[part[0]] = turn
        left[part[0]] -= 1
    assert not any(left.values())
    assert waiting.size == len(waiting) == 0


def test_one_client_cannot_keep_others_waiting_or_out():
    let, done = threading.Event(), []

    def compute(items: list[str], wanted: Callable[[], bool]) -> list[str]:
        let.wait(20)
        done.extend(items)
        return items

    limits = ServingLimits(queue_requests=8, client_percent=75, batch_tokens=1, workers=1)
    batcher = Batcher(compute, lambda item: 1, limits)
    batcher.submit(["first"], "greedy")
    until(lambda: batcher.n_waiting == 0)
    for i in range(6):
        batcher.submit([f"greedy {i}"] * 3, "greedy")
    with pytest.raises(FullError):
        batcher.submit(["greedy 7"], "greedy")
    modest = [batcher.submit([f"modest {i}"], "modest") for i in range(2)]
    let.set()
    for future in modest:
        future.result(20)
    assert [item for item in done if "modest" in item] == ["modest 0", "modest 1"]
    assert done.index("modest 1") <= 4
    batcher.close()


# How fast we are


def measure(speed: Speed, clock: Clock, tokens: float, seconds: float, *, busy: bool = True) -> None:
    since = speed.observe(busy=busy)
    clock.time += seconds
    speed.observe(busy=busy)
    speed.count(tokens, since)


def test_the_speed_follows_the_measurements(clock):
    speed = Speed()
    assert speed.now == float("inf")
    speed.start(1000)
    assert speed.now == speed.best == 1000
    for _ in range(50):
        measure(speed, clock, 200, 1)
    assert speed.now == pytest.approx(200, rel=0.01)
    assert speed.best == 1000
    for _ in range(50):
        measure(speed, clock, 3000, 1)
    assert speed.best == speed.now == pytest.approx(3000, rel=0.01)


def test_a_small_batch_on_an_idle_server_is_no_measure(clock):
    speed = Speed()
    speed.start(1000)
    measure(speed, clock, 30, 1, busy=False)
    assert speed.now == 1000


def test_batches_side_by_side_are_measured_together(clock):
    speed = Speed()
    for _ in range(20):
        first, second = speed.observe(busy=True), speed.observe(busy=True)
        clock.time += 1
        speed.observe(busy=True)
        speed.count(300, first)
        clock.time += 1
        speed.observe(busy=False)
        speed.count(700, second)
        clock.time += 5  # nothing to do
    assert speed.now == pytest.approx(500, rel=0.05)


def test_an_old_measurement_refuses_nothing(clock):
    speed = Speed()
    speed.start(1000)
    for _ in range(50):
        measure(speed, clock, 10, 1)
    assert speed.now < 20
    clock.time += queue.EXPIRY_SECONDS
    assert speed.now == 1000


def test_a_request_that_is_too_slow_only_now_is_asked_to_come_again(clock):
    batcher = Batcher(lambda items, wanted: items, lambda item: item, ServingLimits(batch_tokens=10_000))
    batcher.speed.start(1000)
    with pytest.raises(TooLargeError):
        batcher.submit([20_000])
    for _ in range(50):
        measure(batcher.speed, clock, 100, 1)
    with pytest.raises(FullError) as refused:
        batcher.submit([9_000])
    assert 1 <= refused.value.seconds <= 60
    clock.time += queue.EXPIRY_SECONDS
    assert batcher.submit([9_000]).result(20) == [9_000]
    batcher.close()


# Overload


def test_an_overload_begins_after_a_while_and_ends_after_a_pause(clock):
    overload = Overload(5)
    assert not overload.lasts(is_busy=True)
    for _ in range(5):
        overload.count_refusal()
        assert not overload.lasts(is_busy=True)
        clock.time += 1
    overload.count_refusal()
    assert overload.lasts(is_busy=False)
    clock.time += queue.PAUSE_SECONDS + 1
    assert overload.lasts(is_busy=True)
    assert not overload.lasts(is_busy=False)
    assert not overload.lasts(is_busy=True)  # it was over


def test_rare_refusals_are_no_overload(clock):
    overload = Overload(5)
    for _ in range(10):
        overload.count_refusal()
        clock.time += queue.PAUSE_SECONDS + 1
        assert not overload.lasts(is_busy=False)
