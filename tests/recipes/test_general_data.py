"""The data of the model `general`: its label space, its translation back, and corpora that complete or leak it."""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from dataclasses import replace

import pytest

from helpers.paths import ROOT
from unire import LabelSpace, formats
from unire.documents import Document
from unire.errors import UnireError

RECIPES = ROOT / "recipes"
MODULES = ("general_data", "score_everyday48", "fill_labels", "drop_overlaps", "plan", "reproduce", "script")

ARTICLE = {
    "doc_key": "Ada",
    "sentences": [
        ["Ada", "was", "born", "in", "Oslo", ",", "Norway", ",", "in", "1990", "."],
        ["Nordlys", "of", "Oslo", "published", "Fjord", ",", "a", "novel", "by", "Ada", "from", "Norway", "."],
    ],
    "ner": [
        [[0, 0, "PER"], [4, 4, "LOC"], [6, 6, "LOC"], [9, 9, "TIME"]],
        [[11, 11, "ORG"], [13, 13, "LOC"], [15, 15, "MISC"], [20, 20, "PER"], [22, 22, "LOC"]],
    ],
    "relations": [
        [
            [0, 0, 4, 4, "place of birth"],
            [0, 0, 9, 9, "date of birth"],
            [0, 0, 6, 6, "country of citizenship"],
            [4, 4, 6, 6, "country"],
            [6, 6, 4, 4, "contains the administrative territorial entity"],
            [6, 6, 4, 4, "capital"],
        ],
        [
            [11, 11, 13, 13, "headquarters location"],
            [15, 15, 11, 11, "publisher"],
            [15, 15, 20, 20, "author"],
            [20, 20, 15, 15, "notable work"],
            [15, 15, 22, 22, "country"],
            [15, 15, 22, 22, "country of origin"],
        ],
    ],
    "evidence": [[True, True, False, False, False, False], [True, True, True, False, False, False]],
}
SENTENCE = {
    "tokens": ["Edgar", "Poe", ",", "born", "in", "Boston", ",", "lived", "in", "Richmond", "in", "May", "1826", "."],
    "entities": [
        {"type": "Peop", "start": 0, "end": 2},
        {"type": "Loc", "start": 5, "end": 6},
        {"type": "Loc", "start": 9, "end": 10},
        {"type": "Other", "start": 11, "end": 13},
    ],
    "relations": [{"type": "Live_In", "head": 0, "tail": 1}, {"type": "Live_In", "head": 0, "tail": 2}],
}


