"""The service: one model and its queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from unire.errors import UnireError
from unire.extractor import Extractor
from unire.serving.batcher import Batcher, ClosedError, FullError, TooLargeError
from unire.serving.connections import ConnectionTable
from unire.serving.jobs import Job, Worker
from unire.serving.limits import ServingLimits
from unire.serving.metrics import Metrics
from unire.serving.schemas import CLIENT_CLOSED_REQUEST, ApiError

__all__ = ["Service"]


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
        self.connections = ConnectionTable(limits)
        self.worker = Worker(extractor, batch_tokens=limits.batch_tokens)
        self.batcher: Batcher[Job, bytes] = Batcher(
            self.worker, lambda job: job.tokens, limits, self.metrics.count_batch
        )
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
            result = asyncio.wrap_future(self.batcher.submit(self.worker.split(job), client))
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
        self.accepted += 1
        outcome = "failed"
        left = asyncio.ensure_future(disconnected())
        try:
            await asyncio.wait({result, left}, timeout=self.limits.timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                results = result.result()
                outcome = "answered"
                return job.join(results)
            if left.done():
                outcome = "left"
                raise ApiError(CLIENT_CLOSED_REQUEST, "the client has disconnected")  # only counted, never sent
            outcome = "late"
            # without `Retry-After`: the same request would take as long again
            raise ApiError(
                503, f"the request timed out after {self.limits.timeout_seconds:g} seconds; send less text at once"
            )
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
