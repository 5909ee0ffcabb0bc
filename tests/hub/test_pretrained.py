"""Bundled models: an exported folder in the folder of bundled models is found by its name."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.paths import TWENTY
from unire import Extractor, list_models, pretrained, score
from unire.cli.main import app
from unire.errors import UnireError
from unire.export.export import ExportReport, Parity
from unire.hub.model_dir import is_model_dir, locate_model
from unire.training.train import encoder_provenance


@pytest.fixture
def bundled(exported, tmp_path, monkeypatch) -> Path:
    """A folder of bundled models that holds one, `tiny`."""
    bundled = tmp_path / "bundled"
    shutil.copytree(exported, bundled / "tiny")
    (bundled / "__pycache__").mkdir()
    monkeypatch.setattr(pretrained, "BUNDLED_DIR", bundled)
    return bundled


@pytest.fixture
def no_bundled_models(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pretrained, "BUNDLED_DIR", tmp_path)


def run(*arguments: object):
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_a_bundled_model_is_found_by_name(bundled):
    assert pretrained.names() == ("tiny",)
    assert pretrained.find("tiny") == locate_model("tiny") == bundled / "tiny"
    assert is_model_dir("tiny")
    assert not is_model_dir("bert-base-uncased")


def test_a_bundled_name_wins_over_a_folder_unless_given_as_a_path(bundled, unexported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(unexported, tmp_path / "tiny")
    assert locate_model("tiny") == bundled / "tiny"
    assert locate_model("./tiny") == locate_model(Path("tiny")) == Path("tiny")


def test_an_unknown_name_is_an_error_that_lists_the_bundled_models(bundled):
    for load in (pretrained.find, locate_model, Extractor.load):
        with pytest.raises(UnireError, match=r"'sciense'.* the bundled models are tiny$"):
            load("sciense")


def test_a_package_without_bundled_models_says_so(no_bundled_models):
    with pytest.raises(UnireError, match="no model is bundled"):
        locate_model("science")
    assert "No model is bundled" in run("models")
    assert json.loads(run("models", "--json")) == {"models": []}


def test_bundled_models_are_listed_with_base_licence_size_and_scores(bundled):
    text = run("models")
    for shown in ("tiny", "someone/tiny-bert", "MB", "test, exported", "OtherScientificTerm", "USED-FOR"):
        assert shown in text
    (model,) = json.loads(run("models", "--json"))["models"]
    assert (model["name"], model["base"], model["licence"]) == ("tiny", "someone/tiny-bert", "mit")
    assert model["bytes"] == sum(file.stat().st_size for file in (bundled / "tiny").iterdir())
    assert set(model["scores"]) == {"test, exported"}


def test_a_model_that_was_not_scored_is_listed_without_scores(bundled):
    config = json.loads((bundled / "tiny" / "config.json").read_text(encoding="utf-8"))
    config["provenance"]["scores"] = {}
    (bundled / "tiny" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert "–" in run("models")


def test_every_command_takes_a_model_by_its_name(bundled, tmp_path, twenty):
    report = json.loads(run("evaluate", "--model", "tiny", "--data", TWENTY, "--json"))
    assert report["scores"]["entities"]["f1"] >= 0
    run("extract", "--model", "tiny", TWENTY, "--out", tmp_path / "found.jsonl")
    assert len((tmp_path / "found.jsonl").read_text(encoding="utf-8").splitlines()) == len(twenty)
    out = tmp_path / "trained"
    run("train", "--encoder", "tiny", "--data", TWENTY, "--labels", "scierc", "--epochs", 1, "--out", out)
    made = json.loads((out / "config.json").read_text(encoding="utf-8"))["provenance"]
    assert (made["encoder"], made["base"]) == ("tiny", "someone/tiny-bert")
    assert "| base checkpoint | someone/tiny-bert |" in (out / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_model_is_exported_by_command(unexported, tmp_path):
    out = tmp_path / "out"
    arguments = ("export", unexported, "--out", out, "--precision", "fp32", "--test", TWENTY, "--licence", "mit")
    arguments = (*arguments, "--base-licence", "apache-2.0", "--title", "seas", "--description", "What swims.")
    report = json.loads(run(*arguments, "--json"))
    assert (report["folder"], report["precision"], report["engines"]["sentences"]) == (str(out), "fp32", 20)
    assert report["scores"]["protocol"]["name"] == "strict, doubled, micro"
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["provenance"]["licence"] == "mit"
    card = (out / "README.md").read_text(encoding="utf-8")
    for lines in ("\n# seas\n\nWhat swims.\n", "license: mit", "| licence | mit |", "checkpoint | apache-2.0 |"):
        assert lines in card
    assert encoder_provenance(str(out))["base_licence"] == "apache-2.0"


def test_an_export_tells_how_far_the_engines_agree(exported, twenty, scierc_labels, monkeypatch):
    agreement = Parity(sentences=20, difference=0.125, mean_difference=0.001, prediction_f1=0.975)
    scores = score(twenty, twenty, scierc_labels)
    report = ExportReport(exported, "int8", 34_700_000, agreement, agreement, scores)
    monkeypatch.setattr("unire.export.export.export_onnx", lambda *args, **kwargs: report)
    text = run("export", "model", "--out", "out")
    assert "Entities  " in text
    assert "onnxruntime and the original model: probabilities differ by 0.12 at most and 0.001 on average" in text
    assert "97.5% of the predictions are the same (20 sentences)" in text
    assert "34.7 MB of int8 in" in text


def test_bundled_models_are_listed(bundled, twenty):
    (model,) = list_models()
    assert (model.name, model.base, model.licence) == ("tiny", "someone/tiny-bert", "mit")
    assert model.labels == Extractor.load("tiny").labels
    assert model.f1 == (
        model.scores["test, exported"]["entities"]["f1"],
        model.scores["test, exported"]["relations"]["f1"],
        "test, exported",
    )
    assert json.loads(run("models", "--json")) == {"models": [model.to_dict()]}
    assert repr(model).startswith("<ModelInfo 'tiny': Ent ")


def test_a_model_without_scores_is_listed_too(bundled):
    (model,) = list_models()
    assert replace(model, scores={}).f1 is None
    assert repr(replace(model, scores={}, bytes=2_000_000)) == "<ModelInfo 'tiny': 2.0 MB>"
