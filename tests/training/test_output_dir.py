"""Output folders of training: finished models are kept, unfinished ones are resumed or restarted."""

from __future__ import annotations

import shutil

import pytest

from helpers.cli import error
from helpers.distillation import quick, taught
from helpers.interrupts import InterruptAfter
from helpers.paths import TWENTY
from unire.analysis.splits import draw_folds, split_folds
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir, fingerprint
from unire.training import train as train_module
from unire.training.callbacks import Callback
from unire.training.cross_validation import cross_validate
from unire.training.distillation import distill as distilling
from unire.training.resume import CheckpointManager, is_finished
from unire.training.tasks import TableTask
from unire.training.train import train


@pytest.fixture
def trained(twenty, scierc_labels, encoder):
    """Trains a model for an epoch."""

    def make(out, **more):
        return train(encoder, twenty, labels=scierc_labels, config=quick(epochs=1), out=out, **more)

    return make


def test_a_finished_model_is_not_trained_over(trained, random_model, tmp_path, monkeypatch):
    out = tmp_path / "model"
    shutil.copytree(random_model, out)
    before = fingerprint(out)
    monkeypatch.setattr(train_module, "init_training", None)  # nothing is computed before it is refused
    with pytest.raises(
        UnireError, match=f"^output folder '{out}' already exists and holds 'README.md'; pass a new folder$"
    ):
        trained(out)
    with pytest.raises(UnireError, match="is finished, and there is nothing to resume; pass a new folder"):
        trained(out, resume=True)
    assert fingerprint(out) == before


def test_a_student_does_not_replace_a_finished_model(teacher, encoder, tmp_path, monkeypatch):
    before = fingerprint(teacher)
    monkeypatch.setattr(distilling, "load_teachers", None)
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        taught([teacher], encoder, teacher)
    assert fingerprint(teacher) == before


def test_an_empty_output_folder_is_used(trained, tmp_path):
    trained(tmp_path)
    assert ModelDir.open(tmp_path).config.provenance["epochs"] == 1


def test_an_interrupted_model_without_state_is_replaced(trained, tmp_path):
    out = tmp_path / "model"
    assert trained(out, callbacks=[InterruptAfter(1)]).interrupted
    with pytest.raises(UnireError, match=r"; pass resume=True, or delete the folder$"):
        trained(out)
    shutil.rmtree(tmp_path / "model.resume")
    assert not trained(out).interrupted
    assert "interrupted" not in ModelConfig.load(out).provenance
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        trained(out)


def test_a_training_killed_as_it_replaced_its_state_is_resumed(trained, tmp_path):
    out = tmp_path / "model"
    assert trained(out, callbacks=[InterruptAfter(1)]).interrupted
    (state,) = (tmp_path / "model.resume").iterdir()
    state.rename(state.with_name(f".{state.name}.0123abcd.previous"))
    with pytest.raises(UnireError, match="there is an unfinished training"):
        trained(out)
    assert not trained(out, resume=True).interrupted
    assert is_finished(out)
    assert not state.parent.exists()


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_the_users_by_the_name_of_the_state_is_refused(resume, trained, teacher, encoder, tmp_path):
    chapter = tmp_path / "model.resume" / "thesis" / "ch1.tex"
    chapter.parent.mkdir(parents=True)
    chapter.touch()
    sentence = "model.resume' is the folder for checkpoints, but it holds 'thesis'; move that file"
    with pytest.raises(UnireError, match=sentence):
        trained(tmp_path / "model", resume=resume)
    with pytest.raises(UnireError, match=sentence):
        taught([teacher], encoder, tmp_path / "model", resume=resume)
    assert chapter.exists()


def test_user_files_in_the_resume_folder_survive_the_training(trained, tmp_path):
    class Noting(Callback):
        def on_epoch_end(self, record):
            (tmp_path / "model.resume").mkdir(exist_ok=True)
            (tmp_path / "model.resume" / "step-notes.txt").touch()

    trained(tmp_path / "model", callbacks=[Noting()], save_every_epochs=1)
    assert [left.name for left in (tmp_path / "model.resume").iterdir()] == ["step-notes.txt"]


