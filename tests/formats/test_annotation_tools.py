"""What Label Studio and Prodigy export, and what extraction writes for people to go on with."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from unire import formats
from unire.documents import Document
from unire.errors import UnireError

TEXT = "Ada lives in London. She writes."


def region(name: str, start: int, end: int, *labels: str, **more: Any) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": TEXT[start:end], "labels": list(labels)}
    return {"id": name, "type": "labels", "from_name": "label", "to_name": "text", "value": value, **more}


def relation(head: str, tail: str, *labels: str, direction: str = "right") -> dict[str, Any]:
    return {"type": "relation", "from_id": head, "to_id": tail, "direction": direction, "labels": list(labels)}


def task(*result: Any, **more: Any) -> dict[str, Any]:
    return {"id": 7, "data": {"text": TEXT, "source": "x"}, "annotations": [{"result": list(result)}], **more}


def read_tasks(folder: Path, *tasks: Any, notes: Counter[str] | None = None) -> list[Document]:
    path = folder / "tasks.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert formats.guess(path) == "labelstudio"
    return list(formats.read(path, notes=notes))


ADA, LONDON, SHE = region("a", 0, 3, "Peop"), region("b", 13, 19, "Loc"), region("c", 21, 24, "Peop")


def test_an_export_of_label_studio_is_read(tmp_path: Path) -> None:
    (document,) = read_tasks(tmp_path, task(ADA, LONDON, SHE, relation("a", "b", "Live_In")))
    assert document.id == "7"
    assert document.meta == {"source": "x"}
    assert [len(sentence) for sentence in document.sentences] == [5, 3]
    assert [str(r) for r in document.relations] == ["Ada [Peop] –Live_In→ London [Loc]"]


@pytest.mark.parametrize(("direction", "pairs"), [("right", ["Ada"]), ("left", ["London"]), ("bi", ["Ada", "London"])])
def test_a_relation_points_right_left_or_both_ways(tmp_path: Path, direction: str, pairs: list[str]) -> None:
    (document,) = read_tasks(tmp_path, task(ADA, LONDON, relation("a", "b", "R", direction=direction)))
    assert [r.head.text for r in document.relations] == pairs


def test_several_labels_are_several_entities_and_relations(tmp_path: Path) -> None:
    (document,) = read_tasks(tmp_path, task(region("a", 0, 3, "A", "B"), LONDON, relation("a", "b", "R", "S")))
    assert [e.label for e in document.entities] == ["A", "B", "Loc"]
    assert [(r.head.label, r.label) for r in document.relations] == [("A", "R"), ("A", "S")]


def test_further_results_of_a_region_become_attributes(tmp_path: Path) -> None:
    choice = {"id": "a", "type": "choices", "from_name": "sure", "value": {"choices": ["yes"]}}
    (document,) = read_tasks(tmp_path, task({**ADA, "meta": {"text": ["hm"]}}, choice))
    assert document.entities[0].attributes == {"sure": ["yes"], "text": ["hm"]}


def test_skipped_missing_and_further_annotations_are_noted(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    skipped, done, other = {"was_cancelled": True, "result": [ADA]}, {"result": [ADA, LONDON]}, {"result": []}
    first = {**task(), "annotations": [skipped, done, other]}
    second = {**task(), "annotations": [skipped]}
    documents = read_tasks(tmp_path, first, second, notes=notes)
    assert [len(d.entities) for d in documents] == [2, 0]
    assert +notes == {
        "annotation beside another one of the same text, left out": 1,
        "text that is not annotated": 1,
    }


def test_a_region_on_white_space_is_left_out_with_its_relations(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    (document,) = read_tasks(tmp_path, task(region("a", 3, 4, "X"), LONDON, relation("a", "b", "R")), notes=notes)
    assert len(document.entities) == 1
    assert not document.relations
    assert +notes == {"entity that covers no word, skipped": 1, "relation whose entity is left out": 1}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ([ADA, relation("a", "z", "R")], 'refers to a missing region by its "to_id"'),
        ([{**ADA, "id": "None"}, {"type": "relation", "labels": ["R"]}], 'refers to a missing region by its "from_id"'),
        ([ADA, LONDON, relation("a", "b")], "has no label; add one, or remove it"),
        ([ADA, LONDON, relation("a", "b", "R", direction="up")], 'must be "right", "left" or "bi"'),
        ([ADA, ADA], "has the same id as another one"),
        ([region("a", 0, 99, "X")], "characters 0 to 99 of 'X' are outside the text, which has 32 characters"),
        ([{**ADA, "value": 7}], '"value" must be a JSON object'),
        ([7], "a region or relation must be a JSON object"),
    ],
)
def test_a_broken_task_is_refused(tmp_path: Path, result: list[Any], reason: str) -> None:
    with pytest.raises(UnireError, match=re.escape(reason)):
        read_tasks(tmp_path, task(*result))


# Prodigy


def span(start: int, end: int, label: str, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "label": label, **more}


def example(**more: Any) -> dict[str, Any]:
    return {"text": TEXT, "spans": [span(0, 3, "Peop"), span(13, 19, "Loc")], "answer": "accept", **more}


def link(**more: Any) -> dict[str, Any]:
    return {"head": 0, "child": 3, "label": "Live_In", **more}


def read_lines(folder: Path, *items: Any, notes: Counter[str] | None = None) -> list[Document]:
    path = folder / "annotations.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    assert formats.guess(path) == "prodigy"
    return list(formats.read(path, notes=notes))


def tokens() -> list[dict[str, Any]]:
    return [
        {"text": m[0], "start": m.start(), "end": m.end(), "id": i} for i, m in enumerate(re.finditer(r"\w+|\.", TEXT))
    ]


def test_an_export_of_prodigy_is_read(tmp_path: Path) -> None:
    item = example(relations=[link(head_span=span(0, 3, "Peop"), child_span=span(13, 19, "Loc"))], _task_hash=1)
    (document,) = read_lines(tmp_path, {**item, "meta": {"source": "x"}})
    assert [len(sentence) for sentence in document.sentences] == [5, 3]
    assert [str(r) for r in document.relations] == ["Ada [Peop] –Live_In→ London [Loc]"]
    assert document.meta == {"source": "x", "_task_hash": 1}


def test_tokens_are_the_words_and_relations_may_name_them_alone(tmp_path: Path) -> None:
    (document,) = read_lines(tmp_path, example(tokens=tokens(), relations=[link()]))
    assert [len(sentence) for sentence in document.sentences] == [8]
    assert [str(r) for r in document.relations] == ["Ada [Peop] –Live_In→ London [Loc]"]


def test_texts_that_were_not_accepted_are_skipped_and_noted(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    documents = read_lines(tmp_path, example(answer="reject"), example(), example(answer="ignore"), notes=notes)
    assert len(documents) == 1
    assert notes == {"text that was not accepted, left out": 2}


def test_a_span_on_white_space_is_left_out(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    spans = [span(3, 4, "X"), span(13, 19, "Loc")]
    relations = [link(head_span=spans[0], child_span=spans[1]), link(head_span=spans[1], child_span=spans[1])]
    (document,) = read_lines(tmp_path, example(spans=spans, relations=relations), notes=notes)
    assert [str(entity) for entity in document.entities] == ["London [Loc]"]
    assert len(document.relations) == 1
    assert notes == {"entity that covers no word, skipped": 1, "relation whose entity is left out": 1}
    (document,) = read_lines(tmp_path, example(spans=[span(3, 4, "X")]))
    assert not document.entities


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (example(relations=[link(head_span=span(0, 2, "Peop"))]), 'has a "head" that is not a span'),
        (example(relations=[link(child=9)]), 'has a "child" that is not a span'),
        (example(tokens=[{"text": "Ada", "start": 0, "end": 99}]), "is outside the text, which has 32 characters"),
        (example(tokens=tokens(), sentences=[5]), "must be the number of words of each sentence, 8 in total"),
        (example(tokens=tokens(), spans=[span(0, 3, "X", token_start=0, token_end=8)]), "is outside the document"),
        (example(spans=[span(0, 99, "X")]), "characters 0 to 99 of 'X' are outside the text"),
        (example(spans=[{"start": 0, "end": 3}]), "must be a string, but is null"),
    ],
)
def test_a_broken_example_is_refused(tmp_path: Path, item: Any, reason: str) -> None:
    with pytest.raises(UnireError, match=re.escape(reason)):
        read_lines(tmp_path, item)


def test_prodigy_entities_without_spans_are_refused_and_beside_spans_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": TEXT, "entities": []}), encoding="utf-8")
    with pytest.raises(UnireError, match='line 1: "entities" is not a key of the format prodigy, which has "spans"'):
        list(formats.read(path, "prodigy"))
    path.write_text(json.dumps({"text": TEXT, "entities": ["x"], "spans": []}), encoding="utf-8")
    notes: Counter[str] = Counter()
    (document,) = formats.read(path, notes=notes)
    assert document.meta == {"entities": ["x"]}
    assert notes == {'"entities" beside "spans", taken as meta data': 1}


# What extraction writes


def entity_item(start: int, end: int, label: str, **more: Any) -> dict[str, Any]:
    return {"text": TEXT[start:end], "label": label, "char_start": start, "char_end": end, **more}


FOUND = {
    "id": "a",
    "text": TEXT,
    "entities": [entity_item(0, 3, "Peop", score=0.9), entity_item(13, 19, "Loc", score=None)],
    "relations": [
        {"head": entity_item(0, 3, "Peop"), "tail": entity_item(13, 19, "Loc"), "label": "Live_In", "score": 0.5}
    ],
}


def read_found(folder: Path, *, notes: Counter[str] | None = None, **changed: Any) -> Document:
    path = folder / "found.jsonl"
    path.write_text(json.dumps(FOUND | changed), encoding="utf-8")
    assert formats.guess(path) == "jsonl"
    (document,) = formats.read(path, notes=notes)
    return document


def test_extracted_documents_are_read_back_unchanged(tmp_path: Path) -> None:
    document = read_found(tmp_path)
    assert [len(sentence) for sentence in document.sentences] == [5, 3]
    assert document.to_dict() == FOUND


def test_an_entity_on_no_word_is_skipped_with_its_relation_and_one_within_a_word_extended(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    entities = [entity_item(0, 2, "Peop"), entity_item(3, 4, "Loc")]
    relations = [{"head": entities[0], "tail": entities[1], "label": "R"}]
    document = read_found(tmp_path, entities=entities, relations=relations, notes=notes)
    assert [str(entity) for entity in document.entities] == ["Ada [Peop]"]
    assert sum(notes.values()) == 3


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"entities": [[0, 3, "PER"]]}, r'entity \[0, 3, "PER"\] must be a JSON object'),
        ({"entities": [{"start_offset": 0, "label": "A"}]}, '"char_start" of entity .* must be a whole number'),
        ({"entities": [entity_item(0, 99, "A")]}, "characters 0 to 99 of 'A' are outside the text, which has 32"),
        ({"entities": []}, '"head" of relation .* is not one of the entities'),
        ({"relations": [{"head": 0, "tail": 1, "label": "R"}]}, '"head" of relation .* must be a JSON object'),
    ],
)
def test_entities_of_another_form_are_refused(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnireError, match=f"line 1: {reason}"):
        read_found(tmp_path, **changed)


def test_lines_of_another_format_are_not_read_as_results(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for item, reason in (
        ({"text": TEXT, "spans": []}, '"spans" is not a key of the format jsonl; give the format, perhaps prodigy'),
        ({"text": TEXT, "sentences": []}, '"sentences" is not a key of the format jsonl; give the format, perhaps u'),
        ({"text": TEXT}, '"entities" is missing'),
    ):
        path.write_text(json.dumps(item), encoding="utf-8")
        with pytest.raises(UnireError, match=reason):
            list(formats.read(path, "jsonl"))
