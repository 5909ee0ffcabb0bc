"""Dynamic batching: what many callers ask at about the same time is computed at once.

A request waits for others: until none has come for `QUIET` seconds, the batch is full, or it has waited enough.
So a single caller hardly waits, and many are computed together. What comes while a batch is computed makes the next:
that one is not begun as long as callers whose answers have just been sent are about to ask again. No thread takes more
than its share of what there is to do, so that none is without work while another has too much.

A large request comes in parts, and requests take turns: who asks for little does not wait for all of what is large.
Parts that are larger than a batch are computed one at a time, so that the other threads are there for the others. What
nobody waits for any more is not computed to its end.

    >>> batcher = Batcher(lambda words, wanted: [len(word) for word in words], size=lambda word: 1)
    >>> batcher.submit(["Ada", "Charles"]).result()
    [3, 7]
    >>> batcher.close()
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Generic, TypeVar

from unire.serving.schemas import ServingLimits

__all__ = ["Batcher", "ClosedError", "FullError"]

Part = TypeVar("Part")
Result = TypeVar("Result")

QUIET = 0.001
"""Seconds without another request after which a batch is begun."""
MEMORY = 0.8
"""Share of the old rate in the new one, after a batch."""


class FullError(Exception):
    """More wait than may.

    Args:
        seconds: After which it may be worth asking again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class ClosedError(Exception):
    """Nothing is taken on any more, or nothing more is done of what was."""


@dataclass(eq=False)
class _Order(Generic[Part, Result]):
    """What came with one request."""

    jobs: deque[_Job[Part, Result]] = field(default_factory=deque)
    """Those whose turn has not come."""
    results: dict[int, Result] = field(default_factory=dict)
    """By the position of their parts."""
    future: Future[list[Result]] = field(default_factory=Future)

    @property
    def waiting_size(self) -> int:
        return sum(job.size for job in self.jobs)


