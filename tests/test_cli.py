"""The command line: every command, for people and as JSON, and one clear sentence for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unire import formats
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


def error(*arguments: object) -> str:
    """What a mistake is answered with, in a process of its own: one line, no traceback."""
    command = [sys.executable, "-m", "unire", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran
    assert ran.stderr.startswith("error: ")
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr


@pytest.fixture(scope="module")
def model(encoder, tmp_path_factory) -> Path:
    """A model that knows the twenty sentences by heart."""
    out = tmp_path_factory.mktemp("models") / "twenty"
    quick = ["mlp_dropout=0", "logit_dropout=0", "evaluate_every=5", "evaluate_after=40"]
    ran = run(
        *("train", "--encoder", encoder, "--data", TWENTY, "--dev", TWENTY, "--labels", "scierc", "--out", out),
        *("--epochs", 100, "--lr", 0.001, "--head-lr", 0.003, "--layout", "shared", "--batch-size", 10),
        *("--patience", 100, *(part for setting in quick for part in ("--set", setting))),
    )
    assert ran.exit_code == 0, ran.output
    assert "dev Ent 100.0  Rel 100.0" in ran.output
    return out


def test_help_teaches():
    for command in ([], ["train"], ["evaluate"], ["extract"], ["score"], ["data", "stats"]):
        ran = run(*command, "--help")
        assert ran.exit_code == 0
        assert len(ran.output) > 300
        if command:
            assert "unire " + " ".join(command) in ran.output


def test_the_version_is_printed():
    assert run("--version").output.startswith("unire ")


def test_stats_count_what_is_there():
    total = result("data", "stats", TWENTY, "--labels", "scierc")["total"]
    assert total["sentences"] == 20
    assert total["relations_doubled"] > total["relations"]
    ran = run("data", "stats", TWENTY, TWENTY, "--labels", "scierc")
    assert "relations doubled" in ran.output
    assert "total" in ran.output


def test_stats_of_scierc_are_the_papers(data_folder):
    files = [data_folder / "scierc" / f"{part}.json" for part in ("train", "dev", "test")]
    total = result("data", "stats", *files, "--labels", "scierc")["total"]
    assert total["sentences"] == 2687
    assert total["entities"] == 8094
    assert total["relations"] == 4648
    assert total["relations_doubled"] == 5463


def test_the_oracle_reads_gold_tables_without_a_model():
    scores = result("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY)["scores"]
    assert scores["entities"]["f1"] == scores["relations"]["f1"] == 1.0


def test_the_decoders_ceiling_on_scierc(data_folder):
    test = data_folder / "scierc" / "test.json"
    scores = result("evaluate", "--oracle", "--labels", "scierc", "--data", test)["scores"]
    assert scores["entities"]["f1"] >= 0.994
    assert scores["relations"]["f1"] >= 0.995


def test_a_model_is_evaluated(model, tmp_path):
    predictions = tmp_path / "predictions.jsonl"
    report = result("evaluate", "--model", model, "--data", TWENTY, "--predictions", predictions, "--device", "cpu")
    assert report["scores"]["entities"]["f1"] == 1.0
    again = result("score", TWENTY, predictions, "--labels", "scierc", "--all-protocols", "--bootstrap", 50)
    assert again["scores"] == report["scores"]
    assert len(again["protocols"]) == 6
    assert again["intervals"]["samples"] == 50
    ran = run("score", TWENTY, predictions, "--labels", "scierc", "--all-protocols", "--bootstrap", 50)
    assert "boundaries, once, micro" in ran.output


def test_a_model_evaluated_with_another_decoder_says_so_in_its_score(model):
    hard = result("evaluate", "--model", model, "--data", TWENTY, "--decoder", "hard", "--device", "cpu")
    blunt = result("evaluate", "--model", model, "--data", TWENTY, "--alpha", 50, "--device", "cpu")
    assert hard["scores"]["entities"]["f1"] > 0.9
    assert blunt["scores"]["entities"]["f1"] < 0.5


def test_words_on_standard_input_are_annotated(model):
    document = next(formats.read(TWENTY))
    words = "\n".join(" ".join(sentence.words) for sentence in document.sentences)
    ran = run("extract", "--words", "--model", model, "--device", "cpu", stdin=words + "\n\n" + words)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == 2
    assert [(e["start"], e["end"], e["label"]) for e in lines[0]["entities"]] == sorted(
        (e.start, e.end, e.label) for e in document.entities
    )
    assert all(0 <= e["score"] <= 1 for e in lines[0]["entities"])


def test_a_file_of_documents_is_annotated_into_another(model, tmp_path):
    out = tmp_path / "found.jsonl"
    summary = result("extract", TWENTY, "--model", model, "--out", out, "--device", "cpu")
    found = list(formats.read(out))
    assert summary["documents"] == len(found)
    assert [d.words for d in found] == [d.words for d in formats.read(TWENTY)]
    text = tmp_path / "words.txt"
    text.write_text("a b c\n")
    ran = run("extract", "--words", text, "--model", model, "--device", "cpu")
    assert json.loads(ran.stdout)["text"] == "a b c"


def test_folds_are_trained_scored_and_resumed(encoder, tmp_path):
    arguments = [
        *("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--folds", 2, "--dev-fraction", 0.3),
        *("--epochs", 1, "--out", tmp_path / "folds"),
    ]
    first = result(*arguments)
    assert len(first["folds"]) == 2
    assert [row["average"] for row in first["mean"]] == ["micro", "macro"]
    assert sorted(path.name for path in (tmp_path / "folds").iterdir()) == ["fold-01", "fold-02"]
    assert result(*arguments, "--resume") == first
    ran = run(*arguments, "--resume")
    assert "Mean over 2 folds" in ran.output


def test_tensorboard_files_are_written_on_request(encoder, tmp_path):
    result(
        *("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--epochs", 1),
        *("--out", tmp_path / "model", "--tensorboard", tmp_path / "events"),
    )
    assert list((tmp_path / "events").glob("events.out.tfevents*"))


def test_symmetric_types_may_be_named_for_ones_own_data():
    named = result("data", "stats", TWENTY, "--symmetric", "COMPARE,CONJUNCTION")["total"]
    built_in = result("data", "stats", TWENTY, "--labels", "scierc")["total"]
    assert named["relations_doubled"] == built_in["relations_doubled"]


def test_mistakes_get_one_sentence(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "holds no document" in error("data", "stats", empty)
    assert "cannot be read" in error("data", "stats", tmp_path / "nothing.jsonl")
    assert "no label space" in error("data", "stats", TWENTY, "--labels", "nothing")
    assert "unknown entity type" in error("data", "stats", TWENTY, "--labels", "conll04")
    assert "--oracle" in error("evaluate", "--data", TWENTY)
    assert "no model folder" in error("evaluate", "--data", TWENTY, "--model", tmp_path / "nothing")
    assert "no model folder" in error("extract", TWENTY, "--model", tmp_path / "nothing")
    assert "--symmetric" in error("score", TWENTY, TWENTY, "--labels", "scierc", "--symmetric", "A")
    assert "encoder" in error("train", "--encoder", tmp_path, "--data", TWENTY, "--out", tmp_path / "m")
    assert "no preset" in error("train", "--encoder", "x", "--data", TWENTY, "--out", tmp_path / "m", "--preset", "y")


def test_data_with_labels_that_a_model_does_not_know_are_refused(model):
    assert "unknown entity type" in error("evaluate", "--model", model, "--data", FIXTURES / "people.json")
