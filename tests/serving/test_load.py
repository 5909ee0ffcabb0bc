"""Overload, slow requests, callers that disconnect, and shutdown."""

from __future__ import annotations

import http.client
import json
import logging
import re
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from helpers.server import HEAD, SECRET, TEXT, Running, command, until
from unire.errors import UnireError
from unire.serving.jobs import CancelledError, ExtractJob, ViewJob, Worker
from unire.serving.limits import ServingLimits

pytestmark = pytest.mark.slow

# Overload, timeouts and disconnected callers


def together(server: Running, count: int, **body: Any) -> tuple[ThreadPoolExecutor, list[Any]]:
    pool = ThreadPoolExecutor(count)
    return pool, [pool.submit(server.extract, {"text": TEXT, **body}) for _ in range(count)]


def test_a_full_queue_is_answered_with_when_to_ask_again(slow):
    with Running(slow, ServingLimits(queue_requests=3, client_percent=100, workers=1)) as server:
        pool, first = together(server, 1)
        assert slow.engine.begun.wait(20)
        more, waiting = together(server, 3)
        until(lambda: server.service.batcher.n_waiting == 3)
        refused = server.extract({"text": TEXT})
        assert refused.status == 429
        assert refused.error == "the server is busy; try again in 1 seconds"
        assert refused.headers["retry-after"] == "1"
        assert "unire_queue_requests 3.0" in server.get("/metrics").body.decode()
        slow.engine.let.set()
        assert [future.result(30).status for future in first + waiting] == [200] * 4
        assert server.extract({"text": TEXT}).status == 200
        pool.shutdown()
        more.shutdown()


def test_a_request_that_times_out_in_the_queue_is_not_computed(slow):
    with Running(slow, ServingLimits(timeout_seconds=1, workers=1)) as server:
        pool, futures = together(server, 1)
        assert slow.engine.begun.wait(20)
        late = server.extract({"text": TEXT})
        assert late.status == 503
        assert late.error == "the request timed out after 1 seconds; send less text at once"
        assert "retry-after" not in late.headers  # the page would ask for the same again and again
        assert futures[0].result(20).status == 503
        until(lambda: server.service.batcher.n_waiting == 0)
        slow.engine.let.set()
        until(lambda: server.extract({"text": "a"}).status == 200)
        pool.shutdown()


def test_a_request_that_takes_too_long_by_itself_is_refused_at_once(server):
    """At this speed a request may have about 1,100 tokens, because it may take 11 seconds."""
    server.service.batcher.speed.start(100)
    began = time.monotonic()
    refused = server.extract({"texts": [", " * 500] * 3})
    assert time.monotonic() - began < 2
    assert refused.status == 413
    assert refused.error == (
        "this server would need about 15 seconds for the request, and a request may take 11; send less text at once"
    )
    assert "retry-after" not in refused.headers
    assert server.extract({"texts": [", " * 500] * 2}).status == 200


def test_a_server_that_refuses_for_long_says_that_it_is_not_ready_until_it_is_again(slow, monkeypatch):
    monkeypatch.setattr("unire.serving.queue.PAUSE_SECONDS", 0.3)
    with Running(slow, ServingLimits(queue_requests=4, client_percent=100, overload_seconds=1, workers=1)) as server:
        pool, first = together(server, 1)
        assert slow.engine.begun.wait(20)
        more, waiting = together(server, 4)
        until(lambda: server.service.batcher.n_waiting == 4)
        began = time.monotonic()
        assert server.extract({"text": TEXT}).status == 429
        assert server.get("/ready").status == 200  # a single refusal is no overload
        while (ready := server.get("/ready")).status == 200:
            assert server.extract({"text": TEXT}).status == 429
            assert time.monotonic() - began < 20
        assert ready.json["status"] == "overloaded"
        assert time.monotonic() - began > 0.9
        assert server.get("/health").status == 200
        time.sleep(0.5)
        assert server.get("/ready").status == 503  # nobody was refused, but there is still as much to do
        slow.engine.let.set()
        assert [future.result(30).status for future in first + waiting] == [200] * 5
        until(lambda: server.get("/ready").json["status"] == "ready")
        pool.shutdown()
        more.shutdown()


@pytest.mark.skipif(sys.platform != "linux", reason="uses a second loopback address")
def test_a_server_that_refuses_connections_for_long_is_not_ready_either(slow, monkeypatch):
    monkeypatch.setattr("unire.serving.queue.PAUSE_SECONDS", 0.5)
    with Running(slow, ServingLimits(connections=8, client_percent=50, overload_seconds=1)) as server:
        pool, busy = together(server, 4)  # all connections of this address
        until(lambda: server.service.accepted == 4)

        def state() -> str:
            other = http.client.HTTPConnection("127.0.0.1", server.port, 20, source_address=("127.0.0.2", 0))
            other.request("GET", "/ready")
            answer = other.getresponse()
            found = json.loads(answer.read())["status"]
            assert answer.status == (200 if found == "ready" else 503)
            return found

        began = time.monotonic()
        assert server.get("/health").status == 429
        assert state() == "ready"  # a single refusal is no overload
        while state() != "overloaded":
            assert server.get("/health").status == 429
            assert time.monotonic() - began < 20
        assert time.monotonic() - began > 0.9
        slow.engine.let.set()
        assert [future.result(30).status for future in busy] == [200] * 4
        until(lambda: state() == "ready")
        pool.shutdown()


def large(sentences: int) -> dict[str, Any]:
    """What takes about a tenth of a second for every sentence, where `slow` lets it."""
    return {"texts": [f"{TEXT} {i}" for i in range(sentences)]}


