"""Connections: nobody who is slow, silent or gone holds up the server."""

from __future__ import annotations

import http.client
import signal
import socket
import time
from contextlib import suppress

import pytest

from helpers.server import HEAD, Running, until
from unire.serving.schemas import ServingLimits


def test_a_body_that_does_not_say_its_length_is_limited_too(server):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        head = (
            b"POST /extract HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head + b"1000\r\n" + b" " * 4096 + b"\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "said",
    [
        b"what is no HTTP\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_whatever_is_sent_the_log_has_no_line_of_it(server, caplog, said):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(said)
        assert connection.recv(4096).startswith(b"HTTP/1.1 ")
    assert not caplog.records


def test_a_body_that_never_comes_is_given_up(science):
    with (
        Running(science, ServingLimits(timeout=1)) as server,
        socket.create_connection(("127.0.0.1", server.port), 20) as connection,
    ):
        connection.sendall(f"{HEAD}Content-Length: 9\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("before", ["", "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("said", ["", "POST /extract HT"], ids=["silent", "slow"])
def test_a_head_that_never_comes_is_given_up(science, monkeypatch, before, said):
    if before and not said:
        monkeypatch.setattr(
            "unire.serving.server.KEEP_ALIVE_SECONDS", 1
        )  # nothing has begun: it is kept like any connection
    monkeypatch.setattr("unire.serving.middleware.HEADER_TIMEOUT_SECONDS", 1.0)
    with Running(science) as server, socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        if before:
            connection.sendall(before.encode())
            answered = b""
            while not answered.endswith(b"}"):
                answered += connection.recv(4096)
        began = time.monotonic()
        for byte in said.encode():  # one now and then is not enough
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        with suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
        assert 0.9 < time.monotonic() - began < 10


def test_a_head_that_comes_slowly_is_waited_for(science, monkeypatch):
    monkeypatch.setattr("unire.serving.middleware.HEADER_TIMEOUT_SECONDS", 5.0)
    with Running(science) as server, socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        for byte in b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n":
            connection.sendall(bytes([byte]))
            time.sleep(0.01)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_caller_who_does_not_read_is_hung_up_on(science):
    """Also one who goes on asking meanwhile."""
    with Running(science, ServingLimits(timeout=1)) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(0.1)
        open_now = server.server.server_state.connections
        until(lambda: len(open_now) == 1)
        with suppress(OSError):
            for _ in range(2000):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: not open_now)


def test_connections_past_the_limit_are_closed_and_others_go_on(science):
    with Running(science, ServingLimits(connections=2)) as server:
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address, 20) as first, socket.create_connection(address, 20):
            until(lambda: len(server.server.server_state.connections) == 2)
            with socket.create_connection(address, 20) as third:
                assert third.recv(4096) == b""
            first.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert first.recv(4096).startswith(b"HTTP/1.1 200 ")
        until(lambda: not server.server.server_state.connections)
        assert server.get("/health").status == 200


def test_a_caller_who_goes_before_the_body_has_come_is_counted_as_gone(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"{HEAD}Content-Length: 90\r\n\r\n{{".encode())
        time.sleep(0.1)
    until(lambda: 'path="/extract",status="499"' in server.get("/metrics").body.decode())


def test_answers_are_sent_at_once_to_callers_who_keep_their_connection(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        taken.append(time.perf_counter() - started)
    connection.close()
    assert min(taken[2:]) < 0.035  # a caller who is waited for answers after 40 ms


def test_requests_of_which_a_part_has_come_do_not_keep_a_server_from_stopping(science):
    with Running(science) as server, socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(f"{HEAD}Content-Length: 9\r\n\r\n{{".encode())
        time.sleep(0.2)
        server.server.handle_exit(signal.SIGTERM, None)
        server.thread.join(10)
        assert not server.thread.is_alive()
        assert connection.recv(4096) == b""
