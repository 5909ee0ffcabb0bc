"""The uvicorn server: address, signals and graceful shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import math
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from unire.errors import UnireError
from unire.serving.middleware import Connection
from unire.serving.service import Service

__all__ = ["Server", "bind", "limit_malloc_arenas", "serve"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Constants of glibc's malloc.h."""
MMAP_THRESHOLD_BYTES = 2**22
"""Larger arrays have memory of their own, which is returned when the array is freed."""
KEEP_ALIVE_SECONDS = 75
"""Idle connections are kept longer than proxies keep them, so that the proxy closes them."""
SHUTDOWN_SECONDS = 2
"""Time for callers to read their answers when the server stops."""


def bind(host: str, port: int) -> socket.socket:
    """Open a socket at a free address."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        # asyncio sets TCP_NODELAY only on sockets with an explicit protocol; others wait for 40 ms
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
        return listening
    except (OSError, UnicodeError) as error:
        other = (
            "port=..." if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES) else "host=..."
        )
        reason = getattr(error, "strerror", None) or error
        raise UnireError(f"cannot listen on {host}, port {port}: {reason}; try another {other}") from None


def limit_malloc_arenas() -> None:
    """Limit the memory of glibc's malloc. Call it before threads start.

    glibc gives threads memory arenas of their own, and each keeps the most it ever needed. With the default of 8 per
    core, a server grows for many thousands of requests; with two, threads wait for each other. glibc also raises its
    threshold for `mmap`, so that large arrays fragment the arenas; a fixed threshold keeps them out. A high trim
    threshold avoids returning and requesting memory again and again.
    """
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no arenas
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 4)
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, 32 * MMAP_THRESHOLD_BYTES)


def serve(app: FastAPI, listening: socket.socket, announce: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or Ctrl-C, and then until all accepted requests are answered or the grace period is over.

    Meanwhile new requests and `/ready` are answered with 503. A second signal ends the grace period.

    Args:
        app: The application.
        listening: The socket.
        announce: Called when the server is about to accept connections.
    """
    server = Server(app)
    # Handle signals until the end: one during the start of uvicorn counts, and one after its end is ignored.
    before = {sig: signal.signal(sig, server.handle_exit) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        announce()
        server.run(sockets=[listening])
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


class Server(uvicorn.Server):
    """uvicorn with a graceful shutdown."""

    def __init__(self, app: FastAPI) -> None:
        self._service: Service = app.state.service
        self._end = math.inf
        """When the grace period is over."""
        limits = self._service.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # any callable that returns a connection works
                ws="none",
                log_config=None,
                log_level="error",  # no line for every malformed request
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.stopping:
            self._end = -math.inf
        self._service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        if self._service.stopping:
            self._end = min(self._end, monotonic() + self._service.limits.grace)
            if monotonic() >= self._end:
                self._service.batcher.abort()
            self.should_exit = not self._service.busy
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # all answers are written; do not wait for callers that do not read them
        timer = asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, self._abort_connections)
        await super().shutdown(sockets)
        timer.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            cast("Connection", connection).transport.abort()
