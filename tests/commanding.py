"""`unire`, in the process of the tests or in one of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from unire.cli.main import app, main

FIXTURES = Path(__file__).parent / "fixtures"
TWENTY = str(FIXTURES / "twenty.jsonl")


def run(*arguments: object, stdin: str | None = None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=True)


def result(*arguments: object, stdin: str | None = None):
    """The JSON that a command prints."""
    ran = run(*arguments, "--json", stdin=stdin)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "unire", *map(str, arguments)]


def error(*arguments: object) -> str:
    """What a mistake is answered with: one line, no traceback."""
    with (
        mock.patch.object(sys, "argv", ["unire", *map(str, arguments)]),
        redirect_stdout(io.TextIOWrapper(io.BytesIO())),
        redirect_stderr(io.StringIO()) as said,
        pytest.raises(SystemExit) as end,
    ):
        main()
    return one_sentence(end.value.code, said.getvalue())


def error_of_process(*arguments: object, **streams: object) -> str:
    """The same of a process of its own, on whose standard error there is nothing else either."""
    streams = {"stdout": subprocess.PIPE, **streams}
    ran = subprocess.run(command(*arguments), stderr=subprocess.PIPE, text=True, check=False, **streams)
    return one_sentence(ran.returncode, ran.stderr)


def one_sentence(status: object, said: str) -> str:
    assert status == 1, said
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1, said
    return said
