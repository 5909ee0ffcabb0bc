"""Calibration: scores become chances, and nothing else changes."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.noisy_extractor import noisy_extractor
from helpers.paths import TWENTY
from unire import Document, Extractor, formats, pretrained
from unire.calibration import LOG_ODDS_BEND, MIN_SLOPE, Calibration, CalibrationCurve, IdentityCurve
from unire.cli.main import app
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.evaluation.calibration_error import CalibrationErrors, Reliability, collect_outcomes
from unire.evaluation.scorer import score
from unire.evaluation.thresholds import KEPT_SHARES, recommend_min_scores, suggest_thresholds, with_thresholds
from unire.evaluation.tuning import (
    CalibrationEffect,
    collect_log_odds,
    fit_calibration,
    fit_curves,
    tune_config,
)
from unire.hub.model_card import model_card
from unire.hub.model_dir import ModelDir
from unire.labels import LabelSpace
from unire.result_filter import ResultFilter

odds = st.floats(-104, 104)
"""All log-odds that there are in float32."""
scores = st.lists(odds, min_size=1, max_size=50).map(np.array)
curves = st.builds(CalibrationCurve, st.floats(0.01, 20), st.floats(-20, 20), st.floats(0, 4))
found_at = st.lists(st.tuples(odds, st.booleans()), max_size=60).map(
    lambda found: (np.array([score for score, _ in found]), np.array([right for _, right in found], bool))
)
judged = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60).map(
    lambda found: (np.array([score for score, _ in found]), np.array([right for _, right in found], bool))
)


def logit(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)


def likelihood(curve: CalibrationCurve, log_odds: np.ndarray, right: np.ndarray) -> float:
    """The logarithm of it, less what moving the curve costs."""
    x = curve.slope * np.arcsinh(LOG_ODDS_BEND * log_odds) / LOG_ODDS_BEND + curve.intercept
    cost = ((curve.slope - 1) ** 2 + curve.intercept**2) / 2
    return float(-np.logaddexp(0, np.where(right, -x, x)).sum() - cost)


def run(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


# Curves


@given(curves, scores)
def test_a_curve_keeps_the_order_and_stays_between_0_and_1(curve, some):
    ordered = np.sort(some)
    found = curve(ordered)
    assert (np.diff(found) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


@given(scores)
def test_a_curve_that_was_not_fitted_gives_the_chances_of_the_odds(some):
    assert CalibrationCurve()(some) == pytest.approx(1 / (1 + np.exp(-some)), rel=1e-12)


@given(st.floats(0.01, 0.3), st.floats(-3, 3), st.sets(st.integers(-1000, 1000), min_size=2))
def test_a_fitted_curve_tells_all_odds_apart(slope, intercept, tenths):
    some = np.sort(np.array(list(tenths))) / 10
    assert (np.diff(CalibrationCurve(slope, intercept, LOG_ODDS_BEND)(some)) > 0).all()


@given(found_at, st.floats(0.5, 2), st.floats(-1, 1))
def test_the_fitted_curve_has_the_highest_likelihood(found, times, more):
    curve = CalibrationCurve.fit(*found)
    assert curve.slope >= MIN_SLOPE
    for other in (
        CalibrationCurve(1, 0, LOG_ODDS_BEND),
        CalibrationCurve(max(MIN_SLOPE, curve.slope * times), curve.intercept + more, LOG_ODDS_BEND),
    ):
        assert likelihood(curve, *found) >= likelihood(other, *found) - 1e-6


def test_without_scores_no_curve_is_fitted():
    assert CalibrationCurve.fit(np.array([]), np.array([], bool)) == CalibrationCurve(bend=LOG_ODDS_BEND)


@pytest.mark.parametrize("right", [True, False])
def test_a_single_score_changes_the_curve_little(right):
    some = logit(np.array([0.6]))
    assert abs(float(CalibrationCurve.fit(some, np.array([right]))(some)[0]) - 0.6) < 0.2


def test_a_curve_rises_even_where_low_scores_were_right_more_often():
    some = np.repeat([-2.2, 2.2], 500)
    curve = CalibrationCurve.fit(some, some < 0)
    assert curve.slope == MIN_SLOPE
    assert curve(some).mean() == pytest.approx(0.5, abs=0.01)


def test_chances_are_recovered_from_scores_that_are_too_sure():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.05, 0.95, 20_000)
    right = rng.random(20_000) < chance
    too_sure = np.sinh((logit(chance) + 1.3) / 0.2 * LOG_ODDS_BEND) / LOG_ODDS_BEND
    curve = CalibrationCurve.fit(too_sure, right)
    assert (curve.slope, curve.intercept) == (pytest.approx(0.2, rel=0.05), pytest.approx(-1.3, abs=0.1))
    assert Reliability.of(CalibrationCurve()(too_sure), right).error > 0.2
    assert Reliability.of(curve(too_sure), right).error < 0.015


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ({"slope": 0}, "above 0"),
        ({"slope": -1}, "above 0"),
        ({"slope": math.nan}, "above 0"),
        ({"slope": math.inf}, "finite"),
        ({"intercept": -math.inf}, "finite"),
        ({"intercept": math.nan}, "finite"),
        ({"bend": -1}, "0 or more"),
        ({"bend": math.inf}, "finite"),
    ],
)
def test_a_curve_that_does_not_rise_is_refused(wrong, wanted):
    ((name, value),) = wrong.items()
    with pytest.raises(UnireError, match=f"^calibration setting {name} must be {wanted}, not {value}$"):
        CalibrationCurve(**wrong)


# What is measured


@given(judged)
def test_the_expected_calibration_error_is_its_definition(found):
    some, right = found
    expected = 0.0
    for k in range(10):
        inside = [(s, r) for s, r in zip(some, right, strict=True) if min(int(s * 10), 9) == k]
        if inside:
            expected += abs(sum(s for s, _ in inside) - sum(r for _, r in inside)) / len(some)
    reliability = Reliability.of(some, right)
    assert reliability.error == pytest.approx(expected)
    assert reliability.n == len(some)
    assert all(part.low - 1e-12 <= part.score <= part.high + 1e-12 and part.n for part in reliability.bins)


def test_right_is_what_the_headline_protocol_counts():
    labels = LabelSpace(("A", "B"), ("R", "S"), frozenset({"S"}))
    words = [["a", "b", "c"]]
    gold = Document.from_words(words, [(0, 1, "A"), (1, 2, "A"), (2, 3, "B")], [(0, 1, "S"), (0, 2, "R")])
    entities = [(0, 1, "A", 0.9), (1, 2, "A", 0.8), (2, 3, "A", 0.7)]
    relations = [(1, 0, "S", 0.6), (0, 2, "R", 0.5), (1, 0, "R", 0.4)]
    found = collect_outcomes([gold], [Document.from_words(words, entities, relations)], labels)
    assert dict(zip(found.entities.scores, found.entities.correct, strict=True)) == {0.9: True, 0.8: True, 0.7: False}
    # the other way round of a symmetric relation is right, a relation of an entity of the wrong type is not
    assert dict(zip(found.relations.scores, found.relations.correct, strict=True)) == {
        0.6: True,
        0.5: False,
        0.4: False,
    }


def test_predictions_without_scores_are_not_counted(twenty, scierc_labels):
    confidence = CalibrationErrors.of(collect_outcomes(twenty, twenty, scierc_labels))
    assert (confidence.entities.n, confidence.relations.n, confidence.entities.error) == (0, 0, 0.0)
    assert str(confidence) == "0.0% for 0 entities, 0.0% for 0 relations"


# Models


def test_calibration_changes_scores_and_nothing_else(twenty, scierc_labels):
    raw = noisy_extractor(twenty, scierc_labels, noise=2.5)
    found = collect_log_odds(raw, twenty)
    settings = fit_calibration(raw.config, found, ["dev.json"], scierc_labels)
    fitted = noisy_extractor(twenty, scierc_labels, noise=2.5, calibration=settings.calibration)
    before, after = (list(extractor.annotate(twenty)) for extractor in (raw, fitted))
    changed = 0
    for one, other in zip(before, after, strict=True):
        assert [(e.span, e.label) for e in one.entities] == [(e.span, e.label) for e in other.entities]
        assert [(r.head.span, r.label) for r in one.relations] == [(r.head.span, r.label) for r in other.relations]
        changed += sum(a.score != b.score for a, b in zip(one.entities, other.entities, strict=True))
    assert changed
    assert collect_log_odds(fitted, twenty).entities.scores.tolist() == found.entities.scores.tolist()

    effect = CalibrationEffect.of(settings.calibration, found, scierc_labels)
    assert effect.after == CalibrationErrors.of(collect_outcomes(twenty, after, scierc_labels))
    assert effect.after.relations.error < effect.before.relations.error
    errors = settings.provenance["calibration"]["errors"]
    assert errors["relations"] == {
        "n": effect.before.relations.n,
        "before": effect.before.relations.error,
        "after": effect.after.relations.error,
    }


def test_suggested_thresholds_keep_shares_of_the_relations(twenty, scierc_labels):
    extractor = noisy_extractor(twenty, scierc_labels, noise=2.5)
    found = collect_log_odds(extractor, twenty)
    extractor.config = fit_calibration(extractor.config, found, ["dev.json"], scierc_labels)
    predicted = list(extractor.annotate(twenty))
    rows = suggest_thresholds(twenty, predicted, scierc_labels)
    values = [row["min_score"] for row in rows]
    assert values[0] == 0
    assert values == sorted(set(values))
    total = sum(len(document.relations) for document in predicted)
    for value, row in zip(values, rows, strict=True):
        kept = [document.confident(value) for document in predicted]
        assert row["entities"]["f1"] == score(twenty, kept, scierc_labels).entities.f1
    for share in KEPT_SHARES[1:]:
        assert any(
            sum(len(d.confident(value).relations) for d in predicted)
            >= share * total
            > sum(len(d.confident(value + 0.011).relations) for d in predicted)
            for value in values
        )
    assert with_thresholds(extractor, twenty).provenance["calibration"]["thresholds"] == rows


def test_thresholds_are_of_entities_if_there_are_no_relations_and_0_if_there_is_nothing(twenty, scierc_labels):
    predicted = noisy_extractor(twenty, scierc_labels, noise=2.5).annotate(twenty)
    without = [document.annotated(document.entities) for document in predicted]
    assert len(suggest_thresholds(twenty, without, scierc_labels)) > 1
    nothing = suggest_thresholds(twenty, [document.bare for document in twenty], scierc_labels)
    assert [row["min_score"] for row in nothing] == [0]


def test_both_curves_are_fitted_apart(twenty, scierc_labels):
    found = collect_log_odds(noisy_extractor(twenty, scierc_labels, noise=2.5), twenty)
    calibration = fit_curves(found, scierc_labels)
    assert calibration.entities == CalibrationCurve.fit(found.entities.scores, found.entities.correct)
    assert calibration.relations == CalibrationCurve.fit(found.relations.scores, found.relations.correct)
    assert calibration.entities != calibration.relations


@pytest.fixture
def folder(unexported, tmp_path) -> Path:
    return Path(shutil.copytree(unexported, tmp_path / "model"))


def test_another_decoder_is_not_calibrated_by_the_curves_of_the_first(folder):
    model = ModelDir.open(folder)
    model.save(model.config.with_(calibration=Calibration(CalibrationCurve(0.5, 0))))
    assert Extractor.load(folder).config.calibration.entities.slope == 0.5
    assert Extractor.load(folder, decoder="split", alpha=1.0).config.calibration.entities.slope == 0.5
    assert Extractor.load(folder, decoder="hard").config.calibration == Calibration()


def test_a_model_is_changed_in_its_place_but_for_its_weights(folder):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    report = json.loads(run("calibrate", folder, "--data", TWENTY, "--test", TWENTY, "--json"))
    assert "scores" not in report  # they are what they were
    assert report["out"] == str(folder)
    assert report["data"] == report["test"]
    assert report["data"]["relations"]["after"] < report["data"]["relations"]["before"]
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"config.json", "README.md"}
    settings = ModelConfig.load(folder)
    assert settings.calibration != Calibration()
    assert settings.with_(calibration=Calibration(), provenance={}) == ModelConfig.from_dict(
        json.loads(before["config.json"])
    ).with_(provenance={})
    card = after["README.md"].decode()
    assert "| calibration of scores | on fixtures/twenty.jsonl; expected calibration error: " in card

    text = run("calibrate", folder, "--data", TWENTY)
    assert "data: relations" in text
    assert ModelConfig.load(folder).calibration == settings.calibration  # fitted again, from the scores of the tables


@pytest.mark.parametrize("options", [(), ("--tune",)])
def test_a_model_that_finds_nothing_is_not_calibrated(folder, tmp_path, options):
    formats.write([Document.from_words([[]], id="empty")], empty := tmp_path / "empty.jsonl")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(UnireError, match="predicts nothing on this data"):
        run("calibrate", folder, "--data", empty, *options)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.slow
def test_alpha_and_relation_odds_are_tuned_before_if_that_is_wanted(folder, twenty):
    before = ModelConfig.load(folder)
    wanted = tune_config(Extractor.load(folder), twenty)
    assert (wanted.alpha, wanted.relation_odds) != (before.alpha, before.relation_odds)
    run("calibrate", folder, "--data", TWENTY)
    assert ModelConfig.load(folder).alpha == before.alpha
    report = json.loads(run("calibrate", folder, "--tune", "--data", TWENTY, "--json"))
    settings = ModelConfig.load(folder)
    assert (settings.alpha, settings.relation_odds) == (wanted.alpha, wanted.relation_odds)
    assert (report["alpha"], report["relation_odds"]) == (wanted.alpha, wanted.relation_odds)
    assert f"α = {wanted.alpha:g}, relation odds = {wanted.relation_odds:g}" in (folder / "README.md").read_text(
        "utf-8"
    )
    extractor = Extractor.load(folder)
    found = collect_log_odds(extractor, twenty)
    extractor.config = fit_calibration(settings, found, [], extractor.labels)
    assert with_thresholds(extractor, twenty).calibration == settings.calibration  # fitted to what is found now
    scores = score(twenty, extractor.annotate([document.bare for document in twenty]), extractor.labels)
    assert settings.provenance["scores"] == report["scores"] == {"dev": scores.to_dict()}
    f1 = [f"{100 * counts.f1:.1f}" for counts in (scores.entities, scores.relations)]
    printed = run("calibrate", folder, "--tune", "--data", TWENTY)
    assert ["data", *f1] in [line.split() for line in printed.splitlines()]
    first, *_ = settings.provenance["calibration"]["thresholds"]
    assert first["min_score"] == 0
    assert first["relations"]["f1"] == scores.relations.f1
    assert "F1, tuned on data" in printed  # as the table behind it calls the same file
    assert "data: entities" in printed


def test_a_model_can_be_tuned_for_another_decoder(folder, twenty, tmp_path):
    wanted = tune_config(Extractor.load(folder, decoder="likely"), twenty)
    report = json.loads(run("calibrate", folder, "--tune", "--decoder", "likely", "--data", TWENTY, "--json"))
    settings = ModelConfig.load(folder)
    assert (settings.decoder, settings.alpha) == ("likely", wanted.alpha)
    assert (report["decoder"], report["alpha"]) == ("likely", wanted.alpha)
    assert f"| decoding | likely, α = {wanted.alpha:g}" in (folder / "README.md").read_text("utf-8")
    for options in (("--decoder", "split"), ("--tune", "--decoder", "hard")):
        with pytest.raises(UnireError, match="needs tune=True and takes split or likely"):
            run("calibrate", folder, "--data", TWENTY, *options)


def test_a_bundled_model_is_calibrated_only_into_a_new_folder(folder, tmp_path, monkeypatch, twenty):
    monkeypatch.setattr(pretrained, "BUNDLED_DIR", tmp_path)
    with pytest.raises(UnireError, match="the model 'model' cannot be changed in place; give a new folder with out="):
        run("calibrate", "model", "--data", TWENTY)
    out = tmp_path / "new" / "calibrated"
    before = (folder / "config.json").read_bytes()
    assert "Expected calibration error" in run("calibrate", "model", "--data", TWENTY, "--out", out)
    assert (folder / "config.json").read_bytes() == before
    document = Extractor.load(out).extract_words([twenty[0].words])
    raw = Extractor.load(folder).extract_words([twenty[0].words])
    curve = ModelConfig.load(out).calibration.entities
    scores = np.array([e.score for e in raw.entities])
    assert [e.score for e in document.entities] == pytest.approx(curve(logit(scores)).tolist())
    monkeypatch.setattr(Extractor, "load", None)  # nothing is computed before it is refused
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        run("calibrate", "model", "--data", TWENTY, "--out", out)
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder"):
        ModelDir.open("model").save(ModelConfig.load(out), out)


def test_an_unwritable_output_gets_one_sentence(folder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnireError, match=r"the model cannot be written to '.*file/out'") as caught:
        run("calibrate", folder, "--data", TWENTY, "--out", tmp_path / "file" / "out")
    assert "\n" not in str(caught.value)


def test_evaluation_tells_how_far_scores_can_be_believed(folder):
    text = run("evaluate", "--model", folder, "--data", TWENTY)
    assert "Expected calibration error of the scores: " in text
    assert "share correct" not in text
    assert "Relations by score" in run("evaluate", "--model", folder, "--data", TWENTY, "--reliability")
    report = json.loads(run("evaluate", "--model", folder, "--data", TWENTY, "--json"))
    entities = report["confidence"]["entities"]
    assert entities["n"] == sum(part["n"] for part in entities["bins"]) == report["scores"]["entities"]["predicted"]
    assert 0 < entities["error"] <= 1
    with pytest.raises(UnireError, match="need --model"):
        run("evaluate", "--oracle", "--labels", "scierc", "--data", TWENTY, "--reliability")
    assert "confidence" not in json.loads(run("evaluate", "--oracle", "--data", TWENTY, "--json"))


def test_the_model_science_is_calibrated_and_knows_what_its_relations_join():
    model = ModelDir.open("science")
    assert model.config.calibration != Calibration()
    assert not model.config.constraints
    assert not model.labels.allowed_relations(model.config.signatures).all()
    assert "on scierc/dev.json; expected calibration error" in (model.path / "README.md").read_text(encoding="utf-8")


def test_no_two_entities_of_the_model_science_have_the_same_score(science, twenty):
    found = [entity.score for document in science.annotate(twenty) for entity in document.entities]
    assert len(found) > 50
    assert len(set(found)) == len(found)
    assert max(found) > 0.9


# Types: shifts of relations, and recommended scores


SPACE = LabelSpace(("A", "B"), ("A", "R", "S"))


def test_a_type_that_is_wrong_more_often_gets_lower_probabilities():
    curve = CalibrationCurve()
    log_odds = np.zeros(200)
    correct = np.arange(200) % 10 == 0  # 10% instead of 50%
    shift = curve.fit_shift(log_odds, correct)
    assert curve(log_odds[:1], shift)[0] == pytest.approx(0.14, abs=0.03)
    assert abs(curve.fit_shift(log_odds[1:3], correct[1:3])) < 0.15, "little data moves little"
    assert curve.fit_shift(np.array([]), np.array([], bool)) == 0
    assert IdentityCurve()(log_odds, np.ones(200)).tolist() == log_odds.tolist()


def test_shifts_are_of_relation_types_alone(twenty, scierc_labels):
    assert Calibration(relation_shifts={"A": 0.5, "S": -1.0}).shift_relations(SPACE).tolist() == [0, 0, 0, 0.5, 0, -1]
    extractor = noisy_extractor(twenty, scierc_labels, noise=2.5)
    found = collect_log_odds(extractor, twenty)
    fitted = fit_curves(found, scierc_labels)
    assert set(fitted.relation_shifts) == {scierc_labels.names[label] for label in found.relations.labels}
    shifted = noisy_extractor(twenty, scierc_labels, noise=2.5, calibration=fitted)
    plain = noisy_extractor(twenty, scierc_labels, noise=2.5, calibration=replace(fitted, relation_shifts={}))
    for one, other in zip(shifted.annotate(twenty), plain.annotate(twenty), strict=True):
        assert one.entities == other.entities
        for moved, before in zip(one.relations, other.relations, strict=True):
            expected = logit(np.array(before.score)) + fitted.relation_shifts[moved.label]
            assert logit(np.array(moved.score)) == pytest.approx(expected, abs=1e-6)


def test_recommended_scores_have_the_best_f_of_all_that_are_shared(twenty, scierc_labels):
    extractor = noisy_extractor(twenty, scierc_labels, noise=2.5)
    found = collect_log_odds(extractor, twenty)
    extractor.config = fit_calibration(extractor.config, found, ["dev.json"], scierc_labels)
    predicted = list(extractor.annotate(twenty))
    config = with_thresholds(extractor, twenty)
    calibration, recommended = config.calibration, config.provenance["calibration"]["recommended"]
    assert calibration == recommend_min_scores(extractor.config.calibration, twenty, predicted, scierc_labels)
    assert tuple(calibration.entity_min_scores) == scierc_labels.entity_types
    assert tuple(calibration.relation_min_scores) == scierc_labels.relation_types
    keep = ResultFilter.build(scierc_labels, "auto", calibration=calibration)
    kept = score(twenty, map(keep, predicted), scierc_labels)
    assert recommended["relations"]["precision"] == kept.relations.precision
    for value in np.arange(0, 1, 0.1):
        other = score(twenty, [document.confident(value) for document in predicted], scierc_labels)
        assert kept.entities.f1 >= other.entities.f1
    card = model_card(config, scierc_labels)
    assert "| auto | " in card
    assert f"\n| USED-FOR | {calibration.relation_min_scores['USED-FOR']:g} |\n" in card


@pytest.mark.parametrize("name", ["relation_shifts", "entity_min_scores", "relation_min_scores"])
@pytest.mark.parametrize("wrong", [[1], {"A": "1"}, {"A": None}, {"A": math.inf}, {"A": True}])
def test_numbers_of_types_are_checked(name, wrong):
    with pytest.raises(UnireError, match=f"calibration setting {name} must be an object with a finite number"):
        Calibration(**{name: wrong})


@pytest.mark.parametrize("name", pretrained.names())
def test_bundled_models_recommend_scores(name):
    model = ModelDir.open(name)
    assert tuple(model.config.calibration.entity_min_scores) == model.labels.entity_types
    assert tuple(model.config.calibration.relation_min_scores) == model.labels.relation_types
    assert "| auto | " in (model.path / "README.md").read_text(encoding="utf-8")
