"""One caller's connection, which is not waited for without end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from unire.serving.limits import Limits

__all__ = ["Connection"]

HEAD = 10.0
"""Seconds in which a request must have told its address and headers; the first one, from when the caller connected."""


class Connection(H11Protocol):
    """uvicorn's, but for callers who say or read nothing, or one byte now and then: those it would keep for ever.

    A connection past the limit is closed as soon as it is there.
    """

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            transport.close()
        else:
            self._hang_up_in(HEAD)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.flow.write_paused:
            return  # the caller is to read what it has asked for, whatever else it says
        if self._under_way:
            self._stay()
        elif self._timer is None:
            self._hang_up_in(HEAD)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._hang_up_in(self._limits.timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stay()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stay()

    def shutdown(self) -> None:
        """Begin to stop: what has come whole is answered, and the rest is not waited for."""
        super().shutdown()
        if self._under_way and self.cycle.more_body:
            self.transport.close()

    @property
    def _under_way(self) -> bool:
        """Whether a request has told what it wants, and is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _hang_up_in(self, seconds: float) -> None:
        self._stay()
        # not close(), which would wait until the caller has read what is written
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
