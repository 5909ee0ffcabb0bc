"""Joint model and pipeline side by side, by command, cell by cell."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch
from typer.testing import CliRunner

from helpers.paths import ROOT, TWENTY
from helpers.pipeline import QUICK, marker_stage, span_stage
from helpers.study_runs import runner
from unire import formats
from unire.cli.main import app
from unire.documents import Document
from unire.errors import UnireError
from unire.inference import torch_engine as torch_engine
from unire.labels import LabelSpace
from unire.models.encoder import load_encoder
from unire.studies import ablations, profiling
from unire.studies.pipeline import runs, study
from unire.studies.pipeline.runs import PipelineRun
from unire.studies.pipeline.study import PipelineConfig
from unire.studies.report import write_report
from unire.studies.results import load_result
from unire.training.config import TrainingConfig


@pytest.fixture
def in_process(monkeypatch):
    """Cells in this process: the same commands, started sooner; what was done is listed."""
    made: list[str] = []

    monkeypatch.setattr(study, "run_jobs", runner(made))
    monkeypatch.setattr(profiling, "MIN_ROUND_SECONDS", 0)
    return made


def asked(encoder, out, *more):
    files = ("--data", TWENTY, "--dev", TWENTY, "--test", TWENTY, "--labels", "scierc")
    joint = ("--preset", "best", "--epochs", 2, "--set", "evaluate_after=0", "--set", "lr=0.003")
    quick = {"sentences": 4, "pairs": 16, "entity_lr": 3e-3, "relation_lr": 3e-3, "entity_head_lr": 3e-3, "max_span": 2}
    settings = [word for name, value in quick.items() for word in ("--pipeline", f"{name}={value}")]
    epochs = ("--entity-epochs", 20, "--relation-epochs", 3)
    words = ("study", "pipeline", "--encoder", encoder, *files, *joint, *settings, *epochs, "--out", out, *more)
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_the_study_puts_joint_model_and_pipeline_side_by_side(encoder, tmp_path, in_process):
    ran = asked(encoder, tmp_path, "--json")
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.stdout)
    assert in_process == ["default-0", *(f"pipeline-{part}-0" for part in (*study.TRAINED, "measured"))]
    titles = [row["title"] for row in result["rows"]]
    assert titles == [
        "joint, shared, as trained",
        "joint, in-place, W = 200",
        "joint, in-place, W = 100",
        "pipeline, exact",
        "pipeline, approximate",
    ]
    assert result["rows"][3]["entities"]["f1"][0] > 0.1
    assert result["rows"][3]["entities"] == result["rows"][4]["entities"]
    joint, exact = result["rows"][0], result["rows"][3]
    one_encoder = sum(parameter.numel() for parameter in load_encoder(encoder)[0].parameters())
    assert 2 * one_encoder < exact["parameters"] < 4 * one_encoder
    assert exact["sentences_per_second"][0] == pytest.approx(20 / sum(value[0] for value in exact["seconds"].values()))
    long = sum(entity.end - entity.start > 2 for document in formats.read(TWENTY) for entity in document.entities)
    assert result["notes"]["test"] == result["notes"]["training, entities"] == {"entity of more than 2 words": long}

    sides, ratios, stages, notes, paper = study.tables(result)
    assert [row[0] for row in sides.rows] == titles
    assert sides.rows[3][2] == "300 and 100"
    assert [row[2:] for row in ratios.rows[2:]] == [("10.1", "15.8"), ("1.0", "1.6")]
    assert float(ratios.rows[0][1]) == pytest.approx(
        joint["sentences_per_second"][0] / exact["sentences_per_second"][0], abs=0.06
    )
    assert len(stages.rows) == 2
    assert ("test: entity of more than 2 words", str(long)) in notes.rows
    assert ("Zhong & Chen", "219M", "100", "36.7", "19.9") in paper.rows

    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert '<section id="pipeline">' in page
    assert "pipeline entity_epochs 20" in page

    again = asked(encoder, tmp_path)
    assert again.exit_code == 0
    assert len(in_process) == 5  # nothing was done again
    assert "Speed of the joint model divided" in again.output
    (tmp_path / "cells" / "pipeline-measured-0.json").unlink()
    asked(encoder, tmp_path)
    assert in_process[5:] == ["pipeline-measured-0"]
    other = asked(encoder, tmp_path, "--relation-epochs", 4)
    assert "was made with another setting pipeline relation_epochs" in str(other.exception)
    assert load_result(tmp_path, "pipeline")["seeds"] == [0]


@pytest.mark.slow
def test_the_study_says_how_often_documents_were_read_where_it_is_known():
    result = load_result(ROOT / "results" / "studies", "pipeline")
    rows = result["rows"]
    known = {**result, "rows": [{**row, "repeats": [count, 9]} for count, row in enumerate(rows, 2)]}
    unknown = {**result, "rows": [{name: row[name] for name in row if name != "repeats"} for row in rows]}
    often = "read 2 to 9 times over in a round, on NVIDIA"
    assert f"seeds; {often}" in study.tables(known)[0].title
    assert f"sentences, {often}" in study.charts(known)["pipeline-speed"]
    assert "seeds; on NVIDIA" in study.tables(unknown)[0].title
    assert "sentences on NVIDIA" in study.charts(unknown)["pipeline-speed"]


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_both_systems_keep_half_precision_weights_in_half_precision(
    family, bf16, encoders, scierc_labels, random_model, monkeypatch
):
    monkeypatch.setattr(profiling, "MIN_ROUND_SECONDS", 0)
    ran = []

    class Engine(torch_engine.TorchEngine):
        def __init__(self, model, **more):
            super().__init__(model, **more)
            ran.append(model)

    monkeypatch.setattr(runs, "TorchEngine", Engine)
    encoder = encoders(family)
    entities = replace(span_stage(encoder, scierc_labels), bf16=bf16)
    torch.nn.init.zeros_(entities.model.classifier.bias)  # as good as every span is an entity
    ways = ("exact", "approximate")
    relations = {way: replace(marker_stage(encoder, scierc_labels, way != "exact"), bf16=bf16) for way in ways}
    few = [Document.from_words([["we", "parse", "trees"], ["and", "graphs"]], [(1, 2, "Task")])]
    found = entities.predict([document.bare for document in few])
    expected = {way: finder.predict(found) for way, finder in relations.items()}
    assert all(documents[0].relations for documents in expected.values())

    runs.measure_all(random_model, entities, relations, few, QUICK)
    models = [*ran, entities.model, *(finder.model for finder in relations.values())]
    kinds = {layer.weight.dtype for model in models for layer in model.modules() if isinstance(layer, torch.nn.Linear)}
    assert len(models) == 4
    assert kinds == {torch.bfloat16 if bf16 else torch.float32}
    assert entities.predict([document.bare for document in few]) == found
    assert {way: finder.predict(found) for way, finder in relations.items()} == expected


def cell(encoder, out, part, **more) -> PipelineRun:
    files = [str(TWENTY)]
    training = asdict(TrainingConfig(epochs=1))
    return PipelineRun(
        **{
            "part": part,
            "encoder": str(encoder),
            "data": files,
            "dev": files,
            "test": files,
            "format": None,
            "labels": LabelSpace.load("scierc").to_dict(),
            "training": training,
            "pipeline": asdict(PipelineConfig(entity_epochs=1, relation_epochs=1)),
            "folder": str(out),
            **more,
        }
    )


def test_an_error_of_a_cell_is_one_sentence(tmp_path, capsys):
    assert runs.main([cell(tmp_path / "none", tmp_path, "entities").to_json()]) == 1
    message = capsys.readouterr().err
    assert message.startswith("error: encoder")
    assert len(message.splitlines()) == 1


def test_an_interrupt_ends_a_cell_without_a_traceback(encoder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "Trainer", interrupted)
    assert runs.main([cell(encoder, tmp_path, "entities").to_json()]) == 130


def test_an_encoder_that_does_not_support_the_approximation_is_noted(encoders, tmp_path):
    printed = cell(encoders("deberta"), tmp_path, "approximate").run()
    (note,) = printed["notes"]
    assert note.startswith("an approximate marker model needs tokens that share positions")
    assert not (tmp_path / "models").exists()


def test_the_study_needs_test_data(tmp_path, encoder):
    setup = ablations.StudySetup(str(encoder), (TWENTY,), (TWENTY,), TrainingConfig(epochs=1), tmp_path)
    with pytest.raises(UnireError, match="pass test="):
        study.run_study(setup, PipelineConfig(), seeds=1, jobs=1)
