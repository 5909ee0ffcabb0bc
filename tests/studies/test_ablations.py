"""The studies that train, on twenty sentences and tiny encoders."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.paths import TWENTY
from helpers.study_runs import command as run
from unire.errors import UnireError
from unire.studies import ablations
from unire.studies.ablations import ABLATION, BETA2, DROPOUT, WINDOW, StudySetup, Variant
from unire.training.config import TrainingConfig

QUICK = ("--labels", "scierc", "--epochs", 1, "--preset", "best", "--set", "evaluate_after=0")


def trained(encoder) -> tuple[object, ...]:
    return ("--encoder", encoder, "--data", TWENTY, "--dev", TWENTY, "--test", TWENTY, *QUICK)


@pytest.fixture
def setup(encoder, tmp_path) -> StudySetup:
    files = (TWENTY,)
    return StudySetup(str(encoder), files, files, TrainingConfig(epochs=1), tmp_path / "study", files, "scierc")


@pytest.fixture
def pretended(monkeypatch):
    """Trainings that end at once: F1 is the seed in tenths, and what was trained is listed."""
    made: list[str] = []

    def run_jobs(jobs, max_parallel, *, log):
        for job in jobs:
            if not job.record_path.exists():
                made.append(job.name)
                rates = dict.fromkeys(("precision", "recall", "f1"), job.info["seed"] / 10)
                scores = {"entities": rates, "relations": rates, "spans": rates}
                split = {"scores": scores if "evaluate" in job.command else {"dev": scores, "test": scores}}
                job.record_path.parent.mkdir(parents=True, exist_ok=True)
                record = {**job.info, "seconds": 1.0, "printed": split}
                job.record_path.write_text(json.dumps(record), encoding="utf-8")

    monkeypatch.setattr(ablations, "run_jobs", run_jobs)
    return made


def results(setup, *studies, seeds=1):
    return ablations.run_studies(studies, setup, seeds=seeds, jobs=2, log=print)


def test_the_ablation_has_the_rows_of_table_4(setup, pretended):
    (result,) = results(setup, ABLATION, seeds=2)
    (table,) = ABLATION.tables(result)
    assert [row[0] for row in table.rows] == [
        "default",
        "w/o symmetry loss",
        "w/o implication loss",
        "w/o logit dropout",
        "w/o cross-sentence context",
        "hard decoding",
    ]
    assert table.rows[0][1:] == ("5.0 ± 7.1", "5.0 ± 7.1", "2", "88.8 / 64.3", "68.4 / 36.9")
    assert "test, 20 sentences" in table.title
    assert len(pretended) == 12


def test_each_row_of_the_ablation_changes_what_it_says(setup):
    changes = [setup.plan_job(variant, 0) for variant in ABLATION.variants(setup.config)]
    assert [cell.name for cell in changes] == [
        "default-0",
        "symmetry=False-0",
        "implication=none-0",
        "logit_dropout=0.0-0",
        "window=0-0",
        "decoder=hard-0",
    ]
    assert "symmetry=false" in changes[1].command
    assert changes[5].command[2:4] == ("evaluate", "--model")
    assert changes[5].needs == ("default-0",)


def test_studies_of_one_folder_share_their_cells(setup, pretended):
    results(setup, DROPOUT)
    assert sorted(pretended) == ["default-0", "logit_dropout=0.1-0", "logit_dropout=0.3-0", "logit_dropout=0.4-0"]
    results(setup, BETA2)
    assert pretended[4:] == ["beta2=0.999-0"]


def test_seeds_can_be_added_and_all_that_are_there_count(setup, pretended):
    results(setup, BETA2, seeds=2)
    (result,) = results(setup, BETA2, seeds=1)
    assert result["rows"][0]["seeds"] == [0, 1]
    assert len(pretended) == 4
    (result,) = results(setup, BETA2, seeds=3)
    assert [len(row["seeds"]) for row in result["rows"]] == [3, 3]
    assert pretended[4:] == ["default-2", "beta2=0.999-2"]


def test_shared_windows_are_a_row_beside_the_lengths_of_others(setup, pretended):
    (result,) = results(setup, WINDOW)
    assert [row["cell"] for row in result["rows"]] == ["window=100", "default", "window=300"]
    shared = replace(setup, config=replace(setup.config, layout="shared"), folder=setup.folder / "shared")
    (result,) = results(shared, WINDOW)
    assert [row["cell"] for row in result["rows"]] == [
        "window=100,layout=in-place",
        "layout=in-place",
        "window=300,layout=in-place",
        "default",
    ]
    assert result["rows"][-1]["title"] == "shared windows"


def test_cells_of_other_settings_or_data_are_not_taken(setup, pretended, tmp_path):
    results(setup, BETA2)
    with pytest.raises(UnireError, match=r"setting epochs \(1, not 2\); use the same settings, or"):
        results(replace(setup, config=replace(setup.config, epochs=2)), BETA2)
    other = tmp_path / "other.jsonl"
    other.write_text("".join(TWENTY.read_text(encoding="utf-8").splitlines(keepends=True)[:5]), encoding="utf-8")
    with pytest.raises(UnireError, match="another data"):
        results(replace(setup, data=(other,)), BETA2)
    with pytest.raises(UnireError, match="another label space"):
        results(replace(setup, labels=None, symmetric="COMPARE"), BETA2)
    namesake = tmp_path / "namesake" / Path(setup.encoder).name
    shutil.copytree(setup.encoder, namesake)
    assert results(replace(setup, encoder=str(namesake)), BETA2)  # the same, elsewhere
    (namesake / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UnireError, match="another weights"):
        results(replace(setup, encoder=str(namesake)), BETA2)
    assert len(pretended) == 2


def test_scores_on_test_need_a_test_set(setup):
    with pytest.raises(UnireError, match="the study ablate scores on test; pass test"):
        results(replace(setup, test=()), ABLATION)


def test_a_stopped_cell_is_resumed(setup):
    new = setup.plan_job(Variant("default"), 0)
    assert "--resume" not in new.command
    assert new.fresh_output == setup.folder / "models" / "default-0"
    (setup.folder / "models" / "default-0.resume").mkdir(parents=True)
    stopped = setup.plan_job(Variant("default"), 0)
    assert (stopped.command[-1], stopped.fresh_output) == ("--resume", None)


def test_a_setup_says_all_that_training_must_know(setup):
    command = replace(setup, labels=None, symmetric="COMPARE", format="dygie").plan_job(Variant("default"), 7).command
    assert {"--symmetric", "COMPARE", "--format", "dygie", "seed=7", "epochs=1"} <= set(command)
    assert "--labels" not in command


@pytest.mark.slow
def test_trainings_run_in_processes_of_their_own_and_only_once(encoder, tmp_path):
    command = ("study", "beta2", *trained(encoder), "--jobs", 2, "--out", tmp_path)
    ran = run(*command)
    assert "β₂ = 0.999" in ran.output
    again = run(*command, "--json")
    assert "started" not in again.stderr
    assert [row["cell"] for row in json.loads(again.stdout)["rows"]] == ["default", "beta2=0.999"]
    weights = tmp_path / "models" / "default-0" / "model.safetensors"
    made = weights.stat().st_mtime_ns
    (tmp_path / "cells" / "default-0.json").unlink()
    assert "default-0: started" in run(*command).stderr  # removing a record means training the cell again
    assert weights.stat().st_mtime_ns > made


def test_an_interrupt_ends_a_study_without_a_traceback(encoder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ablations, "run_jobs", interrupted)
    ran = run("study", "beta2", *trained(encoder), "--out", tmp_path, code=130)
    assert "the same command continues with the others" in ran.stderr
