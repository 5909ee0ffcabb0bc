"""Type constraints: learnt or given, saved with a model, and switched on by the user."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.paths import TWENTY
from unire import Document, Extractor, formats
from unire.cli.main import app
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.labels import LabelSpace
from unire.rendering.views import views
from unire.training.config import TrainingConfig
from unire.training.train import train

LABELS = LabelSpace(("Peop", "Org"), ("Work_For", "Knows"), frozenset({"Knows"}))


def run(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def facts(documents: list[Document]) -> set[tuple[str, str, str]]:
    return set(LabelSpace.collect_signatures(documents))


def mirrored(signatures: set[tuple[str, str, str]], labels: LabelSpace) -> set[tuple[str, str, str]]:
    return signatures | {(t, r, h) for h, r, t in signatures if r in labels.symmetric}


@pytest.fixture
def folder(unexported, tmp_path) -> Path:
    """A random model, which relates anything to anything."""
    return Path(shutil.copytree(unexported, tmp_path / "model"))


@pytest.fixture
def constrained(folder, twenty) -> Path:
    """The same, with the signatures of the twenty sentences, switched off."""
    model = ModelDir.open(folder)
    model.save(model.config.with_(signatures=LabelSpace.collect_signatures(twenty)))
    return folder


# Given ones


def test_constraints_are_given_as_a_mapping_or_as_a_file_of_it(tmp_path):
    given = {"Work_For": [["Peop", "Org"], ["Peop", "Org"], ["Org", "Org"]]}
    expected = (("Org", "Work_For", "Org"), ("Peop", "Work_For", "Org"))
    assert LABELS.load_signatures(given) == expected
    (tmp_path / "types.json").write_text(json.dumps(given), encoding="utf-8")
    assert LABELS.load_signatures(tmp_path / "types.json") == expected
    assert LABELS.load_signatures({}) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["Peop", "Org"]], "type constraints are an object such as"),
        ({"Works": [["Peop", "Org"]]}, "unknown relation type 'Works'; the label space has Work_For, Knows"),
        ({"Work_For": [["Person", "Org"]]}, "unknown entity type 'Person'; the label space has Peop, Org"),
        ({"Work_For": [["Peop", "Orgs"]]}, "unknown entity type 'Orgs'"),
        ({"Work_For": []}, "'Work_For' must have a list of type pairs"),
        ({"Work_For": "Peop"}, "'Work_For' must have a list of type pairs"),
        ({"Work_For": ["Peop", "Org"]}, "'Work_For' has 'Peop' instead of the types of head and tail"),
        ({"Work_For": [["Peop"]]}, r"'Work_For' has \['Peop'\] instead"),
        ({"Work_For": [["Peop", ["Org"]]]}, "instead of the types of head and tail"),
    ],
)
def test_invalid_constraints_get_one_sentence(given, message, tmp_path):
    (tmp_path / "types.json").write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(UnireError, match=rf"'.*types\.json': .*{message}") as caught:
        LABELS.load_signatures(tmp_path / "types.json")
    assert "\n" not in str(caught.value)
    if isinstance(given, dict):
        with pytest.raises(UnireError, match=message):
            LABELS.load_signatures(given)


@pytest.mark.parametrize("content", [None, b"{", b"\xff"])
def test_a_file_that_cannot_be_read_gets_one_sentence(content, tmp_path):
    if content is not None:
        (tmp_path / "types.json").write_bytes(content)
    with pytest.raises(UnireError, match=r"type constraints '.*types\.json' cannot be read: "):
        LABELS.load_signatures(tmp_path / "types.json")


# Models


def test_a_model_keeps_to_learnt_constraints_when_it_is_asked_to(constrained, twenty, scierc_labels):
    free = facts(list(Extractor.load(constrained).annotate(twenty)))
    allowed = mirrored(facts(twenty), scierc_labels)
    kept = list(Extractor.load(constrained, constraints="learnt").annotate(twenty))
    named = {relation for _, relation, _ in allowed}
    assert not {fact for fact in free if fact[1] in named} <= allowed
    assert any(document.relations for document in kept)
    assert {fact for fact in facts(kept) if fact[1] in named} <= allowed
    assert facts(list(Extractor.load(constrained, constraints="none").annotate(twenty))) == free


def test_constraints_may_be_given_when_a_model_is_loaded(folder, twenty):
    extractor = Extractor.load(folder, constraints={"USED-FOR": [["Method", "Task"]]})
    found = facts(list(extractor.annotate(twenty)))
    assert {fact for fact in found if fact[1] == "USED-FOR"} <= {("Method", "USED-FOR", "Task")}
    assert {fact for fact in found if fact[1] != "USED-FOR"}  # the others are not constrained
    with pytest.raises(UnireError, match="unknown relation type 'USE-FOR'"):
        Extractor.load(folder, constraints={"USE-FOR": [["Method", "Task"]]})


def test_a_model_that_has_learnt_none_says_so(folder):
    with pytest.raises(UnireError, match="this model stores no type constraints; pass a JSON file"):
        Extractor.load(folder, constraints="learnt")


def test_a_page_shows_results_under_constraints(constrained, twenty):
    extractor = Extractor.load(constrained, constraints="learnt")
    assert [view.document for view in views(extractor, twenty)] == list(extractor.annotate(twenty))


@pytest.mark.parametrize("on", [True, False])
def test_training_learns_constraints_and_switches_them_on_by_its_setting(on, twenty, scierc_labels, encoder, tmp_path):
    config = TrainingConfig(epochs=1, constraints=on)
    trained = train(encoder, twenty, dev=twenty[:5], labels=scierc_labels, config=config, out=tmp_path / "model")
    settings = ModelConfig.load(tmp_path / "model")
    assert settings == trained.model.config
    assert settings.signatures == LabelSpace.collect_signatures(twenty)
    assert settings.constraints == on
    extractor = Extractor.load(tmp_path / "model")
    assert (extractor.allowed_relations is not None) == on
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert f"{len(settings.signatures)} learnt from the training data, {'on' if on else 'off'}" in card
    assert settings.provenance["calibration"]["data"] == ["dev"]


def test_without_dev_nothing_is_calibrated(twenty, scierc_labels, encoder, tmp_path):
    trained = train(encoder, twenty, labels=scierc_labels, config=TrainingConfig(epochs=1), out=tmp_path / "model")
    assert "calibration" not in trained.model.config.provenance
    assert "Scores are uncalibrated probabilities" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


# Commands


def test_extraction_takes_constraints(constrained, tmp_path):
    (tmp_path / "types.json").write_text('{"USED-FOR": [["Generic", "Generic"]]}', encoding="utf-8")
    out = tmp_path / "found.jsonl"
    options = ("extract", "--model", constrained, TWENTY, "--out", out)
    run(*options, "--constraints", tmp_path / "types.json")
    found = facts(list(formats.read(out)))
    assert found
    assert {fact for fact in found if fact[1] == "USED-FOR"} <= {("Generic", "USED-FOR", "Generic")}
    run(*options)
    assert {fact for fact in facts(list(formats.read(out))) if fact[1] == "USED-FOR"} > {
        fact for fact in found if fact[1] == "USED-FOR"
    }


def test_evaluation_takes_constraints(constrained, tmp_path):
    def predicted(*options: object) -> int:
        report = json.loads(run("evaluate", "--model", constrained, "--data", TWENTY, "--json", *options))
        return report["scores"]["relations"]["types"]["USED-FOR"]["predicted"]

    (tmp_path / "types.json").write_text('{"USED-FOR": [["Generic", "Generic"]]}', encoding="utf-8")
    free = predicted()
    assert predicted("--constraints", "none") == free
    assert predicted("--constraints", "learnt") < free
    assert predicted("--constraints", tmp_path / "types.json") < free
    with pytest.raises(UnireError, match=r"type constraints 'no-such\.json' cannot be read"):
        run("evaluate", "--model", constrained, "--data", TWENTY, "--constraints", "no-such.json")
    with pytest.raises(UnireError, match="need --model"):
        run("evaluate", "--oracle", "--data", TWENTY, "--constraints", "learnt")
