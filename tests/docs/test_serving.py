"""docs/serving.md says what is so: its commands run, its answers come, its limits and metrics are those."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import typer

from helpers.paths import ROOT
from helpers.server import command
from unire.cli.main import app
from unire.serving import app as serving_app
from unire.serving import middleware, server
from unire.serving.schemas import ServingLimits

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OPTIONS: dict[str, Any] = {
    option: parameter
    for parameter in typer.main.get_command(app).commands["serve"].params  # type: ignore[attr-defined]
    for option in parameter.opts
}


def without_scores(found: Any) -> Any:
    """The last digit of a score may be another on another CPU."""
    if isinstance(found, dict):
        return {key: without_scores(value) for key, value in found.items() if key != "score"}
    return [without_scores(each) for each in found] if isinstance(found, list) else found


@pytest.mark.slow
def test_every_command_runs_and_answers():
    if shutil.which("curl") is None:
        pytest.skip("there is no curl to ask the server with")
    servers = [words for language, words in BLOCKS if language == "bash" and "unire serve" in words]
    assert len(servers) == 2
    answers = []
    with command("--model", "science") as (_, plain), command(UNIRE_API_KEY="secret") as (_, locked):
        for language, block in BLOCKS:
            for line in block.splitlines() if language == "bash" else ():
                if line.startswith("curl "):
                    address = locked if "secret" in line else plain
                    asked = line.replace("http://127.0.0.1:8000", str(address)) + " --silent --fail-with-body"
                    ran = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
                    assert ran.returncode == 0, f"{line}: {ran.stdout}{ran.stderr}"
                    answers.append(ran.stdout)
    assert len(answers) == 7
    shown = json.loads(next(block for language, block in BLOCKS if language == "json"))
    assert without_scores(json.loads(answers[0])) == without_scores(shown)
    metrics = answers[-1]
    for row in re.findall(r"^\| (`unire_.*?) \|", PAGE, re.MULTILINE):
        for name in re.findall(r"`(\w+)", row):
            assert f"# TYPE {name} " in metrics


def test_the_options_and_their_defaults_are_those_of_the_command():
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - {"--header", "--json", "--format", "--time"} <= set(
        OPTIONS
    )
    limits = ServingLimits()
    rows = {"--max-body": limits.body, "--max-text": limits.text, "--max-texts": limits.texts, "--queue": limits.queue}
    rows = {**rows, "--timeout": limits.timeout, "--grace": limits.grace, "--connections": limits.connections}
    for option, value in rows.items():
        assert f"`{option}`, {value:,.0f} " in PAGE
        assert OPTIONS[option].default == value
    assert (OPTIONS["--batch"].default, OPTIONS["--wait"].default / 1000) == (limits.batch, limits.wait)


def test_how_long_callers_and_threads_are_waited_for_is_what_the_page_says():
    assert f"must be there within {middleware.HEADER_TIMEOUT_SECONDS:g} seconds" in PAGE
    assert f"is closed after {server.KEEP_ALIVE_SECONDS} seconds" in PAGE
    assert f"Callers have {server.SHUTDOWN_SECONDS} seconds to read" in PAGE
    assert f"has {serving_app.CLOSE_SECONDS} seconds to be left" in PAGE
    assert (
        f"That is about {ServingLimits().grace + server.SHUTDOWN_SECONDS + serving_app.CLOSE_SECONDS:g} seconds at most"
        in PAGE
    )
