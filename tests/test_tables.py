from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.paths import FIXTURES
from unire import formats, tables
from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace
from unire.tables import FilledTable

# `A` is an entity type and a relation type; `S` is symmetric.
LABELS = LabelSpace(("A", "B"), ("A", "S"), frozenset({"S"}))
A, B = LABELS.entity_id("A"), LABELS.entity_id("B")
RA, RS = LABELS.relation_id("A"), LABELS.relation_id("S")

EntityItem = tuple[int, int, str]
RelationItem = tuple[int, int, str]


def fill(n: int, entities: list[EntityItem], relations: list[RelationItem] | None = None) -> FilledTable:
    document = Document.from_words([["w"] * n])
    found = [document.entity(*entity) for entity in entities]
    linked = [Relation(found[head], found[tail], label) for head, tail, label in relations or []]
    return tables.fill_table(found, linked, LABELS, 0, n)


def reasons(table: FilledTable) -> list[str]:
    return [reason for _, reason in table.omitted]


def test_an_entity_is_a_square_and_a_relation_a_rectangle() -> None:
    table = fill(4, [(0, 2, "A"), (3, 4, "B")], [(0, 1, "A")])
    assert table.labels.tolist() == [[A, A, 0, RA], [A, A, 0, RA], [0, 0, 0, 0], [0, 0, 0, B]]
    assert table.omitted == ()


def test_a_symmetric_relation_is_a_rectangle_and_its_mirror_image() -> None:
    table = fill(3, [(0, 2, "A"), (2, 3, "B")], [(0, 1, "S")])
    assert table.labels.tolist() == [[A, A, RS], [A, A, RS], [RS, RS, B]]
    assert table.omitted == ()


def test_a_symmetric_relation_annotated_both_ways_is_one_relation_both_ways() -> None:
    once = fill(3, [(0, 2, "A"), (2, 3, "B")], [(0, 1, "S")])
    twice = fill(3, [(0, 2, "A"), (2, 3, "B")], [(0, 1, "S"), (1, 0, "S")])
    assert twice.omitted == ()
    assert np.array_equal(once.labels, twice.labels)


def test_two_directions_may_have_two_labels_if_neither_is_symmetric() -> None:
    labels = LabelSpace(("A",), ("R", "Q"))
    document = Document.from_words([["a", "b"]], [(0, 1, "A"), (1, 2, "A")], [(0, 1, "R"), (1, 0, "Q")])
    table = tables.fill_table(document.entities, document.relations, labels, 0, 2)
    assert table.omitted == ()
    assert table.labels.tolist() == [[1, 2], [3, 1]]


def test_neighbours_of_one_type_stay_apart() -> None:
    table = fill(3, [(0, 1, "A"), (1, 3, "A")])
    assert tables.read_table(table.labels, LABELS) == ([(0, 1, A), (1, 3, A)], [])


def test_neighbours_of_one_type_stay_apart_when_a_relation_of_that_name_joins_them() -> None:
    table = fill(3, [(0, 1, "A"), (1, 3, "A")], [(0, 1, "A")])
    assert tables.read_table(table.labels, LABELS) == ([(0, 1, A), (1, 3, A)], [(0, 1, RA)])


def test_repeating_annotation_loses_nothing_and_is_not_reported() -> None:
    once = fill(3, [(0, 1, "A"), (1, 3, "B")], [(0, 1, "A")])
    twice = fill(3, [(0, 1, "A"), (1, 3, "B"), (0, 1, "A")], [(0, 1, "A"), (2, 1, "A"), (0, 1, "A")])
    assert twice.omitted == ()
    assert np.array_equal(once.labels, twice.labels)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_of_overlapping_entities_the_longest_is_kept(order: list[int]) -> None:
    entities = [(0, 2, "A"), (1, 4, "B")]
    table = fill(4, [entities[i] for i in order])
    assert tables.read_table(table.labels, LABELS)[0] == [(1, 4, B)]
    assert [(omitted.item.label, omitted.reason) for omitted in table.omitted] == [("A", tables.OVERLAP)]


