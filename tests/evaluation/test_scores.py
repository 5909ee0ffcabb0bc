"""Scores as objects: they add, compare, print themselves, and become JSON."""

from __future__ import annotations

import json
import pickle

import pytest

from helpers.scored_documents import BOTH_WAYS, GOLD, LABELS, NEITHER_WAY, ONE_WAY, WRONG_TYPE, predict
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.scores import Counts, Protocol, TypedCounts
from unire.labels import LabelSpace


def test_macro_is_the_mean_over_the_types_that_occur() -> None:
    counts = {"Task": Counts(1, 1, 2), "Method": Counts(1, 4, 1), "Metric": Counts(0, 1, 0), "Material": Counts()}
    macro = TypedCounts(counts, "macro")
    assert macro.precision == pytest.approx((1 + 0.25 + 0) / 3)
    assert macro.recall == pytest.approx((0.5 + 1 + 0) / 3)
    assert macro.f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)
    micro = TypedCounts(counts)
    assert (micro.precision, micro.recall, micro.f1) == pytest.approx((2 / 6, 2 / 3, 4 / 9))


def test_the_protocol_chooses_the_average() -> None:
    predicted = predict((1, 2, "Task"))
    micro, macro = (score([GOLD], [predicted], LABELS, Protocol(average=a)) for a in ("micro", "macro"))
    assert micro.entities.f1 == pytest.approx(2 / 4)
    assert macro.entities.f1 == pytest.approx((1 + 0) / 2)
    assert macro.entities.recall == pytest.approx((1 + 0) / 2)
    assert macro.to_dict()["entities"]["recall"] == macro.entities.recall
    assert macro.to_dict()["entities"]["gold"] == 3


def test_nothing_predicted_or_nothing_in_gold_is_zero_and_no_error() -> None:
    for counts in (Counts(), Counts(0, 3, 0), Counts(0, 0, 3)):
        assert (counts.precision, counts.recall, counts.f1) == (0, 0, 0)
    for average in ("micro", "macro"):
        empty = score([], [], LabelSpace(("Task",)), Protocol(average=average))
        assert (empty.entities.f1, empty.relations.f1, empty.spans) == (0, 0, Counts())


def test_scores_of_parts_add_up_to_the_scores_of_the_whole() -> None:
    gold, predicted = [GOLD, GOLD, GOLD], [ONE_WAY, WRONG_TYPE, NEITHER_WAY]
    for protocol in Protocol.all(average="macro", drop_overlapping=True):
        parts = [score([g], [p], LABELS, protocol) for g, p in zip(gold, predicted, strict=True)]
        assert parts[0] + parts[1] + parts[2] == score(gold, predicted, LABELS, protocol)


def test_scores_over_different_label_spaces_add_type_by_type() -> None:
    a = TypedCounts({"Task": Counts(1, 1, 1)})
    b = TypedCounts({"Method": Counts(0, 2, 1), "Task": Counts(0, 0, 1)})
    assert (a + b).by_type == {"Task": Counts(1, 1, 2), "Method": Counts(0, 2, 1)}


def test_scores_compare_on_ent_plus_rel_f1() -> None:
    better, worse = score([GOLD], [BOTH_WAYS], LABELS), score([GOLD], [ONE_WAY], LABELS)
    assert better > worse
    assert worse < better
    assert not better > better
    assert max([worse, better]) is better
    assert better.ent_plus_rel == 2


def test_scores_under_different_protocols_neither_add_nor_compare() -> None:
    a, b = (score([GOLD], [ONE_WAY], LABELS, Protocol(symmetric=s)) for s in ("doubled", "once"))
    with pytest.raises(UnireError, match=r"\[strict, doubled, micro\] and \[strict, once, micro\]"):
        a + b
    with pytest.raises(UnireError, match="different protocols"):
        a > b  # noqa: B015


def test_scores_survive_pickling() -> None:
    scores = score([GOLD], [WRONG_TYPE], LABELS)
    assert pickle.loads(pickle.dumps(scores)) == scores


def test_scores_print_in_one_line() -> None:
    scores = score([GOLD], [ONE_WAY], LABELS)
    assert (
        str(scores) == "Ent 100.0 (P 100.0, R 100.0)  Rel 80.0 (P 100.0, R 66.7)  Span 100.0  [strict, doubled, micro]"
    )
    assert str(scores.relations.by_type["Compare"]) == "66.7 (P 100.0, R 50.0)"
    dropping = score([GOLD], [ONE_WAY], LABELS, Protocol(drop_overlapping=True))
    assert str(dropping).endswith("[strict, doubled, micro, overlapping dropped: 0 sentences]")


def test_scores_become_plain_json() -> None:
    data = json.loads(json.dumps(score([GOLD], [ONE_WAY], LABELS).to_dict()))
    assert data["protocol"] == {
        "name": "strict, doubled, micro",
        "relations": "strict",
        "symmetric": "doubled",
        "spans": "words",
        "average": "micro",
        "drop_overlapping": False,
    }
    compare = {
        "precision": 1,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
        "true_positives": 1,
        "predicted": 1,
        "gold": 2,
    }
    assert data["relations"]["types"]["Compare"] == compare
    assert (data["relations"]["f1"], data["relations"]["gold"]) == (0.8, 3)
    assert data["spans"]["f1"] == 1
    assert data["dropped_sentences"] == 0