@pytest.fixture
def recipes(monkeypatch):
    """The scripts as modules, by name."""
    monkeypatch.syspath_prepend(str(RECIPES))
    yield {name: __import__(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name)


@pytest.fixture
def article(tmp_path):
    """The article as a document of Re-DocRED."""
    path = tmp_path / "article.json"
    path.write_text(json.dumps(ARTICLE), encoding="utf-8")
    return next(formats.read(path))


def relation_texts(document: Document) -> set[str]:
    return {f"{r.head.text} {r.label} {r.tail.text}" for r in document.relations}


ALL = {
    "Ada born_in Oslo",
    "Ada born_on 1990",
    "Ada citizen_of Norway",
    "Oslo located_in Norway",
    "Nordlys based_in Oslo",
    "Fjord published_by Nordlys",
    "Fjord created_by Ada",
    "Fjord country_of_origin Norway",
}


def test_every_fact_of_redocred_becomes_one_relation(recipes, article):
    lost = Counter()
    document = recipes["general_data"].convert_redocred(article, evidence_only=False, lost=lost)
    assert relation_texts(document) == ALL
    assert [str(entity) for entity in document.entities][:4] == [
        "Ada [Person]",
        "Oslo [Place]",
        "Norway [Place]",
        "1990 [Date]",
    ]
    assert lost == {"notable work": 1}
    assert not document.meta


def test_relations_without_evidence_are_left_out_on_request(recipes, article):
    document = recipes["general_data"].convert_redocred(article, evidence_only=True, lost=Counter())
    assert relation_texts(document) == ALL - {
        "Ada citizen_of Norway",
        "Oslo located_in Norway",
        "Fjord country_of_origin Norway",
    }
    assert len(document.entities) == len(article.entities)


def test_symmetric_relations_are_written_once_from_left_to_right(recipes, tmp_path):
    item = {
        "doc_key": "a",
        "sentences": [["Ada", "married", "Bo"]],
        "ner": [[[0, 0, "PER"], [2, 2, "PER"]]],
        "relations": [[[2, 2, 0, 0, "spouse"], [0, 0, 2, 2, "spouse"]]],
        "evidence": [[False, True]],
    }
    (tmp_path / "a.json").write_text(json.dumps(item), encoding="utf-8")
    document = next(formats.read(tmp_path / "a.json"))
    converted = recipes["general_data"].convert_redocred(document, evidence_only=False, lost=Counter())
    assert [str(relation) for relation in converted.relations] == ["Ada [Person] –spouse→ Bo [Person]"]
    assert relation_texts(recipes["score_everyday48"].translate(converted)) == {"Ada spouse Bo", "Bo spouse Ada"}


def test_conll04_relations_are_refined_by_trigger_words(recipes, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([SENTENCE]), encoding="utf-8")
    document = next(formats.read(tmp_path / "a.json"))
    convert = recipes["general_data"].convert_conll04
    assert relation_texts(convert(document, frozenset())) == {"Edgar Poe born_in Boston", "Edgar Poe lives_in Richmond"}
    assert "Edgar Poe citizen_of Richmond" in relation_texts(convert(document, frozenset(["Richmond"])))
    assert [entity.label for entity in convert(document, frozenset()).entities] == ["Person", "Place", "Place", "Date"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, "Date") for text in ("Dec. 14 ,", "1990", "Friday", "0604 GMT", "two years", "4 : 45 a.m.", "1894.")],
        *[(text, "Number") for text in ("60 percent", "$160 , 000", "31 million", "three", "100 mph")],
        *[(text, "Other") for text in ("Watergate", "Colt Cobra", "Hindi weekly", "Ides", "Civil War", "Mayan")],
    ],
)
def test_dates_and_numbers_are_recognised_by_form(recipes, text, expected):
    assert recipes["general_data"]._classify_other(text) == expected


def test_the_label_space_has_just_the_types_that_data_is_converted_to(recipes):
    data = recipes["general_data"]
    labels = LabelSpace.load(RECIPES / "general_labels.json")
    relations = {*data.REDOCRED_RELATIONS, *data.BY_HEAD.values(), *data.CONLL04_RELATIONS.values()}
    assert set(labels.relation_types) == relations
    assert set(labels.entity_types) == set(data.REDOCRED_ENTITIES.values())
    sources = [source.removeprefix("~") for names in data.REDOCRED_RELATIONS.values() for source in names]
    assert len(sources) == len(set(sources)), "a relation of Re-DocRED becomes one of ours"
    assert set(recipes["score_everyday48"].EVERYDAY48) <= relations


def test_translated_relations_have_the_names_of_redocred_and_their_inverses(recipes, article):
    document = recipes["general_data"].convert_redocred(article, evidence_only=False, lost=Counter())
    translated = recipes["score_everyday48"].translate(document)
    assert [entity.label for entity in translated.entities] == [entity.label for entity in article.entities]
    assert relation_texts(translated) == {
        "Ada place of birth Oslo",
        "Ada date of birth 1990",
        "Ada country of citizenship Norway",
        "Oslo located in Norway",
        "Nordlys located in Oslo",
        "Fjord author Ada",
        "Ada notable work Fjord",
        "Fjord country of origin Norway",
    }


