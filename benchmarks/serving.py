"""What does a server take? Everything is asked over loopback, of a `unire serve` in a process of its own.

    python benchmarks/serving.py throughput TEXTS [--seconds 20] [--json FILE]
    python benchmarks/serving.py identical TEXTS
    python benchmarks/serving.py overload TEXTS [--seconds 20]
    python benchmarks/serving.py memory TEXTS [--requests 20000]
    python benchmarks/serving.py stop TEXTS

TEXTS has a text per line, or annotated documents whose sentences are taken. A caller has one connection, and sends a
text as soon as it has the answer to the last; `overload` sends at a fixed rate, whatever comes back. `stop` sends
SIGTERM while 32 callers ask.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from unire import Extractor, formats

CALLERS = 32
ROUNDS = 4
HEAD = "POST /extract HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def texts_of(path: Path) -> list[str]:
    if path.suffix == ".txt":
        return [line.strip() for line in path.open(encoding="utf-8") if line.strip()]
    return [" ".join(sentence.words) for document in formats.read(path) for sentence in document.sentences]


# The server


class Server:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def seconds(self) -> float:
        """Of all cores, so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(model: str, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "unire", "serve", "--model", model, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield Server(process, int(process.stderr.readline().split(" (")[0].rsplit(":", 1)[1]))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)


# Callers, as light as they can be: they share the cores with the server


