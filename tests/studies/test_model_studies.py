"""Studies of models and predictions that are there: thresholds, errors, speed, comparisons."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter

import numpy as np
import pytest

from helpers.paths import TWENTY
from helpers.study_runs import command as run
from unire import formats
from unire.decoding.decoders import SPAN_DECODERS, BoundaryDecoder
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.studies import error_analysis, profiling, results
from unire.studies import speed as speed_module
from unire.studies import threshold as threshold_module
from unire.studies.compare import compare
from unire.studies.results import load_result
from unire.tables import TableSpan

cases = speed_module._cases


def test_every_place_between_two_words_has_a_distance_and_its_kind(random_model, twenty):
    extractor = Extractor.load(random_model, device="cpu")
    result = threshold_module.threshold(extractor, twenty)
    boundaries = {
        (i, border)
        for i, document in enumerate(twenty)
        for sentence in document.sentences
        for entity in sentence.entities
        for border in entity.span
        if sentence.start < border < sentence.end
    }
    places = sum(len(sentence) - 1 for document in twenty for sentence in document.sentences)
    assert sum(result["distances"]["boundary"]) == len(boundaries)
    assert sum(result["distances"]["other"]) == places - len(boundaries)
    assert len(result["sweep"]) == 50
    between = threshold_module.threshold(extractor.with_alpha(0.515), twenty[:2])
    assert len(between["sweep"]) == 51
    assert threshold_module.tables(between)[0].rows[1][:2] == ("the model's α", "0.515")
    own = next(point for point in result["sweep"] if point["alpha"] == extractor.config.alpha)
    scored = run("evaluate", "--model", random_model, "--data", TWENTY, "--json")
    assert own["ent"] == json.loads(scored.stdout)["scores"]["entities"]["f1"]


def test_the_study_follows_the_decoder_of_the_model(science, twenty):
    own = science.config
    assert own.decoder == "likely"
    result = threshold_module.threshold(science, twenty[:2])
    assert (result["decoder"], result["alpha"]) == ("likely", own.alpha)
    assert {point["alpha"] for point in result["sweep"]} == {own.alpha, *SPAN_DECODERS["likely"].alpha_grid}
    at_own = next(point for point in result["sweep"] if point["alpha"] == own.alpha)
    scored = score(twenty[:2], list(science.annotate(twenty[:2])), science.labels)
    assert (at_own["ent"], at_own["rel"]) == (scored.entities.f1, scored.relations.f1)
    split = threshold_module.threshold(science.with_decoder("split"), twenty[:2])
    assert result["distances"] == split["distances"]
    table = threshold_module.tables(result)[0]
    assert [row[0] for row in table.rows] == ["the model's α", "best Span F1", "best Ent F1", "best Rel F1"]
    assert "the α of `likely`" in table.title
    charts = threshold_module.charts(result)
    assert "the paper's α = 1.4" in charts["distances"]
    assert f"the model's α = {own.alpha:g}" in charts["threshold"]


def test_a_decoder_without_a_threshold_is_refused(science, twenty):
    with pytest.raises(UnireError, match="the decoder 'hard' of the model has no threshold α; give decoder="):
        threshold_module.threshold(science.with_decoder("hard"), twenty[:2])


def test_results_that_do_not_name_a_decoder_are_of_the_papers(science, twenty):
    result = threshold_module.threshold(science.with_decoder("split"), twenty[:2])
    del result["decoder"]
    assert [row[0] for row in threshold_module.tables(result)[0].rows][:2] == ["the paper's α", "the model's α"]


def test_a_distance_is_counted_at_the_side_that_gold_says():
    labels = LabelSpace(("X",), ("r",))
    document = Document.from_words([["a", "b", "c"]], [(0, 1, "X")])
    counted = threshold_module._Distances([document], labels)
    decoder = BoundaryDecoder(np.zeros((1, 3, 3, 3)), np.array([3]), labels)
    decoder.distance_sums = 2 * np.array([[math.inf, 9.0, 0.25]])
    counted.add([TableSpan(0, 0, 0, 3)], decoder)
    assert counted.counts["boundary"][-1] == 1  # far away: in the last bin
    assert counted.counts["other"][2] == 1


def test_errors_and_correct_relations_are_all_of_gold(twenty, random_predictions, scierc_labels):
    result = error_analysis.count_errors(twenty, random_predictions, scierc_labels)
    assert result["correct"] + sum(result["errors"].values()) == result["gold"] > 20
    assert len(result["cases"]) == sum(result["errors"].values())
    annotated = error_analysis.count_errors(twenty, twenty, scierc_labels)  # symmetric relations one way only
    assert annotated["correct"] + annotated["errors"]["relation not found"] == annotated["gold"]
    assert error_analysis.tables(annotated)[0].rows[-1] == ("correct", "30", "", "83.3")


def test_where_there_are_no_relations_none_is_missed(scierc_labels):
    bare = [Document.from_words([["we", "parse", "trees"]])]
    (table,) = error_analysis.tables(error_analysis.count_errors(bare, bare, scierc_labels))
    assert [row[1:] for row in table.rows[-2:]] == [("0", "", "0.0"), ("0", "", "0.0")]


def test_a_case_shows_the_entities_that_are_wrong_or_else_the_relations(scierc_labels):
    words = [["trees", "are", "graphs"], ["graphs", "are", "trees"]]
    spans = [(0, 1, "Task"), (2, 3, "Method"), (3, 4, "Task"), (5, 6, "Method")]
    gold = Document.from_words(words, spans, [(0, 1, "USED-FOR"), (2, 3, "USED-FOR")])
    predicted = Document.from_words(words, [(0, 1, "Metric"), *spans[1:]], [(0, 1, "USED-FOR"), (2, 3, "PART-OF")])
    wrong_type, wrong_relation = error_analysis.count_errors([gold], [predicted], scierc_labels)["cases"]
    assert error_analysis.list_predicted(wrong_type) == ["trees [Metric]", "graphs [Method]"]
    assert error_analysis.list_predicted(wrong_relation) == ["graphs [Task] –PART-OF→ trees [Method]"]
    assert error_analysis.list_predicted({**wrong_relation, "relations": []}) == ["graphs [Task]", "trees [Method]"]


def test_the_errors_of_a_file_are_those_of_the_model_that_wrote_it(random_model, random_predictions, tmp_path):
    file = tmp_path / "found.jsonl"
    formats.write(random_predictions, file)
    by_file = run("study", "errors", file, "--data", TWENTY, "--labels", "scierc", "--json").stdout
    by_model = run("study", "errors", random_model, "--data", TWENTY, "--json").stdout
    assert json.loads(by_file)["errors"] == json.loads(by_model)["errors"]
    shown = run("study", "errors", random_model, "--data", TWENTY, "--show", 1).output
    assert "gold:" in shown
    kinds = json.loads(by_model)["errors"]
    assert [shown.count(kind) for kind in kinds] == [2 if count else 1 for count in kinds.values()]


def test_gold_may_have_another_format_than_predictions(twenty, tmp_path):
    gold, file = tmp_path / "gold", tmp_path / "found.jsonl"
    formats.write(twenty, gold, "brat", lost=Counter())
    for path in (file, other := tmp_path / "other.jsonl"):
        formats.write(formats.read(gold), path)
    for words in (("errors", file), ("compare", file, other)):
        assert json.loads(run("study", *words, "--data", gold, "--format", "brat", "--json").stdout)


@pytest.mark.slow
def test_speed_changes_one_thing_at_a_time_and_times_every_stage(exported, twenty, monkeypatch):
    monkeypatch.setattr(profiling, "MIN_ROUND_SECONDS", 0)
    logged = []
    rows = speed_module.measure_speed(exported, twenty, device="cpu", rounds=1, log=logged.append)
    assert [row["name"] for row in rows] == [
        "as trained",
        "in-place, W = 100",
        "in-place, W = 200",
        "in-place, W = 300",
        "released, W = 200",
        "hard decoding",
        "likely decoding",
        "batches of 2,048 pieces",
        "batches of 65,536 pieces",
        "onnxruntime, int8",
    ]
    assert len(logged) == len(rows)
    assert all(row["sentences_per_second"] > 0 for row in rows)
    stages = ["windows", "encoder", "biaffine", "decoder", "documents"]
    assert all(list(row["seconds"]) == stages for row in rows)
    assert all(seconds > 0 for row in rows[:-1] for seconds in row["seconds"].values())
    assert rows[-1]["seconds"]["biaffine"] == 0
    both = "onnxruntime measures encoder and biaffine together"
    assert both in speed_module.charts(speed_module.collect_rows(rows, twenty, "cpu"))["stages"]
    assert both not in speed_module.charts(speed_module.collect_rows(rows[:-1], twenty, "cpu"))["stages"]
    assert rows[5]["ent"] != rows[0]["ent"]
    table, paper = speed_module.tables(speed_module.collect_rows(rows, twenty, "cpu"))
    assert len(table.rows) == len(rows)
    assert ("UniRE", "110M", "200", "36.9", "200.1") in paper.rows


@pytest.mark.slow
def test_speed_says_how_often_documents_were_read(random_model, twenty, monkeypatch):
    monkeypatch.setattr(profiling, "MIN_ROUND_SECONDS", 0.6)
    monkeypatch.setattr(speed_module, "_cases", lambda *given: [*cases(*given)][:1])
    rows = speed_module.measure_speed(random_model, twenty[:1], device="cpu", rounds=1)
    n, (row,) = len(twenty[0].sentences), rows
    assert row["repeats"] > 1
    assert row["repeats"] * n / row["sentences_per_second"] >= 0.6
    assert sum(row["seconds"].values()) < 0.6  # of one pass
    assert row["sentences_per_batch"] > n
    found = list(Extractor.load(random_model, device="cpu").annotate([twenty[0].bare]))
    assert row["ent"] == score(twenty[:1], found, LabelSpace.load("scierc")).entities.f1
    result = speed_module.collect_rows(rows, twenty[:1], "cpu")
    often = f"{n} sentences, read {row['repeats']} times over in a round, on"
    assert often in speed_module.tables(result)[0].title
    assert all(often in chart for chart in speed_module.charts(result).values())
    older = {**result, "rows": [{name: row[name] for name in row if name != "repeats"}]}
    assert f"{n} sentences on" in speed_module.tables(older)[0].title
    assert all(f"{n} sentences on" in chart for chart in speed_module.charts(older).values())


def test_systems_that_find_the_same_do_not_differ(twenty, random_predictions, scierc_labels):
    pair = [results.System(name, random_predictions, None) for name in ("a", "b")]
    result = compare(twenty, pair, scierc_labels, samples=50)
    assert result["cases"] == []
    assert all(p["entities"]["p_value"] == 1 for p in result["differences"][0]["protocols"])
    assert len(result["systems"][0]["scores"]) == 6


def test_differences_of_systems_are_listed_with_the_correct_one(scierc_labels):
    words = [["we", "parse", "trees"], ["and", "graphs"]]
    gold = Document.from_words(words, [(1, 2, "Task"), (2, 3, "Material"), (4, 5, "Material")], [(0, 1, "COMPARE")])
    first = Document.from_words(words, [(1, 2, "Task"), (2, 3, "Material")], [(1, 0, "COMPARE")])
    second = Document.from_words(words, [(1, 2, "Task"), (2, 3, "Method")])
    pair = [results.System("first", [first] * 2, None), results.System("second", [second] * 2, None)]
    result = compare([gold] * 2, pair, scierc_labels, samples=10)
    assert [case["sentence"] for case in result["cases"]] == [0, 0]
    assert result["cases"][0]["found"] == {
        "first": [
            {"item": "trees [Material]", "right": True},
            {"item": "trees [Material] –COMPARE→ parse [Task]", "right": True},
        ],
        "second": [{"item": "trees [Method]", "right": False}],
    }


def test_predictions_that_are_split_into_other_sentences_are_listed_by_those_of_gold(scierc_labels):
    words, entities = [["we", "parse", "trees"], ["and", "graphs"]], [(1, 2, "Task"), (4, 5, "Material")]
    gold = Document.from_words(words, [*entities, (2, 3, "Material")], [(0, 2, "USED-FOR")])
    joined = Document.from_words([[*words[0], *words[1]]], entities)
    (case,) = error_analysis.count_errors([gold], [joined], scierc_labels)["cases"]
    assert (case["kind"], case["sentence"], case["text"]) == ("entity not found", 0, "we parse trees")
    assert case["entities"] == ["parse [Task]"]
    pair = [results.System("gold", [gold] * 2, None), results.System("joined", [joined] * 2, None)]
    result = compare([gold] * 2, pair, scierc_labels, samples=10)
    assert [case["sentence"] for case in result["cases"]] == [0, 0]
    assert result["only"]["joined"] == {}


def test_predictions_in_another_order_are_studied_beside_their_own_gold(twenty, random_predictions, scierc_labels):
    turned = random_predictions[::-1]
    assert error_analysis.count_errors(twenty, turned, scierc_labels) == error_analysis.count_errors(
        twenty, random_predictions, scierc_labels
    )
    both = [results.System("one", random_predictions, None), results.System("two", turned, None)]
    assert compare(twenty, both, scierc_labels, samples=5)["cases"] == []


def test_systems_that_cannot_be_compared_are_refused(twenty, scierc_labels):
    system = results.System("a", twenty, scierc_labels)
    with pytest.raises(UnireError, match="at least two systems"):
        compare(twenty, [system], scierc_labels)
    with pytest.raises(UnireError, match="two systems have the name a"):
        compare(twenty, [system, system], scierc_labels)
    with pytest.raises(UnireError, match="more in gold, 3 in the predictions"):
        compare(twenty, [system, results.System("b", twenty[:3], None)], scierc_labels)
    with pytest.raises(UnireError, match="the same documents"):
        compare(twenty[:3], [system, results.System("b", twenty, None)], scierc_labels)
    with pytest.raises(UnireError, match="a and b have different label spaces"):
        results.choose_labels([system, results.System("b", twenty, LabelSpace.load("conll04"))], twenty)


@pytest.mark.slow
def test_a_model_of_other_labels_and_a_folder_that_cannot_be_written_are_refused_at_once(random_model, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"sentences": [["Ada"]], "ner": [[[0, 0, "PER"]]], "relations": [[]]}\n', encoding="utf-8")
    for words in (
        ("threshold", "--model", random_model),
        ("errors", random_model),
        ("speed", "--model", random_model),
        ("compare", random_model, random_model),
    ):
        refused = run("study", *words, "--data", other, code=1)
        assert "random has other labels than the data: document" in str(refused.exception)
        assert "unknown entity type 'PER'" in str(refused.exception)
        refused = run("study", *words, "--data", "unread.jsonl", "--out", other, code=1)
        assert f"the folder {other} cannot be created" in str(refused.exception)


@pytest.mark.slow
def test_models_and_files_are_compared_by_one_command(random_model, unexported, random_predictions, tmp_path):
    file = tmp_path / "found.jsonl"
    formats.write(random_predictions, file)
    command = ("study", "compare", random_model, unexported, file, "--data", TWENTY, "--bootstrap", 20)
    ran = run(*command, "--show", 1, "--out", tmp_path)
    assert "unexported − random" in ran.output
    assert "wrong" in ran.output
    assert len(load_result(tmp_path, "compare")["systems"]) == 3
    for study in (command, ("study", "errors", random_model, "--data", TWENTY)):
        assert "its own label space" in str(run(*study, "--labels", "conll04", code=1).exception)


def test_a_study_of_another_model_or_of_other_data_is_not_replaced(random_model, unexported, tmp_path):
    study = ("study", "errors", random_model, "--data", TWENTY, "--out", tmp_path)
    run(*study)
    before = (tmp_path / "errors.json").read_bytes()
    for words in (
        ("study", "errors", unexported, "--data", TWENTY, "--out", tmp_path),
        ("study", "errors", random_model, "--data", TWENTY, "--data", TWENTY, "--out", tmp_path),
    ):
        refused = str(run(*words, code=1).exception)
        assert (
            refused == f"{tmp_path}/errors.json already has results for random on twenty.jsonl; "
            "delete it, or choose another folder"
        )
    assert (tmp_path / "errors.json").read_bytes() == before
    assert "it is replaced" not in run(*study).output


def test_a_study_of_a_retrained_model_is_replaced_with_a_note(random_model, unexported, tmp_path):
    model, out = tmp_path / "model", tmp_path / "out"
    study = ("study", "errors", model, "--data", TWENTY, "--out", out)
    shutil.copytree(random_model, model)
    run(*study)
    before = (out / "errors.json").read_bytes()
    shutil.rmtree(model)
    shutil.copytree(unexported, model)
    assert "errors.json was of a model of that name with other weights; it is replaced" in run(*study).output
    assert (out / "errors.json").read_bytes() != before


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.json.gz", "missing.parquet"])
def test_a_file_of_predictions_that_is_missing_is_not_taken_for_a_model(name, random_model):
    for words in (("compare", random_model, name), ("errors", name)):
        refused = run("study", *words, "--data", TWENTY, code=1)
        assert str(refused.exception) == f"there is no file of predictions '{name}'"
