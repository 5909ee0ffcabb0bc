"""docs/your-data.md and docs/formats.md say what is so: their commands run, and the table is that of `HOLDS`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from helpers.ace import news
from helpers.cli import run_shell
from helpers.paths import FIXTURES, ROOT
from unire import formats
from unire.analysis.statistics import TABLE_2
from unire.formats.base import Capability

YOUR_DATA = (ROOT / "docs" / "your-data.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")

COLUMNS = {
    "text": Capability.TEXT,
    "words": Capability.WORDS,
    "several sentences": Capability.SENTENCES,
    "across sentences": Capability.SPANNING_RELATIONS,
    "overlaps": Capability.OVERLAPS,
    "twins": Capability.TWINS,
    "scores": Capability.SCORES,
    "attributes": Capability.ATTRIBUTES,
    "meta": Capability.META,
    "cuts": Capability.CUTS,
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs commands in a folder of their own; each must succeed and say something."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(text: str) -> str:
        status, said, complained = run_shell(text)
        assert status == 0, f"{text}: {complained}"
        return said

    return run


@pytest.mark.slow
@pytest.mark.no_cover
def test_every_command_on_the_way_to_a_model_runs(shell, tmp_path: Path, encoder: Path) -> None:
    shutil.copy(FIXTURES / "export.json", tmp_path)
    shutil.copytree(encoder, tmp_path / "bert-base-uncased")
    for block in blocks(YOUR_DATA, "bash"):
        printed = shell(re.sub(r"--epochs \d+", "--epochs 2 --set evaluate_after=0 --set evaluate_every=1", block))
        assert printed.strip()
    assert (tmp_path / "models" / "mine" / "model.safetensors").exists()
    assert json.loads(printed)["text"] == "Mara Lindqvist lives in Uppsala."


def test_the_twenty_sentences_are_what_the_page_says() -> None:
    documents = list(formats.read(FIXTURES / "export.json"))
    (interface,) = blocks(YOUR_DATA, "xml")
    assert len(documents) == 20
    labels = {item.label for document in documents for item in (*document.entities, *document.relations)}
    assert labels == set(re.findall(r'value="(\w+)"', interface))


def test_the_table_of_formats_is_what_they_hold() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in FORMATS.splitlines() if line[:1] == "|"]
    head, body = rows[0], [row for row in rows if row[0].startswith("`")]
    assert head[1:] == list(COLUMNS)
    written = [name for name, form in formats.FORMATS.items() if form.write]
    assert [row[0].strip("`") for row in body] == written
    for name, *cells in body:
        holds = formats.FORMATS[name.strip("`")].capabilities
        assert cells == ["✓" if content in holds else "–" for content in COLUMNS.values()], name
        assert (Capability.SPANNING_ENTITIES in holds) == (Capability.SPANNING_RELATIONS in holds)


def test_the_papers_counts_are_those_on_the_page() -> None:
    for corpus in ("ace04", "ace05"):
        counts = " | ".join(f"{count:,}" for count in TABLE_2[corpus].values())
        assert f"| {corpus.upper()} | {counts} |" in FORMATS


@pytest.mark.slow
def test_the_commands_about_formats_run(shell, tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "twenty.jsonl", tmp_path / "train.jsonl")
    made = news()
    made.write(tmp_path / "ace_2005_td_v7" / "data" / "English")
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "test").write_text(made.name)
    general, ace = blocks(FORMATS, "bash")
    general = general.replace("INPUT", "train.jsonl").replace("OUTPUT", "out").replace(" X ", " dygie ")
    assert "written to out as spert" in shell(general.replace(" Y ", " spert "))
    assert "1 document in the format ace05 written to ace05/test.jsonl as unire" in " ".join(shell(ace).split())
    (example,) = blocks(FORMATS, "python")
    assert "written as one document for each" in shell(f"python - <<'END'\n{example}END")
