"""What `unire data check` finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.tiny_encoders import FAMILIES
from helpers.windows import GENOME, LONG, ODD_WORDS, spec_of, tokenizer_of, window_builder
from unire import formats
from unire.analysis.checks import IssueKind, build_token_counter, find_issues, find_leaks
from unire.cli.main import app
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace

runner = CliRunner()
WORDS = ["w"] * 6


def found(*documents: Document, labels: LabelSpace | None = None, **options: object) -> list[tuple[IssueKind, str]]:
    """The issues in one file, but for rare types."""
    labels = labels or LabelSpace.learn(documents)
    issues = find_issues({"a": documents}, labels, **options)
    return [(issue.kind, issue.detail) for issue in issues if issue.kind is not IssueKind.RARE]


def of(entities: list, relations: list = (), sentences: list[list[str]] | None = None) -> Document:
    return Document.from_words(sentences or [[f"w{i}" for i in range(6)]], entities, relations, id="d")


PAIR = [(0, 1, "A"), (2, 3, "B")]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (of(PAIR, [(0, 1, "R")]), []),
        (of([(0, 2, "A"), (1, 2, "B")]), [(IssueKind.OVERLAP, "w1 [B]")]),
        (of([(0, 2, "A"), (0, 2, "B")]), [(IssueKind.TWO_TYPES, "w0 w1 [B]")]),
        (of([(0, 1, "A"), (0, 1, "A")]), [(IssueKind.REPEATED_ENTITY, "w0 [A]")]),
        (of(PAIR, [(0, 1, "R"), (0, 1, "R")]), [(IssueKind.REPEATED_RELATION, "w0 [A] –R→ w2 [B]")]),
        (of(PAIR, [(0, 1, "R"), (0, 1, "S")]), [(IssueKind.TWO_LABELS, "w0 [A] –S→ w2 [B]")]),
        (of(PAIR, [(0, 0, "R")]), [(IssueKind.REFLEXIVE, "w0 [A] –R→ w0 [A]")]),
        (
            of([(0, 3, "A"), (2, 3, "B")], [(0, 1, "R")]),
            [(IssueKind.OVERLAP, "w2 [B]"), (IssueKind.NO_ARGUMENT, "w0 w1 w2 [A] –R→ w2 [B]")],
        ),
        (of(PAIR, [(0, 1, "R")], [["a", "b"], ["c"]]), [(IssueKind.RELATION_ACROSS, "a [A] –R→ c [B]")]),
        (of([(0, 2, "A")], [], [["a"], ["c"]]), [(IssueKind.ENTITY_ACROSS, "a\nc [A]")]),
        (of([(0, 1, "A", None, {"characters": [[0, 1]]})]), [(IssueKind.SPLIT_WORD, "'w' in w0 [A]")]),
        (of([(0, 2, "A", None, {"characters": [[0, 1], [4, 5]]})]), [(IssueKind.IN_PARTS, "'w … 1' in w0 w1 [A]")]),
        (of(PAIR, [(0, 1, "R"), (1, 0, "R")]), [(IssueKind.BOTH_WAYS, "'R', 1 of 1 pairs")]),
        (of([(0, 1, "Org"), (2, 3, "ORG")]), [(IssueKind.ALIKE, "entity types 'ORG' (1 ×), 'Org' (1 ×)")]),
        (
            of([*PAIR, (4, 5, "B")], [(0, 1, "Live In"), (0, 2, "Live_In")]),
            [(IssueKind.ALIKE, "relation types 'Live In' (1 ×), 'Live_In' (1 ×)")],
        ),
        (of([*PAIR, (4, 5, "B")], [(0, 1, "q+"), (0, 2, "q-")]), []),
    ],
)  # fmt: skip
def test_issues_in_a_document_are_found(document: Document, expected: list[tuple[IssueKind, str]]) -> None:
    assert found(document) == expected


def test_types_that_the_label_space_lacks_are_found_and_the_rest_is_still_checked() -> None:
    document = of([*PAIR, (3, 4, "C"), (2, 4, "A")], [(0, 1, "R"), (0, 1, "X")])
    kinds = [kind for kind, _ in found(document, labels=LabelSpace(("A", "B"), ("R",)))]
    assert kinds == [IssueKind.UNKNOWN_TYPE, IssueKind.UNKNOWN_TYPE, IssueKind.OVERLAP, IssueKind.NO_ARGUMENT]


def test_a_symmetric_type_annotated_both_ways_is_not_odd() -> None:
    document = of(PAIR, [(0, 1, "R"), (1, 0, "R")])
    assert not found(document, labels=LabelSpace(("A", "B"), ("R",), frozenset({"R"})))


def test_rare_types_are_hints() -> None:
    document = of(PAIR)
    rare = [f for f in find_issues({"a": [document]}, LabelSpace.learn([document])) if f.kind is IssueKind.RARE]
    assert [f.detail for f in rare] == ["entity type 'A', 1 ×", "entity type 'B', 1 ×"]
    assert rare[0].kind.hint


def test_types_that_the_first_file_lacks_are_found_in_the_others() -> None:
    files = {
        "train": [of([(0, 1, "A"), (2, 3, "A")], [(0, 1, "R")])],
        "dev": [of([*PAIR, (3, 4, "B")], [(0, 1, "S")])],
        "test": [of([(0, 1, "A")])],
    }
    labels = LabelSpace.learn([document for documents in files.values() for document in documents])
    unseen = [(f.file, f.detail) for f in find_issues(files, labels) if f.kind is IssueKind.UNSEEN_TYPE]
    assert unseen == [("dev", "entity type 'B', 2 ×"), ("dev", "relation type 'S', 1 ×")]
    assert not IssueKind.UNSEEN_TYPE.hint
    assert not list(find_issues({}, labels))


def test_an_id_of_several_documents_of_a_file_is_found_once() -> None:
    one, other = of([]), replace(of([]), id="e")
    shared = find_issues({"a": [one, one, other, one], "b": [other]}, LabelSpace((), ()))
    assert [(f.file, f.place, f.detail) for f in shared if f.kind is IssueKind.SHARED_ID] == [
        ("a", "document 'd'", "3 ×")
    ]


def test_a_sentence_too_long_for_an_encoder_is_found() -> None:
    document = of([], sentences=[["a"] * 5, ["b"] * 9])
    details = found(document, count_tokens=len, max_tokens=6)
    assert details == [(IssueKind.TOO_LONG, "9 tokens of 9 words, where 6 can be read")]


# Leaks


def leaks(near: float, **files: list[str]) -> list[tuple[IssueKind, str, str]]:
    documents = {
        name: [Document.from_words([line.split()], id=str(i)) for i, line in enumerate(lines)]
        for name, lines in files.items()
    }
    return [(issue.kind, issue.file, issue.place) for issue in find_leaks(documents, near)]


def test_equal_and_almost_equal_sentences_of_two_files_are_leaks() -> None:
    assert leaks(
        0.8,
        train=["the cat sat on the mat", "a dog ran in the park"],
        test=["The cat sat on the mat", "a dog ran in the old park", "birds fly over the wide sea", "a b c"],
    ) == [
        (IssueKind.LEAK, "test", "document '0', sentence 1"),
        (IssueKind.NEAR_LEAK, "test", "document '1', sentence 1"),
    ]


def test_one_file_and_short_sentences_have_no_leaks() -> None:
    assert not leaks(0.8, train=["the cat sat on the mat"] * 2)
    assert not leaks(0.8, train=["See Table 1 ."], test=["See Table 1 ."])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=5, max_size=9), min_size=2, max_size=8),
    st.sampled_from([0.5, 0.8, 1.0]),
)
def test_leaks_are_those_that_comparing_all_pairs_finds(sentences: list[list[str]], near: float) -> None:
    half = len(sentences) // 2
    lines = [" ".join(words) for words in sentences]
    quick = {(kind, place) for kind, _, place in leaks(near, train=lines[:half], test=lines[half:])}

    def bag(words: list[str]) -> frozenset[tuple[str, int]]:
        return frozenset((word, words[:i].count(word)) for i, word in enumerate(words))

    trained = {bag(words) for words in sentences[:half]}
    slow, seen = set(), set()
    for j, test in enumerate(map(bag, sentences[half:])):
        place = f"document '{j}', sentence 1"
        if test in trained:
            slow.add((IssueKind.LEAK, place))
        if test not in seen and any(len(test & other) >= near * len(test | other) for other in trained - {test}):
            slow.add((IssueKind.NEAR_LEAK, place))
        seen.add(test)
    # a sentence that both files have is compared under the name that it has in the first
    both = {place for kind, place in slow if kind is IssueKind.LEAK}
    assert {(kind, place) for kind, place in quick if kind is IssueKind.LEAK or place not in both} == {
        (kind, place) for kind, place in slow if kind is IssueKind.LEAK or place not in both
    }


# The command


def check(*arguments: object):
    return runner.invoke(app, ["data", "check", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    formats.write([of([(0, 2, "A"), (1, 2, "B")])], tmp_path / "train.jsonl")
    formats.write([of(PAIR)], tmp_path / "test.jsonl")
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write('{"broken": \n')
    return [tmp_path / "train.jsonl", tmp_path / "test.jsonl"]


def test_issues_are_listed_with_place_and_effect_and_counted(files: list[Path]) -> None:
    ran = check(*files)
    assert ran.exit_code == 0, ran.output
    flat = " ".join(ran.output.split())
    assert (
        f"{files[0]}, document 'd', sentence 1: entity overlaps a longer one: w1 [B]; "
        "the table keeps the longer one; the other counts as a miss"
    ) in flat
    assert f"{files[1]}: document that cannot be read: line 2: not valid JSON" in flat
    assert "sentence in two files 1" in flat
    assert "type with few examples (hint) 2" in flat


def test_strict_fails_on_anything_but_hints(files: list[Path], tmp_path: Path) -> None:
    assert check(*files, "--strict").exit_code == 1
    formats.write([of(PAIR)], tmp_path / "fine.jsonl")
    ran = check(tmp_path / "fine.jsonl", "--strict")
    assert ran.exit_code == 0
    assert "few examples" in ran.output


def test_the_list_of_issues_is_cut_except_in_json(files: list[Path]) -> None:
    assert "… and 1 more" in check(*files, "--show", 1).output
    summary = json.loads(check(*files, "--json").stdout)
    assert summary["summary"]["sentence in two files"] == 1
    assert {"kind", "file", "place", "detail", "effect", "hint"} == set(summary["findings"][0])


def test_data_without_issues_are_reported_as_such(tmp_path: Path) -> None:
    documents = [replace(of(PAIR, [(0, 1, "R")]), id=str(i)) for i in range(10)]
    formats.write(documents, tmp_path / "a.jsonl")
    assert check(tmp_path / "a.jsonl").output == "No issues.\n"


def test_check_reports_sentences_too_long_for_an_encoder(tmp_path: Path, encoder: Path) -> None:
    formats.write([of([], sentences=[["parser"] * 200])], tmp_path / "a.jsonl")
    ran = check(tmp_path / "a.jsonl", "--encoder", encoder)
    assert "where 128 can be read" in ran.output
    broken = check(tmp_path / "a.jsonl", "--encoder", tmp_path)
    assert isinstance(broken.exception, UnireError)
    assert "give a folder with tokenizer.json and config.json" in str(broken.exception)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokens_of_a_sentence_are_counted_as_windows_have_them(family, tmp_path):
    tokenizer_of(family).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 128}')
    count, longest = build_token_counter(tmp_path)
    assert longest == 128
    for words in (["-LRB-"] * 20, [*ODD_WORDS[:-1], *LONG[:5]], [GENOME, "Jr."]):
        (group,) = window_builder(family, window=0).build([Document.from_words([words])])
        (window,) = group.windows
        assert count(words) == len(window.tokens)


def test_the_tokens_of_a_model_with_case_marks_are_counted_with_them(tmp_path):
    tokenizer_of("bert").save(str(tmp_path / "tokenizer.json"))
    spec = replace(spec_of("bert"), case_marks=(1, 2))
    (tmp_path / "config.json").write_text(json.dumps({"format": "unire", "spec": spec.to_dict()}))
    count, _ = build_token_counter(tmp_path)
    assert count(["-LRB-", "Jr."]) == count(["-LRB-", "jr."]) + 1
