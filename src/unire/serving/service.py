"""The service: one model, its queue, and the metrics for Prometheus."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import prometheus_client as prometheus
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from unire.errors import UnireError
from unire.extractor import Extractor
from unire.serving.batcher import Batcher, ClosedError, FullError
from unire.serving.jobs import Job, Worker, count_characters
from unire.serving.schemas import CLIENT_CLOSED_REQUEST, ApiError, ServingLimits

__all__ = ["Metrics", "Service"]

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # one more time series for every counter


class Metrics:
    """Counters of one server."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

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
        worker = Worker(extractor, batch=limits.batch)
        self.batcher: Batcher[Job, bytes] = Batcher(worker, lambda job: job.size, limits, self.metrics.count_batch)
        self.metrics.watch_queue(lambda: self.batcher.n_waiting)
        self.stopping = False
        """Whether new requests are refused, because the server is about to stop."""
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        """How requests ended: `answered`, `failed`, `late` (timeout), `left` (by the caller) or `stopped`."""

    async def answer(self, job: Job, disconnected: Callable[[], Any]) -> bytes:
        """Queue a job and wait for its result.

        Args:
            job: The job.
            disconnected: Returns when the caller has disconnected; then the job is cancelled.
        """
        if self.stopping:
            raise ApiError(503, "the server is stopping and takes on nothing more; ask again in a moment", retry=1)
        try:
            result = asyncio.wrap_future(self.batcher.submit(job.split(self.limits.batch)))
        except FullError as full:
            raise ApiError(
                429, f"the server has too much to do; ask again in {full.seconds} seconds", full.seconds
            ) from None
        except ClosedError:
            raise ApiError(503, "the server has stopped", retry=1) from None
        self.accepted += 1
        outcome = "failed"
        left = asyncio.ensure_future(disconnected())
        try:
            await asyncio.wait({result, left}, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                results = result.result()
                outcome = "answered"
                return job.join(results)
            if left.done():
                outcome = "left"
                raise ApiError(CLIENT_CLOSED_REQUEST, "the caller has gone")  # only counted, never sent
            outcome = "late"
            # without `Retry-After`: the same request would take as long again
            raise ApiError(503, f"this was not done within {self.limits.timeout:g} seconds; ask for less at once")
        except ClosedError:
            outcome = "stopped"
            raise ApiError(503, "the server is stopping, and this was not done; ask again in a moment", 1) from None
        except UnireError as error:
            raise ApiError(422, str(error)) from None
        finally:
            self.ended[outcome] += 1
            result.cancel()
            left.cancel()

    @property
    def busy(self) -> bool:
        """Whether an accepted request has not ended."""
        return self.accepted > self.ended.total()
