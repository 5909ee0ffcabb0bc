"""Connections: nobody who is slow, silent or gone holds up the server."""

from __future__ import annotations

import http.client
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from helpers.server import HEAD, TEXT, Running, until
from unire.serving.connections import PATIENCE_SECONDS
from unire.serving.limits import ServingLimits

pytestmark = pytest.mark.slow


def test_a_body_that_does_not_say_its_length_is_limited_too(server):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        head = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode()
        connection.sendall(head + b"1000\r\n" + b" " * 4096 + b"\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"what is no HTTP\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_whatever_is_sent_the_log_has_no_line_of_it(server, caplog, sent):
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(sent)
        assert connection.recv(4096).startswith(b"HTTP/1.1 ")
    assert not caplog.records


def test_a_body_that_never_comes_is_given_up(science):
    with (
        Running(science, ServingLimits(timeout_seconds=1)) as server,
        socket.create_connection(("127.0.0.1", server.port), 20) as connection,
    ):
        connection.sendall(f"{HEAD}Content-Length: 9\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("before", ["", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("sent", ["", "POST /extract HT"], ids=["silent", "slow"])
def test_a_head_that_never_comes_is_given_up(science, before, sent):
    idle = 1 if before and not sent else 75  # nothing has begun: it is kept like any connection
    limits = ServingLimits(header_seconds=1, idle_seconds=idle)
    with Running(science, limits) as server, socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        if before:
            connection.sendall(before.encode())
            answered = b""
            while not answered.endswith(b"}"):
                answered += connection.recv(4096)
        began = time.monotonic()
        for byte in sent.encode():  # one now and then is not enough
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        with suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
        assert 0.9 < time.monotonic() - began < 10


def test_a_slow_request_head_is_accepted(science):
    with (
        Running(science, ServingLimits(header_seconds=5)) as server,
        socket.create_connection(("127.0.0.1", server.port), 20) as connection,
    ):
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n":
            connection.sendall(bytes([byte]))
            time.sleep(0.01)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_connection_whose_caller_does_not_read_is_closed(science):
    """Also one who goes on asking meanwhile."""
    with Running(science, ServingLimits(timeout_seconds=1)) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(0.1)
        open_now = server.server.server_state.connections
        until(lambda: len(open_now) == 1)
        with suppress(OSError):
            for _ in range(2000):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: not open_now)


def connect(server: Running, source: str = "127.0.0.1") -> socket.socket:
    """Open a connection from an address of this machine."""
    try:
        return socket.create_connection(("127.0.0.1", server.port), 20, source_address=(source, 0))
    except OSError:
        if source == "127.0.0.1":
            raise
        pytest.skip("this machine has only one loopback address")


def fill(server: Running, count: int, sent: str, source: str = "127.0.0.1") -> list[socket.socket]:
    """Open connections one after the other, and say something on each."""
    opened = []
    known = server.server.server_state.connections
    before = len(known)
    for _ in range(count):
        opened.append(connect(server, source))
        opened[-1].sendall(sent.encode())
        until(lambda: len(known) == before + len(opened))
    time.sleep(PATIENCE_SECONDS + 0.05)
    return opened


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(4096) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    ["", "POST /extract HT", f"{HEAD}Content-Length: 90\r\n\r\n{{", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["silent", "slow head", "slow body", "idle"],
)
def test_the_oldest_connection_that_waits_for_its_caller_makes_way_for_a_new_one(science, sent):
    with Running(science, ServingLimits(connections=4, client_percent=100)) as server:
        opened = fill(server, 3, sent)
        for connection in opened:
            while sent.startswith("GET") and not connection.recv(4096).endswith(b"}"):
                pass
        opened += fill(server, 1, "")
        began = time.monotonic()
        assert server.get("/health").status == 200
        assert time.monotonic() - began < 2
        assert [is_closed(connection) for connection in opened] == [True, False, False, False]
        for connection in opened:
            connection.close()


def test_a_connection_that_has_just_come_is_not_closed_for_another(science, monkeypatch):
    """Its request may be on the way."""
    with Running(science, ServingLimits(connections=4, client_percent=100)) as server:
        opened = fill(server, 4, "")
        monkeypatch.setattr("unire.serving.connections.PATIENCE_SECONDS", 60)
        assert server.get("/health").status == 429
        for connection in opened:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            connection.close()


def test_a_connection_whose_request_is_computed_is_never_closed_for_another(slow):
    with Running(slow, ServingLimits(connections=2, client_percent=100)) as server, ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(server.extract, {"text": TEXT}) for _ in range(2)]
        until(lambda: server.service.accepted == 2)
        refused = server.extract({"text": "a"})
        assert (refused.status, refused.headers["retry-after"], refused.headers["connection"]) == (429, "1", "close")
        assert refused.error == "your address has too many connections with requests; try again in 1 seconds"
        slow.engine.let.set()
        assert [answer.result(20).status for answer in answers] == [200, 200]
        assert server.extract({"text": TEXT}).status == 200


def test_a_caller_with_many_connections_closes_only_his_own(science):
    with Running(science, ServingLimits(connections=8, client_percent=50)) as server:
        (other,) = fill(server, 1, "", "127.0.0.2")
        opened = fill(server, 4, "")
        assert server.get("/health").status == 200
        assert [is_closed(connection) for connection in [other, *opened]] == [False, True, False, False, False]
        opened.append(other)
        opened += fill(server, 3, "", "127.0.0.3")  # now there are eight
        assert connect(server, "127.0.0.4").send(b"GET") == 3  # a new caller closes one of who has most
        assert not is_closed(other)
        for connection in opened:
            connection.close()


def test_unread_answers_are_limited_by_their_bytes(science):
    ask = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Running(science, ServingLimits(unsent_bytes=1)) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(0.1)
        until(lambda: server.server.server_state.connections)
        with suppress(OSError):
            connection.sendall(2000 * ask)
        until(lambda: not server.server.server_state.connections, 5)  # far sooner than the timeout


def test_a_refusal_is_read_although_the_body_was_not(science):
    """A server that closes its socket while a body still comes resets the connection, and the answer is lost."""
    with Running(science) as server:
        for _ in range(5):
            answer = server.extract(b" " * 30_000_000)
            assert (answer.status, answer.headers["connection"]) == (413, "close")
        until(lambda: not server.server.server_state.connections)


def test_a_connection_left_open_after_the_last_answer_is_closed(science):
    with Running(science, ServingLimits(linger_seconds=1)) as server, connect(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while connection.recv(4096):
            pass
        began = time.monotonic()
        until(lambda: not server.server.server_state.connections)
        assert 0.5 < time.monotonic() - began < 5


def test_a_disconnect_before_the_end_of_the_body_is_counted_as_499(server):
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