@pytest.mark.parametrize("work", ["calibration", "export"])
def test_an_interrupted_model_that_was_calibrated_or_exported_is_not_replaced(work, trained, tmp_path):
    out, then = tmp_path / "model", tmp_path / "then"
    trained(out, callbacks=[InterruptAfter(1)])
    left = ModelDir.open(out)
    left.save(left.config.with_(provenance={**left.config.provenance, work: {}}), then)
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        trained(then)


def test_folds_that_are_there_are_refused_before_the_first_is_trained(twenty, scierc_labels, encoder, tmp_path):
    folds = list(split_folds(twenty, draw_folds(twenty, 2), dev_fraction=0.3))
    options = {"out": tmp_path, "labels": scierc_labels, "config": quick(epochs=1)}
    (second,) = cross_validate(encoder, folds, only=[2], **options)
    before = fingerprint(tmp_path / "fold-02")
    for only in ([], [2]):
        with pytest.raises(
            UnireError, match=r"fold-02' already exists and holds 'README.md'; pass resume=True, or a new folder"
        ):
            cross_validate(encoder, folds, only=only, **options)
    assert not (tmp_path / "fold-01").exists()
    (tmp_path / "fold-01").mkdir()  # with nothing in it
    assert cross_validate(encoder, folds, resume=True, **options)[1] == second
    assert fingerprint(tmp_path / "fold-02") == before
    assert ModelDir.open(tmp_path / "fold-01")


def test_a_fold_that_was_stopped_and_lost_its_state_is_not_taken_for_finished(twenty, scierc_labels, encoder, tmp_path):
    folds = list(split_folds(twenty, draw_folds(twenty, 2), dev_fraction=0.3))
    options = {"out": tmp_path, "labels": scierc_labels, "config": quick(epochs=2), "only": [1]}
    with pytest.raises(KeyboardInterrupt):
        cross_validate(encoder, folds, callbacks_for=lambda number: [InterruptAfter(1)], **options)
    shutil.rmtree(tmp_path / "fold-01.resume")
    cross_validate(encoder, folds, resume=True, **options)
    assert "interrupted" not in ModelConfig.load(tmp_path / "fold-01").provenance


class Epochs(Callback):
    """Counts those that are trained."""

    count = 0

    def on_epoch_end(self, record):
        self.count += 1


@pytest.mark.parametrize(("killed", "epochs"), [(False, 0), (True, 3)])
def test_a_fold_that_was_trained_but_not_scored_is_not_taken_for_finished(
    killed, epochs, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    """It has left a state, and is only scored; or it was killed before it could, and is trained again."""
    folds = list(split_folds(twenty, draw_folds(twenty, 2), dev_fraction=0.3))
    options = {"labels": scierc_labels, "config": quick(), "only": [1]}
    straight = cross_validate(encoder, folds, out=tmp_path / "straight", **options)
    folder, score = tmp_path / "failed" / "fold-01", TableTask.score

    def fail(task, documents):
        if documents == folds[0].test:
            raise RuntimeError("out of memory")
        return score(task, documents)

    monkeypatch.setattr(TableTask, "score", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        cross_validate(encoder, folds, out=folder.parent, **options)
    monkeypatch.undo()
    assert not is_finished(folder)
    if killed:
        CheckpointManager(folder).remove()
    counted = Epochs()
    resume = {**options, "resume": True, "callbacks_for": lambda number: [counted]}
    assert cross_validate(encoder, folds, out=folder.parent, **resume) == straight
    assert counted.count == epochs
    made = ModelConfig.load(folder).provenance
    assert made["scores"] == ModelConfig.load(tmp_path / "straight" / "fold-01").provenance["scores"]
    assert "interrupted" not in made
    assert not CheckpointManager(folder).folder.exists()


def test_the_first_of_two_final_errors_is_raised(trained, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    def full(*_):
        raise UnireError("the disk is full")

    monkeypatch.setattr(TableTask, "tune", fail)
    monkeypatch.setattr(CheckpointManager, "save", full)
    with pytest.raises(RuntimeError, match="out of memory"):
        trained(tmp_path / "model")
    assert not is_finished(tmp_path / "model")


def test_an_existing_output_folder_is_one_sentence_on_the_command_line(encoder, random_model):
    words = ("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--out", random_model)
    assert error(*words).strip() == (
        f"error: output folder '{random_model}' already exists and holds 'README.md'; pass a new folder"
    )
