"""Dynamic batching: requests that arrive at about the same time are computed together.

A request waits for others until none has arrived for `QUIET_SECONDS`, the batch is full, or the time limit has passed.
So a single caller hardly waits, and many callers share a batch. Requests that arrive while a batch is computed form the
next batch. No thread takes more than its share of the queue, so that no thread is idle while another has too much.

A large request is split into parts. `FairQueue` decides whose turn it is. Parts that are larger than a batch are
computed one at a time, so that the other threads stay free. Cancelled requests are not computed to their end.

A request is accepted only if all accepted work, at the measured speed, takes at most half of the timeout. For the
second half, it goes before all younger requests. So an accepted request is answered in time, unless the speed halves.

    >>> batcher = Batcher(lambda words, is_wanted: [len(word) for word in words], size=lambda word: 1)
    >>> batcher.submit(["Ada", "Charles"]).result()
    [3, 7]
    >>> batcher.close()
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from time import monotonic
from typing import Generic, TypeVar

from unire.serving.limits import ServingLimits
from unire.serving.queue import FairQueue, Overload, QueuedPart, QueuedRequest, Speed

__all__ = ["Batcher", "ClosedError", "FullError", "TooLargeError"]

Part = TypeVar("Part")
Result = TypeVar("Result")

QUIET_SECONDS = 0.001
"""A batch starts when no further request has arrived for this long."""


class FullError(Exception):
    """Too much waits.

    Args:
        seconds: After which the caller may try again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class TooLargeError(Exception):
    """The request alone would take too long, even on an idle server.

    Args:
        seconds: How long, about.
        allowed: How long it may take.
    """

    def __init__(self, seconds: float, allowed: float) -> None:
        super().__init__(seconds, allowed)
        self.seconds = seconds
        self.allowed = allowed


