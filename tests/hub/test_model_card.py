"""The card of a model, as the Hub reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from helpers.fake_hub import NAME
from unire import LabelSpace, pretrained
from unire.config import ModelConfig
from unire.hub.model_card import model_card


def test_the_hub_reads_the_card(exported: Path):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    card = ModelCard(model_card(settings, labels, NAME))
    assert card.data.library_name == "unire"
    assert card.data.license == "mit"
    assert card.data.base_model == "someone/tiny-bert"
    assert "relation-extraction" in card.data.tags
    assert card.data.model_name == NAME
    scores = settings.provenance["scores"]["test, exported"]
    found = {(result.dataset_split, result.metric_name): result.metric_value for result in card.data.eval_results or ()}
    for kind, part in (("Ent", "entities"), ("Rel", "relations")):
        for rate in ("precision", "recall", "f1"):
            key = "test, exported", f"{kind} {rate} ({scores['protocol']['name']})"
            assert found[key] == pytest.approx(scores[part][rate], abs=1e-4)


def test_a_card_without_scores_and_with_odd_names_is_still_yaml(exported: Path):
    settings = ModelConfig.load(exported)
    odd = {"base": "no: such: model #1", "licence": "null", "language": ["no", "en"], "data": ["a\nb"], "scores": {}}
    card = ModelCard(model_card(settings.with_(provenance=odd), LabelSpace.load(exported)))
    assert card.data.base_model == "no: such: model #1"
    assert card.data.license == "null"
    assert card.data.language == ["no", "en"]
    assert card.data.eval_results is None


def test_a_card_has_the_title_and_the_description_that_it_is_given(exported: Path):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    assert "\n# A UniRE model\n\nThe model finds entities" in model_card(settings, labels)
    described = settings.with_(provenance={**settings.provenance, "title": "seas", "description": "What swims."})
    assert "\n# seas\n\nWhat swims.\n\nThe model finds entities" in model_card(described, labels)


@pytest.mark.parametrize(
    ("known", "rows"),
    [
        ({}, {"licence of the base checkpoint": "unknown"}),
        ({"licence": "mit"}, {"licence of the base checkpoint": "mit"}),
        (
            {"licence": "mit", "base_licence": "apache-2.0"},
            {"licence": "mit", "licence of the base checkpoint": "apache-2.0"},
        ),
    ],
)
def test_the_licences_of_the_model_and_of_its_base_are_two_facts(exported: Path, known, rows):
    card = model_card(ModelConfig.load(exported).with_(provenance=known), LabelSpace.load(exported))
    assert dict(re.findall(r"^\| (licence.*?) \| (.*) \|$", card, re.MULTILINE)) == rows
    assert ModelCard(card).data.license == known.get("licence")


def test_a_quantised_model_has_its_scores_in_the_card_once(exported: Path):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    made = settings.provenance
    rounded = {
        **made,
        "scores": {"test": made["scores"]["test, exported"], **made["scores"]},
        "export": {**made["export"], "model": made["export"]["engines"]},
    }
    before, after = model_card(settings, labels), model_card(settings.with_(provenance=rounded), labels)
    assert "| test, exported |" in before
    assert "| onnxruntime against the model before export |" in before
    assert "| test |" in after
    assert "| test, exported |" not in after
    assert "| onnxruntime against the model before export |" not in after


@pytest.mark.parametrize(
    ("hub", "files", "kind", "name"),
    [
        (["a/seas", "b/ponds"], ["seas/train.json"], "a/seas", "a/seas, b/ponds"),
        ([], ["data/seas/train.json", "more.json"], "seas", "seas"),
        ([], ["train.json"], "train", "train"),
        ([], [], "unknown", "unknown"),
    ],
)
def test_scores_are_of_the_data_sets_of_the_hub_or_named_by_the_files(exported: Path, hub, files, kind, name):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    made = settings.with_(provenance={**settings.provenance, "datasets": hub, "data": files})
    results = ModelCard(model_card(made, labels)).data.eval_results
    assert {(result.dataset_type, result.dataset_name) for result in results} == {(kind, name)}


def test_a_card_has_scores_per_type_and_suggested_thresholds(exported: Path):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    rates = {kind: {"precision": 0.5, "recall": 0.25, "f1": 1 / 3} for kind in ("entities", "relations")}
    calibration = {
        "data": ["dev.jsonl"],
        "errors": {},
        "thresholds": [{"min_score": 0.0, **rates}, {"min_score": 0.45, **rates}],
    }
    card = model_card(settings.with_(provenance={**settings.provenance, "calibration": calibration}), labels)
    assert "finds in dev.jsonl:" in card
    assert "| 0.45 | 50.0 | 25.0 | 33.3 | 50.0 | 25.0 | 33.3 |" in card
    assert "### Scores per type (test, exported)" in card
    assert all(f"\n| {name} | " in card for name in (*labels.entity_types, *labels.relation_types))
    only_one = {**calibration, "thresholds": calibration["thresholds"][:1]}
    card = model_card(settings.with_(provenance={**settings.provenance, "calibration": only_one}), labels)
    assert "Suggested thresholds" not in card


@pytest.mark.parametrize("name", pretrained.names())
def test_a_bundled_model_is_scored_per_type_and_has_thresholds(name: str):
    card = (pretrained.find(name) / "README.md").read_text(encoding="utf-8")
    assert "### Scores per type (test)" in card
    assert "### Suggested thresholds" in card


@pytest.mark.parametrize("name", pretrained.names())
def test_the_card_of_a_bundled_model_is_up_to_date(name: str):
    folder = pretrained.find(name)
    written = (folder / "README.md").read_text(encoding="utf-8")
    assert written == model_card(ModelConfig.load(folder), LabelSpace.load(folder), folder.name)
    assert ModelCard(written).data.eval_results


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"sentences": 1_000, "distinct": 1_000}, "1,000 sentences of a.txt, b.txt"),
        ({"sentences": 25_250, "distinct": 1_000}, "1,000 sentences of a.txt, b.txt, 25.2 times"),
        ({"sentences": 25_250}, "25,250 sentences of a.txt, b.txt, repeats included"),
    ],
)
def test_a_card_says_how_many_sentences_were_read_and_how_often(counts, expected, exported: Path):
    settings, labels = ModelConfig.load(exported), LabelSpace.load(exported)
    distillation = {"teachers": [], "corpus": ["a.txt", "b.txt"], **counts}
    card = model_card(settings.with_(provenance={"distillation": distillation}), labels)
    assert f"| unlabelled text | {expected} |" in card
