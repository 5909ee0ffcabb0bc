"""Pipelines and docs of spaCy that are saved, and annotation that survives it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.util import load_config, load_model_from_config

from helpers.paths import ROOT
from helpers.spacy import TEXTS, found, in_a_fresh_process, pipeline
from unire import Extractor, UnireError

LOADED = """
import json, sys, spacy
sys.path.insert(0, sys.argv[1])
from helpers.spacy import TEXTS, found
print(json.dumps([found(doc) for doc in spacy.load(sys.argv[2]).pipe(TEXTS)]))
"""


@pytest.mark.slow
def test_a_saved_pipeline_gives_equal_results_in_a_fresh_process(exported: Path, docs: list[Doc], tmp_path: Path):
    own = shutil.copytree(exported, tmp_path / "own")
    nlp = pipeline(own)
    nlp.to_disk(tmp_path / "saved")
    nlp.to_disk(tmp_path / "saved")  # again, over itself
    shutil.rmtree(own)
    moved = (tmp_path / "saved").rename(tmp_path / "moved")
    assert json.loads(in_a_fresh_process(LOADED, ROOT / "tests", moved)) == [found(doc) for doc in docs]
    # what is in it is a model like any other, and a loaded pipeline can be saved in its own place
    assert Extractor.load(moved / "unire").extract(TEXTS[0]).entities
    spacy.load(moved).to_disk(moved)
    assert [found(doc) for doc in spacy.load(moved).pipe(TEXTS)] == [found(doc) for doc in docs]


@pytest.mark.slow
def test_a_saved_pipeline_includes_a_bundled_model(tmp_path: Path):
    pipeline("science").to_disk(tmp_path / "saved")
    assert (tmp_path / "saved" / "unire" / "model.safetensors").exists()
    pipeline("science").to_disk(tmp_path / "named", exclude=["unire"])
    assert not (tmp_path / "named" / "unire").exists()
    whole, named = (spacy.load(tmp_path / name)(TEXTS[0]) for name in ("saved", "named"))
    assert found(whole) == found(named)
    assert found(whole)[2]


def test_a_pipeline_survives_as_bytes(nlp: spacy.Language, docs: list[Doc]):
    other = pipeline("nowhere").from_bytes(nlp.to_bytes())
    assert [found(doc) for doc in other.pipe(TEXTS)] == [found(doc) for doc in docs]
    again = pipeline("nowhere").from_bytes(other.to_bytes())
    assert found(again(TEXTS[0])) == found(docs[0])


def test_a_damaged_model_is_found_when_the_pipeline_is_loaded(nlp: spacy.Language, tmp_path: Path):
    nlp.to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "unire" / "labels.json").unlink()
    with pytest.raises(UnireError, match=r"has no labels.json"):
        spacy.load(tmp_path / "saved")


def test_a_pipeline_is_not_saved_over_other_files(nlp: spacy.Language, tmp_path: Path):
    (tmp_path / "saved" / "unire").mkdir(parents=True)
    (tmp_path / "saved" / "unire" / "thesis.txt").write_text("Years of work.")
    with pytest.raises(UnireError, match=r"already exists and holds 'thesis.txt'; pass a new folder"):
        nlp.to_disk(tmp_path / "saved")
    assert (tmp_path / "saved" / "unire" / "thesis.txt").exists()


@pytest.mark.parametrize("store_user_data", [False, True])
def test_annotations_survive_a_docbin(docs: list[Doc], tmp_path: Path, store_user_data: bool):
    DocBin(docs=docs, store_user_data=store_user_data).to_disk(tmp_path / "docs.spacy")
    read = DocBin().from_disk(tmp_path / "docs.spacy").get_docs(spacy.blank("en").vocab)
    assert [found(doc) for doc in read] == [found(doc) for doc in docs]


def test_annotations_survive_bytes_disk_and_copies(docs: list[Doc], tmp_path: Path):
    vocab = spacy.blank("en").vocab
    for doc in docs:
        doc.to_disk(tmp_path / "doc")
        for other in (Doc(vocab).from_bytes(doc.to_bytes()), Doc(vocab).from_disk(tmp_path / "doc"), doc.copy()):
            assert found(other) == found(doc)


def test_a_pipeline_is_made_from_its_configuration(exported: Path, tmp_path: Path):
    nlp = pipeline(exported, min_score=0.01, overwrite_ents=False, spans_key="mine", prefix="unire_")
    nlp.config.to_disk(tmp_path / "config.cfg")
    other = load_model_from_config(load_config(tmp_path / "config.cfg"))
    assert other.config["components"]["unire"] == nlp.config["components"]["unire"]
    component = other.get_pipe("unire")
    assert (component.min_score, component.overwrite_ents, component.spans_key) == (0.01, False, "mine")
    doc, same = other(TEXTS[0]), nlp(TEXTS[0])
    assert doc._.unire_relations
    assert [r.score for r in doc._.unire_relations] == [r.score for r in same._.unire_relations]
    with other.select_pipes(disable="unire"):
        assert other(TEXTS[0])._.unire_relations == []
