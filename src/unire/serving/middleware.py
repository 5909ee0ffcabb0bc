"""Limits, metrics and errors of every request, and time limits of every connection."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from unire.serving.schemas import CLIENT_CLOSED_REQUEST, ApiError, ServingLimits
from unire.serving.service import Metrics

__all__ = ["Connection", "RequestMiddleware", "send_error"]

log = logging.getLogger(__name__)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestMiddleware:
    """The outermost middleware: limits the body, counts the request, and answers errors with one sentence.

    Args:
        app: The application.
        limits: Size and timeout of the body.
        metrics: Counts every request.
        paths: The known paths; all others are counted as one.
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

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        path = scope["path"] if scope["path"] in self.paths else "other"
        try:
            await self._handle(scope, receive, send_with_headers)
        except ApiError as refusal:
            await send_error(send_with_headers, refusal)
        except Exception as error:
            _log_error(path, error)
            if not status:
                await send_error(
                    send_with_headers, ApiError(500, "the server is at fault, and has noted where; the request is lost")
                )
        finally:
            self.metrics.count_request(path, status, perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(self._read_body(scope, receive), self.limits.timeout)
        except TimeoutError:
            await send_error(
                send, ApiError(408, f"the body did not come within {self.limits.timeout:g} seconds"), last=True
            )
            return
        except ApiError as refusal:
            await send_error(send, refusal, last=True)  # the rest of the body may still be on its way
            return
        sent = False

        async def receive_body() -> Message:
            nonlocal sent
            if sent:
                return await receive()  # returns when the caller disconnects
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        if scope["method"] == "HEAD":  # answered as GET; the server sends only the headers
            scope = {**scope, "method": "GET"}
        await self.app(scope, receive_body, send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the whole body, unless it is too large."""
        too_large = ApiError(413, f"the body is too large: a request may have {self.limits.body:,} bytes")
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > self.limits.body:
            raise too_large
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(CLIENT_CLOSED_REQUEST, "the caller has gone before all of the body had come")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.limits.body:
                raise too_large
        return bytes(body)


async def send_error(send: Send, refusal: ApiError, *, last: bool = False) -> None:
    """Answer with an error; with `last`, close the connection afterwards."""
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


def _log_error(path: str, error: Exception) -> None:
    """Log where an error was raised, but not its message, which may quote the text of a user."""
    frames = traceback.extract_tb(error.__traceback__)
    path_to_error = " > ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames)
    log.error("%s failed: %s at %s", path, type(error).__name__, path_to_error)


HEADER_TIMEOUT_SECONDS = 10.0
"""Time limit for the headers of a request; for the first request, counted from the connection."""


class Connection(H11Protocol):
    """uvicorn's connection with time limits for callers that send or read too slowly, which uvicorn keeps for ever.

    Connections beyond the limit are closed at once.
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
            self._abort_in(HEADER_TIMEOUT_SECONDS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.flow.write_paused:
            return  # the time limit for reading the answer goes on
        if self._in_progress:
            self._cancel_timer()
        elif self._timer is None:
            self._abort_in(HEADER_TIMEOUT_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._abort_in(self._limits.timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timer()

    def shutdown(self) -> None:
        """Start to stop: answer complete requests, and close connections whose request is not complete."""
        super().shutdown()
        if self._in_progress and self.cycle.more_body:
            self.transport.close()

    @property
    def _in_progress(self) -> bool:
        """Whether a request has sent its headers and is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _abort_in(self, seconds: float) -> None:
        self._cancel_timer()
        # not `close`, which would wait until the caller has read the answer
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
