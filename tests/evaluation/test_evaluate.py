"""`evaluate` and its report."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import unire
from helpers.cli import TWENTY, result
from unire import Document, Extractor, LabelSpace, Protocol, Report, evaluate, evaluate_oracle, evaluate_predictions
from unire.errors import UnireError
from unire.evaluation import scorer
from unire.evaluation.bootstrap import bootstrap
from unire.evaluation.calibration_error import CalibrationErrors, collect_outcomes
from unire.evaluation.evaluate import ONE_WAY_NOTE
from unire.evaluation.scorer import score


@pytest.fixture(scope="module")
def extractor(random_model) -> Extractor:
    return Extractor.load(random_model, device="cpu")


@pytest.fixture(scope="module")
def report(extractor, twenty) -> Report:
    return evaluate(extractor, twenty, all_protocols=True, bootstrap=50)


def test_a_report_holds_what_its_parts_compute(report, random_predictions, twenty, scierc_labels):
    assert report.predicted == random_predictions
    assert report.scores == score(twenty, random_predictions, scierc_labels)
    assert report.protocols == [score(twenty, random_predictions, scierc_labels, each) for each in Protocol.all()]
    assert report.intervals == bootstrap(twenty, random_predictions, scierc_labels, samples=50)
    assert report.confidence == CalibrationErrors.of(collect_outcomes(twenty, random_predictions, scierc_labels))


def test_the_command_prints_the_report(report, random_model):
    options = ("--all-protocols", "--bootstrap", 50, "--device", "cpu")
    printed = result("evaluate", "--model", random_model, "--data", TWENTY, *options)
    assert list(printed) == ["model", "data", "notes", "confidence", "scores", "protocols", "intervals"]
    assert printed["data"] == ["twenty.jsonl"]
    assert {**printed, "data": []} == json.loads(json.dumps(report.to_dict()))


def test_gold_and_predictions_are_compared_once_per_protocol(extractor, twenty, monkeypatch):
    compared = []
    original = scorer.match_documents

    def count(gold, predicted, labels, protocol):
        compared.append(protocol)
        return original(gold, predicted, labels, protocol)

    monkeypatch.setattr("unire.evaluation.evaluate.match_documents", count)
    evaluate(extractor, twenty, bootstrap=10)
    assert compared == [Protocol()]
    evaluate(extractor, twenty, all_protocols=True, bootstrap=10)
    assert len(compared[1:]) == 6


def test_a_model_may_be_a_folder_an_extractor_or_a_module(random_model, report, twenty):
    from unire.models.checkpoint import load_checkpoint

    for model in (random_model, str(random_model), load_checkpoint(random_model)):
        assert evaluate(model, iter(twenty)).scores == report.scores
    assert evaluate(load_checkpoint(random_model), twenty).to_dict()["model"] == "in memory"


@pytest.mark.parametrize("model", [None, 3, {"model": "science"}])
def test_an_invalid_model_is_refused(model, twenty):
    with pytest.raises(UnireError, match="a model is an Extractor, a UniRE, a name or a folder, not"):
        evaluate(model, twenty)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("test.jsonl", "not str; read files with unire.read_documents"),
        (Document("a"), "not Document"),
        (None, "not NoneType"),
        (["text"], "but one is str"),
        ([], "no documents"),
    ],
)
def test_invalid_documents_are_refused(extractor, documents, message):
    with pytest.raises(UnireError, match=message):
        evaluate(extractor, documents)
    with pytest.raises(UnireError, match=message):
        evaluate_oracle(documents)


def test_documents_with_unknown_labels_are_refused(extractor):
    with pytest.raises(UnireError, match="unknown entity type"):
        evaluate(extractor, [Document.from_words([["a"]], [(0, 1, "Nothing")])])


def test_a_report_is_short_and_readable(report):
    lines = repr(report).splitlines()
    assert lines[0] == f"Report on {len(report.gold)} documents [strict, doubled, micro]"
    assert lines[1].startswith(f"  Entities   P {100 * report.scores.entities.precision:.1f}  R ")
    assert lines[2].endswith("]")
    assert lines[3].startswith("  Expected calibration error: ")
    assert len(lines) == 4
    assert str(report) == repr(report)


def test_a_report_renders_in_a_notebook(report):
    html = report._repr_html_()
    assert html.startswith("<table><caption>")
    assert "<td>OtherScientificTerm</td>" in html
    assert "Expected calibration error" in html


def test_labels_are_escaped_in_a_notebook():
    document = Document.from_words([["a"]], [(0, 1, "<script>")])
    assert "<script>" not in evaluate_predictions([document], [document])._repr_html_()


def test_missed_relations_are_counted_by_the_papers_five_errors(report, twenty, scierc_labels):
    assert (
        sum(report.errors.values()) == report.scores.relations.total.gold - report.scores.relations.total.true_positives
    )
    perfect = evaluate_predictions(twenty, twenty, scierc_labels)
    assert set(perfect.errors.values()) <= {0} or perfect.scores.relations.f1 < 1


def test_errors_need_the_same_words():
    gold = Document.from_words([["a", "b"]])
    other = Document.from_words([["a b"]])
    report = evaluate_predictions([gold], [other], protocol=Protocol(spans="characters"))
    with pytest.raises(UnireError, match="predict on the gold words"):
        _ = report.errors


def test_the_oracle_finds_what_a_table_can_hold(twenty):
    report = evaluate_oracle(twenty, "scierc", bootstrap=10)
    assert report.scores.entities.f1 == 1
    assert report.confidence is None
    assert report.to_dict()["model"] == "oracle"
    assert "confidence" not in report.to_dict()
    with pytest.raises(UnireError, match="alpha must be above 0"):
        evaluate_oracle(twenty, "scierc", alpha=0)


def test_predictions_of_any_system_are_evaluated(twenty, random_predictions, scierc_labels):
    report = evaluate_predictions(twenty, random_predictions, "scierc")
    assert report.scores == unire.score(twenty, random_predictions, scierc_labels)
    assert list(report.to_dict()) == ["notes", "scores"]
    learnt = evaluate_predictions(twenty, random_predictions)
    assert learnt.labels == LabelSpace.learn([*twenty, *random_predictions])


def test_symmetric_relations_predicted_one_way_are_noted_where_they_cost():
    labels = LabelSpace(("X",), ("R",), frozenset({"R"}))
    document = Document.from_words([["a", "b"]], [(0, 1, "X"), (1, 2, "X")], [(0, 1, "R")])
    notes = Counter({"read": 2})
    assert evaluate_predictions([document], [document], labels, notes=notes).notes == {"read": 2, ONE_WAY_NOTE: 1}
    once = evaluate_predictions([document], [document], labels, Protocol(symmetric="once"))
    assert once.to_dict()["notes"] == {}


def test_coreference_is_scored_if_both_sides_have_clusters():
    words = [["Ada", "met", "Max", "."], ["She", "left", "him", "."]]
    gold = Document.from_words(words, [(0, 1, "Peop"), (4, 5, "Peop")], clusters=[[(0, 1), (4, 5)], [(2, 3), (6, 7)]])
    half = gold.annotated(gold.entities, clusters=gold.clusters[:1])
    report = evaluate_predictions([gold], [half])
    assert report.coreference.muc.recall == 0.5
    assert report.to_dict()["coreference"]["muc"]["precision"] == 1
    assert "Coref 66.7" in repr(report)
    assert evaluate_predictions([gold], [gold.annotated(gold.entities)]).coreference is None
