"""Dynamic batching: what many callers ask at about the same time is computed at once.

A request waits a moment for others: until none has come for `QUIET` seconds, the batch is full, or the window is over.
So a single caller hardly waits, and many are computed together. What comes while a batch is computed makes the next:
that one is not begun as long as callers whose answers have just been sent are about to ask again. No thread takes more
than its share of what there is to do, so that none is without work while another has too much.

    >>> batcher = Batcher(lambda words: [len(word) for word in words], size=lambda word: 1)
    >>> batcher.submit("Ada").result()
    3
    >>> batcher.close()
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from unire.serving.limits import Limits

__all__ = ["Batcher", "ClosedError", "FullError"]

Item = TypeVar("Item")
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
    """Nothing is taken on any more."""


@dataclass(eq=False)
class _Job(Generic[Item, Result]):
    item: Item
    size: int
    future: Future[Result] = field(default_factory=Future)


class Batcher(Generic[Item, Result]):
    """A bounded queue, and threads that compute what is in it, batch by batch.

    A future that is cancelled before its turn is never computed. Where computing a batch fails, its items are computed
    one by one, so that only those fail that must.

    Args:
        compute: Gives a result for each of some items; several threads may call it.
        size: How much of a batch an item takes.
        limits: Of these, how many wait and for how long, and how large a batch is.
        watch: Is told of every batch, and how many seconds it took.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Item]], Sequence[Result]],
        size: Callable[[Item], int],
        limits: Limits | None = None,
        watch: Callable[[Sequence[Item], float], None] = lambda items, seconds: None,
    ) -> None:
        self._compute = compute
        self._size = size
        self._limits = limits or Limits()
        self._watch = watch
        self._jobs: deque[_Job[Item, Result]] = deque()
        self._changed = threading.Condition()
        self._collecting = threading.Lock()
        self._closed = False
        self._computing = 0
        self._rate = math.inf
        self._last = -math.inf
        self._threads = [
            threading.Thread(target=self._work, name=f"unire-batch-{i}") for i in range(self._limits.workers)
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @property
    def waiting(self) -> int:
        """How many items wait for their turn."""
        return len(self._jobs)

    def submit(self, item: Item) -> Future[Result]:
        """Queue an item. Any thread may.

        Raises:
            FullError: If too many wait, or those that do would by themselves take longer than the timeout.
            ClosedError: After `close`.
        """
        job: _Job[Item, Result] = _Job(item, self._size(item))
        with self._changed:
            if self._closed:
                raise ClosedError
            seconds = self._waiting_size() / self._rate
            if len(self._jobs) >= self._limits.queue or seconds > self._limits.timeout:
                raise FullError(max(1, math.ceil(seconds / 2)))
            self._jobs.append(job)
            self._changed.notify()
        job.future.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)
        return job.future

    def close(self) -> None:
        """Take nothing on any more, and wait until all that was is computed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _forget(self, job: _Job[Item, Result]) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _work(self) -> None:
        while jobs := self._next():
            running = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            outcomes = self._outcomes(running) if running else []
            with self._changed:  # before its caller knows, and asks again
                self._computing -= sum(job.size for job in jobs)
            for job, outcome in zip(running, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    job.future.set_exception(outcome)
                else:
                    job.future.set_result(outcome)

    def _next(self) -> list[_Job[Item, Result]]:
        """The jobs of the next batch; none when there is no next."""
        with self._collecting, self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            end = monotonic() + self._limits.window
            while not self._closed and not self._enough():
                known = len(self._jobs)
                # beside another batch the cores have work, and a fuller one costs nothing
                patience = self._limits.window if self._computing else min(QUIET, end - monotonic())
                if patience <= 0 or not self._changed.wait_for(lambda: len(self._jobs) != known, patience):  # noqa: B023
                    break
            jobs = self._share()
            self._computing += sum(job.size for job in jobs)
            return jobs

    def _enough(self) -> bool:
        return self._waiting_size() >= self._limits.batch

    def _waiting_size(self) -> int:
        return sum(job.size for job in self._jobs)

    def _share(self) -> list[_Job[Item, Result]]:
        """What one of the threads takes out of the queue."""
        share = (self._waiting_size() + self._computing) / len(self._threads)
        jobs: list[_Job[Item, Result]] = []
        size = 0
        while self._jobs and (not jobs or (size < share and size + self._jobs[0].size <= self._limits.batch)):
            jobs.append(self._jobs.popleft())
            size += jobs[-1].size
        return jobs

    def _outcomes(self, jobs: Sequence[_Job[Item, Result]]) -> Sequence[Result | Exception]:
        """A result for each job, or why it has none."""
        items = [job.item for job in jobs]
        started = monotonic()
        try:
            results = self._compute(items)
        except Exception as error:
            return [error] if len(jobs) == 1 else [outcome for job in jobs for outcome in self._outcomes([job])]
        self._watch(items, monotonic() - started)
        if size := sum(job.size for job in jobs):  # what has none says nothing of how fast we are
            self._measure(size, started)
        return results

    def _measure(self, size: int, started: float) -> None:
        """How much is computed in a second, by all threads together, as the last batches have shown."""
        with self._changed:
            now = monotonic()
            rate = size / max(now - max(started, self._last), 1e-6)
            self._last = now
            self._rate = rate if math.isinf(self._rate) else MEMORY * self._rate + (1 - MEMORY) * rate
