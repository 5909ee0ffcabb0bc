"""Test `unire serve`, which runs in another process, with attacks and faults.

    python benchmarks/serving_faults.py hostile TEXTS [--connections 512] [--seconds 10]
    python benchmarks/serving_faults.py memory TEXTS [--requests 100000]
    python benchmarks/serving_faults.py stop TEXTS
    python benchmarks/serving_faults.py restart TEXTS [--times 10]

- `hostile`: what a well-behaved caller notices of hostile connections of each kind, which another process keeps open.
- `memory`: resident memory during mixed requests: good, wrong and large ones, and pages.
- `stop`: what 32 callers and others that come meanwhile notice when the server gets SIGTERM.
- `restart`: the time from `kill -9`, while 32 callers ask, to the first answer of a new server at the same port.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from serving import CALLERS, bodies_of, served, texts_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.http_load import HOSTILE, Caller, Tally, ask_until_unreachable, besiege, closed_loop, mixed_bodies

WARM_UP_SECONDS = 3


@contextmanager
def siege(port: int, kinds: Sequence[str], connections: int, seconds: float) -> Iterator[None]:
    """Hostile connections of another process."""
    process = multiprocessing.get_context("spawn").Process(target=run_siege, args=(port, kinds, connections, seconds))
    process.start()
    time.sleep(WARM_UP_SECONDS)
    try:
        yield
    finally:
        process.terminate()
        process.join()


def run_siege(port: int, kinds: Sequence[str], connections: int, seconds: float) -> None:
    asyncio.run(besiege(port, kinds, connections, seconds))


async def ask_well(port: int, bodies: list[bytes], seconds: float, *, keeps: bool) -> Tally:
    """One caller, one request after the other, with one connection for all or one for each."""
    tally = Tally()
    caller = Caller(port)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        async with asyncio.timeout(60):
            tally.add(
                await caller.ask(bodies[sum(tally.statuses.values()) % len(bodies)]), time.perf_counter() - started
            )
        if not keeps:
            caller.close()
    caller.close()
    return tally


def hostile(model: str, texts: list[str], connections: int, seconds: float) -> None:
    bodies = bodies_of(texts)
    with served(model) as server:
        asyncio.run(closed_loop(server.port, bodies, 2, seconds=2))
        print(f"no hostile connections, one kept: {asyncio.run(ask_well(server.port, bodies, seconds, keeps=True))}")
        print(f"no hostile connections, new ones: {asyncio.run(ask_well(server.port, bodies, seconds, keeps=False))}")
        for kinds in (*([kind] for kind in HOSTILE), list(HOSTILE)):
            with siege(server.port, kinds, connections, 2 * seconds + 2 * WARM_UP_SECONDS):
                for keeps in (True, False):
                    tally = asyncio.run(ask_well(server.port, bodies, seconds, keeps=keeps))
                    name = kinds[0] if len(kinds) == 1 else "all kinds"
                    print(f"{connections} {name}, {'one kept' if keeps else 'new ones'}: {tally}", flush=True)
        print(f"memory {server.memory:.1f} MB")


def memory(model: str, texts: list[str], requests: int) -> None:
    stream = mixed_bodies(texts)
    statuses: Counter[int] = Counter()

    async def ask(count: int) -> None:
        some = islice(stream, count)

        async def call() -> None:
            caller = Caller(server.port)
            for path, body in some:
                statuses[(await caller.ask(body, path)).status] += 1
            caller.close()

        await asyncio.gather(*(call() for _ in range(CALLERS)))

    with served(model) as server:
        for i in range(20):
            asyncio.run(ask(requests // 20))
            print(f"after {(i + 1) * (requests // 20):7,} requests {server.memory:7.1f} MB", flush=True)
    print(f"statuses {dict(sorted(statuses.items()))}")


def stop(model: str, texts: list[str]) -> None:
    bodies = bodies_of(texts)

    async def ask() -> tuple[Tally, Tally]:
        asyncio.get_running_loop().call_later(3, server.process.send_signal, signal.SIGTERM)
        return await ask_until_unreachable(server.port, bodies, CALLERS, 4)

    with served(model) as server:
        kept, new = asyncio.run(ask())
        code = server.process.wait(60)
        log = server.process.stderr.read().strip() if server.process.stderr else ""
    print(f"kept connections: {dict(kept.statuses)} {kept.bad[:3]}")
    print(f"new connections: {dict(new.statuses)} {new.bad[:3]}")
    print(f"(0: closed without an answer, -1: reset, -2: not connected), exit {code}; the server: {log!r}")
    print(f"answered: {kept.statuses[200] + new.statuses[200]}")


def restart(model: str, texts: list[str], times: int) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "unire", "serve", "--model", model, "--port", str(port)]

    async def first_answer() -> None:
        while (await Caller(port).ask({"text": texts[0]})).status != 200:
            await asyncio.sleep(0.01)

    async def ask_and_kill(process: subprocess.Popen[bytes]) -> None:
        calls = asyncio.ensure_future(closed_loop(port, bodies_of(texts), CALLERS, seconds=1.5))
        await asyncio.sleep(1)
        process.kill()
        await calls

    taken = []
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(first_answer())
        for _ in range(times):
            asyncio.run(ask_and_kill(process))
            process.wait()
            started = time.perf_counter()
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            asyncio.run(first_answer())
            taken.append(time.perf_counter() - started)
    finally:
        process.terminate()
        process.wait()
    print(f"restart after kill -9: {', '.join(f'{seconds:.2f}' for seconds in taken)} s, at most {max(taken):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hostile", "memory", "stop", "restart"])
    parser.add_argument("texts", type=Path)
    parser.add_argument("--model", default="science")
    parser.add_argument("--connections", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    texts = texts_of(given.texts)
    if given.what == "hostile":
        hostile(given.model, texts, given.connections, given.seconds)
    elif given.what == "memory":
        memory(given.model, texts, given.requests)
    elif given.what == "stop":
        stop(given.model, texts)
    else:
        restart(given.model, texts, given.times)


if __name__ == "__main__":
    main()