def test_of_equally_long_entities_the_first_is_kept() -> None:
    table = fill(3, [(1, 3, "B"), (0, 2, "A"), (1, 3, "A")])
    assert tables.read_table(table.labels, LABELS)[0] == [(1, 3, B)]
    assert reasons(table) == [tables.OVERLAP, tables.OVERLAP]


def test_a_relation_of_an_entity_that_is_not_held_is_not_held() -> None:
    table = fill(4, [(0, 2, "A"), (0, 1, "B"), (3, 4, "B")], [(1, 2, "A"), (2, 1, "S"), (0, 2, "A")])
    assert reasons(table) == [tables.OVERLAP, tables.NO_ARGUMENT, tables.NO_ARGUMENT]
    assert tables.read_table(table.labels, LABELS)[1] == [(0, 1, RA)]


@pytest.mark.parametrize("second", [(0, 1, "S"), (1, 0, "S")])
def test_of_two_labels_on_a_pair_the_first_is_kept(second: RelationItem) -> None:
    table = fill(2, [(0, 1, "A"), (1, 2, "B")], [(0, 1, "A"), second])
    assert reasons(table) == [tables.TWO_LABELS]
    assert tables.read_table(table.labels, LABELS)[1] == [(0, 1, RA)]


def test_a_relation_from_an_entity_to_itself_is_not_held() -> None:
    table = fill(2, [(0, 2, "A")], [(0, 0, "A")])
    assert reasons(table) == [tables.REFLEXIVE]
    assert table.labels.tolist() == [[A, A], [A, A]]


def test_an_entity_beyond_the_table_is_not_held() -> None:
    document = Document.from_words([["w"] * 6], [(1, 3, "A"), (2, 4, "B"), (5, 6, "A"), (4, 6, "A")], [(1, 3, "A")])
    table = tables.fill_table(document.entities, document.relations, LABELS, 2, 5)
    assert reasons(table) == [tables.OUTSIDE, tables.OUTSIDE, tables.OUTSIDE, tables.NO_ARGUMENT]
    assert tables.read_table(table.labels, LABELS)[0] == [(0, 2, B)]


def test_a_table_of_no_words_is_empty() -> None:
    table = fill(0, [])
    assert table.labels.shape == (0, 0)
    assert tables.read_table(table.labels, LABELS) == ([], [])


def test_annotation_across_sentences_is_reported() -> None:
    document = Document.from_words([["a"], ["b"]], [(0, 2, "A"), (0, 1, "A"), (1, 2, "B")], [(1, 2, "A")])
    assert [reason for _, reason in tables.list_spanning(document)] == [tables.OUTSIDE, tables.ACROSS]


@st.composite
def annotation(draw: st.DrawFn) -> tuple[int, list[EntityItem], list[RelationItem]]:
    """Any annotation: repeated, nested, crossing, reflexive, with several labels on a pair."""
    n = draw(st.integers(1, 8))
    ends = st.tuples(st.integers(0, n - 1), st.integers(1, 4)).map(lambda pair: (pair[0], min(n, sum(pair))))
    entities = [(*draw(ends), draw(st.sampled_from(LABELS.entity_types))) for _ in range(draw(st.integers(1, 6)))]
    argument = st.integers(0, len(entities) - 1)
    relations = draw(st.lists(st.tuples(argument, argument, st.sampled_from(LABELS.relation_types)), max_size=8))
    return n, entities, relations


@given(annotation())
def test_reading_a_table_gives_all_the_annotation_but_what_was_reported(
    drawn: tuple[int, list[EntityItem], list[RelationItem]],
) -> None:
    n, entities, relations = drawn
    table = fill(n, entities, relations)
    lost = [omitted.item for omitted in table.omitted]
    held = set(entities) - {(*e.span, e.label) for e in lost if isinstance(e, Entity)}
    linked = {(entities[head], entities[tail], label) for head, tail, label in relations}
    linked -= {
        ((*r.head.span, r.head.label), (*r.tail.span, r.tail.label), r.label) for r in lost if isinstance(r, Relation)
    }
    linked |= {(tail, head, label) for head, tail, label in linked if label in LABELS.symmetric}

    read_entities, read_relations = tables.read_table(table.labels, LABELS)
    items = [(start, end, LABELS.names[label]) for start, end, label in read_entities]
    assert items == sorted(held)
    assert {(items[head], items[tail], LABELS.names[label]) for head, tail, label in read_relations} == linked
    assert len(read_relations) == len(linked)


