"""Errors in a file name the file, the line (or item) and the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import FIXTURES
from unire import formats
from unire.errors import UnireError

GOLD = {"sentences": [["a", "b"]], "ner": [[[0, 0, "G"], [1, 1, "G"]]], "relations": [[[0, 0, 1, 1, "G"]]]}


def file(folder: Path, *items: Any, name: str = "a.jsonl") -> Path:
    """A file of JSON lines; a string is a line as it is."""
    path = folder / name
    lines = [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in items]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_missing_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match=r"a\.jsonl cannot be read: No such file or directory; check the path"):
        formats.read(tmp_path / "a.jsonl")


def test_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="not a format that unire knows"):
        formats.read(tmp_path)
    with pytest.raises(UnireError, match="cannot be read: Is a directory; pass a file of the data, or another format="):
        formats.read(tmp_path, "dygie")


def test_a_file_is_refused_where_a_folder_is_needed() -> None:
    with pytest.raises(UnireError, match="cannot be read: Not a directory; pass the folder of the data, or another"):
        formats.read(FIXTURES / "people.json", "brat")


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff", "[]", " \n[ ]\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UnireError, match=r"a\.jsonl holds no document"):
        list(formats.read(path))


def test_an_unknown_format_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="unknown format 'csv'; give one of unire, jsonl, dygie, spert"):
        formats.read(FIXTURES / "people.json", "csv")
    with pytest.raises(UnireError, match="unknown format 'csv'"):
        formats.write([], tmp_path / "a", "csv")


def test_bytes_that_are_not_utf8_are_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"sentences": []}\n{"sentences": [["na\xefve"]]}\n')
    with pytest.raises(UnireError, match="line 2: not UTF-8"):
        list(formats.read(path))


def native(**changes: Any) -> dict[str, Any]:
    item = {"text": "a b", "sentences": [["a", "b"]], "offsets": [[[0, 1], [2, 3]]]}
    entities = [{"start": 0, "end": 1, "label": "X"}, {"start": 1, "end": 2, "label": "X"}]
    return {**item, "entities": entities, "relations": [], **changes}


def spert(**changes: Any) -> dict[str, Any]:
    entities = [{"start": 0, "end": 1, "type": "X"}, {"start": 1, "end": 2, "type": "X"}]
    return {"tokens": ["a", "b"], "entities": entities, "relations": [], **changes}


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ('{"sentences": [["a"]}', "not valid JSON: Expecting ',' delimiter"),
        ('{"sentences": [["a"]]} {}', "not valid JSON: Extra data (column 24)"),
        ('{"a":' * 100_000, "cannot be read as JSON"),
        ('{"sentences": [["\\ud83d"]]}', "cannot be read as JSON: 'utf-8' codec can't encode"),
        ("7", "a document must be a JSON object, but is 7"),
        ({"title": "x"}, "not a format that unire knows; name the format"),
        ({"ner": []}, '"sentences" is missing'),
        ({"sentences": "a b"}, '"sentences" must be a list, but is "a b"'),
        ({"sentences": ["a b"]}, 'sentence 0 of "sentences" must be a list, but is "a b"'),
        ({"sentences": [["a", 1]]}, 'a word of sentence 0 of "sentences" must be a string, but is 1'),
        ({**GOLD, "doc_key": None}, '"doc_key" must be a string or a whole number, but is null'),
        ({**GOLD, "ner": None}, '"ner" must be a list, but is null'),
        ({**GOLD, "ner": [[], []]}, '"ner" has 2 lists for 1 sentences; it needs one for each'),
        ({**GOLD, "ner": [{}]}, 'list 0 of "ner" must be a list, but is {}'),
        ({**GOLD, "ner": [[[0, "X"]]]}, 'entity [0, "X"] is not [start, end, label]'),
        ({**GOLD, "ner": [[[0, True, "X"]]]}, 'entity [0, true, "X"] is not [start, end, label]'),
        ({**GOLD, "ner": [[[1, 0, "X"]]]}, 'entity [1, 0, "X"] is reversed or empty'),
        ({**GOLD, "ner": [[[1, 2, "X"]]]}, 'entity [1, 2, "X"] is outside the document, which has 2 words'),
        ({**GOLD, "ner": [[[-1, 0, "X"]]]}, 'entity [-1, 0, "X"] is outside the document, which has 2 words'),
        ({**GOLD, "relations": [[[0, 0, 1, 1]]]}, "relation [0, 0, 1, 1] is not [head start, head end, tail start,"),
        ({**GOLD, "relations": [[[0, 0, 1, 2, "R"]]]}, 'relation [0, 0, 1, 2, "R"] is outside the document'),
        (
            {**GOLD, "relations": [[[0, 0, 0, 1, "R"]]]},
            'relation [0, 0, 0, 1, "R"] refers to a missing entity: none covers the words 0 to 1',
        ),
        (native(text=None), '"text" must be a string, but is null'),
        (native(offsets=[[[0, 1]]]), '"offsets" must have one [start, end] for every word of "sentences"'),
        (native(offsets=[7]), 'a sentence of "offsets" must be a list, but is 7'),
        (native(offsets=[[[0, 1], [2, 4]]]), "document '0': offset (2, 4) of word 1 must be (start, end), in"),
        (native(offsets=[[[0, 1], [3, 2]]]), "document '0': offset (3, 2) of word 1 must be (start, end), in"),
        (native(offsets=[[[2, 3], [0, 1]]]), "document '0': offset (0, 1) of word 1 must be (start, end), in"),
        (native(offsets=[[[0, 1], 2]]), "offset 2 is not [start, end]"),
        (native(offsets=[[[0, 1], [2, True]]]), "offset [2, true] is not [start, end]"),
        (native(meta=[]), '"meta" must be a JSON object, but is []'),
        (native(cuts=[[0], [1]]), '"cuts" has 2 lists for 1 sentences; it needs one for each'),
        (native(cuts=[[3]]), "cuts [3] are not positions in a sentence of words 0 to 2"),
        (native(cuts=[7]), "cuts 7 are not positions in a sentence of words 0 to 2"),
        (native(entities=[7]), "entity 7 must be a JSON object, but is 7"),
        (native(entities=[{"start": 0, "end": 1}]), '"label" of entity {"start": 0, "end": 1} must be a string,'),
        (
            native(entities=[{"start": 0, "end": 1, "label": "X", "char_end": 2}]),
            '"char_end" of entity {"start": 0, "end": 1, "label": "X", "char_end": 2} differs from that of its w',
        ),
        (
            native(relations=[{"head": 0, "tail": 2, "label": "R"}]),
            'relation {"head": 0, "tail": 2, "label": "R"} refers to entity 2, but there are 2, counted from 0',
        ),
    ],
)  # fmt: skip
def test_a_broken_line_is_refused_by_file_line_and_reason(tmp_path: Path, item: Any, reason: str) -> None:
    path = file(tmp_path, "", item)
    with pytest.raises(UnireError, match=re.escape(f"{path}, line 2: {reason}")):
        list(formats.read(path))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_that_is_not_lines_is_refused_with_a_remedy(tmp_path: Path, name: str, indent: int | None) -> None:
    path = tmp_path / name
    path.write_text(json.dumps([GOLD, GOLD], indent=indent), encoding="utf-8")
    lines = {"a.json": "a.jsonl", "a.jsonl": "lines-a.jsonl"}[name]
    for kind in (None, "dygie"):
        with pytest.raises(UnireError) as caught:
            list(formats.read(path, kind))
        assert str(caught.value) == (
            f"{path}: this is a JSON list, and not one document per line; write it as lines: "
            f"`jq -c '.[]' {name} > {lines}`"
        )
    path.write_text(json.dumps(GOLD, indent=2), encoding="utf-8")
    with pytest.raises(UnireError, match=r"a document takes several lines, and not one document per line.* `jq -c \. "):
        list(formats.read(path))


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ([], "a document must be a JSON object, but is []"),
        ({"sentences": []}, '"tokens" is missing'),
        (spert(tokens="a b"), '"tokens" must be a list, but is "a b"'),
        (spert(tokens=["a", None]), 'a word of "tokens" must be a string, but is null'),
        (spert(orig_id=[1]), '"orig_id" must be a string or a whole number, but is [1]'),
        (spert(entities={}), '"entities" must be a list, but is {}'),
        (spert(entities=[{"start": 0, "type": "X"}]), '"end" of entity {"start": 0, "type": "X"} must be a whole'),
        (spert(entities=[{"start": 1, "end": 1, "type": "X"}]), "is reversed or empty"),
        (spert(entities=[{"start": 0, "end": 3, "type": "X"}]), "is outside the document, which has 2 words"),
        (spert(entities=[{"start": 0, "end": 1, "type": 7}]), "must be a string, but is 7"),
        (spert(entities=[{"start": 0, "end": 1, "type": "X", "score": "hi"}]), "must be a number"),
        (spert(relations=["R"]), 'relation "R" must be a JSON object, but is "R"'),
        (spert(relations=[{"head": 0, "tail": 1}]), "must be a string, but is null"),
        (spert(relations=[{"head": -1, "tail": 1, "type": "R"}]), "refers to entity -1, but there are 2"),
        (spert(relations=[{"head": 0, "tail": 1, "type": "R" * 100}] * 2 + [0]), "relation 0 must be a JSON object"),
    ],
)  # fmt: skip
def test_a_broken_item_is_refused_by_file_item_and_reason(tmp_path: Path, item: Any, reason: str) -> None:
    path = file(tmp_path, [spert(), item])
    with pytest.raises(UnireError) as caught:
        list(formats.read(path))
    assert str(caught.value).startswith(f"{path}, item 1 (counted from 0): ")
    assert reason in str(caught.value)


def test_broken_json_in_spert_is_one_error_with_its_line(tmp_path: Path) -> None:
    path = file(tmp_path, "[", json.dumps(spert()), "}]")
    with pytest.raises(
        UnireError, match=re.escape(f"{path}: not valid JSON: Expecting ',' delimiter (line 3, column 1)")
    ):
        list(formats.read(path))


def test_an_object_where_spert_needs_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="must be a list, but is"):
        list(formats.read(file(tmp_path, spert()), "spert"))


def test_error_messages_are_short(tmp_path: Path) -> None:
    with pytest.raises(UnireError) as caught:
        list(formats.read(file(tmp_path, {**GOLD, "ner": ["x" * 10_000]}), "dygie"))
    assert len(str(caught.value)) < len(str(tmp_path)) + 200
