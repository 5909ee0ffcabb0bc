"""`unire`, in the process of the tests or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from unire.cli.main import app

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


def error(*arguments: object, **streams: object) -> str:
    """What a mistake is answered with, in a process of its own: one line, no traceback."""
    streams = {"stdout": subprocess.PIPE, **streams}
    ran = subprocess.run(command(*arguments), stderr=subprocess.PIPE, text=True, check=False, **streams)
    assert ran.returncode == 1, ran
    assert ran.stderr.startswith("error: ")
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr
