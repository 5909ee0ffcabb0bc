"""The server itself: an address, signals, and a stop that loses nothing."""

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

__all__ = ["Server", "bind", "keep_memory_flat", "serve"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Of glibc's malloc.h."""
LARGE = 2**22
"""Bytes of an array that has memory of its own, which goes back as soon as the array is gone."""
IDLE = 75
"""Seconds that a silent connection is kept: longer than proxies do, so that they close it and not we."""
LEAVE = 2
"""Seconds that callers have to read their answers when the server stops."""


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address that is free."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        # asyncio sends at once only what goes through sockets that say that they speak TCP; others wait for 40 ms
        listening = socket.socket(family, kind, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
        return listening
    except (OSError, UnicodeError) as error:
        other = "--port" if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        reason = getattr(error, "strerror", None) or error
        raise UnireError(f"cannot listen on {host}, port {port}: {reason}; try another {other}") from None


def keep_memory_flat() -> None:
    """To be called before threads are there.

    glibc gives threads pools of memory of their own, each of which keeps the most that was ever needed of it: with the
    8 for every core that it allows, a server grows for many thousands of requests. With two, threads wait for each
    other. It also lets ever larger arrays into the pools, and so they are torn apart and grow: what is large stays out
    of them. Pools are not given back and asked for again in between, which would take time.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library has no such pools
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 4)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, 32 * LARGE)


def serve(app: FastAPI, listening: socket.socket, announce: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or Ctrl-C, and then until all that was accepted is answered, or the grace is over.

    Meanwhile new orders and `/ready` are answered with 503. A second signal ends the grace.

    Args:
        app: What is served.
        listening: Where.
        announce: Called when callers, and signals, may come.
    """
    server = Server(app)
    # Signals are ours from now until all is done: one that comes while uvicorn starts is heard as soon as it has, and
    # one that comes between its end and the process's changes nothing.
    before = {sig: signal.signal(sig, server.handle_exit) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        announce()
        server.run(sockets=[listening])
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


class Server(uvicorn.Server):
    """uvicorn, but for what a signal does."""

    def __init__(self, app: FastAPI) -> None:
        self._service: Service = app.state.service
        self._end = math.inf
        """When the grace is over."""
        limits = self._service.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # what makes one will do
                ws="none",
                log_config=None,
                log_level="error",  # not a line for whatever comes that is no HTTP
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE,
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
                self._service.batcher.give_up()
            self.should_exit = not self._service.busy
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # answers are written; callers who do not read them are not waited for
        leaving = asyncio.get_running_loop().call_later(LEAVE, self._hang_up)
        await super().shutdown(sockets)
        leaving.cancel()

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            cast("Connection", connection).transport.abort()
