"""`unire extract`, in the process of the tests: what it prints, or the sentence with which it fails."""

from __future__ import annotations

import json
import signal

import pytest
from typer.testing import CliRunner

from unire.cli.main import app, name_options
from unire.errors import UnireError

TEXT = "We present a parser (fast). It isn't new."


def hear_sigint() -> None:
    """Programs in the background of a shell script are deaf to it, and so would be those that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def extract(random_model):
    """Run the command in this process."""

    def run(*arguments: object, stdin: str | bytes | None = None):
        words = ["extract", "--model", str(random_model), "--device", "cpu", *map(str, arguments)]
        return CliRunner().invoke(app, words, input=stdin, catch_exceptions=True)

    return run


@pytest.fixture
def found(extract):
    """The JSON objects that the command prints."""

    def run(*arguments: object, stdin: str | bytes | None = None) -> list[dict]:
        ran = extract(*arguments, stdin=stdin)
        assert ran.exit_code == 0, ran.output
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


@pytest.fixture
def error(extract):
    """The sentence with which the command fails."""

    def run(*arguments: object, stdin: str | bytes | None = None) -> str:
        ran = extract(*arguments, stdin=stdin)
        assert isinstance(ran.exception, UnireError), ran.output
        assert "\n" not in str(ran.exception)
        return name_options(str(ran.exception), ["extract"])

    return run
