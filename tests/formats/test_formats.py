from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import FIXTURES
from unire import Documents, formats
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.formats.base import Capability, Format
from unire.labels import LabelSpace
from unire.segmentation import segment
from unire.sources.lines import iter_raw_lines, iter_tokenized

NAMES = {"twenty.jsonl": "dygie", "overlaps.jsonl": "dygie", "people.json": "spert", "ade.json": "spert"}

ADA = Document.from_words(
    [["Ada", "lives", "in", "London"], ["She", "writes"]],
    [(0, 1, "Peop"), (3, 4, "Loc", 0.75), (4, 5, "Peop")],
    [(0, 1, "Live_In", 0.5)],
    id="ada",
)


def file(folder: Path, *items: Any, name: str = "a.jsonl") -> Path:
    """A file of JSON lines; a string is a line as it is."""
    path = folder / name
    lines = [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in items]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def spans(document: Document) -> list[tuple[int, int, str, float | None]]:
    return [(*entity.span, entity.label, entity.score) for entity in document.entities]


def links(document: Document) -> list[tuple[str, str, str, float | None]]:
    return [(str(r.head), str(r.tail), r.label, r.score) for r in document.relations]


# The registry


def test_a_format_that_is_added_to_the_registry_can_be_read_and_written(tmp_path: Path, monkeypatch) -> None:
    native = formats.FORMATS["unire"]
    monkeypatch.setitem(formats.FORMATS, "new", Format(native.read, native.write))
    monkeypatch.setitem(formats.FORMATS, "read-only", Format(native.read))
    assert formats.write([ADA], tmp_path / "a.jsonl", "new") == 1
    assert [*formats.read(tmp_path / "a.jsonl", "new")] == [ADA]
    with pytest.raises(UnireError, match="'read-only' can be read, but not written"):
        formats.write([ADA], tmp_path / "b.jsonl", "read-only")


# Reading


@pytest.mark.parametrize(("name", "format"), NAMES.items())
def test_the_format_is_guessed(name: str, format: str) -> None:
    assert formats.guess(FIXTURES / name) == format


def test_our_own_format_is_guessed(tmp_path: Path) -> None:
    formats.write([ADA], tmp_path / "a.jsonl")
    assert formats.guess(tmp_path / "a.jsonl") == "unire"


def test_words_alone_are_guessed_as_dygie_and_have_no_annotation(tmp_path: Path) -> None:
    (document,) = formats.read(file(tmp_path, {"sentences": [["Ada", "left"], []]}))
    assert document == Document.from_words([["Ada", "left"], []], id="0")


def test_ends_in_dygie_are_inclusive_and_count_from_the_start_of_the_document() -> None:
    document = next(formats.read(FIXTURES / "twenty.jsonl"))
    assert document.id == "dependency-analysis"
    assert [str(e) for e in document.sentences[1].entities] == [
        "It [Generic]",
        "lexical features [OtherScientificTerm]",
        "subtree kernels [Method]",
    ]
    assert str(document.sentences[2].relations[2]) == "system [Generic] –COMPARE→ transition model [Method]"


def test_a_spert_item_is_a_document_of_one_sentence_named_by_its_orig_id() -> None:
    documents = list(formats.read(FIXTURES / "people.json"))
    assert [d.id for d in documents] == ["101", "102", "103", "104", "105", "106"]
    assert {len(d.sentences) for d in documents} == {1}
    assert [str(r) for r in documents[4].relations] == [
        "Norrland Rail [Org] –OrgBased_In→ Umeå [Loc]",
        "Jun Okafor [Peop] –Work_For→ Norrland Rail [Org]",
    ]


@pytest.mark.parametrize(
    ("format", "item"),
    [
        ("spert", {"tokens": ["a"]}),
        ("dygie", {"sentences": [["a"]]}),
        ("unire", {"text": "", "sentences": [], "offsets": []}),
    ],
)
def test_a_document_without_a_name_is_named_by_its_position(tmp_path: Path, format: str, item: Any) -> None:
    path = file(tmp_path, [item, item]) if format == "spert" else file(tmp_path, item, "", item)
    assert [d.id for d in formats.read(path)] == ["0", "1"]


