"""`unire train`: folds, reports, odd data, and one clear sentence for every mistake."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from typer.main import get_command

from helpers.cli import error, one_sentence, result, run, without_torch
from helpers.paths import TWENTY
from unire import formats
from unire.cli.main import app, name_options
from unire.cli.training_options import config_from, describe_margin, read_parts
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scores import Counts, Protocol, Scores, TypedCounts
from unire.labels import LabelSpace
from unire.training.config import PRESETS


def test_help_for_training_begins_with_the_data_and_shows_the_defaults(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run("train", "--help").output
    panels = [text.index(f"─ {name} ") for name in ("Input", "Model", "Training", "Cross-validation", "Output")]
    assert panels == sorted(panels)
    for default in ("0.1", "10.0"):
        assert f"[default: {default}]" in text
    assert "--data train.jsonl --dev dev.jsonl --out models/mine" in text  # no line of the example is broken
    assert "JSON lines" in run("extract", "--help").output


def test_help_lists_every_preset(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for words in (("train",), ("distill",), ("study", "ablate"), ("study", "pipeline"), ("study", "report")):
        text = " ".join(run(*words, "--help").output.replace("│", " ").split())
        described = re.search(r"--preset +NAME (.*?)\[default", text)
        assert described is not None
        assert set(re.findall(r"`(\w+)`", described[1])) == set(PRESETS)


def test_shared_options_of_train_and_distill_are_identical():
    train, distill = (
        {each.name: (each.opts, each.help, each.default, each.rich_help_panel) for each in command.params}
        for command in (get_command(app).commands[name] for name in ("train", "distill"))
    )
    shared = (train.keys() & distill.keys()) - {"out"}
    assert {"dev", "preset", "epochs", "settings", "resume", "save_every_minutes"} < shared
    assert {name: train[name] for name in shared} == {name: distill[name] for name in shared}


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


def test_folds_can_be_shared_by_several_processes(encoder, tmp_path):
    command = (
        *("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--folds", 2, "--dev-fraction", 0.3),
        *("--epochs", 1, "--out", tmp_path / "folds", "--json"),
    )
    second, first = (json.loads(run(*command, "--fold", number).stdout) for number in (2, 1))
    assert first["mean"] == second["mean"] == []
    whole = json.loads(run(*command, "--resume").stdout)
    assert whole["folds"] == first["folds"] + second["folds"]
    assert {row["average"] for row in whole["mean"]} == {"micro", "macro"}
    assert "there is no fold 3; folds are counted from 1 to 2" in error(*command, "--fold", 3)


def test_tensorboard_files_are_written_on_request(encoder, tmp_path):
    result(
        *("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--epochs", 1),
        *("--out", tmp_path / "model", "--tensorboard", tmp_path / "events"),
    )
    assert list((tmp_path / "events").glob("events.out.tfevents*"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (("--beta2", 1), "beta2 must be 0 or more and below 1, not 1.0"),
        (("--set", "beta1=1.5"), "beta1 must be 0 or more and below 1, not 1.5"),
        (("--set", "lr=Infinity"), "lr must be finite, not inf"),
        (("--set", "epochs=ten"), "epochs must be a whole number, not 'ten'"),
        (("--seed", 99999999999), "not 99999999999"),
        (("--set", "preset=released"), "--preset"),
        (("--set", "=3"), "NAME=VALUE"),
        (("--epochs", 3, "--set", "epochs=5"), "--epochs 3 and --set epochs=5 contradict each other"),
        (("--head-lr", 0.1, "--set", "head-lr=null"), "--head-lr 0.1 and --set head-lr=null contradict"),
        (("--folds", "²"), "'²'"),
        (("--folds", 2, "--dev", TWENTY), "leave out --dev and --test"),
        (("--fold", 1), "need --folds"),
        (("--dev-fraction", 0.3), "need --folds"),
        (("--keep-head",), "no model folder 'x'"),
    ],
)
def test_invalid_training_settings_get_one_sentence(setting, message, tmp_path):
    ran = run("train", "--encoder", "x", "--data", TWENTY, "--out", tmp_path / "m", *setting)
    assert isinstance(ran.exception, UnireError)
    assert message in name_options(str(ran.exception), ["train"])


def test_an_option_and_an_equal_setting_can_be_combined():
    config = config_from("paper", ["lr=1e-4", "layout=shared", "seed=7"], lr=0.0001, layout="shared", seed=None)
    assert (config.lr, config.layout, config.seed) == (0.0001, "shared", 7)


def test_all_of_a_model_is_trained_further_in_its_labels_unless_others_are_asked_for(random_model, tmp_path):
    words = ("train", "--encoder", random_model, "--keep-head", "--data", TWENTY, "--epochs", 1)
    report = result(*words, "--out", tmp_path / "further")
    assert LabelSpace.load(report["out"]) == LabelSpace.load(random_model)
    ran = run(*words, "--labels", "conll04", "--out", tmp_path / "other")
    assert "keep_head=True needs the labels of" in str(ran.exception)


def test_sentences_of_one_word_and_of_none_are_trained_on_and_read(encoder, tmp_path):
    data, model, found = tmp_path / "data.jsonl", tmp_path / "model", tmp_path / "found.jsonl"
    documents = [
        Document.from_words([["a"]], [(0, 1, "X")], id="one word"),
        Document.from_words([[], ["a", "b"], []], [(0, 1, "X"), (1, 2, "X")], [(0, 1, "r")], id="empty sentences"),
        Document.from_words([[]], id="no words"),
        Document.from_words([], id="no sentences"),
    ]
    formats.write(documents, data)
    report = result(
        *("train", "--encoder", encoder, "--data", data, "--dev", data, "--test", data, "--epochs", 2, "--out", model)
    )
    assert len(report["history"]) == 2
    assert result("extract", data, "--model", model, "--device", "cpu", "--out", found)["documents"] == 4
    assert [document.bare for document in formats.read(found)] == [document.bare for document in documents]
    ran = run("extract", "--words", "--model", model, "--device", "cpu", stdin="\n\na\n\n")
    assert json.loads(ran.stdout)["sentences"] == [["a"]]
    assert run("extract", "--words", "--model", model, "--device", "cpu", stdin="").stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "full"), "output folder 'full' already exists and holds 'README.md'; pass a new folder"),
        (("--out", "new", "--set", "nosuch=1"), "unknown training setting 'nosuch'"),
        (("--out", "new", "--epochs", 0), "epochs must be 1 or more, not 0"),
    ],
    ids=lambda words: words[-1] if isinstance(words, tuple) else None,
)
def test_a_mistake_is_reported_before_torch_is_imported(words, message, random_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(random_model, "full")
    ran = without_torch("train", "--encoder", "e", "--data", "unread.jsonl", *words)
    assert message in one_sentence(ran.returncode, ran.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--folds", 2), "fold-02' already exists and holds 'README.md'; pass --resume, or a new folder"),
        (("--folds", 2, "--fold", 3), "there is no fold 3; folds are counted from 1 to 2"),
        (("--folds", 99), "99 folds"),
        (("--folds", "missing.json"), "missing.json"),
    ],
    ids=lambda words: " ".join(map(str, words)) if isinstance(words, tuple) else None,
)
def test_mistakes_with_folds_are_reported_before_torch_is_imported(words, message, random_model, tmp_path):
    shutil.copytree(random_model, tmp_path / "fold-02")
    ran = without_torch("train", "--encoder", "e", "--data", TWENTY, "--labels", "scierc", *words, "--out", tmp_path)
    assert message in one_sentence(ran.returncode, ran.stderr)


def test_types_that_only_dev_or_test_has_are_named_in_a_note(encoder, tmp_path):
    words = [["a", "b", "c"]]
    known, new = [(0, 1, "X"), (1, 2, "Y")], [(0, 1, "X"), (1, 2, "Loc"), (2, 3, "Loc")]
    formats.write([Document.from_words(words, known, [(0, 1, "R")], id="t")], data := tmp_path / "t.jsonl")
    formats.write([Document.from_words(words, new, [(0, 1, "Live_In")], id="d")], dev := tmp_path / "d.jsonl")
    asked = ("train", "--encoder", encoder, "--data", data, "--epochs", 1)
    notes = result(*asked, "--dev", dev, "--out", tmp_path / "model")["notes"]
    (note,) = notes
    assert notes[note] == 3
    assert note.endswith("can never be found: Live_In, Loc")
    notes = result(*asked, "--dev", data, "--test", dev, "--out", tmp_path / "other")["notes"]
    assert list(notes.values()) == [3]
    assert next(iter(notes)).startswith("in test of a type that the training data never shows")
    assert LabelSpace.load(tmp_path / "other").entity_types == ("Loc", "X", "Y")
    assert result(*asked, "--dev", data, "--out", tmp_path / "third")["notes"] == {}


def test_skipped_annotation_is_noted_once_and_is_in_the_json(encoder, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text("Ada lives", encoding="utf-8")
    (tmp_path / "a.ann").write_text("T1\tPeop 0 3\tAda\nT2\tLoc 3 4\t \n", encoding="utf-8")
    asked = ("train", "--encoder", encoder, "--data", tmp_path, "--epochs", 1, "--out")
    ran = run(*asked, tmp_path / "m" / "1")
    assert ran.stderr.count("note: 1 × entity that covers no word, skipped") == 1
    ran = run(*asked, tmp_path / "m" / "2", "--json")
    assert json.loads(ran.stdout)["notes"] == {"entity that covers no word, skipped": 1}
    assert "note:" not in ran.stderr
    for rank, times in (("0", 1), ("1", 0)):
        monkeypatch.setenv("LOCAL_RANK", rank)
        read_parts([[tmp_path], None], None, json=False)
        assert capsys.readouterr().err.count("entity that covers no word, skipped") == times


def test_scores_on_few_annotations_are_called_rough():
    def scores(n_entities, n_relations, f1):
        entities, relations = (TypedCounts({"X": Counts(round(f1 * n), n, n)}) for n in (n_entities, n_relations))
        return Scores(Protocol(), entities, relations, None)

    assert describe_margin(scores(300, 200, 0.5)) == ""
    assert describe_margin(scores(100, 25, 0.5)) == (
        "has only 100 entities and 25 relations, so scores are rough: Ent F1 ± 10, Rel F1 ± 20 (95%)"
    )
    assert describe_margin(scores(100, 0, 1.0)).endswith("rough: Ent F1 ± 5 (95%)")  # a perfect score is no certainty
    assert describe_margin(scores(0, 0, 0.0)).endswith("0 relations, so scores are rough")
