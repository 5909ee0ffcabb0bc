"""The component of spaCy pipelines: what it finds, where it puts it, and that it survives being saved."""

from __future__ import annotations

import itertools
import json
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, DocBin, Span
from spacy.util import ignore_error

from unire import Document, Extractor, UnireError, formats
from unire.segment import segment
from unire.spacy_pipe import arcs
from unire.spacy_pipe.annotation import LEFT_OUT, UNLINKED, WIDENED, annotate

TEXTS = [
    "We train a chart parser on the Penn Treebank for dependency parsing. It isn't slow (see Fig. 2).",
    "",
    "  Word sense disambiguation helps machine translation,\n\nbut speech recognition does not!  ",
    "Parsing.",
]


def pipeline(model: object, **config: object) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("unire", config={"model": str(model), **config})
    return nlp


def found(doc: Doc) -> list[object]:
    """Everything that the component says of a text, as plain data."""
    return [
        doc.text,
        [[span.start_char, span.end_char, span.label_, span._.score] for span in doc.ents],
        [[*(place(span) for span in (r.head, r.tail)), r.label, r.score] for r in doc._.relations],
    ]


def place(span: Span) -> list[object]:
    return [span.start_char, span.end_char, span.label_]


def in_a_fresh_process(code: str, *arguments: object) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def nlp(exported: Path) -> spacy.Language:
    return pipeline(exported)


@pytest.fixture(scope="module")
def docs(nlp: spacy.Language) -> list[Doc]:
    return list(nlp.pipe(TEXTS))


# What it finds


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


def test_the_findings_are_those_of_the_extractor(exported: Path, docs: list[Doc]):
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