class Caller:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, text: str) -> tuple[int, bytes]:
        """Status and body of the answer; 0 where there was none, because the connection is gone."""
        body = json.dumps({"text": text}).encode()
        head = HEAD.format(len(body))
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
            self.writer.write(head.encode() + body)
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            return int(lines[0].split()[1]), await self.reader.readexactly(int(headers["content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, b""

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None


async def closed_loop(
    port: int, texts: list[str], callers: int, seconds: float, limit: int | None = None
) -> dict[str, Any]:
    """Every caller asks as soon as it has its answer."""
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    stream = islice(cycle(texts), limit)
    end = time.perf_counter() + seconds

    async def call() -> None:
        caller = Caller(port)
        for text in stream:
            started = time.perf_counter()
            if started > end:
                break
            status, _ = await caller.ask(text)
            statuses[status] += 1
            latencies.append(time.perf_counter() - started)
        caller.close()

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    taken = time.perf_counter() - started
    return {
        "callers": callers,
        "per second": statuses[200] / taken,
        "median ms": 1000 * quantile(latencies, 0.5),
        "p95 ms": 1000 * quantile(latencies, 0.95),
        "statuses": dict(statuses),
    }


async def open_loop(port: int, texts: list[str], rate: float, seconds: float) -> dict[str, Any]:
    """Requests at a fixed rate, whether or not they are answered."""
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    idle: list[Caller] = []

    async def call(text: str) -> None:
        caller = idle.pop() if idle else Caller(port)
        started = time.perf_counter()
        status, _ = await caller.ask(text)
        statuses[status] += 1
        if status == 200:
            latencies.append(time.perf_counter() - started)
        idle.append(caller)

    begun = time.perf_counter()
    calls = []
    for i, text in enumerate(islice(cycle(texts), int(rate * seconds))):
        await asyncio.sleep(max(0, begun + i / rate - time.perf_counter()))
        calls.append(asyncio.ensure_future(call(text)))
    await asyncio.gather(*calls)
    for caller in idle:
        caller.close()
    return {
        "asked per second": rate,
        "answered per second": statuses[200] / (time.perf_counter() - begun),
        "median ms": 1000 * quantile(latencies, 0.5),
        "statuses": dict(statuses),
    }


def quantile(numbers: list[float], share: float) -> float:
    return sorted(numbers)[int(share * (len(numbers) - 1))] if numbers else float("nan")


# What is asked


def throughput(model: str, texts: list[str], seconds: float) -> dict[str, Any]:
    with served(model) as server:
        asyncio.run(closed_loop(server.port, texts, CALLERS, 3))
        # turn about, so that a machine that slows down slows both
        rounds: dict[int, list[dict[str, Any]]] = {1: [], CALLERS: []}
        for _ in range(ROUNDS):
            for callers, found in rounds.items():
                before = server.seconds
                found.append(asyncio.run(closed_loop(server.port, texts, callers, seconds / ROUNDS / 2)))
                found[-1]["cores of the server"] = (server.seconds - before) * ROUNDS * 2 / seconds
    for each in (each for found in rounds.values() for each in found):
        print(each)
    one, many = (median(each["per second"] for each in found) for found in rounds.values())
    print(f"medians: 1 caller {one:.1f}/s, {CALLERS} callers {many:.1f}/s: {many / one:.2f} times")
    return {"one": one, "many": many, "ratio": many / one}


def identical(model: str, texts: list[str]) -> dict[str, Any]:
    async def ask() -> list[Any]:
        async def some(part: list[str]) -> list[Any]:
            caller = Caller(server.port)
            found = [json.loads((await caller.ask(text))[1])["documents"][0] for text in part]
            caller.close()
            return found

        parts = await asyncio.gather(*(some(texts[i::CALLERS]) for i in range(CALLERS)))
        found: list[Any] = [None] * len(texts)
        for i, part in enumerate(parts):
            found[i::CALLERS] = part
        return found

    with served(model) as server:
        answers = asyncio.run(ask())
    extractor = Extractor.load(model)
    same = sum(extractor.extract(text).to_dict() == answer for text, answer in zip(texts, answers, strict=True))
    print(f"{same:,} of {len(texts):,} texts, asked by {CALLERS} callers, are answered as the library does one by one")
    return {"same": same, "texts": len(texts)}


def overload(model: str, texts: list[str], seconds: float) -> dict[str, Any]:
    with served(model) as server:
        sustained = asyncio.run(closed_loop(server.port, texts, CALLERS, seconds / 4))
        print("sustained:", sustained)
        twice = asyncio.run(open_loop(server.port, texts, 2 * sustained["per second"], seconds / 2))
        print("twice that:", twice)
        after = asyncio.run(open_loop(server.port, texts, sustained["per second"] / 2, seconds / 4))
        print("half of it, at once afterwards:", after)
    return {"sustained": sustained, "twice": twice, "after": after}


def memory(model: str, texts: list[str], requests: int) -> dict[str, Any]:
    marks: list[tuple[int, float]] = []
    with served(model, "--timeout", "600") as server:  # whatever else the machine does
        done = 0
        for _ in range(10):
            found = asyncio.run(closed_loop(server.port, texts, CALLERS, 1e9, requests // 10))
            assert set(found["statuses"]) == {200}
            done += requests // 10
            marks.append((done, server.memory))
            print(f"after {done:6,} requests {marks[-1][1]:7.1f} MB", flush=True)
    return {"marks": marks}


def stop(model: str, texts: list[str]) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        calls = asyncio.ensure_future(closed_loop(server.port, texts, CALLERS, 20, 2000))
        await asyncio.sleep(4)
        server.process.send_signal(signal.SIGTERM)
        return await calls

    with served(model) as server:
        found = asyncio.run(ask())
        code = server.process.wait(60)
        said = server.process.stderr.read().strip() if server.process.stderr else ""
    print(f"statuses {found['statuses']} (0: not accepted, connection closed), exit {code}; the server: {said!r}")
    return {"statuses": found["statuses"], "said": said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "identical", "overload", "memory", "stop"])
    parser.add_argument("texts", type=Path)
    parser.add_argument("--model", default="science")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    texts = texts_of(given.texts)
    if given.what in ("throughput", "overload"):
        found = globals()[given.what](given.model, texts, given.seconds)
    elif given.what == "memory":
        found = memory(given.model, texts, given.requests)
    else:
        found = globals()[given.what](given.model, texts)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
