"""Dynamic batching: requests that arrive at about the same time are computed together.

A request waits for others until none has arrived for `QUIET_SECONDS`, the batch is full, or the time limit has passed.
So a single caller hardly waits, and many callers share a batch. Requests that arrive while a batch is computed form the
next batch. No thread takes more than its share of the queue, so that no thread is idle while another has too much.

A large request is split into parts, and requests take turns (round robin): a small request does not wait for all of a
large one. Parts that are larger than a batch are computed one at a time, so that the other threads stay free. Requests
that were cancelled are not computed to their end.

    >>> batcher = Batcher(lambda words, is_wanted: [len(word) for word in words], size=lambda word: 1)
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

QUIET_SECONDS = 0.001
"""A batch starts when no further request has arrived for this long."""
RATE_SMOOTHING = 0.8
"""Weight of the old rate in the exponential moving average of the speed."""


class FullError(Exception):
    """The queue is full.

    Args:
        seconds: After which the caller may try again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class ClosedError(Exception):
    """The batcher was closed, or the request was aborted."""


@dataclass(eq=False)
class _Request(Generic[Part, Result]):
    """One request."""

    jobs: deque[_Job[Part, Result]] = field(default_factory=deque)
    """Parts that wait."""
    results: dict[int, Result] = field(default_factory=dict)
    """By the position of the part."""
    future: Future[list[Result]] = field(default_factory=Future)

    @property
    def waiting_size(self) -> int:
        return sum(job.size for job in self.jobs)


@dataclass(eq=False)
class _Job(Generic[Part, Result]):
    request: _Request[Part, Result]
    position: int
    n_parts: int
    """Parts of the request."""
    part: Part
    size: int

    @property
    def is_wanted(self) -> bool:
        """Whether a caller still waits. A future that ended early was cancelled, or another part failed."""
        return not self.request.future.done()

    def finish(self, outcome: Result | Exception) -> None:
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            if isinstance(outcome, Exception):
                self.request.future.set_exception(outcome)
                return
            self.request.results[self.position] = outcome
            if len(self.request.results) == self.n_parts:
                self.request.future.set_result([self.request.results[i] for i in range(self.n_parts)])