def test_similar_keys_are_read_as_those_of_dygie(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    annotation = {"ner": [[0, 0, "P"], [2, 2, "L"]], "relations": [[0, 0, 2, 2, "R", "sure", 0.5]]}
    lines = [
        {"doc_id": "x", "sentences": [["Ada", "left", "Rome"]], **{key: [value] for key, value in annotation.items()}},
        {"id": 7, "sentence": ["Ada", "left", "Rome"], **annotation, "source": "web"},
        {"doc_id": "y", "id": 8, "sentence": "Ada left Rome", **{key: [value] for key, value in annotation.items()}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    notes: Counter[str] = Counter()
    documents = list(formats.read(path, notes=notes))
    assert [document.id for document in documents] == ["x", "7", "y"]
    assert [dict(document.meta) for document in documents] == [{}, {"source": "web"}, {"id": 8}]
    assert {" ".join(map(str, document.relations)) for document in documents} == {"Ada [P] –R→ Rome [L]"}
    assert {document.relations[0].score for document in documents} == {0.5}
    assert notes == {"further field of an entity or relation, left out": 3}


def test_further_fields_of_objects_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    entity = {"type": "P", "start": 0, "end": 1, "id": 3, "note": "?"}
    item = {"tokens": ["a"], "entities": [entity], "relations": [{"type": "R", "head": 0, "tail": 0, "by": "me"}]}
    path.write_text(json.dumps([item]), encoding="utf-8")
    notes: Counter[str] = Counter()
    assert len(list(formats.read(path, notes=notes))) == 1
    assert notes == {"further field of an entity or relation, left out": 3}


def test_repeated_annotation_is_kept(tmp_path: Path) -> None:
    item = {"sentences": [["a", "b"]], "ner": [[[0, 0, "A"], [1, 1, "A"], [1, 1, "A"]]]}
    (document,) = formats.read(file(tmp_path, {**item, "relations": [[[0, 0, 1, 1, "R"], [0, 0, 1, 1, "R"]]]}))
    assert len(document.entities) == 3
    assert len(document.relations) == 2


def test_a_relation_of_dygie_means_the_first_entity_on_its_words(tmp_path: Path) -> None:
    item = {"sentences": [["a", "b"]], "ner": [[[0, 0, "X"], [0, 0, "Y"], [1, 1, "Z"]]]}
    (document,) = formats.read(file(tmp_path, {**item, "relations": [[[0, 0, 1, 1, "R"]]]}))
    assert links(document) == [("a [X]", "b [Z]", "R", None)]


def test_the_last_number_after_a_dygie_label_is_its_score(tmp_path: Path) -> None:
    item = {
        "sentences": [["a", "b", "c"]],
        "ner": [[[0, 0, "X", 0.5], [1, 1, "Y", 12.3, 0.75], [2, 2, "Z", "subtype", True]]],
        "relations": [[[0, 0, 1, 1, "R", 1], [1, 1, 2, 2, "R", 9.5, 0.25]]],
    }
    (document,) = formats.read(file(tmp_path, item))
    assert [e.score for e in document.entities] == [0.5, 0.75, None]
    assert [r.score for r in document.relations] == [1.0, 0.25]


def test_a_score_that_is_not_finite_is_none(tmp_path: Path) -> None:
    (document,) = formats.read(file(tmp_path, '{"sentences": [["a"]], "ner": [[[0, 0, "X", NaN]]]}'))
    assert spans(document) == [(0, 1, "X", None)]


GOLD = {"sentences": [["a", "b"]], "ner": [[[0, 0, "G"], [1, 1, "G"]]], "relations": [[[0, 0, 1, 1, "G"]]]}


@pytest.mark.parametrize(
    ("predictions", "entities", "relations"),
    [
        ({}, ["G", "G"], ["G"]),
        ({"predicted_ner": [[[0, 0, "P"]]], "predicted_relations": [[]]}, ["P"], []),
        ({"predicted_ner": [[[0, 0, "P"]]]}, ["P"], []),
        ({"predicted_relations": [[[1, 1, 0, 0, "P"]]]}, ["G", "G"], ["P"]),
    ],
    ids=["none", "both", "entities", "relations"],
)
def test_predictions_are_taken_where_a_file_has_them(
    tmp_path: Path, predictions: dict[str, Any], entities: list[str], relations: list[str]
) -> None:
    path = file(tmp_path, {**GOLD, **predictions})
    (predicted,) = formats.read(path, predicted=True)
    assert ([e.label for e in predicted.entities], [r.label for r in predicted.relations]) == (entities, relations)
    (gold,) = formats.read(path)
    assert ([e.label for e in gold.entities], [r.label for r in gold.relations]) == (["G", "G"], ["G"])
    assert gold.meta == predicted.meta == {}


def test_a_format_without_predictions_is_read_as_usual() -> None:
    path = FIXTURES / "people.json"
    assert list(formats.read(path, predicted=True)) == list(formats.read(path))


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    lines = (FIXTURES / "twenty.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "a.jsonl"
    path.write_bytes(("\ufeff\r\n \r\n" + "\r\n\r\n".join(lines)).encode())
    assert list(formats.read(path)) == list(formats.read(FIXTURES / "twenty.jsonl"))


def test_a_byte_order_mark_does_no_harm_to_spert(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf\n" + (FIXTURES / "people.json").read_bytes())
    assert list(formats.read(path)) == list(formats.read(FIXTURES / "people.json"))


def test_json_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    documents = formats.read(file(tmp_path, GOLD, "{"))
    assert next(documents).n_words == 2
    with pytest.raises(UnireError, match="line 2: not valid JSON"):
        next(documents)


# Writing


@pytest.mark.parametrize(
    ("name", "format"),
    [
        (name, to)
        for name, own in NAMES.items()
        for to, form in formats.FORMATS.items()
        if form.write and to not in ("brat", "conll04") and (own == "spert" or to != "spert")
    ],
)
def test_a_data_set_survives_every_format_that_can_hold_it(tmp_path: Path, name: str, format: str) -> None:
    documents = list(formats.read(FIXTURES / name))
    assert formats.write(documents, tmp_path / "out", format) == len(documents)
    found = list(formats.read(tmp_path / "out"))
    if Capability.CLUSTERS not in formats.FORMATS[format].capabilities:
        documents = [replace(document, clusters=()) for document in documents]
    assert found == documents
    assert [d.meta for d in found] == [d.meta for d in documents]


@pytest.mark.parametrize(("format", "content"), [("unire", b""), ("dygie", b""), ("spert", b"[]\n")])
def test_no_documents_are_written_as_an_empty_file(tmp_path: Path, format: str, content: bytes) -> None:
    assert formats.write([], tmp_path / "out", format) == 0
    assert (tmp_path / "out").read_bytes() == content


def test_a_dygie_file_is_written_back_as_it_was(tmp_path: Path) -> None:
    source = FIXTURES / "twenty.jsonl"
    formats.write(formats.read(source), tmp_path / "out", "dygie")
    assert (tmp_path / "out").read_text(encoding="utf-8") == source.read_text(encoding="utf-8")


CLUSTERS = [[(0, 1), (4, 5)]]


@pytest.mark.parametrize(
    "format",
    [name for name, form in formats.FORMATS.items() if form.write and Capability.CLUSTERS in form.capabilities],
)
def test_clusters_are_written_back(tmp_path: Path, format: str) -> None:
    words = [["Ada", "lives", "here", "."], ["She", "works", "."]]
    document = Document.from_words(words, [(0, 1, "Peop")], clusters=CLUSTERS, id="a")
    formats.write([document], tmp_path / "out", format)
    assert next(formats.read(tmp_path / "out", format)).clusters == (((0, 1), (4, 5)),)


def test_extraction_writes_clusters_as_characters(tmp_path: Path) -> None:
    document = segment("Ada lives here. She works.", id="a").annotated([], clusters=CLUSTERS)
    ((ada, she),) = document.to_dict()["clusters"]
    assert ada == {"text": "Ada", "char_start": 0, "char_end": 3}
    assert she == {"text": "She", "char_start": 16, "char_end": 19}
    (tmp_path / "a.jsonl").write_text(json.dumps(document.to_dict()), encoding="utf-8")
    assert next(formats.read(tmp_path / "a.jsonl")).clusters == document.clusters


def test_gold_clusters_are_not_taken_for_predictions(tmp_path: Path) -> None:
    item = {"sentences": [["Ada", "knows", "her"]], "ner": [[[0, 0, "Peop"]]], "clusters": [[[0, 0], [2, 2]]]}
    lines = [item, item | {"predicted_ner": [[]]}, item | {"predicted_clusters": [[[1, 1, 0.5], [2, 2, 0.5]]]}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = [[list(cluster) for cluster in d.clusters] for d in formats.read(tmp_path / "a.jsonl", predicted=True)]
    assert found == [[[(0, 1), (2, 3)]], [], [[(1, 2), (2, 3)]]]
    assert [d.clusters for d in formats.read(tmp_path / "a.jsonl")] == 3 * [(((0, 1), (2, 3)),)]


@pytest.mark.parametrize("format", ["dygie", "unire"])
@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([[[0]]], r"mention \[0\] of a cluster is not \[start, end\]"),
        ([0], 'a cluster of "clusters" must be a list, but is 0'),
        ([[[2, 1]]], r"mention \[2, 1\] is reversed or empty"),
        ([[[0, 9]]], r"mention \[0, 9\] is outside the document, which has 2 words"),
    ],
)
def test_bad_clusters_are_refused(tmp_path: Path, format: str, clusters: object, message: str) -> None:
    item = {"text": "Ada left", "sentences": [["Ada", "left"]], "clusters": clusters}
    (tmp_path / "a.jsonl").write_text(json.dumps(item), encoding="utf-8")
    with pytest.raises(UnireError, match=message):
        list(formats.read(tmp_path / "a.jsonl", format))


def test_a_spert_file_is_written_back_as_it_was_but_for_the_kind_of_name(tmp_path: Path) -> None:
    source = json.loads((FIXTURES / "people.json").read_text(encoding="utf-8"))
    formats.write(formats.read(FIXTURES / "people.json"), tmp_path / "out", "spert")
    expected = [{**item, "orig_id": str(item["orig_id"])} for item in source]
    assert json.loads((tmp_path / "out").read_text(encoding="utf-8")) == expected


@pytest.mark.parametrize(
    "format", [name for name, form in formats.FORMATS.items() if form.write and Capability.META in form.capabilities]
)
def test_keys_that_unire_does_not_read_are_written_back(tmp_path: Path, format: str) -> None:
    document = Document.from_words([["a"]], id="a", meta={"topics": [[[0, 0]]], "weight": 0.5})
    formats.write([document], tmp_path / "out", format)
    (again,) = formats.read(tmp_path / "out", format)
    assert again.meta == document.meta


def test_a_document_of_several_sentences_becomes_several_items_of_spert(tmp_path: Path) -> None:
    assert formats.write([ADA, ADA.bare], tmp_path / "out", "spert") == 2
    documents = list(formats.read(tmp_path / "out"))
    assert [d.id for d in documents] == ["ada#0", "ada#1", "ada#0", "ada#1"]
    assert spans(documents[0]) == [(0, 1, "Peop", None), (3, 4, "Loc", 0.75)]
    assert links(documents[0]) == [("Ada [Peop]", "London [Loc]", "Live_In", 0.5)]
    assert spans(documents[1]) == [(0, 1, "Peop", None)]


def test_a_document_of_no_sentences_is_refused_or_counted_by_spert(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="no place for 1 × document without sentences"):
        formats.write([Document("", id="x")], tmp_path / "out", "spert")
    assert formats.write([Document("", id="x"), ADA], tmp_path / "out", "spert", lost=(lost := Counter())) == 1
    assert lost["document without sentences"] == 1


def test_our_own_format_reads_well(tmp_path: Path) -> None:
    text = "Ada left."
    document = Document.from_words(
        [["Ada", "left", "."]], [(0, 1, "Peop", 0.5)], text=text, offsets=[(0, 3), (4, 8), (8, 9)], id="é"
    )
    formats.write([document], tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == (
        '{"id": "é", "text": "Ada left.", '
        '"sentences": [["Ada", "left", "."]], "offsets": [[[0, 3], [4, 8], [8, 9]]], '
        '"entities": [{"start": 0, "end": 1, "label": "Peop", '
        '"char_start": 0, "char_end": 3, "text": "Ada", "score": 0.5}], "relations": []}\n'
    )


SECOND_ON_ITS_WORDS = Document.from_words([["a", "b"]], [(0, 1, "X"), (0, 1, "Y"), (1, 2, "Z")], [(1, 2, "R")], id="d")
ACROSS = Document.from_words([["a"], ["b"]], [(0, 1, "X"), (1, 2, "Y")], [(0, 1, "R")], id="d")
SPANNING = Document.from_words([["a"], ["b"]], [(0, 2, "X")], id="d")
STRANGER = ADA.annotated(ADA.entities[:1], ADA.relations)


@pytest.mark.parametrize(
    ("document", "format", "reason"),
    [
        (SECOND_ON_ITS_WORDS, "dygie", "no place for 1 × relation of a second entity on the same words"),
        (ACROSS, "spert", "no place for 1 × relation across sentences"),
        (SPANNING, "spert", "no place for 1 × entity across sentences"),
        (STRANGER, "unire", "refers to an entity that is not in the document"),
        (STRANGER, "dygie", "no place for 1 × relation of a second entity on the same words"),
        (Document.from_words([["a"]], [(0, 1, "X", float("nan"))]), "unire", "Out of range float values"),
        (Document.from_words([["a"]], meta={"x": {1}}), "unire", "Object of type set is not JSON serializable"),
        (Document.from_words([["\ud83d"]]), "unire", "surrogates not allowed"),
    ],
)
def test_annotation_that_a_format_cannot_hold_is_refused(
    tmp_path: Path, document: Document, format: str, reason: str
) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(UnireError, match=re.escape(f"document {document.id!r} cannot be written: ")) as caught:
        formats.write([ADA, document], path, format)
    assert reason in str(caught.value)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("document", [SECOND_ON_ITS_WORDS, ACROSS, SPANNING])
def test_the_unire_format_holds_annotation_that_others_cannot(tmp_path: Path, document: Document) -> None:
    formats.write([document], tmp_path / "out")
    assert list(formats.read(tmp_path / "out")) == [document]


@pytest.mark.parametrize("document", [ACROSS, SPANNING])
def test_dygie_holds_annotation_across_sentences(tmp_path: Path, document: Document) -> None:
    formats.write([document], tmp_path / "out", "dygie")
    assert list(formats.read(tmp_path / "out")) == [document]


def test_a_source_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def documents() -> Iterator[Document]:
        yield ADA
        raise UnireError("no more")

    path = file(tmp_path, "old")
    with pytest.raises(UnireError, match="no more"):
        formats.write(documents(), path)
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_be_rewritten_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    formats.write([ADA, ADA.bare], path)
    assert formats.write((d.bare for d in formats.read(path)), path) == 2
    assert list(formats.read(path)) == [ADA.bare, ADA.bare]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_clear_sentence() -> None:
    with pytest.raises(UnireError, match=r"^/dev/full cannot be written: No space left on device$"):
        formats.write([ADA], "/dev/full")


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="cannot be written: Is a directory"):
        formats.write([ADA], tmp_path)


# The fixtures


def test_the_twenty_sentences_are_what_overfitting_needs() -> None:
    labels = LabelSpace.load("scierc")
    documents = list(formats.read(FIXTURES / "twenty.jsonl"))
    sentences = [sentence for document in documents for sentence in document.sentences]
    entities: list[Entity] = [e for s in sentences for e in s.entities]
    relations: list[Relation] = [r for s in sentences for r in s.relations]
    assert len(sentences) == len({tuple(w.lower() for w in s.words) for s in sentences}) == 20
    assert {e.label for e in entities} == set(labels.entity_types)
    assert {r.label for r in relations} == set(labels.relation_types)
    assert any(d.spanning_entities or d.spanning_relations for d in documents) is False
    gaps = [b.start - a.end for s in sentences for a, b in zip(s.entities, s.entities[1:], strict=False)]
    assert min(gaps) == 0
    assert max(e.end - e.start for e in entities) == 3
    pairs = [frozenset((id(s), r.head.span, r.tail.span)) for s in sentences for r in s.relations]
    assert len(pairs) == len(set(pairs))


def test_empty_lines_separate_documents_in_tokenized_text() -> None:
    lines = iter_raw_lines(io.BytesIO(b"\na b\nc\n \n\nd e\r\n"), "mine")
    documents = list(iter_tokenized(lines, "mine"))
    assert [(d.id, [s.words for s in d.sentences]) for d in documents] == [
        ("mine:1", [("a", "b"), ("c",)]),
        ("mine:2", [("d", "e")]),
    ]
    assert not list(iter_tokenized(iter_raw_lines(io.BytesIO(b"\n"), "mine"), "mine"))


def test_one_file_or_several_are_read_into_a_list(tmp_path):
    document = Document.from_words([["a"]], id="a")
    formats.write([document], tmp_path / "one.jsonl")
    formats.write([document, document], tmp_path / "two.jsonl")
    one = formats.read_documents(tmp_path / "one.jsonl")
    assert isinstance(one, Documents)
    assert one == formats.read_documents(str(tmp_path / "one.jsonl"), "unire") == [document]
    assert formats.read_documents([tmp_path / "one.jsonl", tmp_path / "two.jsonl"]) == 3 * [document]
    with pytest.raises(UnireError, match="cannot be read"):
        formats.read_documents(tmp_path / "nothing.jsonl")
