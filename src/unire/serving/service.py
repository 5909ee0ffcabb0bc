"""The way of an order through queue and model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from unire.errors import UnireError
from unire.extractor import Extractor
from unire.serving.batcher import Batcher, ClosedError, FullError
from unire.serving.jobs import Job, Worker
from unire.serving.metrics import Metrics
from unire.serving.schemas import GONE, ApiError, ServingLimits

__all__ = ["Service"]


class Service:
    """One model, and the queue before it.

    Args:
        extractor: The model.
        name: What it is called.
        limits: How much is taken on.
    """

    def __init__(self, extractor: Extractor, name: str, limits: ServingLimits) -> None:
        self.extractor = extractor
        self.name = name
        self.limits = limits
        self.metrics = Metrics()
        self.reader = Worker(extractor, batch=limits.batch)
        self.batcher: Batcher[Job, bytes] = Batcher(self.reader, lambda order: order.size, limits, self.metrics.batch)
        self.metrics.watch_queue(lambda: self.batcher.waiting)
        self.stopping = False
        """Whether new orders are refused, because the server is about to stop."""
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        """How: `answered`, `failed`, `late` (not done in time), `left` (by the caller) or `stopped`."""

    async def answer(self, order: Job, gone: Callable[[], Any]) -> bytes:
        """Queue an order and wait for its answer.

        Args:
            order: What is asked.
            gone: Ends when the caller has gone; no more is done of the order then.
        """
        if self.stopping:
            raise ApiError(503, "the server is stopping and takes on nothing more; ask again in a moment", retry=1)
        try:
            result = asyncio.wrap_future(self.batcher.submit(order.parts(self.limits.batch)))
        except FullError as full:
            raise ApiError(
                429, f"the server has too much to do; ask again in {full.seconds} seconds", full.seconds
            ) from None
        except ClosedError:
            raise ApiError(503, "the server has stopped", retry=1) from None
        self.accepted += 1
        how = "failed"
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({result, left}, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                made = result.result()
                how = "answered"
                return order.answer(made)
            if left.done():
                how = "left"
                raise ApiError(GONE, "the caller has gone")  # and does not hear this
            how = "late"
            # without a time to ask again: whoever asks for the same waits as long again
            raise ApiError(503, f"this was not done within {self.limits.timeout:g} seconds; ask for less at once")
        except ClosedError:
            how = "stopped"
            raise ApiError(503, "the server is stopping, and this was not done; ask again in a moment", 1) from None
        except UnireError as error:
            raise ApiError(422, str(error)) from None
        finally:
            self.ended[how] += 1
            result.cancel()
            left.cancel()

    @property
    def busy(self) -> bool:
        """Whether something that was accepted has not ended yet."""
        return self.accepted > self.ended.total()
