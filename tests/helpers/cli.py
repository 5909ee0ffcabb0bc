"""`unire`, in the process of the tests or in one of its own."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pytest
from typer.testing import CliRunner

from helpers.paths import FIXTURES
from unire.cli.main import app, main

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


def run_shell(text: str) -> tuple[int, str, str]:
    """Status, output and errors of a page's block: of models that we trained by this process, of all else by a shell.

    This process has imported torch already, which takes a new one longer than what it is asked for.
    """
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    ours = all(words[0] == "unire" for words in lines) and not re.search(r"[|&;<>$]", text)
    if not (ours and re.search("models/|encoders/", text)):
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, check=False, timeout=300
        )
        return ran.returncode, ran.stdout, ran.stderr
    output = ""
    for words in lines:
        own = CliRunner().invoke(app, words[1:])
        if own.exit_code:
            return own.exit_code, own.stdout, f"{own.stderr}{own.exception!r}"
        output += own.stdout
    return 0, output, ""


def error(*arguments: object) -> str:
    """What a mistake is answered with: one line, no traceback."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        return one_sentence(*run_main(*arguments))


def usage_error(*arguments: object) -> str:
    """What a command answers that it cannot parse; nothing if it prints its help instead."""
    status, message = run_main(*arguments)
    return message and one_sentence(status, message, expected=2)


def run_main(*arguments: object) -> tuple[object, str]:
    """The exit status and the standard error of `main`."""
    with (
        mock.patch.object(sys, "argv", ["unire", *map(str, arguments)]),
        redirect_stderr(io.StringIO()) as errors,
        pytest.raises(SystemExit) as end,
    ):
        main()
    return end.value.code, errors.getvalue()


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that has neither torch nor what comes with it."""
    hidden = ("accelerate", "onnx", "onnxscript", "safetensors", "torch", "transformers")
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); from unire.cli.main import main; main()"
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def error_of_process(*arguments: object, **streams: object) -> str:
    """The same of a process of its own, on whose standard error there is nothing else either."""
    streams = {"stdout": subprocess.PIPE, **streams}
    ran = subprocess.run(command(*arguments), stderr=subprocess.PIPE, text=True, check=False, **streams)
    return one_sentence(ran.returncode, ran.stderr)


def one_sentence(status: object, message: str, expected: int = 1) -> str:
    assert status == expected, message
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1, message
    return message
