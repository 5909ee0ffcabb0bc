"""The extractor as people use it from Python: what it takes, returns, prints and saves."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from unire import Document, Documents, Extractor
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.evaluation.evaluate import to_extractor
from unire.models.checkpoint import load_checkpoint

TEXTS = ["We present a parser. It isn't new!", "", "Results: 3.5%", "A corpus of news."]


@pytest.fixture(scope="module")
def extractor(random_model) -> Extractor:
    return Extractor.load(random_model, device="cpu")


@pytest.fixture(scope="module")
def documents(extractor) -> Documents:
    return extractor.extract(TEXTS)


# What it takes


def test_a_model_is_loaded_under_either_name(random_model, documents):
    assert Extractor.from_pretrained(random_model, device="cpu").extract(TEXTS) == documents


def test_an_extractor_can_be_called(extractor, documents):
    assert extractor(TEXTS[0]) == extractor.extract(TEXTS[0])
    assert extractor(TEXTS) == documents
    assert extractor(TEXTS, ids=list("abcd"))[3].id == "d"


def test_a_list_gives_a_list_that_can_be_shown(documents):
    assert isinstance(documents, Documents)
    assert isinstance(documents, list)
    assert [document.text for document in documents] == TEXTS


def test_arrays_and_columns_give_a_list(extractor, documents):
    assert extractor.extract(np.array(TEXTS)) == documents
    assert isinstance(extractor.extract(np.array(TEXTS, dtype=object)), Documents)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "key": [7, 8, 9, 10]}, index=[3, 2, 1, 0])
    found = extractor.extract(frame["text"], ids=frame["key"])
    assert isinstance(found, Documents)
    assert [document.text for document in found] == TEXTS
    assert [document.id for document in found] == ["7", "8", "9", "10"]


def test_other_iterables_give_an_iterator(extractor, documents):
    for texts in (iter(TEXTS), deque(TEXTS), dict.fromkeys(TEXTS).keys()):
        found = extractor.extract(texts)
        assert not isinstance(found, list)
        assert list(found) == documents


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"a": "text"}, r"not a dict; give list\(texts.values\(\)\)"),
        (b"text", "a text is a string, but bytes was given"),
        (bytearray(b"text"), "but bytearray was given"),
        (None, "but NoneType was given"),
        (3, "but int was given"),
        (2.5, "but float was given"),
        (Path("text.txt"), "Path was given; decode or read it first"),
        (Document("text"), r"extractor.annotate\(\[document\]\) takes documents"),
        (["text", None], "the one at position 1 is NoneType"),
        ([["text"]], "the one at position 0 is list"),
        ([Document("text")], "use annotate for documents"),
        (np.arange(3), "the one at position 0 is int"),
        (np.array([["a", "b"]]), "the one at position 0 is list"),
    ],
    ids=repr,
)
def test_an_invalid_text_is_refused_in_one_sentence(extractor, texts, message):
    with pytest.raises(UnireError, match=message) as caught:
        extractor.extract(texts)
    assert "\n" not in str(caught.value)


def test_a_data_frame_and_missing_values_are_refused(extractor):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", None]}, dtype=object)
    with pytest.raises(UnireError, match=r'not a DataFrame; give one column, as in frame\["text"\]'):
        extractor.extract(frame)
    with pytest.raises(UnireError, match="the one at position 1 is "):
        extractor.extract(frame["text"])


# Options


def test_documents_get_ids(extractor):
    for texts in (TEXTS, tuple(TEXTS), iter(TEXTS)):
        assert [document.id for document in extractor.extract(texts, ids=(f"d{i}" for i in range(4)))] == [
            "d0",
            "d1",
            "d2",
            "d3",
        ]
    assert extractor.extract("a", id="one").id == "one"


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", "b"], {"ids": ["1"]}, "2 texts and 1 ids"),
        (["a"], {"ids": iter([])}, "more texts than ids"),
        (["a"], {"ids": iter("12")}, "more ids than texts"),
        (["a"], {"ids": "1"}, "ids are a list with one id for each text, not str"),
        (["a"], {"ids": 1}, "not int"),
        ("a", {"ids": ["1"]}, "for a single text give id="),
        (["a"], {"id": "1"}, "for several texts give ids="),
        ("a", {"min_score": 1.5}, "min_score must be from 0 to 1, or 'auto', not 1.5"),
        ("a", {"min_score": float("nan")}, "min_score"),
        ("a", {"min_score": None}, "min_score must be from 0 to 1, or 'auto', not None"),
        ("a", {"batch_size": 1.5}, "batch_size must be a whole number, at least 1, not 1.5"),
        ("a", {"batch_size": 0}, "batch_size must be a whole number, at least 1, not 0"),
        ("a", {"types": ["Method", "Person"]}, r"types=\.\.\. names 'Person', .* the entity types are .*Method"),
    ],
)
def test_bad_options_are_refused(extractor, texts, options, message):
    with pytest.raises(UnireError, match=message):
        extractor.extract(texts, **options)


def test_low_scores_are_left_out_as_by_the_command(extractor, documents):
    scores = sorted(entity.score for document in documents for entity in document.entities)
    middle = scores[len(scores) // 2]
    found = extractor.extract(TEXTS, min_score=middle)
    assert found == [document.confident(middle) for document in documents]
    assert 0 < sum(len(document.entities) for document in found) < len(scores)
    assert extractor.extract(TEXTS[0], min_score=middle) == extractor.extract(TEXTS[0]).confident(middle)
    assert list(extractor.extract(iter(TEXTS), min_score=middle)) == found


def test_other_types_are_left_out(extractor, documents):
    label = documents[0].relations[0].label
    found = extractor.extract(TEXTS, types=[label])
    assert [document.entities for document in found] == [document.entities for document in documents]
    relations = [[relation for relation in document.relations if relation.label == label] for document in documents]
    assert [list(document.relations) for document in found] == relations
    label = documents[0].entities[0].label
    found = list(extractor.extract(iter(TEXTS), types=label))
    assert {entity.label for document in found for entity in document.entities} == {label}
    assert all(relation.tail in document.entities for document in found for relation in document.relations)


def test_relations_of_some_types_come_with_their_arguments_only(extractor, documents):
    label = documents[0].relations[0].label
    for document, all_of_it in zip(extractor.extract(TEXTS, relations=[label]), documents, strict=True):
        expected = [relation for relation in all_of_it.relations if relation.label == label]
        assert list(document.relations) == expected
        assert set(document.entities) == {entity for r in expected for entity in (r.head, r.tail)}
    head = documents[0].relations[0].head.label
    for document in extractor.extract(TEXTS, entities=head, relations=label):
        assert {entity.label for entity in document.entities} <= {head}


def test_results_do_not_depend_on_the_batch_size(extractor, twenty):
    def spans_and_labels(documents):
        return [[(entity.span, entity.label) for entity in document.entities] for document in documents]

    texts = [document.text for document in twenty]
    sizes = []
    expected = extractor.extract(texts)
    for batch_size in (1, 3, 1000):
        sizes.clear()
        found = extractor.extract(
            texts, batch_size=batch_size, on_batch=lambda batch, P: sizes.append(len(batch.table_spans))
        )
        assert spans_and_labels(found) == spans_and_labels(expected)
        assert max(sizes) <= batch_size
    assert spans_and_labels(extractor.annotate(twenty, batch_size=2)) == spans_and_labels(extractor.annotate(twenty))


def test_progress_is_shown_beside_the_results(extractor, documents, capsys):
    assert extractor.extract(TEXTS, progress=True) == documents
    assert list(extractor.extract(iter(TEXTS), progress=True)) == documents
    assert extractor.extract(TEXTS[3], progress=True) == extractor.extract(TEXTS[3])
    assert capsys.readouterr().out == ""


# What it prints and saves


def test_an_extractor_has_a_short_repr(extractor, random_model):
    shown = repr(extractor)
    assert shown.startswith(f"<Extractor '{random_model.name}': TorchEngine, decoder split, α = 0.5, 6 entity types, ")
    assert "\n" not in shown


def test_a_saved_extractor_finds_the_same(random_model, tmp_path):
    changed = Extractor.load(random_model, device="cpu", alpha=1.25, constraints="none")
    changed.save(tmp_path / "saved")
    again = Extractor.load(str(tmp_path / "saved"), device="cpu")
    assert again.config == changed.config
    assert again.extract(TEXTS) == changed.extract(TEXTS)
    with pytest.raises(UnireError, match="already exists"):
        again.save(tmp_path / "saved")


def test_an_exported_model_is_saved_with_its_graph(exported, tmp_path):
    extractor = Extractor.load(exported, engine="onnx", decoder="likely")
    extractor.save(tmp_path / "saved")
    assert {file.name for file in (tmp_path / "saved").iterdir()} == {file.name for file in exported.iterdir()}
    again = Extractor.load(tmp_path / "saved", engine="onnx")
    assert again.config.decoder == "likely"
    assert again.extract(TEXTS) == extractor.extract(TEXTS)


def test_a_model_in_memory_is_saved(random_model, tmp_path, documents):
    model = load_checkpoint(random_model)
    extractor = to_extractor(model).with_alpha(1.5)
    assert repr(extractor).startswith("<Extractor: TorchEngine, ")
    extractor.save(tmp_path / "saved")
    assert ModelConfig.load(tmp_path / "saved").alpha == 1.5
    assert model.config.alpha == 0.5
    with pytest.raises(UnireError, match="already exists"):
        extractor.save(tmp_path / "saved")


def test_an_engine_without_a_model_cannot_be_saved(extractor, tmp_path):
    other = extractor.with_alpha(1.0)
    other.model_dir, other.engine = None, object()
    with pytest.raises(UnireError, match="neither a model folder nor a PyTorch model"):
        other.save(tmp_path / "saved")
