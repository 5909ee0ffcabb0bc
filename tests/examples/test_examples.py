"""The scripts in examples/ run as their docstrings say."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from helpers.paths import FIXTURES, ROOT
from helpers.tiny_encoders import tiny_encoder
from unire import formats

EXAMPLES = ROOT / "examples"


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_every_script_is_listed_and_tested():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tests = Path(__file__).read_text(encoding="utf-8")
    for script in EXAMPLES.glob("*.py"):
        assert f"]({script.name})" in listed
        assert f'"{script.name}"' in tests


def test_a_folder_is_extracted_and_shown_on_a_page(run_example, tmp_path: Path):
    (tmp_path / "a.txt").write_text("We train a chart parser on the Penn Treebank.", encoding="utf-8")
    (tmp_path / "b.txt").write_text("A tagger is fast.", encoding="utf-8")
    page = tmp_path / "page.html"
    printed = run_example("extract_folder.py", tmp_path, "--page", page)
    assert "Penn Treebank | USED-FOR | chart parser" in printed
    assert "chart parser" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_model_is_trained_on_own_labels(run_example, tmp_path: Path):
    data = FIXTURES / "people.json"
    words = {word for document in formats.read(data) for word in document.words}
    encoder = tiny_encoder("bert", tmp_path / "encoder", words)
    printed = run_example("train_own_labels.py", data, "--encoder", encoder, "--out", tmp_path / "model", "--epochs", 2)
    assert "relation types: Kill, Live_In" in printed
    assert "Report on" in printed


def test_a_model_is_evaluated(run_example):
    printed = run_example("evaluate_model.py", FIXTURES / "twenty.jsonl", "--resamples", 20)
    assert "Relations" in printed
    assert "USED-FOR" in printed
    assert "entity not found" in printed
