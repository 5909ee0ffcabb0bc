"""Host names, limits, metrics and errors of every request."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unire.serving.addresses import AllowedHosts, client_of
from unire.serving.schemas import CLIENT_CLOSED_REQUEST, ApiError
from unire.serving.service import Service

__all__ = ["RequestMiddleware", "send_error"]

log = logging.getLogger(__name__)

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
CLOSE = (b"connection", b"close")


class RequestMiddleware:
    """The outermost middleware: checks the host, limits the body, counts the request, and answers errors with one
    sentence.

    Args:
        app: The application.
        service: Its limits, metrics and state.
        hosts: The names by which clients may address the server.
        paths: The known paths; all others are counted as one.
    """

    def __init__(self, app: ASGIApp, service: Service, hosts: AllowedHosts, paths: frozenset[str]) -> None:
        self.app = app
        self.service = service
        self.limits = service.limits
        self.hosts = hosts
        self.paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = perf_counter()
        status = 0
        client = client_of(scope["client"][0]) if scope["client"] else ""

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = list(SECURITY_HEADERS)
                if CLOSE not in message["headers"] and self.service.closes_connection(client):
                    added.append(CLOSE)
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
                await send_error(send_with_headers, ApiError(500, "internal error; the server has logged it"))
        finally:
            self.service.metrics.count_request(path, status, perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.hosts.allow(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
            refusal = ApiError(421, "the host name of the request is not one of the server's allowed hosts")
            await send_error(send, refusal, last=True)
            return
        try:
            async with asyncio.timeout(self.limits.timeout_seconds):
                body = await self._read_body(scope, receive)
        except TimeoutError:
            await send_error(
                send,
                ApiError(408, f"the body did not arrive within {self.limits.timeout_seconds:g} seconds"),
                last=True,
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
        too_large = ApiError(413, f"the body is too large: a request may have {self.limits.body_bytes:,} bytes")
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > self.limits.body_bytes:
            raise too_large
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(CLIENT_CLOSED_REQUEST, "the client disconnected before the end of the body")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.limits.body_bytes:
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
