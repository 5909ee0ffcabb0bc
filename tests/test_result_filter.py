"""Filters of results: by score, by type, and relations that lose an argument."""

from __future__ import annotations

import pytest

from unire.calibration import Calibration
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.result_filter import ResultFilter

LABELS = LabelSpace(("Method", "Task", "Both"), ("USED-FOR", "Both"))
DOCUMENT = Document.from_words(
    [["a", "b", "c", "d"]],
    entities=[(0, 1, "Method", 0.9), (1, 2, "Method", 0.4), (2, 3, "Task", 0.8), (3, 4, "Both")],
    relations=[(0, 2, "USED-FOR", 0.7), (0, 1, "USED-FOR", 0.6), (0, 3, "Both"), (2, 0, "Both", 0.3)],
)


def kept(types=None, min_score=0.0, **names) -> tuple[str, list[str]]:
    document = ResultFilter.build(LABELS, min_score, types, **names)(DOCUMENT)
    assert document.text == DOCUMENT.text
    pairs = [f"{r.head.text}{r.tail.text} {r.label}" for r in document.relations]
    return "".join(entity.text for entity in document.entities), pairs


def test_types_of_entities_drop_other_entities_and_their_relations():
    assert kept("Method") == ("ab", ["ab USED-FOR"])
    assert kept("Method,Task") == ("abc", ["ac USED-FOR", "ab USED-FOR", "ca Both"])


def test_types_of_relations_drop_other_relations_and_no_entity():
    assert kept("USED-FOR") == ("abcd", ["ac USED-FOR", "ab USED-FOR"])


def test_types_of_both_kinds_restrict_both():
    assert kept(["Method", "Task", "USED-FOR"]) == ("abc", ["ac USED-FOR", "ab USED-FOR"])


def test_a_name_that_both_kinds_have_restricts_both():
    assert kept(["Both"]) == ("d", [])
    assert kept(["Both", "Method"]) == ("abd", ["ad Both"])


def test_names_may_be_separated_by_commas_and_spaces():
    assert kept(" Method , USED-FOR ") == kept(["Method", "USED-FOR"]) == kept(iter(["USED-FOR", "Method"]))


def test_scores_and_types_are_combined():
    assert kept("Method,Task", min_score=0.5) == ("ac", ["ac USED-FOR"])


def test_a_filter_that_keeps_everything_returns_the_same_document():
    assert ResultFilter.build(LABELS)(DOCUMENT) is DOCUMENT
    assert ResultFilter.build(LABELS, types=("Method", "Task", "Both", "USED-FOR"))(DOCUMENT) == DOCUMENT


def test_the_types_of_a_filter_do_not_depend_on_their_order():
    types = {"entities": ["Method"], "relations": ["USED-FOR"], "arguments only": False}
    assert ResultFilter.build(LABELS, types="USED-FOR,Method").types == types
    assert ResultFilter.build(LABELS, types="Method,USED-FOR") == ResultFilter.build(LABELS, types="USED-FOR,Method")
    assert ResultFilter.build(LABELS).types is None


def test_relations_keep_their_arguments_and_nothing_else():
    assert kept(relations="Both") == ("acd", ["ad Both", "ca Both"])
    assert kept(relations=["Both"], min_score=0.5) == ("ad", ["ad Both"])
    assert kept(relations="USED-FOR,Both") == ("abcd", ["ac USED-FOR", "ab USED-FOR", "ad Both", "ca Both"])


def test_entities_stay_without_a_relation_and_restrict_the_arguments():
    assert kept(entities="Task,Both") == ("cd", [])
    assert kept(entities=["Method"]) == ("ab", ["ab USED-FOR"])
    assert kept(entities="Method,Task", relations="Both") == ("abc", ["ca Both"])
    assert kept(entities="Method", relations="Both") == ("ab", [])


def test_a_filter_distinguishes_entity_and_relation_types_of_one_name():
    assert kept(entities="Both") == ("d", [])
    assert kept(entities="Both,Method", relations="Both") == ("abd", ["ad Both"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"entities": "USED-FOR"},
            r"^entities=\.\.\. names 'USED-FOR', which the model does not have; the entity types ",
        ),
        (
            {"relations": "USED-FOR,Task"},
            r"^relations=\.\.\. names 'Task', which .*the relation types are USED-FOR, Both$",
        ),
        ({"relations": []}, r"^relations=\.\.\. names no relation type; the entity types are "),
        ({"entities": "Method", "types": "Task"}, r"^types=\.\.\. names types of both kinds; leave it out beside "),
    ],
)
def test_wrong_names_of_one_kind_are_refused(names, message):
    with pytest.raises(UnireError, match=message):
        ResultFilter.build(LABELS, **names)


@pytest.mark.parametrize("types", ["", " , ", []])
def test_an_empty_list_of_types_is_refused(types):
    with pytest.raises(UnireError, match=r"^types=\.\.\. names no type; the entity types are Method, Task, Both; "):
        ResultFilter.build(LABELS, types=types)


def test_an_unknown_type_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UnireError) as caught:
        ResultFilter.build(LABELS, types="Method,method")
    assert str(caught.value) == (
        "types=... names 'method', which the model does not have; the entity types are Method, Task, Both; "
        "the relation types are USED-FOR, Both"
    )
    with pytest.raises(UnireError, match="the relation types are none"):
        ResultFilter.build(LabelSpace(("A",)), types="B")


def test_clusters_keep_the_mentions_that_are_kept():
    words = [["Ada", "met", "Bob", ".", "She", "and", "he", "left"]]
    entities = [(0, 1, "Peop", 0.9), (2, 3, "Peop", 0.9), (4, 5, "Peop", 0.9), (6, 7, "Peop", 0.1)]
    document = Document.from_words(words, entities, clusters=[[(0, 1), (4, 5)], [(2, 3), (6, 7)]])
    assert ResultFilter(0.5)(document).clusters == (((0, 1), (4, 5)),)
    assert ResultFilter()(document).clusters == document.clusters


def test_auto_stands_for_the_recommended_score_of_every_type():
    recommended = Calibration(
        entity_min_scores={"Method": 0.5, "Task": 0.7, "Both": 0.9},
        relation_min_scores={"USED-FOR": 0.65, "Both": 0.2},
    )
    keep = ResultFilter.build(LABELS, "auto", calibration=recommended)
    document = keep(DOCUMENT)
    assert "".join(entity.text for entity in document.entities) == "acd"
    assert [f"{r.head.text}{r.tail.text}" for r in document.relations] == ["ac", "ad", "ca"]
    assert keep.scores_below(DOCUMENT) == [0.4, 0.6]
    only = ResultFilter.build(LABELS, "auto", entities=["Task"], calibration=recommended)
    assert "".join(entity.text for entity in only(DOCUMENT).entities) == "c"


def test_auto_needs_recommended_scores():
    for calibration in (None, Calibration()):
        with pytest.raises(UnireError, match="the model recommends no scores; give min_score a number"):
            ResultFilter.build(LABELS, "auto", calibration=calibration)


def test_the_scores_that_are_dropped_are_those_of_the_types_that_are_kept():
    assert ResultFilter(0.95).scores_below(DOCUMENT) == [0.9, 0.4, 0.8, 0.7, 0.6, 0.3]
    assert ResultFilter.build(LABELS, 0.75, entities=["Method"], relations=["Both"]).scores_below(DOCUMENT) == [
        0.4,
        0.3,
    ]
