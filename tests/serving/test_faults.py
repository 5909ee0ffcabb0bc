"""Attacks and faults: hostile callers, broken requests, a stop or a kill while callers ask, and memory."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest

from helpers.http_fuzz import Report, attack, mutants
from helpers.http_load import (
    CLOSED,
    HOSTILE,
    RESET,
    UNREACHABLE,
    Caller,
    Tally,
    ask_until_unreachable,
    besiege,
    closed_loop,
    mixed_bodies,
    open_loop,
)
from helpers.server import HEAD, TEXT, Running, command, until
from unire.serving.limits import ServingLimits

pytestmark = pytest.mark.slow

Result = TypeVar("Result")

TEXTS = [f"A {word} parser is fast. It beats a tagger in accuracy." for word in ("chart", "graph", "new", "neural")]
BODIES = [{"text": text} for text in TEXTS]


def run_async(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread of its own: the browser of other tests has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


# Hostile callers


@pytest.mark.parametrize("kinds", [*([kind] for kind in HOSTILE), list(HOSTILE)], ids=lambda kinds: "+".join(kinds))
def test_hostile_callers_do_not_stop_a_well_behaved_one(science, kinds):
    async def ask(seconds: float) -> Tally:
        tally = Tally()
        siege = asyncio.ensure_future(besiege(server.port, kinds, 48, seconds))
        await asyncio.sleep(0.2)
        caller = Caller(server.port)
        while not siege.done():
            started = time.perf_counter()
            async with asyncio.timeout(10):
                tally.add(await caller.ask(BODIES[0]), time.perf_counter() - started)
            await asyncio.sleep(0.02)
        caller.close()
        return tally

    with Running(science, ServingLimits(connections=32, client_percent=100)) as server:
        tally = run_async(ask(0.7))
    assert tally.statuses[200] >= 0.9 * tally.statuses.total()  # a connection that was idle may be closed
    assert tally.statuses[200] >= 3
    assert max(tally.seconds) < 2


def test_under_far_too_much_load_requests_are_answered_or_asked_to_come_again(science):
    """More requests than connections are allowed, of one caller.

    On a busy machine, the server may close a connection as idle while its next request is on the way.
    """
    with Running(science, ServingLimits(queue_requests=16, connections=64)) as server:
        tally, _ = run_async(open_loop(server.port, BODIES, 600, 1))
    assert {200, 429} <= set(tally.statuses) <= {200, 429, CLOSED, RESET}
    assert tally.statuses[CLOSED] + tally.statuses[RESET] <= 0.1 * tally.statuses.total()


# Broken requests


def test_a_request_that_turns_out_not_to_be_http_is_answered_once_and_logs_nothing(server, caplog):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        until(lambda: any(each.cycle for each in server.server.server_state.connections))  # it reads the body
        connection.sendall(b"not a chunk\r\n")
        received = b""
        while data := connection.recv(4096):
            received += data
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.endswith(b'{"error": "the request is not valid HTTP/1.1"}')
    until(lambda: not server.server.server_state.tasks)
    assert not caplog.records


@pytest.mark.slow
def test_mutants_of_requests_get_a_proper_answer_and_leave_no_trace(science, caplog):
    """benchmarks/fuzz_http.py sends more of them."""
    report = Report()
    with Running(science, ServingLimits(timeout_seconds=2)) as server:
        run_async(attack(server.port, list(islice(mutants(seed=7), 1500)), report, seconds=20))
        assert server.extract(BODIES[0]).status == 200
        until(lambda: not server.server.server_state.connections)
        assert not server.server.server_state.tasks
    assert report.wrong == []
    assert {200, 400, 404, 405, 413, 415, 421, 422} <= set(report.statuses)
    assert not caplog.records


# Stops and kills


@pytest.mark.slow
def test_requests_during_shutdown_are_answered_or_refused_completely():
    with command() as (process, address):

        async def ask() -> tuple[Tally, Tally]:
            asyncio.get_running_loop().call_later(0.5, process.send_signal, signal.SIGTERM)
            return await ask_until_unreachable(address.port, BODIES, 8, 2)

        kept, new = run_async(ask())
        assert process.wait(60) == 0
        log = process.stderr.read()
    assert set(kept.statuses) | set(new.statuses) == {200, 503, UNREACHABLE}
    assert kept.statuses[503] >= 8
    assert kept.bad == new.bad == []
    assert log == f"stopped; requests: {kept.statuses[200] + new.statuses[200]} answered\n"


def test_during_shutdown_kept_connections_are_closed_with_the_next_answer(slow):
    """It stops only when the accepted request is answered."""
    with Running(slow) as server, ThreadPoolExecutor(1) as pool:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        headers = []
        for stopping in (False, True):
            if stopping:
                computed = pool.submit(server.extract, {"text": TEXT})
                assert slow.engine.begun.wait(20)
                server.service.stopping = True
            connection.request("GET", "/ready")
            answer = connection.getresponse()
            answer.read()
            headers.append((answer.status, answer.getheader("connection")))
        assert headers == [(200, None), (503, "close")]
        slow.engine.let.set()
        assert computed.result(20).status == 200
        assert computed.result(20).headers["connection"] == "close"


@pytest.mark.slow
def test_a_killed_server_can_be_started_again_at_once_at_the_same_port():
    with command() as (killed, address):

        async def ask_and_kill() -> Tally:
            asyncio.get_running_loop().call_later(0.5, killed.kill)
            tally, _ = await closed_loop(address.port, BODIES, 8, seconds=1)
            return tally

        tally = run_async(ask_and_kill())
        assert {200, UNREACHABLE} <= set(tally.statuses) <= {200, UNREACHABLE, CLOSED, RESET}
        killed.wait(20)
        with command("--port", address.port) as (_, again):
            assert again.port == address.port
            assert again.extract({"text": TEXT}).status == 200


# Memory


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_memory_does_not_grow_with_requests():
    """benchmarks/serving_faults.py measures it over 100,000 requests."""

    def memory(pid: int) -> float:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    stream = mixed_bodies(TEXTS)

    async def ask(count: int) -> set[int]:
        statuses = set()
        some = islice(stream, count)

        async def call() -> None:
            caller = Caller(address.port)
            for path, body in some:
                statuses.add((await caller.ask(body, path)).status)
            caller.close()

        await asyncio.gather(*(call() for _ in range(8)))
        return statuses

    with command() as (process, address):
        assert run_async(ask(600)) == {200, 404, 413, 422}
        before = memory(process.pid)
        run_async(ask(1200))
        assert memory(process.pid) - before < 15
