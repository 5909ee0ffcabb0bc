"""The component of spaCy pipelines: what it finds, in one text or in streams, and what it refuses."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.util import ignore_error

from helpers.spacy import TEXTS, found, in_a_fresh_process, pipeline
from unire import Document, Extractor, UnireError
from unire.integrations.spacy.annotation import arcs
from unire.segmentation import segment

# What it finds


@pytest.mark.slow
def test_spacy_finds_the_component_without_an_import():
    code = """
import json, spacy
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("unire", config={"model": "science"})
doc = nlp("We train a chart parser on the Penn Treebank for dependency parsing.")
print(json.dumps([[r.head.text, r.label, r.tail.text] for r in doc._.relations]))
"""
    assert json.loads(in_a_fresh_process(code)) == [
        ["chart parser", "USED-FOR", "dependency parsing"],
        ["Penn Treebank", "USED-FOR", "chart parser"],
    ]


def test_the_results_are_those_of_the_extractor(exported: Path, docs: list[Doc]):
    extractor = Extractor.load(exported, engine="onnx")
    assert sum(len(doc._.relations) for doc in docs) > 3
    for doc in docs:
        bounds = [(sentence.start_char, sentence.end_char) for sentence in doc.sents]
        (document,) = extractor.annotate([segment(doc.text, sentences=bounds)])
        entities = [[e.char_start, e.char_end, e.label, e.score] for e in document.entities]
        relations = [
            [*([e.char_start, e.char_end, e.label] for e in (r.head, r.tail)), r.label, r.score]
            for r in document.relations
        ]
        assert found(doc) == [doc.text, entities, relations]
        assert list(doc.spans["sc"]) == list(doc.ents)


def test_one_text_gives_what_a_stream_does(nlp: spacy.Language, docs: list[Doc]):
    assert [found(nlp(text)) for text in TEXTS] == [found(doc) for doc in docs]


def test_other_types_are_left_out(exported: Path, docs: list[Doc]):
    label = next(relation.label for doc in docs for relation in doc._.relations)
    nlp = pipeline(exported, relations=[label])
    for doc, everything in zip(nlp.pipe(TEXTS), docs, strict=True):
        expected = [relation for relation in everything._.relations if relation.label == label]
        assert [(r.head.text, r.tail.text) for r in doc._.relations] == [(r.head.text, r.tail.text) for r in expected]
        arguments = {span.start for relation in doc._.relations for span in (relation.head, relation.tail)}
        assert {span.start for span in doc.ents} == arguments
    assert pickle.loads(pickle.dumps(nlp.get_pipe("unire"))).relations == [label]


@given(st.text(alphabet="ab. ()\n'-", max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_given_sentences_hold_every_character_in_one_word(text: str, cuts: list[int]):
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    given_sentences = list(itertools.pairwise(bounds))
    document = segment(text, sentences=given_sentences)
    assert "".join(document.words) == "".join(text.split())
    for sentence in document.sentences:
        assert any(a <= sentence.offsets[0][0] and sentence.offsets[-1][1] <= b for a, b in given_sentences)
        assert [text[a:b] for a, b in sentence.offsets] == list(sentence.words)


@pytest.mark.parametrize("text", ["", " ", " \n\n ", "Parsing", "Parsing "])
def test_a_text_of_one_token_or_none_is_a_sentence_whether_or_not_something_says_so(
    nlp: spacy.Language, exported: Path, text: str
):
    bare = spacy.blank("en")
    bare.add_pipe("unire", config={"model": str(exported)})
    doc = bare(text)
    assert found(doc) == found(nlp(text)) == found(next(bare.pipe([text])))
    assert arcs(doc) == []
    assert found(Doc(doc.vocab).from_bytes(doc.to_bytes())) == found(doc)


def test_low_scores_are_left_out(exported: Path, docs: list[Doc]):
    scores = sorted(score for doc in docs for score in doc.spans["sc"].attrs["scores"])
    least = scores[len(scores) // 2]
    kept = list(pipeline(exported, min_score=least).pipe(TEXTS))
    assert sorted(span._.score for doc in kept for span in doc.ents) == [score for score in scores if score >= least]
    assert all(relation.score >= least for doc in kept for relation in doc._.relations)


# Streams


def test_a_stream_is_read_in_batches(nlp: spacy.Language, monkeypatch: pytest.MonkeyPatch):
    component = nlp.get_pipe("unire")
    sizes: list[int] = []
    whole = component.extractor.annotate

    def counted(documents: list[Document], **options: object):
        sizes.append(len(documents))
        return whole(documents, **options)

    monkeypatch.setattr(component.extractor, "annotate", counted)
    taken = itertools.count()
    stream = nlp.pipe((f"{TEXTS[0]} {next(taken)}" for _ in range(10)), batch_size=4)
    first = next(stream)
    assert first.text.endswith("0")
    assert next(taken) <= 5  # no more than a batch was read for it
    assert len(list(stream)) == 9
    assert sizes == [4, 4, 2]


def test_a_stream_can_be_read_by_several_processes(nlp: spacy.Language, docs: list[Doc]):
    many = list(nlp.pipe(TEXTS, n_process=2, batch_size=2))
    assert [found(doc) for doc in many] == [found(doc) for doc in docs]


def test_the_component_can_be_pickled_for_a_spawned_process(nlp: spacy.Language, docs: list[Doc]):
    component = pickle.loads(pickle.dumps(nlp.get_pipe("unire")))
    doc = component(spacy.blank("en").add_pipe("sentencizer")(spacy.blank("en").make_doc(TEXTS[0])))
    assert found(doc) == found(docs[0])


def test_an_error_says_what_to_add_to_a_pipeline_without_sentences(exported: Path):
    nlp = spacy.blank("en")
    nlp.add_pipe("unire", config={"model": str(exported)})
    with pytest.raises(UnireError, match=r'needs sentences; .*nlp.add_pipe\("sentencizer", before="unire"\)'):
        nlp("Two words.")
    with pytest.raises(UnireError, match="needs sentences"):
        list(nlp.pipe(["Two words."]))
    nlp.set_error_handler(ignore_error)
    assert list(nlp.pipe(["Two words."])) == []
    nlp.add_pipe("sentencizer", before="unire")
    assert nlp("Two words.").has_annotation("SENT_START")


def test_of_a_batch_only_the_text_that_cannot_be_read_is_an_error(exported: Path, nlp: spacy.Language):
    bare = spacy.blank("en")
    bare.add_pipe("unire", config={"model": str(exported)})
    failed: list[tuple[str, list[str], str]] = []
    bare.set_error_handler(lambda name, _, docs, error: failed.append((name, [doc.text for doc in docs], str(error))))
    read = bare.pipe([("Parsing", 1), ("Two words", 2), ("Translation", 3)], as_tuples=True)
    assert [(found(doc), context) for doc, context in read] == [
        (found(nlp("Parsing")), 1),
        (found(nlp("Translation")), 3),
    ]
    ((name, texts, error),) = failed
    assert (name, texts) == ("unire", ["Two words"])
    assert "needs sentences" in error


def test_an_error_handler_goes_along_to_other_processes(exported: Path):
    bare = spacy.blank("en")
    bare.add_pipe("unire", config={"model": str(exported)})
    bare.set_error_handler(ignore_error)
    component = pickle.loads(pickle.dumps(bare.get_pipe("unire")))
    assert list(component.pipe([bare.make_doc("Two words")])) == []


def test_a_score_that_nothing_has_is_refused():
    with pytest.raises(UnireError, match="between 0 and 1"):
        spacy.blank("en").add_pipe("unire", config={"min_score": 7.0})


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(UnireError, match="there is no model folder 'nowhere'"):
        pipeline("nowhere")("Two words.")


def test_settings_of_the_wrong_kind_are_refused(exported: Path):
    with pytest.raises(ValueError, match="min_score"):
        pipeline(exported, min_score="high")