@given(st.text(alphabet="ab. ()\n'-", max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_given_sentences_hold_every_character_in_one_word(text: str, cuts: list[int]):
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    given_sentences = list(itertools.pairwise(bounds))
    document = segment(text, sentences=given_sentences)
    assert "".join(document.words) == "".join(text.split())
    for sentence in document.sentences:
        assert any(a <= sentence.offsets[0][0] and sentence.offsets[-1][1] <= b for a, b in given_sentences)
        assert [text[a:b] for a, b in sentence.offsets] == list(sentence.words)


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


def test_a_process_that_is_started_anew_gets_the_component_by_pickle(nlp: spacy.Language, docs: list[Doc]):
    component = pickle.loads(pickle.dumps(nlp.get_pipe("unire")))
    doc = component(spacy.blank("en").add_pipe("sentencizer")(spacy.blank("en").make_doc(TEXTS[0])))
    assert found(doc) == found(docs[0])


def test_a_pipeline_without_sentences_is_told_what_to_add(exported: Path):
    nlp = spacy.blank("en")
    nlp.add_pipe("unire", config={"model": str(exported)})
    with pytest.raises(UnireError, match=r'finds no sentences; .*nlp.add_pipe\("sentencizer", before="unire"\)'):
        nlp("Two words.")
    with pytest.raises(UnireError, match="finds no sentences"):
        list(nlp.pipe(["Two words."]))
    nlp.set_error_handler(ignore_error)
    assert list(nlp.pipe(["Two words."])) == []
    nlp.add_pipe("sentencizer", before="unire")
    assert nlp("Two words.").has_annotation("SENT_START")


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(UnireError, match="there is no model folder 'nowhere'"):
        pipeline("nowhere")("Two words.")


def test_settings_of_the_wrong_kind_are_refused(exported: Path):
    with pytest.raises(ValueError, match="min_score"):
        pipeline(exported, min_score="high")


# Other entities, other tokens


@pytest.mark.parametrize("overwrite", [True, False])
def test_of_two_overlapping_entities_one_stays(overwrite: bool):
    doc = merged(["New", "York", "hosts", "Penn", "State"])
    doc.ents = [Span(doc, 0, 1, "OLD"), Span(doc, 2, 3, "OLD")]
    document = Document.from_words([[token.text for token in doc]], [(0, 2, "NEW"), (3, 5, "NEW")], [(0, 1, "R")])
    annotate(doc, document, spans_key="sc", overwrite_ents=overwrite)
    shown = [(ent.text, ent.label_) for ent in doc.ents]
    assert shown == [
        ("New York" if overwrite else "New", "NEW" if overwrite else "OLD"),
        ("hosts", "OLD"),
        ("Penn State", "NEW"),
    ]
    assert [span.text for span in doc.spans["sc"]] == ["New York", "Penn State"]  # all of the model's, in any case
    assert [(r.head.text, r.tail.text) for r in doc._.relations] == [("New York", "Penn State")]


def test_the_components_before_it_keep_their_entities_if_told_so(exported: Path):
    nlp = pipeline(exported, overwrite_ents=False)
    nlp.add_pipe("entity_ruler", before="unire").add_patterns([{"label": "OLD", "pattern": "Penn"}])
    assert [ent.text for ent in nlp(TEXTS[0]).ents if ent.label_ == "OLD"] == ["Penn"]


def merged(words: list[str]) -> Doc:
    """A text whose tokens are these, with a space after each."""
    doc = Doc(spacy.blank("en").vocab, words=words)
    doc[0].is_sent_start = True
    return doc


def test_an_entity_within_a_token_is_widened_and_a_second_one_left_out():
    doc = merged(["f(x)", "maps", "x"])
    document = Document.from_words(
        [["f", "(", "x", ")", "maps", "x"]],
        [(0, 1, "A", 0.9), (2, 3, "B", 0.8), (5, 6, "B", 0.7)],
        [(0, 2, "R", 0.5), (1, 2, "R", 0.4)],
        text="f(x) maps x",
        offsets=[(0, 1), (1, 2), (2, 3), (3, 4), (5, 9), (10, 11)],
    )
    notes = annotate(doc, document, spans_key="sc", overwrite_ents=True)
    assert notes == {WIDENED: 1, LEFT_OUT: 1, UNLINKED: 1}
    assert [(ent.text, ent.label_, ent._.score) for ent in doc.ents] == [("f(x)", "A", 0.9), ("x", "B", 0.7)]
    assert [(r.head.text, r.tail.text, r.score) for r in doc._.relations] == [("f(x)", "x", 0.5)]
    assert doc._.unaligned == [(0, 1, "A"), (2, 3, "B")]


def test_what_does_not_fit_the_tokens_is_counted_and_said_once(exported: Path):
    class Spaces:
        def __init__(self, vocab: spacy.Vocab) -> None:
            self.vocab = vocab

        def __call__(self, text: str) -> Doc:
            return Doc(self.vocab, words=text.split())

    nlp = pipeline(exported)
    nlp.tokenizer = Spaces(nlp.vocab)
    with pytest.warns(UserWarning, match="does not begin and end where tokens do") as told:
        docs = list(nlp.pipe([TEXTS[0], TEXTS[2]] * 2))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(nlp.pipe([TEXTS[0]]))
    component = nlp.get_pipe("unire")
    unaligned = sum(len(doc._.unaligned) for doc in docs)
    assert 0 < unaligned < component.notes[WIDENED] + component.notes[LEFT_OUT]


def test_two_models_have_a_group_each(exported: Path, random_model: Path, docs: list[Doc]):
    nlp = pipeline(exported, spans_key="first")
    nlp.add_pipe("unire", name="second", config={"model": str(random_model), "spans_key": "second"})
    doc = nlp(TEXTS[0])
    lone = pipeline(random_model)(TEXTS[0])
    assert [place(span) for span in doc.spans["first"]] == [place(span) for span in docs[0].ents]
    assert [place(span) for span in doc.spans["second"]] == [place(span) for span in lone.ents]
    assert len(doc._.relations) == len(docs[0]._.relations) + len(lone._.relations)


# Saving


LOADED = """
import json, sys, spacy
sys.path.insert(0, sys.argv[1])
from test_spacy_pipe import TEXTS, found
print(json.dumps([found(doc) for doc in spacy.load(sys.argv[2]).pipe(TEXTS)]))
"""


def test_a_saved_pipeline_gives_equal_results_in_a_fresh_process(exported: Path, docs: list[Doc], tmp_path: Path):
    own = shutil.copytree(exported, tmp_path / "own")
    nlp = pipeline(own)
    nlp.to_disk(tmp_path / "saved")
    nlp.to_disk(tmp_path / "saved")  # again, over itself
    shutil.rmtree(own)
    moved = (tmp_path / "saved").rename(tmp_path / "moved")
    assert json.loads(in_a_fresh_process(LOADED, Path(__file__).parent, moved)) == [found(doc) for doc in docs]
    # what is in it is a model like any other, and a loaded pipeline can be saved in its own place
    assert Extractor.load(moved / "unire").extract(TEXTS[0]).entities
    spacy.load(moved).to_disk(moved)
    assert [found(doc) for doc in spacy.load(moved).pipe(TEXTS)] == [found(doc) for doc in docs]


def test_a_pipeline_of_the_model_in_the_box_holds_it_too(tmp_path: Path):
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


def test_a_pipeline_is_not_saved_over_what_is_no_model(nlp: spacy.Language, tmp_path: Path):
    (tmp_path / "saved" / "unire").mkdir(parents=True)
    (tmp_path / "saved" / "unire" / "thesis.txt").write_text("Years of work.")
    with pytest.raises(UnireError, match=r"holds 'thesis.txt', which is no part of a model"):
        nlp.to_disk(tmp_path / "saved")
    assert (tmp_path / "saved" / "unire" / "thesis.txt").exists()


@pytest.mark.parametrize("store_user_data", [False, True])
def test_findings_survive_a_docbin(docs: list[Doc], tmp_path: Path, store_user_data: bool):
    DocBin(docs=docs, store_user_data=store_user_data).to_disk(tmp_path / "docs.spacy")
    read = DocBin().from_disk(tmp_path / "docs.spacy").get_docs(spacy.blank("en").vocab)
    assert [found(doc) for doc in read] == [found(doc) for doc in docs]


def test_findings_survive_bytes_disk_and_copies(docs: list[Doc], tmp_path: Path):
    vocab = spacy.blank("en").vocab
    for doc in docs:
        doc.to_disk(tmp_path / "doc")
        for other in (Doc(vocab).from_bytes(doc.to_bytes()), Doc(vocab).from_disk(tmp_path / "doc"), doc.copy()):
            assert found(other) == found(doc)


def test_relations_of_our_format_are_read_too(twenty: list[Document], tmp_path: Path):
    formats.write(twenty, tmp_path / "twenty.spacy", "spacy")
    docs = DocBin().from_disk(tmp_path / "twenty.spacy").get_docs(spacy.blank("en").vocab)
    for doc, document in zip(docs, twenty, strict=True):
        shown = [(r.head.text, r.head.label_, r.label, r.tail.text) for r in doc._.relations]
        assert shown == [(r.head.text, r.head.label, r.label, r.tail.text) for r in document.relations]


# displaCy


def test_our_format_reads_what_the_component_wrote(docs: list[Doc], tmp_path: Path):
    DocBin(docs=docs).to_disk(tmp_path / "found.spacy")
    for doc, document in zip(docs, formats.read(tmp_path / "found.spacy"), strict=True):
        assert [[e.char_start, e.char_end, e.label, e.score] for e in document.entities] == found(doc)[1]
        linked = [[r.head.text, r.tail.text, r.label, r.score] for r in document.relations]
        assert linked == [[r.head.text, r.tail.text, r.label, r.score] for r in doc._.relations]
    assert any(doc._.relations for doc in docs)


def test_displacy_draws_the_relations():
    doc = pipeline("science")(
        "We train a chart parser on the Penn Treebank for dependency parsing. It rained. "
        "It outperforms a transition-based parser in accuracy."
    )
    first, last = arcs(doc)  # nothing to draw in the one between
    words = [word["text"] for word in first["words"]]
    assert words == ["We", "train", "a", "chart parser", "on", "the", "Penn Treebank", "for", "dependency parsing", "."]
    assert {(arc["start"], arc["end"], arc["dir"]) for arc in first["arcs"]} == {(3, 8, "right"), (3, 6, "left")}
    assert [word["tag"] for word in last["words"]] == ["Generic", "", "", "Method", "", "Metric", ""]
    page = displacy.render(arcs(doc), style="dep", manual=True, jupyter=False)
    assert page.count("<svg") == 2
    assert page.count('class="displacy-arrow"') == sum(len(sentence["arcs"]) for sentence in (first, last))
    assert "EVALUATE-FOR" in page
    assert "transition-based parser" in page
    assert displacy.render(doc, style="span", jupyter=False).count("Material") == 1
    assert "Penn Treebank" in displacy.render(doc, style="ent", jupyter=False)


def test_displacy_has_nothing_to_draw_without_relations(nlp: spacy.Language):
    assert arcs(nlp("")) == []
