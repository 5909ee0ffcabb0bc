"""What is counted of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from unire.serving.jobs import Job, length

__all__ = ["Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


disable_created_metrics()  # type: ignore[no-untyped-call]  # a time for every counter, which nobody reads


class Metrics:
    """Counters of one server."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "unire_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "unire_request_seconds", "Seconds to an answer.", ["path"], buckets=SECONDS, registry=registry
        )
        self._waiting = Gauge("unire_queue_requests", "Requests that wait to be computed.", registry=registry)
        self._batch_texts = Histogram("unire_batch_texts", "Texts computed at once.", buckets=TEXTS, registry=registry)
        self._batch_seconds = Histogram(
            "unire_batch_seconds", "Seconds to compute a batch.", buckets=SECONDS, registry=registry
        )
        self._texts = Counter("unire_texts", "Texts that were read.", registry=registry)
        self._characters = Counter("unire_characters", "Characters that were read.", registry=registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, orders: Sequence[Job], seconds: float) -> None:
        sources = [source for order in orders for source in order.sources]
        self._batch_texts.observe(len(sources))
        self._batch_seconds.observe(seconds)
        self._texts.inc(len(sources))
        self._characters.inc(sum(map(length, sources)))

    def watch_queue(self, waiting: Callable[[], int]) -> None:
        self._waiting.set_function(waiting)

    def text(self) -> bytes:
        return generate_latest(self._registry)
