"""`calibrate` from Python; `tests/test_calibration.py` has the curves and the command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unire import CalibrationReport, Extractor, calibrate
from unire.config import ModelConfig
from unire.errors import UnireError


@pytest.fixture(scope="module")
def folder(unexported, tmp_path_factory) -> Path:
    return Path(shutil.copytree(unexported, tmp_path_factory.mktemp("models") / "model"))


@pytest.fixture(scope="module")
def report(folder, twenty, tmp_path_factory) -> CalibrationReport:
    out = tmp_path_factory.mktemp("calibrated") / "model"
    return calibrate(folder, twenty, test=twenty[:5], out=out, tune=True, device="cpu", data_names=["dev.jsonl"])


def test_a_calibrated_model_is_written(report, folder, twenty):
    config = ModelConfig.load(report.out)
    assert config == report.config
    assert config.provenance["calibration"]["data"] == ["dev.jsonl"]
    assert ModelConfig.load(folder).calibration != config.calibration
    assert Extractor.load(report.out, device="cpu").extract_words([twenty[0].words]).entities
    assert report.effects["data"].after.entities.error < report.effects["data"].before.entities.error


def test_a_report_becomes_json_and_text(report):
    data = report.to_dict()
    assert list(data) == ["out", "decoder", "alpha", "relation_odds", "scores", "data", "test"]
    assert data["out"] == str(report.out)
    lines = repr(report).splitlines()
    assert lines[0].startswith(f"Calibrated model in '{report.out}' [split, α = ")
    assert lines[1].startswith("  Expected calibration error of entities on data: ")
    assert len(lines) == 5


def test_an_impossible_calibration_is_refused(folder, report, twenty):
    with pytest.raises(UnireError, match="needs tune=True"):
        calibrate(folder, twenty, decoder="likely")
    with pytest.raises(UnireError, match="'science' cannot be changed in place; give a new folder with out="):
        calibrate("science", twenty)
    with pytest.raises(UnireError, match="already exists"):
        calibrate(folder, twenty, out=report.out)