@given(annotation(), st.data())
def test_the_parts_of_a_split_sentence_hold_or_report_everything_once(
    drawn: tuple[int, list[EntityItem], list[RelationItem]], data: st.DataObject
) -> None:
    n, entities, relations = drawn
    (sentence,) = Document.from_words([["w"] * n], entities, relations).sentences
    cut = data.draw(st.integers(0, n))
    found: set[EntityItem] = set()
    lost: list[Entity | Relation] = []
    linked = 0
    for start, end in ((0, cut), (cut, n)):
        table = tables.fill_sentence(sentence, LABELS, start, end)
        lost += [item for item, _ in table.omitted]
        held, pairs = tables.read_table(table.labels, LABELS)
        found |= {(start + s, start + e, LABELS.names[label]) for s, e, label in held}
        linked += len(pairs)
    lost_entities = [(*item.span, item.label) for item in lost if isinstance(item, Entity)]
    assert found | set(lost_entities) == set(entities)
    assert found.isdisjoint(lost_entities)
    assert sum(item in found for item in entities) + len(lost_entities) == len(entities)
    lost_relations = [item for item in lost if isinstance(item, Relation)]
    kept = [r for r in sentence.relations if r not in lost_relations]
    assert len(kept) + len(lost_relations) == len(relations)
    directions = {(r.head.span, r.tail.span, r.label) for r in kept}
    directions |= {(tail, head, label) for head, tail, label in directions if label in LABELS.symmetric}
    assert linked == len(directions)


@given(annotation())
def test_an_entity_is_lost_only_to_a_held_one_that_is_at_least_as_long(
    drawn: tuple[int, list[EntityItem], list[RelationItem]],
) -> None:
    table = fill(*drawn)
    held, _ = tables.read_table(table.labels, LABELS)
    for start, end in (item.span for item, _ in table.omitted if isinstance(item, Entity)):
        assert any(s < end and start < e and e - s >= end - start for s, e, _ in held)


@pytest.mark.parametrize(
    ("name", "labels"), [("twenty.jsonl", "scierc"), ("people.json", "conll04")], ids=["scierc", "conll04"]
)
def test_the_tables_of_a_data_set_without_overlaps_hold_all_of_it(name: str, labels: str) -> None:
    space = LabelSpace.load(labels)
    for document in formats.read(FIXTURES / name):
        for sentence in document.sentences:
            table = tables.fill_sentence(sentence, space)
            assert table.omitted == ()
            entities, relations = tables.read_table(table.labels, space)
            spans = [(sentence.start + start, sentence.start + end) for start, end, _ in entities]
            assert [(*span, space.names[e[2]]) for span, e in zip(spans, entities, strict=True)] == [
                (*entity.span, entity.label) for entity in sentence.entities
            ]
            expected = {(r.head.span, r.tail.span, r.label) for r in sentence.relations}
            expected |= {(tail, head, label) for head, tail, label in expected if label in space.symmetric}
            assert {(spans[h], spans[t], space.names[label]) for h, t, label in relations} == expected


def test_of_overlapping_entities_the_longest_stay_and_of_equally_long_ones_the_first() -> None:
    spans = [(4, 6), (0, 2), (1, 3), (5, 9), (9, 10), (0, 2)]
    document = Document.from_words([["w"] * 10], [(*span, "X") for span in spans])
    assert [entity.span for entity in tables.keep_longest(document.entities)] == [(0, 2), (5, 9), (9, 10)]
    assert tables.keep_longest([]) == []
