"""Connections: time limits for slow clients, and limits of how many there are.

Connections that wait for their client (idle, or with a slow request, or with an answer that is not read) are closed
when new ones come. So a client that opens many connections and does little with them locks nobody out.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from unire.serving.addresses import client_of
from unire.serving.limits import ServingLimits

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Connection", "ConnectionTable"]

LAST_REQUEST_SECONDS = 0.2
"""Time for a request that was sent before the client could know that the server stops."""
CROWDED = 0.75
"""Connections run short when more than this part of the limit is open."""
PATIENCE_SECONDS = 0.25
"""A connection is not closed for another one before it has waited this long: its next request may be on the way."""
MAX_CLOSING = 320
"""Connections beyond the limit whose clients get the time to read a last answer."""


def _answer(status: str, sentence: str, header: str) -> bytes:
    body = json.dumps({"error": sentence}).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{header}content-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


TOO_MANY = _answer(
    "429 Too Many Requests",
    "your address has too many connections with requests; try again in 1 seconds",
    "retry-after: 1\r\n",
)
"""The answer for a connection beyond the limit, if no other can be closed."""
NOT_HTTP = _answer("400 Bad Request", "the request is not valid HTTP/1.1", "")


def count_unread_bytes(transport: asyncio.Transport) -> int:
    """Bytes that have come and were not read yet; 0 where the system does not say."""
    if fcntl is None:
        return 0
    unread = array("i", [0])
    with suppress(OSError):
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, unread)
    return unread[0]


class ConnectionTable:
    """The open connections of a server.

    Args:
        limits: How many there may be.
        on_refusal: Called for every connection that is refused.
    """

    def __init__(self, limits: ServingLimits, on_refusal: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._on_refusal = on_refusal
        self._clients: dict[str, set[Connection]] = {}
        """The connections of each client."""
        self._closing: dict[Connection, None] = {}
        """Connections that only wait until their client has read the last answer; the oldest comes first."""

    def __len__(self) -> int:
        """Number of connections that are not about to be closed."""
        return sum(map(len, self._clients.values()))

    def admit(self, connection: Connection) -> bool:
        """Add a connection. At the limits, it replaces one that waits for its client, if there is one."""
        own = self._clients.get(connection.client_name, set())
        candidates: list[set[Connection]] = []
        if is_full := len(own) >= self._limits.of_client(self._limits.connections):
            candidates = [own]
        elif is_full := len(self) >= self._limits.connections:
            candidates = sorted(self._clients.values(), key=len, reverse=True)
        if is_full and not any(map(self._evict, candidates)):
            self._on_refusal()
            return False
        self._clients.setdefault(connection.client_name, set()).add(connection)
        return True

    def is_crowded(self, client: str) -> bool:
        """Whether connections run short. Then answers close theirs, so that fewer idle ones must be closed."""
        limits, own = self._limits, len(self._clients.get(client, ()))
        return own > CROWDED * limits.of_client(limits.connections) or len(self) > CROWDED * limits.connections

    def remove(self, connection: Connection) -> None:
        """Remove a connection that was closed."""
        self._closing.pop(connection, None)
        own = self._clients.get(connection.client_name, set())
        own.discard(connection)
        if not own:
            self._clients.pop(connection.client_name, None)

    def add_closing(self, connection: Connection) -> None:
        """Stop counting a connection whose client has only to read the last answer."""
        self.remove(connection)
        self._closing[connection] = None
        if len(self._closing) > MAX_CLOSING:
            self._abort(next(iter(self._closing)))

    def limit_unsent(self) -> None:
        """Disconnect the slowest readers if too many bytes of answers wait for their clients."""
        slow = [connection for connections in self._clients.values() for connection in connections]
        slow = sorted((connection for connection in slow if connection.unsent_bytes), key=lambda each: each.waits_since)
        unsent = sum(connection.unsent_bytes for connection in slow)
        for connection in slow:
            if unsent <= self._limits.unsent_bytes:
                break
            unsent -= connection.unsent_bytes
            self._abort(connection)

    def _evict(self, connections: set[Connection]) -> bool:
        """Disconnect the client that the server has waited for longest; whether there is one."""
        for connection in sorted(connections, key=lambda connection: connection.waits_since):
            if connection.loop.time() - connection.waits_since < PATIENCE_SECONDS:
                return False
            if connection.waits_for_client:
                self._abort(connection)
                return True
        return False

    def _abort(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()


class LingeringTransport:
    """A transport that lets the client read the last answer when it is closed.

    A socket that is closed while the client still sends is reset, and a reset destroys an answer that the client has
    not read yet. So `close` closes only the side of the server, and ignores what the client sends, until the client
    closes its side or the time is over.

    Args:
        transport: The real transport.
        on_close: Called when the server's side is closed.
    """

    def __init__(self, transport: asyncio.Transport, on_close: Callable[[], None]) -> None:
        self._transport = transport
        self._on_close = on_close
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        try:
            self._transport.write_eof()  # after the rest of the answer
        except OSError:  # the client has reset the connection
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._on_close()


class Connection(H11Protocol):
    """uvicorn's connection with time limits for clients that send or read too slowly, which uvicorn keeps for ever."""

    def __init__(self, *args: Any, limits: ServingLimits, table: ConnectionTable, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._table = table
        self._timer: asyncio.TimerHandle | None = None
        self.client_name = ""
        self.waits_since = 0.0
        """When the client connected, got its last answer, or stopped to read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self._linger)))
        self.client_name = client_of(self.client[0]) if self.client else ""
        self.waits_since = self.loop.time()
        if self._table.admit(self):
            self._abort_in(self._limits.header_seconds)
        else:
            self.transport.write(TOO_MANY)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.flow.write_paused or self.transport.is_closing():
            return  # another time limit goes on
        if self._in_progress:
            self._cancel_timer()
        elif self._timer is None:
            self._abort_in(self._limits.header_seconds)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; also in the middle of a request that the application already reads."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(NOT_HTTP)
        if self._in_progress:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waits_since = self.loop.time()
        if not self.transport.is_closing():
            self._abort_in(self._limits.timeout_seconds)
        self._table.limit_unsent()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_timer()

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_timer()
        self._table.remove(self)

    def _linger(self) -> None:
        """Wait until the client has read the last answer and closes the connection."""
        if self.unsent_bytes:
            self._abort_in(self._limits.timeout_seconds)
        else:
            self._table.add_closing(self)
            self._abort_in(self._limits.linger_seconds)

    def shutdown(self) -> None:
        """Start to stop: answer complete requests, and close other connections, soon."""
        self.loop.call_later(LAST_REQUEST_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waits_for_client and not self.flow.write_paused:
            self.transport.close()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the client has not read."""
        return self.transport.get_write_buffer_size()

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn to send or to read, or it sends the next request before it has an answer."""
        if self.flow.write_paused:
            return True
        if self._in_progress and not self.cycle.more_body:
            return bool(self.conn.trailing_data[0])
        return not count_unread_bytes(self.transport)

    @property
    def _in_progress(self) -> bool:
        """Whether a request has sent its headers and is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _abort_in(self, seconds: float) -> None:
        self._cancel_timer()
        # not `close`, which would wait until the client has read the answer
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
