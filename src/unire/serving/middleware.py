"""Around every request: its body is limited, it is counted, and what goes wrong is answered with a sentence."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from unire.serving.metrics import Metrics
from unire.serving.schemas import GONE, ApiError, ServingLimits

__all__ = ["Connection", "RequestMiddleware", "problem"]

log = logging.getLogger(__name__)

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestMiddleware:
    """The outermost of an application.

    Args:
        app: The application.
        limits: How large a body may be, and how long it may take to come.
        metrics: Are told of every request.
        paths: Those that are known; all others are counted as one.
    """

    def __init__(self, app: ASGIApp, limits: ServingLimits, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        path = scope["path"] if scope["path"] in self.paths else "other"
        try:
            await self._handle(scope, receive, watched)
        except ApiError as refusal:
            await problem(watched, refusal)
        except Exception as error:
            _report(path, error)
            if not status:
                await problem(
                    watched, ApiError(500, "the server is at fault, and has noted where; the request is lost")
                )
        finally:
            self.metrics.request(path, status, perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(self._body(scope, receive), self.limits.timeout)
        except TimeoutError:
            await problem(
                send, ApiError(408, f"the body did not come within {self.limits.timeout:g} seconds"), last=True
            )
            return
        except ApiError as refusal:
            await problem(send, refusal, last=True)  # the rest of the body may still be on its way
            return
        given = False

        async def whole() -> Message:
            nonlocal given
            if given:
                return await receive()  # the caller has gone
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        if scope["method"] == "HEAD":  # what GET is answered with, of which the server sends the head alone
            scope = {**scope, "method": "GET"}
        await self.app(scope, whole, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """All of it, unless it is too large."""
        too_large = ApiError(413, f"the body is too large: a request may have {self.limits.body:,} bytes")
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > self.limits.body:
            raise too_large
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(GONE, "the caller has gone before all of the body had come")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.limits.body:
                raise too_large
        return bytes(body)


async def problem(send: Send, refusal: ApiError, *, last: bool = False) -> None:
    """Answer with a sentence; with `last`, no more requests are read from this connection."""
    body = json.dumps({"error": refusal.sentence}, ensure_ascii=False).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refusal.headers,
        **({"connection": "close"} if last else {}),
    }
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _report(path: str, error: Exception) -> None:
    """Say where something failed, and nothing of what it failed on: messages of errors quote texts."""
    frames = traceback.extract_tb(error.__traceback__)
    way = " > ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames)
    log.error("%s failed: %s at %s", path, type(error).__name__, way)


HEAD = 10.0
"""Seconds in which a request must have told its address and headers; the first one, from when the caller connected."""


class Connection(H11Protocol):
    """uvicorn's, but for callers who say or read nothing, or one byte now and then: those it would keep for ever.

    A connection past the limit is closed as soon as it is there.
    """

    def __init__(self, *args: Any, limits: ServingLimits, **options: Any) -> None:
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