def test_a_request_that_times_out_is_not_computed_to_the_end(slow):
    slow.engine.let.set()
    slow.engine.pause = 0.1
    with Running(slow, ServingLimits(timeout_seconds=1, batch_tokens=100, workers=1)) as server:
        assert server.extract(large(60)).status == 503
        done = slow.engine.done
        assert done < 15
        began = time.monotonic()
        assert server.extract({"text": TEXT}).status == 200  # at once
        assert time.monotonic() - began < 0.9
        assert slow.engine.done <= done + 2


@pytest.mark.slow
def test_an_abandoned_text_is_dropped_between_two_batches(slow):
    slow.engine.let.set()
    slow.engine.max_batch_tokens = 40
    text = f"{TEXT} " * 200
    Worker(slow)([ExtractJob([text])])
    all_of_it, slow.engine.done = slow.engine.done, 0
    for order in (ExtractJob([text]), ViewJob(text)):
        slow.engine.done = 0
        with pytest.raises(CancelledError):
            Worker(slow)([order], lambda: slow.engine.done < 3)
        assert slow.engine.done == 3 < all_of_it / 2


def test_a_small_request_does_not_wait_for_a_large_one(slow):
    slow.engine.let.set()
    slow.engine.pause = 0.1
    with Running(slow, ServingLimits(batch_tokens=100, workers=1)) as server, ThreadPoolExecutor(1) as pool:
        whole = pool.submit(server.extract, large(30))
        until(lambda: slow.engine.done > 1)
        assert server.extract({"text": TEXT}).status == 200
        assert not whole.done()
        assert slow.engine.done < 15
        documents = whole.result(30).json["documents"]
        assert [document["text"] for document in documents] == large(30)["texts"]


def test_after_a_disconnect_a_request_is_not_computed_to_the_end(slow):
    slow.engine.let.set()
    slow.engine.pause = 0.1
    body = json.dumps(large(60)).encode()
    with Running(slow, ServingLimits(batch_tokens=100, workers=1)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: slow.engine.done > 1)
        until(lambda: server.service.ended["left"] == 1)
        assert server.service.batcher.n_waiting == 0
        assert slow.engine.done < 15


def test_after_a_disconnect_a_queued_request_is_not_computed(slow):
    with Running(slow, ServingLimits(workers=1)) as server:
        pool, futures = together(server, 1)
        assert slow.engine.begun.wait(20)
        body = json.dumps({"text": SECRET}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: server.service.batcher.n_waiting == 1)
        until(lambda: server.service.batcher.n_waiting == 0)
        slow.engine.let.set()
        assert futures[0].result(20).status == 200
        pool.shutdown()
        assert 'status="499"' in server.get("/metrics").body.decode()


def test_a_fault_of_ours_is_a_sentence_and_tells_the_log_no_text(slow, caplog, capfd):
    with Running(slow) as server, caplog.at_level(logging.DEBUG):
        slow.engine.let.set()
        slow.engine.error = KeyError(SECRET)
        answer = server.extract({"text": SECRET})
        assert answer.status == 500
        assert answer.error == "internal error; the server has logged it"
        slow.engine.error = UnireError("the model is broken; export it again")
        answer = server.extract({"text": SECRET})
        assert (answer.status, answer.error) == (422, "the model is broken; export it again")
        slow.engine.error = None
        assert server.extract({"text": SECRET}).status == 200
    assert re.search(r"/extract failed: KeyError at .*server.py:\d+ predict_tables", caplog.text)
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


# Stopping


def test_a_stop_answers_what_was_accepted_and_refuses_the_rest(slow):
    with Running(slow) as server:
        pool, futures = together(server, 3)
        assert slow.engine.begun.wait(20)
        until(lambda: server.service.accepted == 3)
        server.server.handle_exit(signal.SIGTERM, None)
        ready = server.get("/ready")
        assert (ready.status, ready.json["status"]) == (503, "stopping")
        assert server.get("/health").status == 200
        refused = server.extract({"text": TEXT})
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.error.startswith("the server is stopping and accepts no more requests")
        assert not any(future.done() for future in futures)
        slow.engine.let.set()
        assert [future.result(20).status for future in futures] == [200] * 3
        server.thread.join(20)
        assert not server.thread.is_alive()
        pool.shutdown()


@pytest.mark.parametrize("signals", [1, 2])
def test_requests_unfinished_after_the_grace_period_get_an_error(slow, signals):
    """A second signal ends the grace."""
    with Running(slow, ServingLimits(grace_seconds=0.5 if signals == 1 else 60)) as server:
        pool, futures = together(server, 3)
        assert slow.engine.begun.wait(20)
        until(lambda: server.service.accepted == 3)
        for _ in range(signals):
            server.server.handle_exit(signal.SIGTERM, None)
        answers = [future.result(20) for future in futures]
        assert {(answer.status, answer.headers["retry-after"]) for answer in answers} == {(503, "1")}
        assert answers[0].error == "the server is stopping and did not answer; try again soon"
        assert server.service.ended == {"stopped": 3}
        slow.engine.let.set()
        pool.shutdown()


@pytest.mark.slow
def test_two_signals_end_a_process_that_has_much_to_do_within_seconds():
    body = {"texts": ["We train a parser on a treebank. " * 500] * 6}
    with command("--timeout", 3000) as (process, address), ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(address.extract, body) for _ in range(4)]
        until(lambda: b"unire_batch_texts_count 0.0" not in address.get("/metrics").body, 60)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - started < 15
        assert {future.result(20).status for future in futures} == {503}
        assert process.stderr.read() == "stopped; requests: 0 answered, 4 aborted at shutdown\n"


@pytest.mark.slow
def test_a_signal_that_comes_as_soon_as_the_address_is_printed_stops_the_server():
    for _ in range(3):
        with command() as (process, _):
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert process.stderr.read() == "stopped; requests: 0 answered\n"
