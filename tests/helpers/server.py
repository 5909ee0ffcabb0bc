"""A server to be asked: in a thread of the tests, or as the command in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from helpers.paths import ROOT
from unire.extractor import Extractor
from unire.inference.engine import Engine

if TYPE_CHECKING:
    from unire.serving.limits import ServingLimits

HEAD = "POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
"""How a request begins that is written by hand."""
SECRET = "xylophonequartz"
"""A word that must not be logged, nor be in an answer that refuses."""
TEXT = "We train a chart parser on the Penn Treebank for dependency parsing. It beats a tagger in accuracy."


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one sentence that a failure is answered with."""
        assert list(self.json) == ["error"]
        assert self.headers["content-type"] == "application/json"
        return self.json["error"]


class Address:
    def __init__(self, port: int) -> None:
        self.port = port

    def __str__(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, sent, {"Content-Type": "application/json", **names})
            answer = connection.getresponse()
            given = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, given, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def extract(self, body: Any, **headers: str) -> Answer:
        return self.ask("POST", "/extract", body, **headers)


class Running(Address):
    """A server in a thread, and what is inside."""

    def __init__(
        self,
        extractor: Extractor,
        limits: ServingLimits | None = None,
        key: str | None = None,
        graph: Path | None = None,
    ) -> None:
        from unire.serving.addresses import AllowedHosts, bind
        from unire.serving.app import make_app
        from unire.serving.limits import ServingLimits
        from unire.serving.server import Server

        listening = bind("127.0.0.1", 0)
        super().__init__(listening.getsockname()[1])
        limits = replace(limits or ServingLimits(), drain_seconds=0)  # the tests of the drain start the command
        app = make_app(extractor, "tested", limits=limits, key=key, hosts=AllowedHosts(["good.example"]), graph=graph)
        self.service = app.state.service
        self.server = Server(app)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.service.stopping = True
        self.thread.join(30)
        assert not self.thread.is_alive()


class Slow(Engine):
    """An engine that takes its time, or fails: as the one that it stands before, but only when it is let."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.let = threading.Event()
        self.begun = threading.Event()
        self.error: Exception | None = None
        self.pause = 0.0
        self.done = 0
        self.max_cells, self.max_batch_tokens, self.padding = engine.max_cells, engine.max_batch_tokens, engine.padding

    def predict_tables(self, batch: Any) -> Any:
        self.begun.set()
        assert self.let.wait(30)
        time.sleep(self.pause)
        if self.error:
            raise self.error
        self.done += 1
        return self.engine.predict_tables(batch)


def until(condition: Any, seconds: float = 20) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


@contextmanager
def command(*options: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """`unire serve` as a process; it is stopped at the end, if it still runs."""
    words = [sys.executable, "-m", "unire", "serve", "--port", "0", *map(str, options)]
    source = str(ROOT / "src")
    inherited = {name: value for name, value in os.environ.items() if name != "UNIRE_API_KEY"}
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env={**inherited, "PYTHONPATH": source, **environment}
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert " at http://" in line, line
        yield process, Address(int(line.split(" (")[0].rsplit(":", 1)[1]))
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stderr.close()


@pytest.fixture(scope="module")
def server(science: Extractor) -> Iterator[Running]:
    """A server that takes little at a time."""
    from unire.serving.limits import ServingLimits

    with Running(science, ServingLimits(body_bytes=4096, text_characters=1000, texts=8)) as running:
        yield running


@pytest.fixture
def slow(science: Extractor) -> Iterator[Extractor]:
    """A copy of the science with such an engine."""
    other = copy(science)
    other.engine = Slow(science.engine)
    yield other
    other.engine.let.set()
