"""The metrics of the server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import prometheus_client as prometheus

from unire.serving.jobs import Job, count_characters

__all__ = ["Metrics"]

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
