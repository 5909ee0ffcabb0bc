"""Confidence intervals against resampling done the long way."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.bootstrap import Interval, bootstrap, paired_bootstrap
from unire.evaluation.scorer import score
from unire.evaluation.scores import Protocol
from unire.labels import LabelSpace

LABELS = LabelSpace(("Task", "Method"), ("Used-for", "Compare"), frozenset({"Compare"}))
WORDS = [["a", "b", "c", "d", "e", "f"]]


def documents(n: int, seed: int) -> list[Document]:
    """Random annotation of the same words."""
    rng = random.Random(seed)
    return [
        Document.from_words(
            WORDS,
            [(word, word + 1, rng.choice(LABELS.entity_types)) for word in range(6)],
            [(rng.randrange(6), rng.randrange(6), rng.choice(LABELS.relation_types)) for _ in range(rng.randrange(4))],
        )
        for _ in range(n)
    ]


def spoilt(gold: list[Document], every: int) -> list[Document]:
    """The gold annotation, lost in one document of `every`."""
    return [document.bare if i % every == 0 else document for i, document in enumerate(gold)]


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_intervals_are_percentiles_of_scores_of_resampled_documents(average: str) -> None:
    protocol = Protocol(relations="boundaries", symmetric="once", average=average)  # type: ignore[arg-type]
    gold, predicted = documents(12, seed=1), documents(12, seed=2)
    rng = np.random.default_rng(3)
    resampled = []
    for _ in range(50):
        drawn = rng.integers(12, size=12)
        scores = score([gold[i] for i in drawn], [predicted[i] for i in drawn], LABELS, protocol)
        resampled.append([[kind.precision, kind.recall, kind.f1] for kind in (scores.entities, scores.relations)])
    low, high = np.quantile(resampled, [0.05, 0.95], axis=0)
    exact = score(gold, predicted, LABELS, protocol)
    intervals = bootstrap(gold, predicted, LABELS, protocol, samples=50, seed=3, confidence=0.9)
    for kind, name in enumerate(("entities", "relations")):
        for rate, rate_name in enumerate(("precision", "recall", "f1")):
            interval = getattr(getattr(intervals, name), rate_name)
            assert interval.value == pytest.approx(getattr(getattr(exact, name), rate_name))
            assert (interval.low, interval.high) == pytest.approx((low[kind, rate], high[kind, rate]))


def test_the_same_seed_gives_the_same_intervals() -> None:
    gold, predicted = documents(20, seed=1), documents(20, seed=2)
    assert bootstrap(gold, predicted, LABELS, seed=5) == bootstrap(iter(gold), iter(predicted), LABELS, seed=5)
    assert bootstrap(gold, predicted, LABELS, seed=5) != bootstrap(gold, predicted, LABELS, seed=6)


def test_perfect_predictions_leave_no_doubt() -> None:
    gold = documents(20, seed=1)
    assert bootstrap(gold, gold, LABELS, Protocol(symmetric="once")).entities.f1 == Interval(1, 1, 1)


def test_about_95_percent_of_the_intervals_hold_the_true_recall() -> None:
    # Each document is found or lost with probability one half, so the true recall is 0.5.
    held = 0
    gold = documents(60, seed=0)
    for trial in range(100):
        rng = random.Random(trial)
        predicted = [document if rng.random() < 0.5 else document.bare for document in gold]
        recall = bootstrap(gold, predicted, LABELS, samples=200, seed=trial).entities.recall
        held += recall.low <= 0.5 <= recall.high
    assert 85 <= held <= 100


def test_the_difference_is_what_the_second_system_scores_above_the_first() -> None:
    gold = documents(40, seed=1)
    first, second = spoilt(gold, 2), spoilt(gold, 4)
    comparison = paired_bootstrap(iter(gold), iter(first), iter(second), LABELS)
    expected = score(gold, second, LABELS).entities.f1 - score(gold, first, LABELS).entities.f1
    assert comparison.entities.f1.value == pytest.approx(expected)
    assert 0 < comparison.entities.f1.low < expected < comparison.entities.f1.high
    assert comparison.entities.p_value < 0.01


def test_swapping_the_systems_mirrors_the_difference_and_keeps_the_p_value() -> None:
    gold = documents(15, seed=1)
    first, second = documents(15, seed=2), documents(15, seed=3)
    there, back = paired_bootstrap(gold, first, second, LABELS), paired_bootstrap(gold, second, first, LABELS)
    assert there.relations.p_value == back.relations.p_value
    assert there.relations.f1.low == pytest.approx(-back.relations.f1.high)
    assert there.relations.f1.value == pytest.approx(-back.relations.f1.value)


def test_a_system_does_not_differ_from_itself() -> None:
    gold, predicted = documents(10, seed=1), documents(10, seed=2)
    comparison = paired_bootstrap(gold, predicted, predicted, LABELS)
    assert comparison.relations.f1 == Interval(0, 0, 0)
    assert comparison.relations.p_value == 1


def test_systems_are_drawn_in_pairs() -> None:
    # The second system is the first with one more document lost: never better, however the documents fall.
    gold = documents(10, seed=1)
    first = spoilt(gold, 3)
    second = [gold[0].bare if i == 1 else document for i, document in enumerate(first)]
    assert paired_bootstrap(gold, first, second, LABELS).entities.f1.high <= 0


def test_results_print_in_one_line_and_become_plain_json() -> None:
    gold = documents(10, seed=1)
    intervals = bootstrap(gold, gold, LABELS, Protocol(symmetric="as-annotated"), confidence=0.9)
    line = "Ent 100.0 [100.0, 100.0]  Rel 100.0 [100.0, 100.0]  [strict, as-annotated, micro; 90% confidence]"
    assert str(intervals) == line
    data = json.loads(json.dumps(intervals.to_dict()))
    assert data["entities"]["recall"] == {"value": 1, "low": 1, "high": 1}
    assert data["protocol"]["name"] == "strict, as-annotated, micro"
    comparison = paired_bootstrap(gold, gold, gold, LABELS)
    line = "Ent 0.0 [0.0, 0.0] (p = 1.000)  Rel 0.0 [0.0, 0.0] (p = 1.000)  [strict, doubled, micro; 95% confidence]"
    assert str(comparison) == line
    assert json.loads(json.dumps(comparison.to_dict()))["relations"]["p_value"] == 1


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_documents_cannot_be_resampled(n: int) -> None:
    gold = documents(n, seed=1)
    with pytest.raises(UnireError, match=f"at least 2 documents, not {n}"):
        bootstrap(gold, gold, LABELS)


@pytest.mark.parametrize(
    ("settings", "message"), [({"samples": 0}, "at least 1 sample, not 0"), ({"confidence": 95}, "between 0 and 1")]
)
def test_senseless_settings_are_refused(settings: dict[str, int], message: str) -> None:
    gold = documents(2, seed=1)
    with pytest.raises(UnireError, match=message):
        bootstrap(gold, gold, LABELS, **settings)  # type: ignore[arg-type]
