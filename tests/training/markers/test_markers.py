"""Marker models: trained, saved, loaded, and used to relabel soft labels."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from helpers.interrupts import InterruptAfter
from helpers.paths import TWENTY
from unire import formats
from unire.cli.main import app
from unire.documents import Document
from unire.errors import UnireError
from unire.models.encoder import load_encoder
from unire.training import trainer
from unire.training.callbacks import SIGNALS
from unire.training.config import MARKER_SETTINGS, TrainingConfig, marker_config
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teach import teach
from unire.training.markers import classifier as classifier_module
from unire.training.markers import relabel as relabel_module
from unire.training.markers import train as training
from unire.training.markers.classifier import init_classifier, load_marker, save_classifier
from unire.training.markers.train import train_markers

CPU = torch.device("cpu")
QUICK = marker_config(epochs=1, lr=3e-3, head_lr=3e-3, seed=3)


@pytest.fixture(scope="module")
def few() -> list[Document]:
    return list(formats.read(TWENTY))[:3]


@pytest.fixture(scope="module")
def soft_labels(teacher, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("soft_labels") / "some.soft"
    teach([teacher], [TWENTY], out, device="cpu")
    return out


@pytest.fixture(scope="module")
def marking_encoder(encoders, tmp_path_factory) -> Path:
    """With unused tokens, of which real vocabularies of BERT's kind have hundreds."""
    import transformers

    folder = tmp_path_factory.mktemp("marking") / "bert"
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoders("bert"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["[unused0]", "[unused1]"]})
    model = transformers.AutoModel.from_pretrained(encoders("bert"))
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# As folders


@pytest.mark.parametrize("approximate", [False, True])
def test_a_marker_model_says_the_same_when_it_is_loaded_even_without_its_encoder(
    approximate, encoders, scierc_labels, few, tmp_path, monkeypatch
):
    trained = []
    save = classifier_module.save_classifier

    def seen(finder, *arguments, **more):
        trained.append(finder.score_pairs(few))
        save(finder, *arguments, **more)

    monkeypatch.setattr(training, "save_classifier", seen)
    encoder = Path(shutil.copytree(encoders("mpnet"), tmp_path / "mpnet"))
    documents = list(formats.read(TWENTY))
    done = train_markers(
        encoder, documents, tmp_path / "m", labels=scierc_labels, config=QUICK, dev=documents, approximate=approximate
    )
    assert [epoch["epoch"] for epoch in done.history] == [1]
    assert done.f1 == done.history[0]["dev"]
    torch.manual_seed(0)
    untrained = init_classifier(
        *load_encoder(encoder), scierc_labels, QUICK, approximate=approximate, device=CPU
    ).score_pairs(few)
    shutil.rmtree(encoder)
    loaded = load_marker((tmp_path / "m").rename(tmp_path / "elsewhere"))
    assert loaded.info == {"name": "elsewhere", "encoder": "mpnet", "scores": {}}
    for one, two, other in zip(trained[0], loaded.classifier.score_pairs(few), untrained, strict=True):
        assert (one.probabilities == two.probabilities).all()
        assert abs(one.probabilities - other.probabilities).max() > 1e-3


def test_marks_of_capitals_and_windows_come_back_too(marking_encoder, scierc_labels, tmp_path):
    config = replace(QUICK, case_marks=True, window=0)
    train_markers(marking_encoder, list(formats.read(TWENTY)), tmp_path / "m", labels=scierc_labels, config=config)
    loaded = load_marker(tmp_path / "m")
    assert loaded.classifier.reader.spec.case_marks
    assert loaded.classifier.reader.window_builder.window == 0