class ClosedError(Exception):
    """The batcher was closed, or the request was aborted."""


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
        self._queue: FairQueue[Part, Result] = FairQueue(self._limits.budget_seconds)
        self._open: set[QueuedRequest[Part, Result]] = set()
        """Requests without a result."""
        self._changed = threading.Condition()
        self._collecting = threading.Lock()
        self._closed = False
        self._computing = 0
        """Size of what is computed."""
        self._large = False
        """Whether a part that is larger than a batch is in work."""
        self._running = 0
        """Batches that are computed."""
        self.speed = Speed()
        self._overload = Overload(self._limits.overload_seconds)
        self._threads = [
            threading.Thread(target=self._work, name=f"unire-batch-{i}", daemon=True)
            for i in range(self._limits.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def is_overloaded(self) -> bool:
        """Whether requests have been refused for some time, and still are or have to wait long."""
        with self._changed:
            busy = (self._queue.size + self._computing) / self.speed.now > self._limits.budget_seconds / 2
            return self._overload.lasts(is_busy=busy or len(self._queue) > self._limits.queue_requests / 2)

    def refuse_if_full(self, client: str) -> None:
        """Raise `FullError` if the queue has no place for a further request of a client, however small."""
        limits = self._limits
        with self._changed:
            n_own = len(self._queue.of_client(client))
            if len(self._queue) >= limits.queue_requests or n_own >= limits.of_client(limits.queue_requests):
                self._overload.count_refusal()
                seconds = (self._computing + self._queue.size) / self.speed.now / 2  # until it is half empty
                raise FullError(max(1, math.ceil(min(seconds, limits.timeout_seconds))))

    def count_refusal(self) -> None:
        """Count a request that was refused before it came here."""
        with self._changed:
            self._overload.count_refusal()

    def submit(self, parts: Sequence[Part], client: str = "") -> Future[list[Result]]:
        """Queue the parts of a request. Any thread may call this.

        Args:
            parts: What to compute.
            client: Who sent the request. Clients take turns, and each has its limits.

        Raises:
            TooLargeError: If this request alone would take too long.
            FullError: If too many requests wait, or all of them would take too long.
            ClosedError: After `close`.
        """
        request: QueuedRequest[Part, Result] = QueuedRequest(client)
        request.parts.extend(QueuedPart(request, i, len(parts), part, self._size(part)) for i, part in enumerate(parts))
        with self._changed:
            if self._closed:
                raise ClosedError
            self._check_load(request)
            if not parts:
                request.future.set_result([])
                return request.future
            self._open.add(request)
            self._queue.add(request)
            self._observe()
            self._changed.notify()
        request.future.add_done_callback(lambda future: self._forget(request))
        return request.future

    def _check_load(self, request: QueuedRequest[Part, Result]) -> None:
        """Refuse a request that could not be answered in time."""
        limits, speed, size = self._limits, self.speed, request.size
        allowed, allowed_client = limits.budget_seconds, limits.of_client(limits.budget_seconds)
        if size / speed.best > allowed_client:
            raise TooLargeError(size / speed.best, allowed_client)
        own = self._queue.of_client(request.client)

        def ahead(other: QueuedRequest[Part, Result]) -> int:
            """What is computed before: requests take turns, so small ones wait only for the first parts of others."""
            return other.parts[0].size if len(request.parts) < 2 else other.size

        self.refuse_if_full(request.client)
        seconds = (self._computing + sum(map(ahead, self._queue)) + size) / speed.now
        excess = max(seconds - allowed, (sum(map(ahead, own)) + size) / speed.now - allowed_client)
        if excess > 0:
            self._overload.count_refusal()
            excess = max(excess, seconds / 2)  # when a queue of small requests is half empty
            raise FullError(max(1, math.ceil(min(excess, limits.timeout_seconds))))

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

    def _forget(self, request: QueuedRequest[Part, Result]) -> None:
        with self._changed:
            self._open.discard(request)
            self._queue.discard(request)

    def _work(self) -> None:
        while batch := self._next_batch():
            size = sum(part.size for part in batch)
            with self._changed:
                since = self._observe()
            wanted = [part for part in batch if part.is_wanted]
            outcomes = self._compute_parts(wanted) if wanted else []
            with self._changed:  # before the caller gets the result and sends the next request
                self._computing -= size
                self._running -= 1
                self._observe()
                if len(outcomes) == len(batch):
                    self.speed.count(size, since)
                if self._is_large(batch[0]):
                    self._large = False
                    self._changed.notify()
            for part, outcome in zip(wanted, outcomes, strict=True):
                part.finish(outcome)

    def _observe(self) -> tuple[float, float]:
        """Let the speed know whether all threads have something to do."""
        return self.speed.observe(
            busy=self._running >= len(self._threads) or (self._running > 0 and self._queue.size > 0)
        )

    def _next_batch(self) -> list[QueuedPart[Part, Result]]:
        """Wait for the next batch; empty when the batcher is closed."""
        with self._collecting, self._changed:
            while self._changed.wait_for(lambda: self._first() or self._closed) and not self._closed:
                self._wait_for_others()
                if self._first():  # unless all requests were cancelled meanwhile
                    break
            batch = self._pop_share()
            self._computing += sum(part.size for part in batch)
            self._running += bool(batch)
            return batch

    def _wait_for_others(self) -> None:
        end = monotonic() + self._limits.wait_seconds
        while len(self._queue) and not self._closed and self._queue.size < self._limits.batch_tokens:
            known = len(self._queue)
            # while another batch keeps the cores busy, waiting for a fuller batch costs nothing
            seconds = self._limits.wait_seconds if self._computing else min(QUIET_SECONDS, end - monotonic())
            if seconds <= 0 or not self._changed.wait_for(lambda: len(self._queue) != known, seconds):  # noqa: B023
                break

    def _is_large(self, part: QueuedPart[Part, Result]) -> bool:
        return part.size > self._limits.batch_tokens

    def _first(self) -> QueuedPart[Part, Result] | None:
        """The part whose turn it is."""
        return self._queue.first(lambda part: not (self._large and self._is_large(part)))

    def _pop_share(self) -> list[QueuedPart[Part, Result]]:
        """Take the share of one thread out of the queue."""
        share = (self._queue.size + self._computing) / len(self._threads)
        batch: list[QueuedPart[Part, Result]] = []
        size = 0
        while part := self._first():
            if batch and (size >= share or size + part.size > self._limits.batch_tokens):
                break
            self._queue.pop(part)
            batch.append(part)
            size += part.size
            self._large = self._large or self._is_large(part)
        return batch

    def _compute_parts(self, batch: Sequence[QueuedPart[Part, Result]]) -> Sequence[Result | Exception]:
        """Return a result or an error for each part."""
        parts = [queued.part for queued in batch]
        started = monotonic()
        try:
            results = self._compute(parts, lambda: any(queued.is_wanted for queued in batch))
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [
                outcome
                for queued in batch
                for outcome in (self._compute_parts([queued]) if queued.is_wanted else [error])
            ]
        self._on_batch(parts, monotonic() - started)
        return results