class Batcher(Generic[Part, Result]):
    """A bounded queue, and threads that compute it batch by batch.

    A future may be cancelled at any time; its waiting parts are then dropped. If a batch fails, its parts are computed
    one by one, so that only the faulty ones fail.

    Args:
        compute: Returns a result for each part; several threads may call it. Its second argument says whether a caller
            still waits; if not, it should raise any error.
        size: Size of a part, in the unit of the batch limit.
        limits: The queue, the timeout, the size of a batch and the number of threads.
        on_batch: Called after every batch, with its parts and seconds.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Part], Callable[[], bool]], Sequence[Result]],
        size: Callable[[Part], int],
        limits: ServingLimits | None = None,
        on_batch: Callable[[Sequence[Part], float], None] = lambda parts, seconds: None,
    ) -> None:
        self._compute = compute
        self._size = size
        self._limits = limits or ServingLimits()
        self._on_batch = on_batch
        self._requests: deque[_Request[Part, Result]] = deque()
        """Requests with waiting parts, in turn."""
        self._open: set[_Request[Part, Result]] = set()
        """Requests without a result."""
        self._changed = threading.Condition()
        self._collecting = threading.Lock()
        self._closed = False
        self._computing = 0
        self._large = False
        """Whether a part that is larger than a batch is in work."""
        self._rate = math.inf
        self._last = -math.inf
        self._threads = [
            threading.Thread(target=self._work, name=f"unire-batch-{i}", daemon=True)
            for i in range(self._limits.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._requests)

    def submit(self, parts: Sequence[Part]) -> Future[list[Result]]:
        """Queue the parts of a request. Any thread may call this.

        Raises:
            FullError: If too many requests wait, or those before this one would take longer than the timeout.
            ClosedError: After `close`.
        """
        request: _Request[Part, Result] = _Request()
        request.jobs.extend(_Job(request, i, len(parts), part, self._size(part)) for i, part in enumerate(parts))
        with self._changed:
            if self._closed:
                raise ClosedError
            before = sum(job.size for other in self._requests for job in islice(other.jobs, len(parts)))
            seconds = before / self._rate
            if len(self._requests) >= self._limits.queue or seconds > self._limits.timeout:
                raise FullError(max(1, math.ceil(min(seconds / 2, self._limits.timeout))))
            if not parts:
                request.future.set_result([])
                return request.future
            self._open.add(request)
            self._requests.append(request)
            self._changed.notify()
        request.future.add_done_callback(lambda future: self._forget(request))
        return request.future

    def close(self, seconds: float | None = None) -> None:
        """Accept no more requests, and wait until the accepted ones are computed.

        Args:
            seconds: Longest wait; then the rest is aborted. [default: no limit]
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = math.inf if seconds is None else monotonic() + seconds
        for thread in self._threads:
            thread.join(None if seconds is None else max(0, end - monotonic()))
        self.abort()

    def abort(self) -> None:
        """End all open requests with `ClosedError`."""
        with self._changed:
            unfinished = list(self._open)
        for request in unfinished:
            with suppress(InvalidStateError):  # it has just ended by itself
                request.future.set_exception(ClosedError())

    def _forget(self, request: _Request[Part, Result]) -> None:
        with self._changed:
            self._open.discard(request)
            if request in self._requests:
                self._requests.remove(request)

    def _work(self) -> None:
        while jobs := self._next_batch():
            wanted = [job for job in jobs if job.is_wanted]
            outcomes = self._compute_jobs(wanted) if wanted else []
            with self._changed:  # before the caller gets the result and sends the next request
                self._computing -= sum(job.size for job in jobs)
                if self._is_large(jobs[0]):
                    self._large = False
                    self._changed.notify()
            for job, outcome in zip(wanted, outcomes, strict=True):
                job.finish(outcome)

    def _next_batch(self) -> list[_Job[Part, Result]]:
        """Wait for the next batch; empty when the batcher is closed."""
        with self._collecting, self._changed:
            while self._changed.wait_for(lambda: self._first() or self._closed) and not self._closed:
                self._wait_for_others()
                if self._first():  # unless all requests were cancelled meanwhile
                    break
            jobs = self._pop_share()
            self._computing += sum(job.size for job in jobs)
            return jobs

    def _wait_for_others(self) -> None:
        end = monotonic() + self._limits.wait
        while self._requests and not self._closed and self._waiting_size() < self._limits.batch:
            known = len(self._requests)
            # while another batch keeps the cores busy, waiting for a fuller batch costs nothing
            seconds = self._limits.wait if self._computing else min(QUIET_SECONDS, end - monotonic())
            if seconds <= 0 or not self._changed.wait_for(lambda: len(self._requests) != known, seconds):  # noqa: B023
                break

    def _waiting_size(self) -> int:
        return sum(request.waiting_size for request in self._requests)

    def _is_large(self, job: _Job[Part, Result]) -> bool:
        return job.size > self._limits.batch

    def _first(self) -> _Request[Part, Result] | None:
        """The request whose turn it is."""
        return next(
            (request for request in self._requests if not (self._large and self._is_large(request.jobs[0]))), None
        )

    def _pop_share(self) -> list[_Job[Part, Result]]:
        """Take the share of one thread out of the queue: one part of each request, in turn."""
        share = (self._waiting_size() + self._computing) / len(self._threads)
        jobs: list[_Job[Part, Result]] = []
        size = 0
        while request := self._first():
            job = request.jobs[0]
            if jobs and (size >= share or size + job.size > self._limits.batch):
                break
            jobs.append(request.jobs.popleft())
            size += job.size
            self._large = self._large or self._is_large(job)
            self._requests.remove(request)
            if request.jobs:
                self._requests.append(request)
        return jobs

    def _compute_jobs(self, jobs: Sequence[_Job[Part, Result]]) -> Sequence[Result | Exception]:
        """Return a result or an error for each job."""
        parts = [job.part for job in jobs]
        started = monotonic()
        try:
            results = self._compute(parts, lambda: any(job.is_wanted for job in jobs))
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [outcome for job in jobs for outcome in (self._compute_jobs([job]) if job.is_wanted else [error])]
        self._on_batch(parts, monotonic() - started)
        self._update_rate(jobs, started)
        return results

    def _update_rate(self, jobs: Sequence[_Job[Part, Result]], started: float) -> None:
        """Update the size per second that all threads together compute, as a moving average over batches."""
        size = sum(job.size for job in jobs)
        with self._changed:
            # neither an empty batch nor a small one beside a large one says how fast we are
            if not size or (self._large and not self._is_large(jobs[0])):
                return
            now = monotonic()
            rate = size / max(now - max(started, self._last), 1e-6)
            self._last = now
            self._rate = rate if math.isinf(self._rate) else RATE_SMOOTHING * self._rate + (1 - RATE_SMOOTHING) * rate
