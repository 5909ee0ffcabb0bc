"""Coreference scores against the examples that are worked out in the papers that define them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.coreference import CoreferenceScores, max_assignment, score_clusters, score_coreference

BAGGA_KEY = ["12345", "67", "89ABC"]
"""Bagga and Baldwin (1998), figures 1 and 2; Luo (2005), table 1."""


def rates(metric):
    return pytest.approx((metric.precision, metric.recall), abs=1e-9)


def test_the_example_of_the_reference_scorer():
    """Pradhan et al. (2014), section 4: spurious, missing and mixed mentions."""
    scores = score_clusters(["abc", "defg"], ["ab", "cd", "fghi"])
    assert rates(scores.muc) == (2 / 5, 2 / 5)
    assert rates(scores.b_cubed) == (1 / 2, 35 / 12 / 7)
    assert rates(scores.ceaf) == (1.3 / 3, 1.3 / 2)
    assert round(scores.b_cubed.f1, 2) == 0.45
    assert round(scores.ceaf.f1, 2) == 0.52
    assert scores.f1 == pytest.approx((scores.muc.f1 + scores.b_cubed.f1 + scores.ceaf.f1) / 3)


@pytest.mark.parametrize(
    ("response", "b_cubed_precision", "muc", "b_cubed", "ceaf"),
    [
        (["12345", "6789ABC"], 0.762, 0.947, 0.865, 0.733),
        (["1234589ABC", "67"], 0.583, 0.947, 0.737, 0.667),
        (["123456789ABC"], 0.375, 0.900, 0.545, 0.294),
    ],
)
def test_the_examples_of_bagga_and_baldwin_and_of_luo(response, b_cubed_precision, muc, b_cubed, ceaf):
    scores = score_clusters(BAGGA_KEY, response)
    assert round(scores.b_cubed.precision, 3) == b_cubed_precision
    assert scores.b_cubed.recall == 1
    assert [round(metric.f1, 3) for metric in (scores.muc, scores.b_cubed, scores.ceaf)] == [muc, b_cubed, ceaf]


@pytest.mark.parametrize(
    ("key", "response", "precision", "recall"),
    [
        (["ABCD"], ["AB", "CD"], 1, 2 / 3),
        (["AB", "CD"], ["ABCD"], 2 / 3, 1),
        (["ABCD"], ["ABCD"], 1, 1),
        (["ABC"], ["AC"], 1, 1 / 2),
        (["BC", "CD"], ["AB"], 0, 0),
    ],
)
def test_the_links_of_vilain(key, response, precision, recall):
    assert rates(score_clusters(key, response).muc) == (precision, recall)


def test_clusters_of_one_mention_are_left_out_on_both_sides():
    assert score_clusters(["abc", "d"], ["ab", "c", "e"]) == score_clusters(["abc"], ["ab"])
    assert score_clusters(["a"], ["b"]) == CoreferenceScores()


def test_without_predictions_or_without_gold_all_rates_are_zero():
    for scores in (score_clusters(["ab"], []), score_clusters([], ["ab"]), score_clusters([], [])):
        assert scores.f1 == 0
        assert {metric.f1 for metric in scores.rows.values()} == {0}


def test_documents_add_up():
    """The scores of two documents are those of one document with the clusters of both."""
    first, second = (["abc", "defg"], ["ab", "cd", "fghi"]), (["vw", "xyz"], ["vwx"])
    together = score_clusters(first[0] + second[0], first[1] + second[1])
    total = score_clusters(*first) + score_clusters(*second)
    for one, other in zip(total.rows.values(), together.rows.values(), strict=True):
        assert rates(one) == (other.precision, other.recall)


@given(st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_assignment_is_the_best_of_all(n_rows, n_columns, random):
    weights = np.array([[random.choice([0, 0.25, 0.5, 1]) for _ in range(n_columns)] for _ in range(n_rows)])
    shorter = weights if n_rows <= n_columns else weights.T
    best = max(
        sum(shorter[row, column] for row, column in enumerate(columns))
        for columns in permutations(range(shorter.shape[1]), len(shorter))
    )
    assert max_assignment(weights) == pytest.approx(best)


def with_clusters(*clusters: list[tuple[int, int]], id: str = "a") -> Document:
    return Document.from_words([["Ada", "Lovelace", "wrote", "."], ["She", "won", "."]], id=id, clusters=clusters)


def test_documents_are_compared_by_words_or_by_characters():
    gold = with_clusters([(0, 2), (4, 5)])
    for spans in ("words", "characters"):
        assert score_coreference([gold], [gold], spans).f1 == 1
        assert score_coreference([gold], [with_clusters([(0, 1), (4, 5)])], spans).muc.recall == 0
    other = Document.from_words(
        [["Ada Lovelace", "wrote", "."], ["She", "won", "."]], id="a", clusters=[[(0, 1), (3, 4)]]
    )
    assert score_coreference([gold], [other], "characters").f1 == 1


def test_documents_are_paired_by_their_ids():
    one, two = with_clusters([(0, 2), (4, 5)], id="one"), with_clusters(id="two")
    assert score_coreference([one, two], [two, one]).f1 == 1
    with pytest.raises(UnireError, match="two"):
        score_coreference([one, two], [one])
