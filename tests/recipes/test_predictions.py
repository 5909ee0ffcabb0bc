"""Stored predictions: spans without text that give the same scores again."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from helpers.paths import FIXTURES, ROOT, TWENTY
from unire import Extractor, LabelSpace, formats
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score

STORED = ROOT / "results" / "predictions"
BUNDLED = {"science": "scierc", "news": "conll04"}


@pytest.fixture
def script(monkeypatch):
    """The recipe as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    import predictions

    yield predictions
    sys.modules.pop("predictions")


def record(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_stored_predictions_hold_no_words_and_have_the_same_scores(script, exported, tmp_path, capsys):
    stored = tmp_path / "stored" / "predictions.jsonl"
    script.main(["store", str(exported), str(TWENTY), str(stored)])
    gold = list(formats.read(TWENTY))
    labels = LabelSpace.resolve("scierc", None, gold)
    predicted = list(Extractor.load(exported).annotate(gold))
    assert any(document.entities for document in predicted)
    written = stored.read_text(encoding="utf-8")
    known = {"id", "words", "entities", "relations", "null", *labels.entity_types, *labels.relation_types}
    ids = {document.id for document in gold}
    assert set(re.findall(r"[A-Za-z][A-Za-z-]*", written)) <= known | ids
    script.main(["score", str(stored), str(TWENTY), "--labels", "scierc", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["relations"] == score(gold, predicted, labels).relations.to_dict()
    assert len(report["protocols"]) == 6
    script.main(["score", str(stored), str(TWENTY), "--labels", "scierc"])
    assert capsys.readouterr().out.startswith("Report on 7 documents [strict, doubled, micro]")


def test_predictions_of_another_file_are_refused(script, exported, tmp_path):
    stored, shorter, other = tmp_path / "stored.jsonl", tmp_path / "shorter.jsonl", tmp_path / "other.jsonl"
    script.store(str(exported), TWENTY, stored)
    lines = TWENTY.read_text(encoding="utf-8").splitlines(keepends=True)
    shorter.write_text("".join(lines[:-1]), encoding="utf-8")
    other.write_text("".join(reversed(lines)), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"has 7 documents, but .* has 6"):
        script.main(["score", str(stored), str(shorter), "--labels", "scierc"])
    with pytest.raises(UnireError, match="the predictions are for document"):
        script.score(stored, other, "scierc")


def test_documents_that_other_files_repeat_are_left_out(script, exported, tmp_path):
    stored, other = tmp_path / "stored.jsonl", tmp_path / "other.jsonl"
    script.store(str(exported), TWENTY, stored)
    other.write_text("".join(TWENTY.read_text(encoding="utf-8").splitlines(keepends=True)[:3]), encoding="utf-8")
    assert len(script.score(stored, TWENTY, "scierc", without=[other]).gold) == 4
    assert len(script.score(stored, TWENTY, "scierc", without=[FIXTURES / "people.json"]).gold) == 7


def test_a_symmetric_pair_is_written_once_from_the_earlier_entity(script):
    words = [["trees", "and", "graphs", "for", "parsing"]]
    entities = [(0, 1, "Method"), (2, 3, "Method"), (4, 5, "Task")]
    both = Document.from_words(words, entities, [(0, 1, "CONJUNCTION"), (1, 0, "CONJUNCTION"), (2, 0, "USED-FOR")])
    later = Document.from_words(words, entities, [(1, 0, "CONJUNCTION"), (2, 0, "USED-FOR")])
    for document in (both, later):
        written = script.write_pairs_once(document, {"CONJUNCTION"})
        assert [(r.head.start, r.tail.start, r.label) for r in written.relations] == [
            (0, 2, "CONJUNCTION"),
            (4, 0, "USED-FOR"),
        ]


@pytest.mark.parametrize("name", BUNDLED)
def test_the_stored_predictions_of_a_bundled_model_are_those_of_its_record(name):
    lines = [json.loads(line) for line in (STORED / f"{name}-test.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = record(f"{name}-test")["scores"]["test"]
    for kind, position in (("entities", 2), ("relations", 2)):
        counted = Counter(item[position] for line in lines for item in line[kind])
        expected = {label: counts["predicted"] for label, counts in scores[kind]["types"].items()}
        assert counted == Counter(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_the_stored_predictions_have_the_published_scores(script, data_folder: Path, name):
    data = data_folder / BUNDLED[name]
    stored = STORED / f"{name}-test.jsonl"
    report = script.score(stored, data / "test.json", BUNDLED[name]).to_dict()
    assert report["scores"]["relations"] == record(f"{name}-test")["scores"]["test"]["relations"]
    assert report["intervals"] == record(f"{name}-test")["intervals"]
    if name == "news":
        without = script.score(stored, data / "test.json", "conll04", without=[data / "train.json", data / "dev.json"])
        assert without.scores.to_dict() == record("news-test-without-repeated")["scores"]["test"]
    else:
        once = script.score(stored, data / "test.json", "scierc", pairs_once=True)
        assert once.scores.to_dict() == record("science-test-pairs-once")["scores"]["test"]
