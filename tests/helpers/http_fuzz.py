"""Mutants of HTTP requests, and what a server may answer to them."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


def post(path: bytes, body: bytes, head: bytes = HOST + JSON) -> bytes:
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, head, len(body), body)


def chunked(*chunks: bytes) -> bytes:
    head = b"POST /extract HTTP/1.1\r\n" + HOST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


SEEDS = [
    b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /ready?x=1 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /metrics HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    post(b"/extract", b'{"text": "a b"}'),
    post(b"/extract", b'{"texts": ["a", ""], "min_score": 0.5}'),
    post(b"/extract", b'{"words": [["a", "."], []]}'),
    post(b"/view", b'{"text": "a", "alpha": 1.5, "cells": [0]}'),
    post(b"/extract", b'{"text": "a"}', HOST + JSON + b"Expect: 100-continue\r\n"),
    post(b"/extract", b'{"text": "a"}') + b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n",
    chunked(b'{"te', b'xt": "a"}'),
    chunked(b'{"text": "a"}') + post(b"/view", b'{"text": "b"}'),
]
TOKENS = [
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\0", b"\xff", b"\x7f", b":", b",", b";", b"%", b"%00", b"%ff"),
    *(
        b"/",
        b"//",
        b"/../",
        b"?",
        b"#",
        b"*",
        b"HTTP/1.1",
        b"HTTP/2.0",
        b"HTTP/9.9",
        b"GET",
        b"POST",
        b"PRI",
        b"CONNECT",
    ),
    *(b"Host: evil.example\r\n", b"Host: localhost\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n"),
    *(b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 0x5\r\n", b"Content-Length: 5, 5\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n"),
    *(b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n"),
    *(
        b"Content-Encoding: gzip\r\n",
        b"Content-Type: text/plain\r\n",
        b"Authorization: Bearer \xe9\r\n",
        b" folded\r\n",
    ),
    *(
        b"X: " + b"y" * 20_000 + b"\r\n",
        b"X: y\r\n" * 200,
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"-1\r\n",
        b"1;x=y\r\n",
    ),
    *(b"0", b"-1", b"1e999", b"NaN", b"null", b"[]", b"{}", b'""', b'"', b"\\ud800", b"[" * 3000, b'{"a":' * 1000),
    *(b"http://evil.example/", b"localhost:80", b"\xe2\x98\x83"),
]
PATIENCE_SECONDS = 4.0
"""Time to wait for an answer that must come. Then the client closes its side, and the server gives up the request."""
ANSWERS = {200, 400, 401, 404, 405, 408, 413, 415, 421, 422, 429}
"""Status codes of requests that are well served, or at fault."""


@dataclass
class Mutant:
    """What is sent on one connection."""

    data: bytes
    pieces: list[bytes]
    """The data, as it is sent."""
    status: int | None = None
    """The status of the first answer, if it is known."""
    hangs_up: bool = False
    """Whether the client closes at once."""


@dataclass
class Report:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter)
    """By the first answer of each mutant; 0 if there was none."""
    wrong: list[str] = field(default_factory=list)


def mutants(seed: int) -> Iterator[Mutant]:
    """Yield mutants without end."""
    rng = random.Random(seed)
    known = list(_known())
    while True:
        kind = rng.random()
        if kind < 0.1:
            data, status = rng.choice(known)
        else:
            data, status = _mutate(rng, rng.choice(SEEDS)), None
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 0, 1, 3))))
        pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        yield Mutant(data, pieces, status, hangs_up=status is None and rng.random() < 0.05)


def _mutate(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((0, 1, 2, 8, 40)))
        change = rng.randrange(7)
        if change == 0:
            data = data[:start] + rng.choice(TOKENS) + data[start:]
        elif change == 1:
            data = data[:start] + rng.choice(TOKENS) + data[end:]
        elif change == 2:
            data = data[:start] + data[end:]
        elif change == 3:
            data = data[:end] + data[start:end] * rng.choice((1, 3)) + data[end:]
        elif change == 4:
            data = data[:start] + bytes(rng.randrange(256) for _ in range(end - start)) + data[end:]
        elif change == 5:
            lines = data.split(b"\r\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(TOKENS).removesuffix(b"\r\n"))
            data = b"\r\n".join(lines)
        else:
            other = rng.choice(SEEDS)
            data = data[:start] + other[rng.randrange(len(other)) :]
    return data


def _known() -> Iterator[tuple[bytes, int]]:
    """Yield requests whose answer is known."""
    yield from ((seed, 404 if seed.startswith(b"OPTIONS") else 200) for seed in SEEDS)
    yield b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n", 404
    yield b"GET /extract HTTP/1.1\r\n" + HOST + b"\r\n", 405
    yield b"POST /health HTTP/1.1\r\n" + HOST + b"\r\n", 405
    yield b"GET /health HTTP/1.1\r\n\r\n", 400
    yield b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400
    yield b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421
    yield b"GET /health\r\n\r\n", 400
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400  # TLS
    yield post(b"/extract", b"a", HOST), 415
    yield post(b"/extract", b"a", HOST + b"Content-Type: text/json\r\n"), 415
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"text": 1}',
        b'{"text": "a", "texts": []}',
        b'{"x": 1}',
        b"\xff",
        b"[" * 9000,
    ):
        yield post(b"/extract", body), 422
        yield chunked(body) if body else post(b"/view", b"{}"), 422
    yield post(b"/extract", b" " * 300_000), 413
    yield post(b"/extract", json.dumps({"text": "a" * 20_001}).encode()), 422


async def attack(port: int, attempts: list[Mutant], report: Report, *, seconds: float = 5, parallel: int = 32) -> None:
    """Send mutants, each on a connection of its own, and note every answer that is wrong.

    Args:
        port: Where the server listens.
        attempts: The mutants.
        report: What comes back is added to it.
        seconds: A connection that is still open so long after its client has closed its side is wrong.
        parallel: Connections at a time.
    """
    stream = iter(attempts)

    async def work() -> None:
        for mutant in stream:
            try:
                async with asyncio.timeout(seconds):
                    received, reset = await _send(port, mutant)
            except TimeoutError:
                report.wrong.append(f"no end after {seconds} s: {mutant.data!r:.2000}")
                continue
            if mutant.hangs_up:
                continue
            try:
                statuses = _read_answers(received)
            except ValueError as error:
                report.wrong.append(f"{error}: {received!r:.500} for {mutant.data!r:.2000}")
                continue
            first = statuses[0] if statuses else 0
            report.statuses[first] += 1
            if not {*statuses} <= ANSWERS or (mutant.status and first != mutant.status) or (reset and mutant.status):
                report.wrong.append(f"{statuses}, not {mutant.status}: {mutant.data!r:.2000}")

    await asyncio.gather(*(work() for _ in range(parallel)))


async def _send(port: int, mutant: Mutant) -> tuple[bytes, bool]:
    """Send a mutant; return the bytes that came back, and whether the connection was reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    received = bytearray()
    try:
        for piece in mutant.pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if mutant.hangs_up:
            writer.transport.abort()
            return b"", False
        pause = PATIENCE_SECONDS if mutant.status else 0.05  # a mutant may be a request without an end
        while True:
            try:
                async with asyncio.timeout(pause):
                    data = await reader.read(2**16)
            except TimeoutError:
                break
            if not data:
                return bytes(received), False
            received += data
            if received.rfind(b"HTTP/1.1 ") or not received.startswith(b"HTTP/1.1 100"):  # the answer has begun
                pause = 0.05
        writer.write_eof()
        while data := await reader.read(2**16):
            received += data
        return bytes(received), False
    except OSError:
        return bytes(received), True
    finally:
        writer.transport.abort()


def _read_answers(received: bytes) -> list[int]:
    """Parse the answers of a connection; an answer that was cut off is none. Return their statuses."""
    statuses = []
    rest = received
    while rest:
        head, found, rest = rest.partition(b"\r\n\r\n")
        if not found:
            raise ValueError("an answer without a head")
        lines = head.decode("latin-1").split("\r\n")
        version, code = lines[0].split(" ")[:2]
        if version != "HTTP/1.1":
            raise ValueError("not an answer")
        status = int(code)
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        if status >= 200:
            statuses.append(status)
        if "content-length" in headers:
            length = int(headers["content-length"])
            if status < 400:
                # the answer to HEAD has no body, and another answer may follow
                rest = rest if rest.startswith(b"HTTP/1.1 ") else rest[length:]
                continue
            if rest and not rest.startswith(b"HTTP/1.1 "):
                body = rest[:length]
                if list(json.loads(body)) != ["error"]:
                    raise ValueError(f"an error without its sentence: {body!r:.200}")
                rest = rest[length:]
        elif status >= 200:
            raise ValueError("an answer without its length")
    return statuses