@dataclass(eq=False)
class _Job(Generic[Part, Result]):
    order: _Order[Part, Result]
    position: int
    of: int
    """How many parts the order has."""
    part: Part
    size: int

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it: a future that has ended early was given up, or another part failed."""
        return not self.order.future.done()

    def end(self, outcome: Result | Exception) -> None:
        with suppress(InvalidStateError):  # it was given up meanwhile
            if isinstance(outcome, Exception):
                self.order.future.set_exception(outcome)
                return
            self.order.results[self.position] = outcome
            if len(self.order.results) == self.of:
                self.order.future.set_result([self.order.results[i] for i in range(self.of)])


class Batcher(Generic[Part, Result]):
    """A bounded queue, and threads that compute what is in it, batch by batch.

    A future may be cancelled at any time: what is not computed of it then never is. Where computing a batch fails, its
    parts are computed one by one, so that only those fail that must.

    Args:
        compute: Gives a result for each of some parts; several threads may call it. It is also given what tells
            whether somebody still waits: if not, it should leave off, with any error.
        size: How much of a batch a part takes.
        limits: Of these, how many requests wait and for how long, and how large a batch is.
        watch: Is told of every batch, and how many seconds it took.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Part], Callable[[], bool]], Sequence[Result]],
        size: Callable[[Part], int],
        limits: ServingLimits | None = None,
        watch: Callable[[Sequence[Part], float], None] = lambda parts, seconds: None,
    ) -> None:
        self._compute = compute
        self._size = size
        self._limits = limits or ServingLimits()
        self._watch = watch
        self._orders: deque[_Order[Part, Result]] = deque()
        """Those of which something waits, in turn."""
        self._open: set[_Order[Part, Result]] = set()
        """Those that have not ended."""
        self._changed = threading.Condition()
        self._collecting = threading.Lock()
        self._closed = False
        self._computing = 0
        self._large = False
        """Whether a part that is larger than a batch is being computed."""
        self._rate = math.inf
        self._last = -math.inf
        self._threads = [
            threading.Thread(target=self._work, name=f"unire-batch-{i}", daemon=True)
            for i in range(self._limits.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait for a turn."""
        return len(self._orders)

    def submit(self, parts: Sequence[Part]) -> Future[list[Result]]:
        """Queue the parts of a request. Any thread may.

        Raises:
            FullError: If too many wait, or those whose turn comes before would take longer than the timeout.
            ClosedError: After `close`.
        """
        order: _Order[Part, Result] = _Order()
        order.jobs.extend(_Job(order, i, len(parts), part, self._size(part)) for i, part in enumerate(parts))
        with self._changed:
            if self._closed:
                raise ClosedError
            before = sum(job.size for other in self._orders for job in islice(other.jobs, len(parts)))
            seconds = before / self._rate
            if len(self._orders) >= self._limits.queue or seconds > self._limits.timeout:
                raise FullError(max(1, math.ceil(min(seconds / 2, self._limits.timeout))))
            if not parts:
                order.future.set_result([])
                return order.future
            self._open.add(order)
            self._orders.append(order)
            self._changed.notify()
        order.future.add_done_callback(lambda future: self._forget(order))
        return order.future

    def close(self, seconds: float | None = None) -> None:
        """Take nothing on any more, and wait until all that was is computed.

        Args:
            seconds: How long to wait, at most; then the rest is given up.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = math.inf if seconds is None else monotonic() + seconds
        for thread in self._threads:
            thread.join(None if seconds is None else max(0, end - monotonic()))
        self.give_up()

    def give_up(self) -> None:
        """End all that has not ended, with `ClosedError`."""
        with self._changed:
            left = list(self._open)
        for order in left:
            with suppress(InvalidStateError):  # it has just ended by itself
                order.future.set_exception(ClosedError())

    def _forget(self, order: _Order[Part, Result]) -> None:
        with self._changed:
            self._open.discard(order)
            if order in self._orders:
                self._orders.remove(order)

    def _work(self) -> None:
        while jobs := self._next():
            wanted = [job for job in jobs if job.wanted]
            outcomes = self._outcomes(wanted) if wanted else []
            with self._changed:  # before its caller knows, and asks again
                self._computing -= sum(job.size for job in jobs)
                if self._is_large(jobs[0]):
                    self._large = False
                    self._changed.notify()
            for job, outcome in zip(wanted, outcomes, strict=True):
                job.end(outcome)

    def _next(self) -> list[_Job[Part, Result]]:
        """The jobs of the next batch; none when there is no next."""
        with self._collecting, self._changed:
            while self._changed.wait_for(lambda: self._first() or self._closed) and not self._closed:
                self._wait_for_others()
                if self._first():  # unless all that came was given up meanwhile
                    break
            jobs = self._share()
            self._computing += sum(job.size for job in jobs)
            return jobs

    def _wait_for_others(self) -> None:
        end = monotonic() + self._limits.wait
        while self._orders and not self._closed and not self._enough():
            known = len(self._orders)
            # beside another batch the cores have work, and a fuller one costs nothing
            patience = self._limits.wait if self._computing else min(QUIET, end - monotonic())
            if patience <= 0 or not self._changed.wait_for(lambda: len(self._orders) != known, patience):  # noqa: B023
                break

    def _enough(self) -> bool:
        return self._waiting_size() >= self._limits.batch

    def _waiting_size(self) -> int:
        return sum(order.waiting_size for order in self._orders)

    def _is_large(self, job: _Job[Part, Result]) -> bool:
        return job.size > self._limits.batch

    def _first(self) -> _Order[Part, Result] | None:
        """The one whose turn it is."""
        return next((order for order in self._orders if not (self._large and self._is_large(order.jobs[0]))), None)

    def _share(self) -> list[_Job[Part, Result]]:
        """What one of the threads takes out of the queue: a part of each request, in turn."""
        share = (self._waiting_size() + self._computing) / len(self._threads)
        jobs: list[_Job[Part, Result]] = []
        size = 0
        while order := self._first():
            job = order.jobs[0]
            if jobs and (size >= share or size + job.size > self._limits.batch):
                break
            jobs.append(order.jobs.popleft())
            size += job.size
            self._large = self._large or self._is_large(job)
            self._orders.remove(order)
            if order.jobs:
                self._orders.append(order)
        return jobs

    def _outcomes(self, jobs: Sequence[_Job[Part, Result]]) -> Sequence[Result | Exception]:
        """A result for each job, or why it has none."""
        parts = [job.part for job in jobs]
        started = monotonic()
        try:
            results = self._compute(parts, lambda: any(job.wanted for job in jobs))
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [outcome for job in jobs for outcome in (self._outcomes([job]) if job.wanted else [error])]
        self._watch(parts, monotonic() - started)
        self._measure(jobs, started)
        return results

    def _measure(self, jobs: Sequence[_Job[Part, Result]], started: float) -> None:
        """How much is computed in a second, by all threads together, as the last batches have shown."""
        size = sum(job.size for job in jobs)
        with self._changed:
            # nothing, and little beside what is large, say nothing of how fast we are
            if not size or (self._large and not self._is_large(jobs[0])):
                return
            now = monotonic()
            rate = size / max(now - max(started, self._last), 1e-6)
            self._last = now
            self._rate = rate if math.isinf(self._rate) else MEMORY * self._rate + (1 - MEMORY) * rate
