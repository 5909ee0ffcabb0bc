"""The notebooks and scripts in examples/ run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from helpers.paths import FIXTURES, ROOT

EXAMPLES = ROOT / "examples"
PRINTED_BY_NOTEBOOKS = {
    "quick_start.ipynb": "Penn Treebank --USED-FOR--> chart parser",
    "train_own_labels.ipynb": "Report on 4 documents",
    "abstracts_to_graph.ipynb": "bidirectional LSTM -> dependency parsing",
}


def test_every_example_is_listed_and_tested():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tests = Path(__file__).read_text(encoding="utf-8")
    for example in (*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")):
        assert f"]({example.name})" in listed
        assert f'"{example.name}"' in tests


@pytest.mark.parametrize("name", PRINTED_BY_NOTEBOOKS)
def test_a_notebook_is_committed_without_outputs(name):
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("name", PRINTED_BY_NOTEBOOKS)
def test_a_notebook_runs_without_a_network(name, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for variable in ("HF_HUB_OFFLINE", "OMP_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    assert PRINTED_BY_NOTEBOOKS[name] in "".join(printed)


def test_a_model_is_evaluated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    arguments = ["evaluate_model.py", FIXTURES / "twenty.jsonl", "--resamples", 20]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    runpy.run_path(str(EXAMPLES / "evaluate_model.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "Relations" in printed
    assert "USED-FOR" in printed
    assert "entity not found" in printed
