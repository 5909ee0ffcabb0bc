"""The pages about HTTP: requests are answered, and fields, limits, errors and metrics are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import typer

from helpers.docs import in_backticks
from helpers.pages import read_blocks
from helpers.paths import ROOT
from helpers.server import command
from unire.cli.main import app
from unire.serving import app as serving_app
from unire.serving.limits import ServingLimits
from unire.serving.schemas import ExtractRequest, ViewRequest

REFERENCE, GUIDE = "docs/reference/http.md", "docs/how-to/serve.md"
OPTIONS: dict[str, Any] = {
    option: parameter
    for parameter in typer.main.get_command(app).commands["serve"].params  # type: ignore[attr-defined]
    for option in parameter.opts
}


def read_tables(page: str) -> list[list[list[str]]]:
    """The rows of every table of a page, without the header."""
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]] for table in tables
    ]


def find_table(page: str, first: str) -> list[list[str]]:
    """The table whose first row begins with a cell."""
    (table,) = (table for table in read_tables(page) if table[0][0] == first)
    return table


def without_scores(value: Any) -> Any:
    """Scores depend on the CPU."""
    if isinstance(value, dict):
        return {key: without_scores(item) for key, item in value.items() if key != "score"}
    return [without_scores(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_every_request_is_answered():
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    blocks = [*read_blocks(REFERENCE), *read_blocks(GUIDE)]
    lines = [
        line for block in blocks if block.language in ("bash", "shell") for line in re.split(r"(?<!\\)\n", block.text)
    ]
    requests = [line for line in lines if line.startswith("curl ")]
    assert len(requests) == 11
    answers = {}
    with command("--model", "science") as (_, plain), command(UNIRE_API_KEY="secret") as (_, locked):
        for request in requests:
            url = str(locked if "secret" in request else plain)
            words = request.replace("http://127.0.0.1:8000", url) + " --silent --fail-with-body"
            ran = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
            assert ran.returncode == 0, f"{request}: {ran.stdout}{ran.stderr}"
            answers[request] = ran.stdout
    (shown,) = (json.loads(block.text) for block in blocks if block.language == "json")
    (answer,) = (answer for request, answer in answers.items() if "--retry" in request)
    assert without_scores(json.loads(answer)) == without_scores(shown)
    (metrics,) = (answer for request, answer in answers.items() if "/metrics" in request)
    for name, kind, _ in find_table(REFERENCE, "`unire_requests_total{path,status}`")[:-1]:
        assert f"# TYPE {re.sub(r'{.*', '', name.strip('`'))} {kind}\n" in metrics


def test_the_fields_of_requests_are_those_of_the_schemas():
    extract, view = (table for table in read_tables(REFERENCE) if table[0][0] == "`text`")
    assert [in_backticks(row[0])[0] for row in extract] == list(ExtractRequest.model_fields)
    assert [in_backticks(row[0])[0] for row in view] == list(ViewRequest.model_fields)


def test_the_status_codes_are_those_of_the_server():
    codes = {int(code) for row in find_table(REFERENCE, "401") for code in row[0].split(",")}
    assert codes == {*serving_app.PROBLEMS, *serving_app.ANYWHERE, *serving_app.UNAUTHORIZED, 404, 405}


def test_the_limits_are_those_of_the_command():
    defaults = {
        in_backticks(row[0])[0]: float(row[2].replace(",", "")) for row in find_table(REFERENCE, "`--max-body`")
    }
    assert defaults == {option: OPTIONS[option].default for option in defaults}
    limits = ServingLimits()
    assert list(defaults.values()) == [
        *(limits.body_bytes, limits.text_characters, limits.texts, limits.queue_requests, limits.connections),
        *(limits.client_percent, limits.timeout_seconds, limits.grace_seconds),
        *(limits.batch_tokens, 1000 * limits.wait_seconds),
    ]
    assert [int(row[1]) for row in find_table(REFERENCE, "headers of a request")] == [
        *(limits.header_seconds, limits.idle_seconds, limits.linger_seconds),
        serving_app.CLOSE_SECONDS,
    ]
    text = (ROOT / GUIDE).read_text(encoding="utf-8")
    assert f"Clients have {limits.linger_seconds:g} seconds to read" in text
    seconds = limits.grace_seconds + limits.linger_seconds + serving_app.CLOSE_SECONDS
    assert f"That takes {seconds:g} seconds at most" in text
    options = {name: row[2] for row in find_table(GUIDE, "`--host`, `--port`") for name in in_backticks(row[0])[:1]}
    assert options["--batch"] == f"{limits.batch_tokens}, {1000 * limits.wait_seconds:g}"
    assert options["--queue"] == str(limits.queue_requests)
