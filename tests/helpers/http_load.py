"""Callers of a server: well-behaved ones, as light as they can be, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice

HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
CLOSED, RESET, UNREACHABLE = 0, -1, -2
"""In place of a status: the connection was closed or reset without an answer, or could not be made."""


@dataclass
class Answer:
    """What came back."""

    status: int
    body: bytes = b""
    closes: bool = False
    """Whether the server announced that it closes the connection."""


@dataclass
class Tally:
    """Answers, counted."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of those with status 200."""
    bad: list[str] = field(default_factory=list)

    def add(self, answer: Answer, seconds: float) -> None:
        self.statuses[answer.status] += 1
        if answer.status == 200:
            self.seconds.append(seconds)

    def milliseconds(self, share: float) -> float:
        """A quantile of the latencies."""
        return 1000 * sorted(self.seconds)[int(share * (len(self.seconds) - 1))] if self.seconds else float("nan")

    def __str__(self) -> str:
        p50, p99, longest = (self.milliseconds(share) for share in (0.5, 0.99, 1))
        return (
            f"{dict(self.statuses)}, p50 {p50:.1f} ms, p99 {p99:.1f} ms ({p99 / p50:.2f} times), max {longest:.1f} ms"
        )


class Caller:
    """A connection that is kept open, and opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, body: object, path: str = "/extract") -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        except OSError:
            return Answer(UNREACHABLE)
        try:
            self.writer.write(HEAD.format(path, len(data)).encode() + data)
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            found = await self.reader.readexactly(int(headers["content-length"]))
        except asyncio.IncompleteReadError:
            self.close()
            return Answer(CLOSED)
        except OSError:
            self.close()
            return Answer(RESET)
        answer = Answer(int(lines[0].split()[1]), found, headers.get("connection") == "close")
        if answer.closes:
            self.close()
        return answer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None


async def closed_loop(
    port: int, bodies: Sequence[object], callers: int, *, seconds: float = 1e9, requests: int | None = None
) -> tuple[Tally, float]:
    """Every caller asks as soon as it has its answer. Return the answers and the seconds that they took."""
    tally = Tally()
    stream = islice(cycle(bodies), requests)
    end = time.perf_counter() + seconds

    async def call() -> None:
        caller = Caller(port)
        for body in stream:
            started = time.perf_counter()
            if started > end:
                break
            tally.add(await caller.ask(body), time.perf_counter() - started)
        caller.close()

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    return tally, time.perf_counter() - started


async def open_loop(
    port: int, bodies: Sequence[object], rate: float, seconds: float, *, at_random: bool = False
) -> tuple[Tally, float]:
    """Requests at a rate, whatever comes back: at fixed times, or independently of each other."""
    tally = Tally()
    idle: list[Caller] = []
    rng = random.Random(0)

    async def call(body: object) -> None:
        caller = idle.pop() if idle else Caller(port)
        started = time.perf_counter()
        tally.add(await caller.ask(body), time.perf_counter() - started)
        idle.append(caller)

    begun = due = time.perf_counter()
    calls = []
    for body in islice(cycle(bodies), int(rate * seconds)):
        await asyncio.sleep(max(0, due - time.perf_counter()))
        calls.append(asyncio.ensure_future(call(body)))
        due += rng.expovariate(rate) if at_random else 1 / rate
    await asyncio.gather(*calls)
    for caller in idle:
        caller.close()
    return tally, time.perf_counter() - begun


async def ask_until_unreachable(port: int, bodies: Sequence[object], kept: int, new: int) -> tuple[Tally, Tally]:
    """Callers that keep their connections, and others that make one for each request, until nobody listens.

    Returns:
        The answers of the ones and of the others. An answer with 503 that does not close its connection is bad.
    """
    tallies = Tally(), Tally()

    async def call(tally: Tally, *, keeps: bool) -> None:
        caller = Caller(port)
        for body in cycle(bodies):
            started = time.perf_counter()
            answer = await caller.ask(body)
            tally.add(answer, time.perf_counter() - started)
            if answer.status == UNREACHABLE:
                break
            if answer.status == 503 and not answer.closes:
                tally.bad.append("503 without Connection: close")
            if not keeps:
                caller.close()
        caller.close()

    calls = [call(tallies[0], keeps=True) for _ in range(kept)] + [call(tallies[1], keeps=False) for _ in range(new)]
    await asyncio.gather(*calls)
    return tallies


# Hostile callers

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "silent": (b"", b""),
    "idle": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    "slow head": (b"POST /extract HTTP/1.1\r\nHost: loc", b"a"),
    "slow body": (HEAD.format("/extract", 100_000).encode(), b" "),
    "half-closed": (HEAD.format("/extract", 100_000).encode(), b""),
    "never reading": (50 * ASK, b""),
}
"""By kind: what is sent at once, and then every second."""


async def besiege(port: int, kinds: Sequence[str], connections: int, seconds: float) -> None:
    """Keep hostile connections open; one that is closed is opened again within a second."""
    rng = random.Random(0)
    end = time.monotonic() + seconds

    async def attack(kind: str) -> None:
        at_once, then = HOSTILE[kind]
        while time.monotonic() < end:
            with suppress(OSError):
                await _hold(port, at_once, then, end, reads=kind != "never reading", half_closes=kind == "half-closed")
            await asyncio.sleep(rng.random())

    await asyncio.gather(*(attack(kinds[i % len(kinds)]) for i in range(connections)))


async def _hold(port: int, at_once: bytes, then: bytes, end: float, *, reads: bool, half_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        if not reads:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        with suppress(BlockingIOError):
            connection.send(at_once)
        if half_closes:
            connection.shutdown(socket.SHUT_WR)
        while time.monotonic() < end:
            if reads:
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        if not await loop.sock_recv(connection, 2**16):
                            return
            else:
                await asyncio.sleep(1)
            with suppress(BlockingIOError):
                connection.send(then if reads else ASK)


def mixed_bodies(texts: Sequence[str], seed: int = 0) -> Iterator[tuple[str, object]]:
    """Yield requests of all kinds without end: paths, and bodies that are good, empty, large and wrong."""
    rng = random.Random(seed)
    while True:
        some = rng.sample(texts, min(4, len(texts)))
        yield rng.choice(
            [
                *[("/extract", {"text": some[0]})] * 6,
                *[("/extract", {"texts": some, "min_score": rng.random()})] * 2,
                *[("/view", {"text": some[0], "cells": [0], "alpha": rng.uniform(0.5, 5)})] * 2,
                ("/extract", {"words": [text.split() for text in some[:2]]}),
                ("/extract", {"text": " ".join(some)}),
                ("/extract", {"text": ""}),
                ("/extract", {"text": 1}),
                ("/extract", b'{"text": "'),
                ("/extract", {"text": "a" * 20_001}),
                ("/extract", b" " * 300_000),
                ("/nowhere", {}),
            ]
        )