def test_a_model_that_cannot_be_saved_leaves_the_one_before_whole(encoders, scierc_labels, tmp_path, monkeypatch):
    documents, folder = list(formats.read(TWENTY)), tmp_path / "m"
    train_markers(encoders("bert"), documents, folder, labels=scierc_labels, config=QUICK)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(path, tensors):
        path.write_bytes(b"half")
        raise OSError("No space left on device (os error 28)")

    monkeypatch.setattr(classifier_module, "write_tensors", full)
    with pytest.raises(UnireError, match=r"could not be saved as '.*m': No space left on device"):
        train_markers(encoders("mpnet"), documents, folder, labels=scierc_labels, config=QUICK, again=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_folders_without_marker_models_are_refused(encoders, scierc_labels, tmp_path):
    with pytest.raises(UnireError, match=r"no marker model in .*nowhere'; `unire markers` trains one"):
        load_marker(tmp_path / "nowhere")
    finder = init_classifier(*load_encoder(encoders("bert")), scierc_labels, QUICK, approximate=True, device=CPU)
    folder = tmp_path / "m"
    for file, text in (("markers.json", "[]"), ("markers.json", "{"), ("markers.json", "{}"), ("tokenizer.json", "{}")):
        save_classifier(finder, folder, encoder="bert", config=QUICK)
        (folder / file).write_text(text, encoding="utf-8")
        with pytest.raises(UnireError, match=r"the marker model in '.*m' cannot be read \(.+\); train it again"):
            load_marker(folder)
    save_classifier(finder, folder, encoder="bert", config=QUICK)
    (folder / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(UnireError, match=r"model\.safetensors' is missing, truncated or not a safetensors file"):
        load_marker(folder)
    other = init_classifier(*load_encoder(encoders("mpnet")), scierc_labels, QUICK, approximate=True, device=CPU)
    save_classifier(other, tmp_path / "other", encoder="mpnet", config=QUICK)
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    with pytest.raises(UnireError, match="it is damaged or of another model"):
        load_marker(folder)
    (folder / "markers.json").rename(folder / "cell.json")
    with pytest.raises(UnireError, match="is of an earlier version; train it again"):
        load_marker(folder)


def test_a_folder_says_nothing_of_where_it_was_made(encoders, scierc_labels, tmp_path, monkeypatch):
    monkeypatch.chdir(encoders("bert"))
    train_markers(".", list(formats.read(TWENTY)), tmp_path / "m", labels=scierc_labels, config=QUICK)
    about = (tmp_path / "m" / "markers.json").read_text(encoding="utf-8")
    assert json.loads(about)["encoder"] == Path(encoders("bert")).name
    assert str(Path(encoders("bert")).parent) not in about


def test_marker_settings_are_those_of_best_but_for_the_documented_ones():
    assert marker_config() == TrainingConfig.from_preset("best", **MARKER_SETTINGS)
    assert marker_config(epochs=7).epochs == 7
    with pytest.raises(UnireError, match="unknown setting 'alpha' of marker models; give one of epochs, batch_size"):
        marker_config(alpha=3)


def test_a_device_is_taken_by_its_name_and_its_precision_with_it(encoders, scierc_labels, few, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "has_bf16", lambda kind: kind == "cuda")  # as where there is a GPU beside the CPU
    options = {"labels": scierc_labels, "device": "cpu"}
    train_markers(encoders("bert"), few, tmp_path / "m", config=QUICK, **options)
    finder = load_marker(tmp_path / "m", "cpu").classifier
    assert (finder.model.device, finder.bf16) == (CPU, False)
    with pytest.raises(UnireError, match="bf16 = true needs a GPU"):
        train_markers(encoders("bert"), few, tmp_path / "n", config=replace(QUICK, bf16=True), **options)


def test_a_model_that_was_trained_in_bf16_can_be_asked_without(encoders, scierc_labels, tmp_path):
    finder = init_classifier(*load_encoder(encoders("bert")), scierc_labels, QUICK, approximate=True, device=CPU)
    save_classifier(finder, tmp_path / "m", encoder="bert", config=replace(QUICK, bf16=True))
    assert not load_marker(tmp_path / "m", "cpu").classifier.bf16


# By command


def test_the_commands_train_marker_models_and_relabel(soft_labels, encoders, tmp_path):
    files = ("--encoder", encoders("bert"), "--labels", "scierc", "--data", TWENTY, "--dev", TWENTY)
    ran = run("markers", *files, "--epochs", 2, "--out", tmp_path / "m-0")
    assert ran.exit_code == 0, ran.output
    assert "epoch 2" in ran.output
    assert "between the gold entities of dev; model in" in ran.output.replace("\n", " ")
    options = ("--device", "cpu", "--exact", "--seed", 1, "--set", "window=0", "--epochs", 1, "--json")
    summary = json.loads(run("markers", *files, *options, "--out", tmp_path / "m-1").stdout)
    assert summary["out"] == str(tmp_path / "m-1")
    assert summary["dev_rel_f1_between_gold_entities"] == summary["history"][0]["dev"]
    assert [load_marker(tmp_path / f"m-{k}").classifier.model.approximate for k in (0, 1)] == [True, False]
    both = ("--markers", tmp_path / "m-0", "--markers", tmp_path / "m-1")
    named = run("relabel", "--soft-labels", soft_labels, *both, "--share", 0.5, "--out", tmp_path / "marked")
    assert named.exit_code == 0, named.output
    assert "pairs of" in named.output
    shares = {about["name"]: about["share"] for about in SoftLabelStore(tmp_path / "marked").info["relations_by"]}
    assert shares == {"m-0": 0.25, "m-1": 0.25}
    again = run(
        "relabel", "--soft-labels", soft_labels, *both, "--device", "cpu", "--json", "--out", tmp_path / "again"
    )
    assert json.loads(again.stdout)["tables"] == 20
    assert [about["share"] for about in SoftLabelStore(tmp_path / "again").info["relations_by"]] == [0.375, 0.375]


def test_a_student_learns_from_relabelled_soft_labels(soft_labels, encoders, encoder, tmp_path):
    files = ("--encoder", encoders("bert"), "--labels", "scierc", "--data", TWENTY)
    run("markers", *files, "--epochs", 1, "--out", tmp_path / "m")
    run("relabel", "--soft-labels", soft_labels, "--markers", tmp_path / "m", "--out", tmp_path / "marked")
    options = ("--student", encoder, "--data", TWENTY, "--epochs", 1, "--workers", 0, "--out", tmp_path / "s")
    ran = run("distill", "--soft-labels", tmp_path / "marked", *options)
    assert ran.exit_code == 0, ran.output


@pytest.mark.slow
def test_errors_of_markers_and_relabel_are_one_sentence(soft_labels, encoders, tmp_path):
    def fails(*arguments: object) -> str:
        ran = run(*arguments)
        assert isinstance(ran.exception, UnireError), ran.output
        return str(ran.exception)

    files = ("--data", TWENTY, "--labels", "scierc", "--out", tmp_path / "m")
    assert "deberta encoders do not support" in fails("markers", "--encoder", encoders("deberta"), *files)
    assert "encoder" in fails("markers", "--encoder", tmp_path / "none", *files)
    used = fails("markers", "--encoder", encoders("bert"), *files[:-1], TWENTY.parent)
    assert "already exists and holds" in used
    (tmp_path / "file").touch()
    nowhere = fails("markers", "--encoder", encoders("bert"), *files[:-1], tmp_path / "file" / "m")
    assert "the model cannot be written to" in nowhere
    (tmp_path / "file").unlink()
    twice = fails("markers", "--encoder", encoders("bert"), *files, "--epochs", 2, "--set", "epochs=3")
    assert "contradict each other" in twice
    assert "no marker model in" in fails(
        "relabel", "--soft-labels", soft_labels, "--markers", tmp_path / "m", "--out", tmp_path / "out"
    )
    assert not list(tmp_path.iterdir())
    sentence = "PyTorch cannot use the device 'abacus' on this machine; try cpu"
    assert fails("markers", "--encoder", encoders("bert"), *files, "--device", "abacus") == sentence
    assert run("markers", "--encoder", encoders("bert"), *files, "--epochs", 1).exit_code == 0
    options = ("--markers", tmp_path / "m", "--out", tmp_path / "out", "--device", "abacus")
    assert fails("relabel", "--soft-labels", soft_labels, *options) == sentence


@pytest.mark.parametrize("number", SIGNALS)
def test_the_commands_say_that_they_were_stopped(soft_labels, encoders, tmp_path, monkeypatch, number):
    def interrupted(*arguments, **more):
        raise KeyboardInterrupt(number)

    files = ("--encoder", encoders("bert"), "--data", TWENTY)
    run("markers", *files, "--epochs", 1, "--out", tmp_path / "m")
    monkeypatch.setattr(training, "train_markers", interrupted)
    monkeypatch.setattr(relabel_module, "relabel", interrupted)
    for arguments in (("markers", *files), ("relabel", "--soft-labels", soft_labels, "--markers", tmp_path / "m")):
        ran = run(*arguments, "--out", tmp_path / "new")
        assert ran.exit_code == 128 + number
        assert "interrupted; nothing was saved" in ran.output


def test_an_interrupted_training_resumes_and_ends_with_the_same_numbers(encoders, scierc_labels, tmp_path):
    documents = list(formats.read(TWENTY))
    task = {"labels": scierc_labels, "config": replace(QUICK, epochs=3), "dev": documents[:5]}
    straight = train_markers(encoders("bert"), documents, tmp_path / "straight", **task)
    with pytest.raises(KeyboardInterrupt):
        train_markers(encoders("bert"), documents, tmp_path / "m", callbacks=[InterruptAfter(2)], **task)
    assert not (tmp_path / "m").exists()
    with pytest.raises(UnireError, match="there is an unfinished training"):
        train_markers(encoders("bert"), documents, tmp_path / "m", **task)
    with pytest.raises(UnireError, match="was started with another approximate"):
        train_markers(encoders("bert"), documents, tmp_path / "m", approximate=False, resume=True, **task)
    resumed = train_markers(encoders("bert"), documents, tmp_path / "m", resume=True, **task)
    assert (resumed.history, resumed.f1) == (straight.history, straight.f1)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("m", "straight")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "m.resume").exists()