def test_data_is_converted_and_counted(recipes, tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    for name, content in (("redocred", json.dumps(ARTICLE)), ("conll04", json.dumps([SENTENCE]))):
        (data / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (data / name / f"{split}.json").write_text(content, encoding="utf-8")
    recipes["general_data"].main(str(data), str(out))
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["born_in"] == ["1"] * 3 + ["1"] * 3 + ["1"] * 3
    assert rows["citizen_of"] == ["0"] * 3 + ["1"] * 3 + ["0"] * 3
    assert rows["spouse"] == ["0"] * 9
    labels = LabelSpace.load(RECIPES / "general_labels.json")
    for folder in ("evidence", "all", "conll04"):
        labels.check(formats.read(out / folder / "train.jsonl"))
    item = {key: value for key, value in ARTICLE.items() if key != "evidence"}
    (data / "redocred" / "dev.json").write_text(json.dumps(item), encoding="utf-8")
    with pytest.raises(UnireError, match=r'dev\.json has documents without "evidence"'):
        recipes["general_data"].main(str(data), str(out))


@pytest.mark.slow
def test_the_scripts_run_as_stages_of_the_plan(recipes, tmp_path):
    plan, reproduce = recipes["plan"], recipes["reproduce"]
    parts = plan.Parts(*(tmp_path / name for name in ("encoders", "data", "corpus", "work")))
    for name, content in (("redocred", json.dumps(ARTICLE)), ("conll04", json.dumps([SENTENCE]))):
        (parts.data / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (parts.data / name / f"{split}.json").write_text(content, encoding="utf-8")
    stages = plan.plan(parts)
    filled = stages["conll04-filled.jsonl"]
    model, data, *rest = filled.command[1:]
    assert model == str(parts.work / "general-all-0")
    assert data == str(parts.work / "general-data" / "conll04" / "train.jsonl")
    words = parts.data / "words.jsonl"
    formats.write([Document.from_words([["Ada", "works", "for", "IBM", "."]], id="a")], words)
    filled = replace(filled, command=("fill_labels", "news", str(words), *rest), needs=())
    reproduce.make([stages["general-data"], filled], parts, jobs=2)
    for path in (stages["general-best-0"].command[i] for i in (4, 6, 8, 10)):
        assert next(formats.read(path)).entities
    assert "all relations" in json.loads((parts.work / "general-data.json").read_text(encoding="utf-8"))["printed"]


def test_types_that_a_corpus_lacks_are_filled_in_and_its_own_annotation_stays(recipes):
    words = ["Ada", "Berg", "of", "Oslo", "wed", "Bo", "in", "May", "1990"]
    gold = Document.from_words([words], [(0, 2, "Person"), (5, 6, "Person")])
    found = Document.from_words(
        [words],
        [(1, 2, "Other", 0.9), (0, 2, "Person", 0.9), (3, 4, "Place", 0.9), (5, 6, "Place", 0.8), (7, 9, "Date", 0.7)],
        [(1, 2, "lives_in", 0.9), (1, 4, "born_on", 0.9), (1, 3, "located_in", 0.9), (0, 2, "part_of", 0.9)],
    )
    filled = recipes["fill_labels"].fill(gold, found, {"lives_in"})
    assert [str(entity) for entity in filled.entities] == [
        "Ada Berg [Person]",
        "Bo [Person]",
        "Oslo [Place]",
        "May 1990 [Date]",
    ]
    assert all(entity.score is None for entity in filled.entities)
    assert relation_texts(filled) == {"Ada Berg born_on May 1990"}


@pytest.mark.slow
def test_a_model_fills_in_and_is_scored(recipes, tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.jsonl"
    words = ["Ada", "Lovelace", "works", "for", "IBM", "in", "Boston", "."]
    formats.write([Document.from_words([words], id=name) for name in "ab"], path)
    recipes["fill_labels"].main("news", str(path), "0.3", str(tmp_path / "b.jsonl"))
    assert "entities" in capsys.readouterr().out
    filled = next(formats.read(tmp_path / "b.jsonl"))
    assert {entity.label for entity in filled.entities} == {"Peop", "Org", "Loc"}
    script = recipes["score_everyday48"]
    monkeypatch.setattr(script, "translate", lambda document: document)
    script.main("news", str(tmp_path / "b.jsonl"), "0.3")
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["entities"]["f1"] == scores["relations"]["f1"] == 1


def test_texts_that_repeat_evaluation_data_are_dropped(recipes, article, tmp_path, capsys):
    first, second = (" ".join(words) for words in ARTICLE["sentences"])
    corpus, out = tmp_path / "corpus.txt.xz", tmp_path / "clean.txt"
    clean = "The harbour of Oslo was closed for most of the day because of fog."
    with lzma.open(corpus, "wt", encoding="utf-8") as file:
        file.write(f"{clean}\nLately: {second.lower()}\n{' '.join(first.split()[:8])} with a view\n")
    recipes["drop_overlaps"].main(str(corpus), str(out), str(tmp_path / "article.json"))
    assert out.read_text(encoding="utf-8").splitlines() == [clean, f"{' '.join(first.split()[:8])} with a view"]
    assert capsys.readouterr().out == "kept 2 texts, dropped 1\n"
    with pytest.raises(UnireError, match="name the evaluation data"):
        recipes["drop_overlaps"].main(str(corpus), str(out))
