from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.paths import FIXTURES
from unire import formats, tables
from unire.analysis.statistics import Statistics
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

SCIERC = LabelSpace.load("scierc")
LABELS = LabelSpace(("A", "B"), ("A", "S"), frozenset({"S"}))


def of(
    sentences: list[list[str]], entities: list[tuple[int, int, str]], relations: list[tuple[int, int, str]]
) -> Statistics:
    return Statistics.from_documents([Document.from_words(sentences, entities, relations)], LABELS)


def test_a_document_is_counted() -> None:
    found = of([["w"] * 4, [], ["w"] * 2], [(0, 2, "A"), (3, 4, "B"), (4, 5, "B")], [(0, 1, "S"), (0, 2, "A")])
    assert found.to_dict() == {
        "documents": 1,
        "sentences": 3,
        "words": 6,
        "longest_sentence": 4,
        "entities": 3,
        "relations": 2,
        "relations_doubled": 3,
        "overlapping_entities": 0,
        "entity_types": {"A": 1, "B": 2},
        "relation_types": {"A": 1, "S": 1},
        "doubled_types": {"A": 1, "S": 2},
        "sentence_lengths": {0: 1, 2: 1, 4: 1},
        "entity_lengths": {1: 2, 2: 1},
        "unheld": {tables.ACROSS: 1},
        "cells": {"empty": 10, "entity_types": {"A": 4, "B": 2}, "relation_types": {"A": 0, "S": 4}},
    }
    assert found.cells == 4 * 4 + 2 * 2
    json.dumps(found.to_dict())


def test_a_mirror_that_is_annotated_itself_is_not_counted_again() -> None:
    entities = [(0, 1, "A"), (1, 2, "B")]
    assert of([["a", "b"]], entities, [(0, 1, "S"), (1, 0, "S")]).relations_doubled == 2
    assert of([["a", "b"]], entities, [(0, 1, "S"), (0, 1, "S")]).relations_doubled == 4
    assert of([["a", "b"]], entities, [(0, 1, "A"), (1, 0, "S")]).relations_doubled == 3
    assert of([["a", "b"]], entities, [(0, 0, "S")]).relations_doubled == 1


def test_entities_overlap_when_they_share_a_word_and_a_repeated_one_is_no_other() -> None:
    assert of([["w"] * 4], [(0, 3, "A"), (1, 2, "B"), (3, 4, "B")], []).overlapping_entities == 2
    assert of([["w"] * 4], [(0, 1, "A"), (0, 1, "B")], []).overlapping_entities == 2
    assert of([["w"] * 4], [(0, 1, "A"), (0, 1, "A")], []).overlapping_entities == 0
    assert of([["w"], ["w"]], [(0, 2, "A"), (1, 2, "B")], []).overlapping_entities == 2


def test_annotation_that_tables_cannot_hold_is_counted_by_reason() -> None:
    found = Statistics.from_documents(formats.read(FIXTURES / "overlaps.jsonl"), SCIERC)
    assert found.unheld == {tables.OVERLAP: 3, tables.NO_ARGUMENT: 2}
    assert found.overlapping_entities == 6


def test_a_name_of_both_kinds_is_counted_apart() -> None:
    found = Statistics.from_documents(formats.read(FIXTURES / "ade.json"), LabelSpace.load("ade"))
    assert found.entity_types == {"Adverse-Effect": 4, "Drug": 4}
    assert found.relation_types == {"Adverse-Effect": 5}
    assert (found.entity_cells["Adverse-Effect"], found.relation_cells["Adverse-Effect"]) == (10, 4)


def test_the_statistics_of_parts_add_up_to_those_of_the_whole() -> None:
    documents = [*formats.read(FIXTURES / "twenty.jsonl"), *formats.read(FIXTURES / "overlaps.jsonl")]
    parts = [Statistics.from_documents([document], SCIERC) for document in documents]
    assert sum(parts, Statistics()) == Statistics.from_documents(documents, SCIERC)


def test_statistics_without_documents_have_a_zero_for_every_type() -> None:
    found = Statistics.from_documents([], LABELS)
    assert found.entity_types == {"A": 0, "B": 0}
    assert (found + found).relation_types == {"A": 0, "S": 0}
    assert (found.documents, found.cells, found.longest_sentence) == (0, 0, 0)


def test_an_unknown_type_is_refused_by_document() -> None:
    with pytest.raises(UnireError, match="document 'x': unknown entity type 'C'"):
        Statistics.from_documents([Document.from_words([["a"]], [(0, 1, "C")], id="x")], LABELS)


def test_scierc_has_the_numbers_of_the_paper(data_folder: Path) -> None:
    folder = data_folder / "scierc"
    splits = [
        Statistics.from_documents(formats.read(folder / f"{name}.json"), SCIERC) for name in ("train", "dev", "test")
    ]
    assert [(s.documents, s.sentences, s.entities, s.relations) for s in splits] == [
        (350, 1861, 5598, 3219),
        (50, 275, 811, 455),
        (100, 551, 1685, 974),
    ]
    whole = sum(splits, Statistics())
    assert (whole.sentences, whole.entities, whole.relations, whole.relations_doubled) == (2687, 8094, 4648, 5463)
    assert (whole.overlapping_entities, whole.longest_sentence) == (165, 101)
