"""brat's folders: discontinuous spans, attributes, and whatever else people have in them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from unire import formats
from unire.documents import Document
from unire.errors import UnireError

TEXT = "Ada Lovelace and Byron lived in north and south London."
ANN = """T1\tPeop 0 12\tAda Lovelace
T2\tPeop 17 22\tByron
T3\tLoc 32 37;48 54\tnorth London
T4\tLoc 42 54\tsouth London
R1\tLive_In Arg1:T1 Arg2:T3\t
R2\tLive_In Arg2:T4 Arg1:T2\t
A1\tCertainty T1 high
A2\tNegated R1
#1\tAnnotatorNotes T2\tthe poet
*\tEquiv T1 T2
N1\tReference T1 Wikidata:Q7259\tAda Lovelace
E1\tMove:T2 To:T3
R3\tMoves Arg1:E1 Arg2:T4
"""


def folder(path: Path, text: str = TEXT, ann: str = ANN, name: str = "a") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    (path / f"{name}.ann").write_text(ann, encoding="utf-8", newline="")
    return path


def test_everything_of_a_document_is_read_or_noted(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    (document,) = formats.read(folder(tmp_path), notes=notes)
    assert [str(relation) for relation in document.relations] == [
        "Ada Lovelace [Peop] –Live_In→ north and south London [Loc]",
        "Byron [Peop] –Live_In→ south London [Loc]",
        "Byron [Peop] –To→ north and south London [Loc]",
        "Byron [Peop] –Moves→ south London [Loc]",
    ]
    ada, byron, north, _ = document.entities
    assert ada.attributes == {"Certainty": "high"}
    assert byron.attributes == {"AnnotatorNotes": "the poet"}
    assert north.attributes == {"characters": [[32, 37], [48, 54]]}
    assert document.relations[0].attributes == {"Negated": True}
    assert notes == {
        "entity in several parts, taken with the words between them": 1,
        "equivalence, left out": 1,
        "normalisation, left out": 1,
        "role of an event, read as a relation": 1,
        "pair of arguments of an event, not read as a relation": 0,
    }


def test_parts_attributes_and_notes_are_written_back(tmp_path: Path) -> None:
    documents = list(formats.read(folder(tmp_path / "in")))
    formats.write(documents, tmp_path / "out", "brat")
    lines = (tmp_path / "out" / "a.ann").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "T3\tLoc 32 37;48 54\tnorth London"
    assert lines[-3:] == ["A1\tCertainty T1 high", "#2\tAnnotatorNotes T2\tthe poet", "A3\tNegated R1"]
    assert (tmp_path / "out" / "a.txt").read_text(encoding="utf-8") == TEXT
    settings = (tmp_path / "out" / "annotation.conf").read_text(encoding="utf-8")
    assert settings == (
        "[entities]\nLoc\nPeop\n[relations]\nLive_In\tArg1:<ENTITY>, Arg2:<ENTITY>\n"
        "Moves\tArg1:<ENTITY>, Arg2:<ENTITY>\nTo\tArg1:<ENTITY>, Arg2:<ENTITY>\n[events]\n[attributes]\n"
    )


def test_parts_may_be_in_any_order(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    ann = "T1\tLoc 48 54;32 37\tLondon north\nT2\tLoc 48 54;32 37\tnorth London\n"
    (document,) = formats.read(folder(tmp_path, ann=ann), notes=notes)
    assert [entity.attributes for entity in document.entities] == [{"characters": [[32, 37], [48, 54]]}] * 2
    assert notes == {"entity in several parts, taken with the words between them": 2}


def test_a_nested_event_means_its_trigger_and_an_unknown_argument_costs_the_event(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    errors: list[UnireError] = []
    ann = "T1\tP 0 3\tAda\nT2\tMove 4 9\tmoved\nT3\tCause 10 17\tbecause\n"
    ann += "E1\tMove:T2 Who:T1\nE2\tCause:T3 Of:E1 By2:T1\nE3\tMove:T2 Who:T9\n"
    path = folder(tmp_path, "Ada moved because.", ann)
    (document,) = formats.read(path, notes=notes, on_annotation_error=errors.append)
    assert [f"{r.head.text}–{r.label}→{r.tail.text}" for r in document.relations] == [
        "moved–Who→Ada",
        "because–Of→moved",
        "because–By2→Ada",
    ]
    assert [str(error) for error in errors] == [f"{path / 'a.ann'}: E3 refers to 'T9', which does not exist"]
    assert notes["event that cannot be read, left out"] == 1
    (document,) = formats.read(path, events="pairs", notes=notes)
    assert [f"{r.head.text}–{r.label}→{r.tail.text}" for r in document.relations] == ["moved–Cause→Ada"]


def test_an_entity_that_splits_a_word_takes_all_of_it_and_keeps_its_characters(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    (document,) = formats.read(folder(tmp_path / "in", "pro-Iraqi men", "T1\tGPE 4 9\tIraqi\n"), notes=notes)
    assert str(document.entities[0]) == "pro-Iraqi [GPE]"
    assert sum(notes.values()) == 1
    formats.write([document], tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text(encoding="utf-8") == "T1\tGPE 4 9\tIraqi\n"


@pytest.mark.parametrize("parts", [[], [[40, 90]]])
def test_invalid_exact_characters_are_refused_in_files_and_otherwise_ignored(
    tmp_path: Path, parts: list[list[int]]
) -> None:
    document = Document.from_words([["Ada", "left"]], [(0, 1, "P")], id="a")
    entity = replace(document.entities[0], attributes={"characters": parts})
    changed = document.annotated([entity])
    formats.write([changed], tmp_path / "a.jsonl")
    with pytest.raises(UnireError, match="line 1: document 'a': `characters` of entity 'P' is"):
        list(formats.read(tmp_path / "a.jsonl"))
    formats.write([changed], tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text(encoding="utf-8") == "T1\tP 0 3\tAda\n"


def test_an_entity_across_a_line_end_is_one_part_for_us_and_two_for_brat(tmp_path: Path) -> None:
    document = Document.from_words([["New"], ["York"]], [(0, 2, "Loc")], id="a")
    formats.write([document], tmp_path, "brat")
    assert (tmp_path / "a.ann").read_text(encoding="utf-8") == "T1\tLoc 0 3;4 8\tNew York\n"
    (again,) = formats.read(tmp_path, spaces=True)
    assert again == document
    assert not again.entities[0].attributes


def test_an_entity_on_white_space_is_left_out_with_its_relations(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    ann = "T1\tX 1 2\t \nT2\tX 2 3\tb\nR1\tR Arg1:T1 Arg2:T2\n"
    (document,) = formats.read(folder(tmp_path, "a b", ann), notes=notes)
    assert len(document.entities) == 1
    assert notes == {"entity that covers no word, skipped": 1, "relation whose entity is left out": 1}


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_annotation(tmp_path: Path) -> None:
    (plain,) = formats.read(folder(tmp_path / "plain"))
    folder(tmp_path / "windows", ann="\ufeff" + ANN.replace("\n", "\r\n"))
    (windows,) = formats.read(tmp_path / "windows")
    assert windows == plain
    assert [item.attributes for item in windows.entities] == [item.attributes for item in plain.entities]


def test_text_that_does_not_agree_with_its_characters_is_noted(tmp_path: Path) -> None:
    notes: Counter[str] = Counter()
    list(formats.read(folder(tmp_path, "a b", "T1\tX 0 1\tb\n"), notes=notes))
    assert notes == {"entity whose text is not that at its characters": 1}


def test_a_text_without_annotation_is_a_document_and_subfolders_are_read(tmp_path: Path) -> None:
    folder(tmp_path / "sub", name="b")
    (tmp_path / "a.txt").write_text("Nothing here .")
    documents = list(formats.read(tmp_path))
    assert [(d.id, len(d.entities)) for d in documents] == [("a", 0), ("sub/b", 4)]
    formats.write(documents, tmp_path / "out", "brat")
    assert (tmp_path / "out" / "sub" / "b.ann").exists()


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/evil", "..", ".", "a/../../b", "C:\\evil", "a\x00b", "100%", "a."]
)
def test_no_name_leads_out_of_the_folder_and_all_come_back(tmp_path: Path, name: str) -> None:
    document = Document.from_words([["a"]], id=name)
    formats.write([document], tmp_path / "in" / "out", "brat")
    assert {file.suffix for file in tmp_path.rglob("*") if file.is_file()} == {".txt", ".ann", ".conf"}
    assert all((tmp_path / "in" / "out") in file.parents for file in tmp_path.rglob("*.txt"))
    assert [d.id for d in formats.read(tmp_path / "in" / "out", "brat", spaces=True)] == [name]


@pytest.mark.parametrize(
    ("ann", "reason"),
    [
        ("X1\tPeop 0 3\tAda", "is not a line of brat"),
        ("T1\tPeop 0\tAda", "T1 must have a type and pairs of characters"),
        ("T1\tPeop 0 x\tAda", "T1 must have a type and pairs of characters"),
        ("T1\t\t", "T1 must have a type and pairs of characters"),
        ("T1\tPeop 3 0\tAda", "T1 has characters that are reversed, empty or in two of its parts"),
        ("T1\tPeop 0 5;4 9\tAda", "T1 has characters that are reversed, empty or in two of its parts"),
        ("E1\tMove:T1", "E1 refers to 'T1', which does not exist"),
        ("E1\tMove:T1 To:", "E1 must have a trigger and arguments, as in `Move:T3 Who:T1 To:T2`"),
        ("T1\tPeop 0 999\tAda", "characters 0 to 999 of 'Peop' are outside the text, which has 55 characters"),
        ("T1\tPeop 0 3\tAda\nT1\tPeop 0 3\tAda", "T1 is defined twice"),
        ("R1\tLive_In Arg1:T1 Arg2:T2", "R1 refers to 'T1', which does not exist"),
        ("R1\tLive_In Arg1:T1", "R1 must have a type and two arguments"),
        ("A1\tCertainty", "A1 must have a name and a target"),
        ("#1\tAttributes T1\t{", "not valid JSON"),
        ("#1\tAttributes T1\t[]", "must be a JSON object"),
    ],
)
def test_a_broken_line_is_refused_with_its_file(tmp_path: Path, ann: str, reason: str) -> None:
    path = folder(tmp_path, ann=ann)
    with pytest.raises(UnireError, match=re.escape(reason)) as caught:
        list(formats.read(path, "brat"))
    assert str(caught.value).startswith(f"{path / 'a.ann'}: ")


def test_a_missing_text_and_invalid_bytes_do_not_stop_the_other_documents(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "b.ann").write_text(ANN)
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe")
    errors: list[UnireError] = []
    assert [d.id for d in formats.read(tmp_path, on_error=errors.append)] == ["a"]
    assert [str(error) for error in errors] == [
        f"{tmp_path / 'b.ann'} has no text; add b.txt",
        f"{tmp_path / 'c.ann'}: not UTF-8; convert the file first",
    ]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (Document.from_words([["a"]], [(0, 1, "two words")], id="d"), "does not support spaces in names of types"),
        (Document.from_words([["a"]], id=""), "it has no id, and therefore no file name"),
        (Document.from_words([["\ud83d"]], id="d"), "surrogates not allowed"),
        (Document.from_words([["a"]], [(0, 1, "X", None, {"x": {1}})], id="d"), "not JSON serializable"),
    ],
)
def test_names_that_brat_cannot_represent_are_refused(tmp_path: Path, document: Document, reason: str) -> None:
    with pytest.raises(UnireError, match=reason):
        formats.write([document], tmp_path / "out", "brat")
    assert not (tmp_path / "out").exists()
