"""Predictions go to an annotation tool, are corrected there, and come back: what each tool does to its file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unire import formats
from unire.documents import Document

TEXT = "We train a chart parser on the Penn Treebank. It is fast."


@pytest.fixture
def predicted() -> Document:
    return Document.from_words(
        [["We", "train", "a", "chart", "parser", "on", "the", "Penn", "Treebank", "."], ["It", "is", "fast", "."]],
        text=TEXT,
        offsets=[(0, 2), (3, 8), (9, 10), (11, 16), (17, 23), (24, 26), (27, 30), (31, 35), (36, 44), (44, 45),
                 (46, 48), (49, 51), (52, 56), (56, 57)],
        id="papers/1.txt",
        entities=[(3, 5, "Task", 0.4), (7, 9, "Material", 0.9), (12, 13, "Metric", 0.3)],
        relations=[(1, 0, "USED-FOR", 0.6), (2, 0, "EVALUATE-FOR", 0.2)],
    )  # fmt: skip


def correct_labelstudio(path: Path) -> None:
    """As exported by Label Studio 1.23: edited tasks lose the scores of relations, and get ids of their own."""
    (task,) = json.loads(path.read_text(encoding="utf-8"))
    (annotation,) = task["annotations"]
    parser, treebank, _, used_for, _ = annotation["result"]  # "fast" is deleted with its relation
    parser["value"]["labels"] = ["Method"]
    value = {"start": 46, "end": 48, "text": "It", "labels": ["Generic"]}
    new = {"value": value, "id": "Xq9drt-DGY", "from_name": "label", "to_name": "text", "type": "labels"}
    del used_for["score"]
    result = [{**item, "origin": "manual"} for item in (parser, treebank, new)]
    annotation.update(result=[*result, used_for], id=3, completed_by=1, was_cancelled=False, ground_truth=False)
    task.update(id=7, drafts=[], predictions=[], meta={}, project=1)
    path.write_text(json.dumps([task]), encoding="utf-8")


def correct_prodigy(path: Path) -> None:
    """As documented by Prodigy: relations repeat their spans, and examples get keys that start with `_`."""
    example: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    parser, treebank, _ = example["spans"]
    parser["label"] = "Method"
    example["spans"] = [
        parser,
        treebank,
        {"start": 46, "end": 48, "token_start": 10, "token_end": 10, "label": "Generic"},
    ]
    used_for, _ = example["relations"]
    example["relations"] = [{**used_for, "head_span": treebank, "child_span": parser, "color": "#96e8ce"}]
    example.update(_input_hash=-1, _task_hash=2, _view_id="relations", answer="accept")
    path.write_text(json.dumps(example) + "\n", encoding="utf-8")


def correct_brat(path: Path) -> None:
    """As brat writes: ids of deleted annotations stay free, and new ones come last."""
    (file,) = path.rglob("*.ann")
    lines = file.read_text(encoding="utf-8").replace("T1\tTask", "T1\tMethod").splitlines()
    kept = [line for line in lines if not line.startswith(("T3", "R2"))]
    file.write_text("\n".join([*kept, "T4\tGeneric 46 48\tIt", ""]), encoding="utf-8")


@pytest.mark.parametrize(
    ("format", "correct"),
    [("labelstudio", correct_labelstudio), ("prodigy", correct_prodigy), ("brat", correct_brat)],
)
def test_corrections_come_back(format: str, correct: Callable[[Path], None], predicted: Document, tmp_path: Path):
    path = tmp_path / "tasks"
    formats.write([predicted], path, format, lost=Counter())
    correct(path)
    (document,) = formats.read(path)
    assert (document.id, document.text) == ("papers/1.txt", TEXT)
    assert [sentence.words for sentence in document.sentences] == [s.words for s in predicted.sentences]
    assert [str(entity) for entity in document.entities] == [
        "chart parser [Method]",
        "Penn Treebank [Material]",
        "It [Generic]",
    ]
    assert [str(relation) for relation in document.relations] == [
        "Penn Treebank [Material] –USED-FOR→ chart parser [Method]"
    ]
