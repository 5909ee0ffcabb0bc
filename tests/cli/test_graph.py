"""`unire graph`: from results to a graph, and what it answers."""

from __future__ import annotations

import json

import networkx
import pytest

pytest.importorskip("duckdb", reason="needs the extra graph")

from helpers.cli import error, result, run
from helpers.graphs import met
from unire import formats


@pytest.fixture
def found(tmp_path):
    documents = [met("Ada", "Bob", id="a"), met("Bobs", "Cy", id="b"), met("ADA", "Cy", id="c", score=0.2)]
    formats.write(documents, tmp_path / "found.jsonl", "unire")
    return tmp_path / "found.jsonl"


@pytest.mark.slow
def test_a_graph_is_built_shown_searched_extended_and_exported(found, tmp_path):
    graph = tmp_path / "graph"
    summary = result("graph", "build", found, "--out", graph, "--workers", 1)
    assert {name: summary[name] for name in ("documents", "nodes", "edges", "evidence")} == {
        "documents": 3,
        "nodes": 3,
        "edges": 3,
        "evidence": 3,
    }
    shown = result("graph", "show", graph, "ada")
    assert shown["entity"]["names"] == {"ADA": 1, "Ada": 1}
    assert [edge["score"] for edge in shown["edges"]] == [0.5, 0.2]
    assert shown["edges"][0]["evidence"] == [{"document": "a", "sentence": "Ada met Bob"}]
    text = run("graph", "show", graph, "Ada", "--limit", 1).stdout
    assert "–knows→ Bob" in text
    assert "Ada met Bob  (a)" in text
    path = result("graph", "path", graph, "Ada", "Cy")["path"]
    assert [(edge["head"], edge["tail"]) for edge in path] == [("ADA", "Cy")]
    assert result("graph", "stats", graph)["largest_component"] == 3
    assert "Largest nodes" in run("graph", "stats", graph).stdout
    out = tmp_path / "graph.graphml"
    assert run("graph", "export", graph, "--out", out).exit_code == 0
    assert networkx.read_graphml(out).number_of_edges() == 3
    undo = tmp_path / "undo.jsonl"
    undo.write_text(json.dumps({"name": "Bobs"}) + "\n")
    assert result("graph", "add", graph, "--undo", undo)["nodes"] == 4


def test_an_unfinished_graph_can_be_continued(found, tmp_path):
    graph, good = tmp_path / "graph", found.read_text(encoding="utf-8")
    found.write_text(f"{good}broken\n", encoding="utf-8")
    failed = run("graph", "build", found, "--out", graph, "--workers", 1)
    assert failed.exit_code == 1
    assert "fix the error; then continue with the same command and --resume" in failed.stderr
    assert "--resume" not in run("graph", "build", tmp_path / "none.jsonl", "--out", tmp_path / "other").stderr
    found.write_text(good, encoding="utf-8")
    assert result("graph", "build", found, "--out", graph, "--workers", 1, "--resume")["documents"] == 3


def test_mistakes_are_one_sentence(found, tmp_path):
    graph = tmp_path / "graph"
    assert "is no graph" in error("graph", "stats", graph)
    assert run("graph", "build", found, "--out", graph).exit_code == 0
    assert "continue an interrupted run with --resume" in error("graph", "build", found, "--out", graph)
    assert "nothing to add" in error("graph", "add", graph)
    assert "no entity of the graph has the name 'Zoe'" in error("graph", "show", graph, "Zoe")
    assert "has no ending of a graph format" in error("graph", "export", graph, "--out", tmp_path / "graph.doc")
    undo = tmp_path / "undo.jsonl"
    undo.write_text('["GPs"]\n')
    assert "must have a line such as" in error("graph", "add", graph, "--undo", undo)
