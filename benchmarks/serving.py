"""Measure the throughput and latency of `unire serve`, which runs in another process, over the loopback interface.

    python benchmarks/serving.py throughput TEXTS [--seconds 40] [--json FILE]
    python benchmarks/serving.py latency TEXTS [--seconds 40]
    python benchmarks/serving.py overload TEXTS [--seconds 40]
    python benchmarks/serving.py identical TEXTS

TEXTS has a text per line, or annotated documents whose sentences are taken. A caller has one connection.

- `throughput`: one caller and 32 callers, each of which sends a text as soon as it has the answer to the last.
- `latency`: requests at half of the rate that 32 callers reach, at fixed intervals and at random times.
- `overload`: requests at four times that rate, and then at half of it. `/ready` is asked once a second.
- `identical`: whether answers are those of the library.

`benchmarks/serving_faults.py` has the tests of faults and attacks.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from unire import Extractor, formats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.http_load import Caller, Tally, closed_loop, open_loop

CALLERS = 32
ROUNDS = 4


def texts_of(path: Path) -> list[str]:
    if path.suffix == ".txt":
        return [line.strip() for line in path.open(encoding="utf-8") if line.strip()]
    return [" ".join(sentence.words) for document in formats.read(path) for sentence in document.sentences]


def bodies_of(texts: list[str]) -> list[bytes]:
    return [json.dumps({"text": text}).encode() for text in texts]


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


def throughput(model: str, texts: list[str], seconds: float) -> dict[str, Any]:
    bodies = bodies_of(texts)
    with served(model) as server:
        asyncio.run(closed_loop(server.port, bodies, CALLERS, seconds=3))
        # turn about, so that a machine that slows down slows both
        rates: dict[int, list[float]] = {1: [], CALLERS: []}
        for _ in range(ROUNDS):
            for callers, found in rates.items():
                before = server.seconds
                tally, taken = asyncio.run(closed_loop(server.port, bodies, callers, seconds=seconds / ROUNDS / 2))
                found.append(tally.statuses[200] / taken)
                cores = (server.seconds - before) / taken
                print(f"{callers} callers: {found[-1]:.1f}/s, {tally}, {cores:.2f} cores", flush=True)
    one, many = (median(found) for found in rates.values())
    print(f"medians: 1 caller {one:.1f}/s, {CALLERS} callers {many:.1f}/s: {many / one:.2f} times")
    return {"one": one, "many": many, "ratio": many / one}


def find_capacity(port: int, bodies: list[bytes], seconds: float) -> float:
    """Requests per second of all callers."""
    asyncio.run(closed_loop(port, bodies, CALLERS, seconds=2))
    tally, taken = asyncio.run(closed_loop(port, bodies, CALLERS, seconds=seconds))
    print(f"{CALLERS} callers: {tally.statuses[200] / taken:.1f}/s, {tally}", flush=True)
    return tally.statuses[200] / taken


def latency(model: str, texts: list[str], seconds: float) -> dict[str, Any]:
    bodies = bodies_of(texts)
    found = {}
    with served(model) as server:
        rate = find_capacity(server.port, bodies, seconds / 4) / 2
        for name, at_random in (("fixed intervals", False), ("random times", True)):
            tally, _ = asyncio.run(open_loop(server.port, bodies, rate, seconds * 3 / 8, at_random=at_random))
            print(f"half of it, at {name}: {tally}", flush=True)
            found[name] = {"p50": tally.milliseconds(0.5), "p99": tally.milliseconds(0.99)}
    return found


def overload(model: str, texts: list[str], seconds: float) -> dict[str, Any]:
    bodies = bodies_of(texts)

    async def watch(port: int, until: float) -> list[int]:
        """The statuses of `/ready`, once a second."""
        statuses = []
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            statuses.append(int((await reader.read()).split()[1]))
            writer.close()
            await asyncio.sleep(1)
        return statuses

    async def attack(rate: float, seconds: float) -> tuple[Tally, float, list[int]]:
        ready = asyncio.ensure_future(watch(server.port, time.monotonic() + seconds))
        tally, taken = await open_loop(server.port, bodies, rate, seconds)
        return tally, taken, await ready

    with served(model) as server:
        rate = find_capacity(server.port, bodies, seconds / 4)
        tally, taken, ready = asyncio.run(attack(4 * rate, seconds / 2))
        print(f"four times that: {tally.statuses[200] / taken:.1f}/s answered, {tally}; /ready {ready}", flush=True)
        after, _, ready_after = asyncio.run(attack(rate / 2, seconds / 4))
        print(f"half of it, at once afterwards: {after}; /ready {ready_after}")
    return {"statuses": dict(tally.statuses), "ready": ready, "ready after": ready_after}


def identical(model: str, texts: list[str]) -> dict[str, Any]:
    async def ask() -> list[Any]:
        async def some(part: list[str]) -> list[Any]:
            caller = Caller(server.port)
            found = [json.loads((await caller.ask({"text": text})).body)["documents"][0] for text in part]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "latency", "overload", "identical"])
    parser.add_argument("texts", type=Path)
    parser.add_argument("--model", default="science")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    texts = texts_of(given.texts)
    if given.what == "identical":
        found = identical(given.model, texts)
    else:
        found = globals()[given.what](given.model, texts, given.seconds)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
