"""`serve`, and the uvicorn server: address, signals and graceful shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import math
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from unire import pretrained
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.hub.model_dir import locate_local_model
from unire.serving.addresses import AllowedHosts, bind
from unire.serving.app import make_app
from unire.serving.connections import Connection
from unire.serving.limits import ServingLimits
from unire.serving.service import Service

__all__ = ["Server", "limit_malloc_arenas", "run_app", "serve"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Constants of glibc's malloc.h."""
MMAP_THRESHOLD_BYTES = 2**22
"""Larger arrays have memory of their own, which is returned when the array is freed."""


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


def serve(
    model: str | Path = pretrained.DEFAULT,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: ServingLimits | None = None,
    api_key: str | None = None,
    allowed_hosts: str | Iterable[str] = (),
    device: str | None = None,
    constraints: str | Path | None = None,
    graph: str | Path | None = None,
    on_start: Callable[[str], None] = lambda address: None,
) -> Counter[str]:
    """Serve a model over HTTP until SIGTERM or Ctrl-C, and then until all accepted requests are answered.

    >>> from unire import serve
    >>> serve("science", port=8000)  # doctest: +SKIP

    Args:
        model: As for `Extractor.load`.
        host: Address to listen on; `0.0.0.0` listens on all.
        port: Port to listen on; 0 chooses a free one.
        limits: Limits of requests, of the queue and of batches.
        api_key: Key that clients must send as `Authorization: Bearer KEY`. [default: no key]
        allowed_hosts: Host names by which clients address the server, as a list or separated by commas; `*` allows all.
            Others are refused, so that web pages cannot reach the server by DNS rebinding. Needed if other machines
            can reach `host`. [default: `localhost`, `127.0.0.1` and `[::1]`, which are always allowed]
        device: As for `Extractor.load`.
        constraints: As for `Extractor.load`.
        graph: The folder of a knowledge graph, which the server shows at `/graph`.
        on_start: Called with the server's address, such as `http://127.0.0.1:8000`, when it is about to accept
            connections.

    Returns:
        How the accepted requests ended, counted: see `Service.ended`.

    Raises:
        UnireError: The address is not available, there is no such model, or `allowed_hosts` is missing.
    """
    if api_key == "":
        raise UnireError("the API key is empty; set a secret key, or none")
    if api_key is not None and api_key != api_key.strip():
        raise UnireError("the API key begins or ends with white space, which clients cannot send; remove it")
    hosts = AllowedHosts(allowed_hosts)
    listening = bind(host, port)
    address, port = listening.getsockname()[:2]
    hosts.check_address(address)
    limit_malloc_arenas()
    extractor = Extractor.load(model, device=device, constraints=constraints)
    app = make_app(extractor, model_name(model), limits=limits, key=api_key, hosts=hosts, graph=graph)
    service: Service = app.state.service
    service.measure_speed()
    run_app(app, listening, lambda: on_start(f"http://{f'[{address}]' if ':' in address else address}:{port}"))
    return service.ended


def model_name(model: str | Path) -> str:
    """The name that everybody may see: that of a model without a path, or the last part of a path."""
    if locate_local_model(model) is None or pretrained.get(str(model)):
        return str(model)
    return Path(model).resolve().name or "model"


def run_app(app: FastAPI, listening: socket.socket, announce: Callable[[], None] = lambda: None) -> None:
    """Run an application until SIGTERM or Ctrl-C, and then until all accepted requests are answered or the grace
    period is over.

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
        self._drained = math.inf
        """When the server may close its address, at the earliest."""
        limits = self._service.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Connection, limits=limits, table=self._service.connections),  # type: ignore[arg-type]  # any callable that returns a connection works
                loop="asyncio",
                ws="none",
                log_config=None,
                log_level="error",  # no line for every malformed request
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # a number of seconds
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.stopping:
            self._end = -math.inf
        self._service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        if self._service.stopping:
            limits = self._service.limits
            self._end = min(self._end, monotonic() + limits.grace_seconds)
            self._drained = min(self._drained, monotonic() + limits.drain_seconds)
            if monotonic() >= self._end:
                self._service.batcher.abort()
            # until then, callers with open connections learn by an answer that the server stops
            self.should_exit = not self._service.busy and monotonic() >= min(self._drained, self._end)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        # all answers are written; do not wait for callers that do not read them
        timer = loop.call_later(self._service.limits.linger_seconds, self._abort_connections)
        # the connections that the system has accepted would be reset when the socket is closed, which follows at once
        last = [
            loop.create_task(self._serve_last(accepted))
            for listening in sockets or []
            for accepted in accept_all(listening)
        ]
        await super().shutdown(sockets)
        timer.cancel()
        await asyncio.gather(*last)

    async def _serve_last(self, accepted: socket.socket) -> None:
        """Serve a connection that was accepted when the server closed its address."""

        def make_protocol() -> asyncio.Protocol:
            kind: Any = self.config.http_protocol_class
            connection: asyncio.Protocol = kind(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return connection

        await asyncio.get_running_loop().connect_accepted_socket(make_protocol, accepted)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            cast("Connection", connection).transport.abort()


def accept_all(listening: socket.socket) -> Iterator[socket.socket]:
    """Accept the connections that wait, and let the system keep back new ones."""
    listening.listen(0)
    with suppress(BlockingIOError):
        while True:
            yield listening.accept()[0]
