from __future__ import annotations

import json
from pathlib import Path

import pytest

from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

ADE = LabelSpace(("Adverse-Effect", "Drug"), ("Adverse-Effect",))


def test_ids_are_none_then_entities_then_relations() -> None:
    space = LabelSpace(("B", "A"), ("R", "S"), frozenset({"S"}))
    assert space.names == ("⊥", "B", "A", "R", "S")
    assert len(space) == 5
    assert space.names[space.NONE] == "⊥"
    assert space.names[space.entity_ids] == ("B", "A")
    assert space.names[space.relation_ids] == ("R", "S")
    assert [space.entity_id("A"), space.relation_id("S")] == [2, 4]


def test_symmetric_ids_are_the_entity_types_and_the_symmetric_relations() -> None:
    assert LabelSpace(("A", "B"), ("R", "S"), frozenset({"S"})).symmetric_ids == (1, 2, 4)


def test_an_entity_type_and_a_relation_type_may_share_a_name() -> None:
    assert ADE.entity_id("Adverse-Effect") == 1
    assert ADE.relation_id("Adverse-Effect") == 3


def test_types_are_learnt_in_alphabetical_order_and_symmetry_is_given() -> None:
    document = Document.from_words([["a", "b"]], [(0, 1, "Z"), (1, 2, "Y")], [(0, 1, "R"), (1, 0, "Q")])
    assert LabelSpace.learn([document], ["R"]) == LabelSpace(("Y", "Z"), ("Q", "R"), frozenset({"R"}))


def test_types_are_learnt_from_what_crosses_sentences_too() -> None:
    document = Document.from_words([["a"], ["b"]], [(0, 2, "Long"), (0, 1, "A")], [(0, 1, "R")])
    assert LabelSpace.learn([document]) == LabelSpace(("A", "Long"), ("R",))


def test_the_papers_label_spaces_are_built_in() -> None:
    assert LabelSpace.built_in() == ("ace04", "ace05", "ade", "conll04", "scierc")
    sizes = {name: LabelSpace.load(name) for name in LabelSpace.built_in()}
    assert {name: (len(s.entity_types), len(s.relation_types)) for name, s in sizes.items()} == {
        "ace04": (7, 6),
        "ace05": (7, 6),
        "ade": (2, 1),
        "conll04": (4, 5),
        "scierc": (6, 7),
    }
    assert {name: sorted(s.symmetric) for name, s in sizes.items() if s.symmetric} == {
        "ace04": ["PER-SOC"],
        "ace05": ["PER-SOC"],
        "scierc": ["COMPARE", "CONJUNCTION"],
    }


def test_a_saved_label_space_is_loaded_from_its_file_or_its_folder(tmp_path: Path) -> None:
    space = LabelSpace(("A",), ("R", "S"), frozenset({"S"}))
    (tmp_path / "labels.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")
    assert LabelSpace.load(tmp_path / "labels.json") == space
    assert LabelSpace.load(tmp_path) == space


def test_a_file_may_leave_out_relations() -> None:
    assert LabelSpace.from_dict({"entity_types": ["A"]}) == LabelSpace(("A",))


def test_a_missing_label_space_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnireError, match="unknown label space 'sciERC'; give one of ace04, ace05, ade, conll04"):
        LabelSpace.load("sciERC")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "cannot be read"),
        ("[]", "is a JSON object with"),
        ("{}", "is a JSON object with"),
        ('{"entity_types": "A"}', '"entity_types" of a label space must be a list of names'),
        ('{"entity_types": ["A"], "relation_types": [1]}', '"relation_types" of a label space must be'),
        ('{"entity_types": ["A", "A"]}', "names the entity type 'A' twice"),
        ('{"entity_types": ["A"], "relation_types": ["R", "R"]}', "names the relation type 'R' twice"),
        ('{"entity_types": ["A"], "symmetric": ["R"]}', "'R' is not a relation type of the label space; it has none"),
    ],
)
def test_a_broken_label_space_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "labels.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UnireError, match=reason):
        LabelSpace.load(path)


def test_an_unknown_type_is_refused_by_document_and_name() -> None:
    ok = Document.from_words([["a", "b"]], [(0, 1, "Drug"), (1, 2, "Drug")], [(0, 1, "Adverse-Effect")], id="ok")
    entity = Document.from_words([["a"]], [(0, 1, "Drugs")], id="e")
    relation = Document.from_words([["a", "b"]], [(0, 1, "Drug"), (1, 2, "Drug")], [(0, 1, "Drug")], id="r")
    ADE.check([ok])
    with pytest.raises(UnireError, match=r"document 'e': unknown entity type 'Drugs'; .* Adverse-Effect, Drug"):
        ADE.check([ok, entity])
    with pytest.raises(UnireError, match=r"document 'r': unknown relation type 'Drug'; .* Adverse-Effect"):
        ADE.check([ok, relation])


def test_an_empty_space_says_that_it_has_none() -> None:
    with pytest.raises(
        UnireError, match="unknown entity type 'A'; the label space has none; correct the name, or use another"
    ):
        LabelSpace(()).entity_id("A")


def test_a_symmetric_relation_goes_both_ways_and_any_other_one_way() -> None:
    labels = LabelSpace(("X",), ("R", "S"), frozenset({"S"}))
    assert labels.directions("R", 1, 2) == [(1, 2)]
    assert labels.directions("S", 1, 2) == [(1, 2), (2, 1)]


def test_generic_types_are_part_of_a_label_space_but_not_of_its_tables():
    space = LabelSpace(("Method", "Generic"), generic=frozenset({"Generic"}))
    assert LabelSpace.from_dict(space.to_dict()).generic == {"Generic"}
    assert space == LabelSpace(("Method", "Generic"))
    assert "generic" not in LabelSpace(("Method",)).to_dict()
    assert LabelSpace.load("scierc").generic == {"Generic"}
    with pytest.raises(UnireError, match="generic type 'It' is not an entity type"):
        LabelSpace(("Method",), generic=frozenset({"It"}))
