"""The service: one model, its queue, and its metrics for Prometheus."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import prometheus_client as prometheus

from unire.errors import UnireError
from unire.extractor import Extractor
from unire.serving.batcher import Batcher, ClosedError, FullError, TooLargeError
from unire.serving.connections import ConnectionTable
from unire.serving.jobs import Job, Worker, count_characters
from unire.serving.limits import ServingLimits
from unire.serving.schemas import CLIENT_CLOSED_REQUEST, ApiError

__all__ = [
    "Metrics",
    "Service",
]


class Service:
    """One model and the queue in front of it.

    Args:
        extractor: The model.
        name: Its name.
        limits: Limits of requests and of the queue.
    """

    def __init__(self, extractor: Extractor, name: str, limits: ServingLimits) -> None:
        self.extractor = extractor
        self.name = name
        self.limits = limits
        self.metrics = Metrics()
        self.worker = Worker(extractor, batch_tokens=limits.batch_tokens)
        self.batcher: Batcher[Job, bytes] = Batcher(
            self.worker, lambda job: job.tokens, limits, self.metrics.count_batch
        )
        self.connections = ConnectionTable(limits, on_refusal=self.batcher.count_refusal)
        self.metrics.watch_queue(lambda: self.batcher.n_waiting)
        self.stopping = False
        """Whether new requests are refused, because the server is about to stop."""
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        """How requests ended: `answered`, `failed`, `late` (timeout), `left` (by the caller) or `stopped`."""

    def closes_connection(self, client: str) -> bool:
        """Whether an answer closes its connection, because the server is stopping or has too many of them."""
        return self.stopping or self.connections.is_crowded(client)

    async def answer(self, job: Job, client: str, disconnected: Callable[[], Any]) -> bytes:
        """Queue a job and wait for its result.

        Args:
            job: The job.
            client: Who sent it.
            disconnected: Returns when the caller has disconnected; then the job is cancelled.
        """
        if self.stopping:
            raise ApiError(503, "the server is stopping and accepts no more requests; try again soon", retry=1)
        try:
            self.batcher.refuse_if_full(client)  # before the work of splitting
            result = self.batcher.submit(self.worker.split(job), client)
        except TooLargeError as error:
            raise ApiError(
                413,
                f"this server would need about {error.seconds:.0f} seconds for the request, and a request may take "
                f"{error.allowed:.0f}; send less text at once",
            ) from None
        except FullError as full:
            raise ApiError(429, f"the server is busy; try again in {full.seconds} seconds", full.seconds) from None
        except ClosedError:
            raise ApiError(503, "the server has stopped", retry=1) from None
        return job.join(await self.wait(result, disconnected, "send less text at once"))

    async def wait(
        self, result: asyncio.Future[Any] | Future[Any], disconnected: Callable[[], Any], advice: str
    ) -> Any:
        """Wait for the result of an accepted request, and count how it ends.

        Args:
            result: The result; it is cancelled if nobody waits for it any more.
            disconnected: Returns when the caller has disconnected.
            advice: What the caller can do after a timeout.
        """
        self.accepted += 1
        outcome = "failed"
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        left = asyncio.ensure_future(disconnected())
        left.add_done_callback(lambda _: _wake(ended))
        result.add_done_callback(lambda _: _wake_from_thread(loop, ended))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.timeout_seconds):
                    await ended
            if result.done():
                found = result.result()
                outcome = "answered"
                return found
            if left.done():
                outcome = "left"
                raise ApiError(CLIENT_CLOSED_REQUEST, "the client has disconnected")  # only counted, never sent
            outcome = "late"
            # without `Retry-After`: the same request would take as long again
            raise ApiError(503, f"the request timed out after {self.limits.timeout_seconds:g} seconds; {advice}")
        except ClosedError:
            outcome = "stopped"
            raise ApiError(503, "the server is stopping and did not answer; try again soon", 1) from None
        except UnireError as error:
            raise ApiError(422, str(error)) from None
        finally:
            self.ended[outcome] += 1
            result.cancel()
            left.cancel()

    def measure_speed(self) -> None:
        """Find out how fast the model is here, before the first request."""
        self.batcher.speed.start(self.worker.measure_speed())

    @property
    def state(self) -> str:
        """`ready`, `overloaded` or `stopping`."""
        return "stopping" if self.stopping else "overloaded" if self.batcher.is_overloaded else "ready"

    @property
    def busy(self) -> bool:
        """Whether an accepted request has not ended."""
        return self.accepted > self.ended.total()


def _wake_from_thread(loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(_wake, waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


# Metrics

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # one more time series for every counter


class Metrics:
    """Counters of one server."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"
    """The format that `generate_latest` writes. Old versions of the client have no name for it."""

    def __init__(self) -> None:
        registry = self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        self._requests = prometheus.Counter(
            "unire_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self._seconds = prometheus.Histogram(
            "unire_request_seconds", "Seconds to an answer.", ["path"], buckets=SECONDS_BUCKETS, registry=registry
        )
        self._waiting = prometheus.Gauge(
            "unire_queue_requests", "Requests that wait to be computed.", registry=registry
        )
        self._batch_texts = prometheus.Histogram(
            "unire_batch_texts", "Texts computed at once.", buckets=TEXTS_BUCKETS, registry=registry
        )
        self._batch_seconds = prometheus.Histogram(
            "unire_batch_seconds", "Seconds to compute a batch.", buckets=SECONDS_BUCKETS, registry=registry
        )
        self._texts = prometheus.Counter("unire_texts", "Texts that were read.", registry=registry)
        self._characters = prometheus.Counter("unire_characters", "Characters that were read.", registry=registry)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def count_batch(self, jobs: Sequence[Job], seconds: float) -> None:
        sources = [source for job in jobs for source in job.sources]
        self._batch_texts.observe(len(sources))
        self._batch_seconds.observe(seconds)
        self._texts.inc(len(sources))
        self._characters.inc(sum(map(count_characters, sources)))

    def watch_queue(self, n_waiting: Callable[[], int]) -> None:
        self._waiting.set_function(n_waiting)

    def to_text(self) -> bytes:
        return prometheus.generate_latest(self._registry)
