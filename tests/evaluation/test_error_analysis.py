"""Every gold relation is correct or wrong in exactly one of five ways."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire.documents import Document
from unire.evaluation.error_analysis import ERROR_KINDS, diagnose
from unire.evaluation.scorer import score
from unire.labels import LabelSpace

LABELS = LabelSpace(("Task", "Method"), ("Used-for", "Compare"), frozenset({"Compare"}))
WORDS = [["we", "parse", "with", "large", "tables", "and", "graphs"], ["graphs", "lose"]]
GOLD = Document.from_words(
    WORDS, [(1, 2, "Task"), (3, 5, "Method"), (6, 7, "Method")], [(1, 0, "Used-for"), (1, 2, "Compare")]
)


def kinds(entities, relations=()):
    """What became of Used-for, of Compare, and of Compare the other way round."""
    predicted = Document.from_words(WORDS, entities, relations)
    return [diagnosis.kind for diagnosis in diagnose(GOLD, predicted, LABELS)]


@pytest.mark.parametrize(
    ("entities", "relations", "expected"),
    [
        ([(1, 2, "Task"), (3, 5, "Method")], [(1, 0, "Used-for")], "correct"),
        ([(1, 2, "Task"), (4, 5, "Method")], [(1, 0, "Used-for")], "span splitting"),
        ([(4, 6, "Method")], [], "span splitting"),  # the other argument is not found: this comes first
        ([(1, 2, "Task"), (6, 7, "Method")], [], "entity not found"),
        ([(1, 2, "Method")], [], "entity not found"),
        ([(1, 2, "Task"), (3, 5, "Task")], [(1, 0, "Used-for")], "entity type"),
        ([(1, 2, "Task"), (3, 5, "Method")], [], "relation not found"),
        ([(1, 2, "Task"), (3, 5, "Method")], [(0, 1, "Used-for")], "relation not found"),  # the wrong way round
        ([(1, 2, "Task"), (3, 5, "Method")], [(1, 0, "Compare")], "relation type"),
    ],
)
def test_the_first_kind_that_holds_is_the_kind(entities, relations, expected):
    assert kinds(entities, relations)[0] == expected


def test_a_symmetric_relation_is_looked_for_in_both_directions():
    assert kinds([(3, 5, "Method"), (6, 7, "Method")], [(0, 1, "Compare")])[1:] == ["correct", "relation not found"]


def test_a_relation_across_sentences_belongs_to_none():
    gold = Document.from_words(WORDS, [(1, 2, "Task"), (7, 8, "Method")], [(1, 0, "Used-for")])
    (found,) = diagnose(gold, gold.bare, LABELS)
    assert (found.sentence, found.kind) == (None, "entity not found")


@st.composite
def annotated(draw):
    """The words with any annotation: overlapping, repeated, across sentences."""
    spans = st.tuples(st.integers(0, 8), st.integers(1, 3), st.sampled_from(LABELS.entity_types))
    entities = [(start, min(start + size, 9), label) for start, size, label in draw(st.lists(spans, max_size=5))]
    place = st.integers(0, max(len(entities) - 1, 0))
    pairs = st.lists(st.tuples(place, place, st.sampled_from(LABELS.relation_types)), max_size=6)
    return Document.from_words(WORDS, entities, draw(pairs) if entities else [])


@given(annotated(), annotated())
def test_on_every_sentence_errors_and_correct_ones_are_the_gold_relations(gold, predicted):
    """As the scorer counts them: the same gold, and the same that are right."""
    found = list(diagnose(gold, predicted, LABELS))
    scores = score([gold], [predicted], LABELS).relations.total
    assert Counter(diagnosis.kind == "correct" for diagnosis in found)[True] == scores.true_positives
    assert len(found) == scores.gold
    for position, sentence in enumerate(gold.sentences):
        alone = gold.annotated(sentence.entities, sentence.relations)
        counts = Counter(diagnosis.kind for diagnosis in found if diagnosis.sentence == position)
        expected = score([alone], [predicted], LABELS).relations.total
        assert counts["correct"] == expected.true_positives
        assert counts["correct"] + sum(counts[kind] for kind in ERROR_KINDS) == expected.gold
