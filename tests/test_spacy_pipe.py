"""The component of spaCy pipelines: what it finds, where it puts it, and that it survives being saved."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.util import ignore_error, load_config, load_model_from_config

from unire import Document, Extractor, UnireError, formats
from unire.segment import segment
from unire.spacy_pipe import arcs, register_extensions
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


def texts_of(doc: Doc) -> list[tuple[object, ...]]:
    return [(r.head.text, r.head.label_, r.label, r.tail.text, r.tail.label_, r.score) for r in doc._.relations]


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
    assert "finds no sentences" in error


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


def test_a_second_run_takes_the_place_of_the_first():
    doc = merged(["New", "York", "hosts", "Penn", "State"])
    words = [[token.text for token in doc]]
    doc.ents = [Span(doc, 2, 3, "OLD", kb_id="Q1")]
    annotate(
        doc,
        Document.from_words(words, [(0, 2, "NEW", 0.9), (3, 5, "NEW", 0.8)], [(0, 1, "R", 0.7)]),
        spans_key="sc",
        overwrite_ents=True,
    )
    annotate(doc, Document.from_words(words, [(3, 4, "NEW", 0.6)]), spans_key="sc", overwrite_ents=False)
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [("hosts", "OLD", "Q1"), ("Penn", "NEW", "")]
    assert [span.text for span in doc.spans["sc"]] == ["Penn"]
    assert doc.ents[1]._.score == 0.6
    assert doc._.relations == []
    annotate(doc, Document.from_words(words), spans_key="sc", overwrite_ents=True)
    assert [ent.text for ent in doc.ents] == ["hosts"]
    assert Doc.from_docs([doc, doc])._.relations == []


def test_a_pipeline_can_be_run_again_on_its_own_docs(nlp: spacy.Language, docs: list[Doc]):
    again = list(nlp.pipe(doc.copy() for doc in docs))
    assert [found(doc) for doc in again] == [found(doc) for doc in docs]
    joined = Doc.from_docs([doc.copy() for doc in docs if len(doc)])
    assert found(nlp(joined)) == found(nlp(joined.copy()))
    assert len(joined._.relations) == len(set(texts_of(joined)))


def test_groups_and_data_of_others_are_left_alone(nlp: spacy.Language):
    doc = nlp(TEXTS[0])
    expected = found(doc)
    doc.spans["theirs"] = SpanGroup(doc, name="theirs", spans=[doc[:1]], attrs={"relations": "many", "scores": None})
    doc.user_data |= {"relations": 1, ("._.", "mood", None, None): "good", ("unire", 1): 2}
    assert found(doc) == expected
    assert doc.spans["theirs"][0]._.score is None
    doc.spans["sc"] = [doc[:1]]  # as a span categoriser would, later in the pipeline
    assert found(doc) == expected
    lone = merged(["Some", "words"])
    lone.spans["sc"] = SpanGroup(lone, spans=[lone[:1]], attrs={"relations": [{"head": 7}]})
    lone.user_data["._.", "relations", None, None] = ["mine"]
    assert (lone._.relations, lone._.unaligned) == ([], [])


def test_without_a_group_all_else_is_the_same(exported: Path, docs: list[Doc], tmp_path: Path):
    nlp = pipeline(exported, spans_key=None)
    doc = nlp(TEXTS[0])
    assert not doc.spans
    assert found(doc) == found(docs[0])
    assert found(nlp(doc)) == found(docs[0])
    assert found(Doc(doc.vocab).from_bytes(doc.to_bytes())) == found(doc)
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "docs.spacy")
    (read,) = formats.read(tmp_path / "docs.spacy")
    assert [r.score for r in read.relations] == [r.score for r in doc._.relations]
    nlp.add_pipe("merge_entities")
    (doc, *_) = nlp.pipe([TEXTS[0]] * 4, n_process=2, batch_size=2)  # spaCy could not save it with a group
    assert found(doc) == found(docs[0])


# Names


CLAIMED = """
import sys, spacy
from spacy.tokens import Doc, Span
import unire.spacy_pipe
for cls in (Doc, Span):
    assert not any(cls.has_extension(name) for name in ("relations", "unaligned", "score"))
{claim}
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
try:
    nlp.add_pipe("unire", config={{"model": sys.argv[1]}})
except unire.UnireError as error:
    print(error)
nlp.add_pipe("unire", config={{"model": sys.argv[1], "prefix": "unire_"}})
nlp.to_disk(sys.argv[2])
doc = spacy.load(sys.argv[2])("We train a parser for parsing.")
assert doc._.unire_unaligned == []
assert all(0 < span._.unire_score < 1 for span in doc.ents)
print(len(doc._.unire_relations), {shown})
"""


@pytest.mark.parametrize(
    ("claim", "shown", "name"),
    [
        ('Doc.set_extension("relations", default="mine")', "doc._.relations", "doc._.relations"),
        ('Span.set_extension("score", getter=lambda span: "mine")', "doc[:2]._.score", "span._.score"),
    ],
)
def test_a_name_of_somebody_elses_is_not_taken(exported: Path, tmp_path: Path, claim: str, shown: str, name: str):
    code = CLAIMED.format(claim=claim, shown=shown)
    told, found = in_a_fresh_process(code, exported, tmp_path / "saved").splitlines()
    assert told.startswith(f"`{name}` is there already, and not unire's; ")
    assert 'config={"prefix": "unire_"}' in told
    assert re.fullmatch(r"\d+ mine", found)


# Docs that are changed


def test_relations_follow_tokens_that_are_merged_and_split(docs: list[Doc]):
    for original in docs:
        doc = original.copy()
        expected = found(doc)
        spacy.blank("en").add_pipe("merge_entities")(doc)
        assert found(doc) == expected
        assert all(len(relation.head) == 1 for relation in doc._.relations)
        drawn = [[len(picture["words"]) for picture in arcs(each)] for each in (doc, original)]
        assert drawn[0] == drawn[1]
        with doc.retokenize() as retokenizer:
            for span in doc.ents:
                if " " not in span.text and len(span.text) > 1:
                    retokenizer.split(span[0], [span.text[:1], span.text[1:]], heads=[(span[0], 1), span[0]])
        assert texts_of(doc) == texts_of(original)


def test_what_is_merged_with_its_surroundings_is_widened_and_no_loop_is_drawn():
    doc = merged(["New", "York", "hosts", "Penn", "State", "games"])
    document = Document.from_words(
        [[t.text for t in doc]], [(1, 2, "A"), (3, 4, "B"), (5, 6, "C")], [(0, 1, "R"), (1, 2, "R")]
    )
    annotate(doc, document, spans_key="sc", overwrite_ents=True)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:4])
    assert [(r.head.text, r.tail.text) for r in doc._.relations] == [
        ("New York hosts Penn",) * 2,
        ("New York hosts Penn", "games"),
    ]
    (picture,) = arcs(doc)
    assert [(arc["start"], arc["end"]) for arc in picture["arcs"]] == [(0, 2)]
    assert "games" in displacy.render([picture], style="dep", manual=True, jupyter=False)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.booleans())
def test_joined_docs_have_the_relations_of_each(docs: list[Doc], parts: list[int], ensure_whitespace: bool):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what spaCy would not carry
        joined = Doc.from_docs([docs[part] for part in parts], ensure_whitespace=ensure_whitespace)
    assert texts_of(joined) == [relation for part in parts for relation in texts_of(docs[part])]
    assert [span._.score for span in joined.ents] == [span._.score for part in parts for span in docs[part].ents]
    (saved,) = DocBin(docs=[joined], store_user_data=True).get_docs(joined.vocab)
    assert found(saved) == found(joined)


def test_our_format_reads_joined_docs(docs: list[Doc], tmp_path: Path):
    joined = Doc.from_docs(docs)
    DocBin(docs=[joined], store_user_data=True).to_disk(tmp_path / "joined.spacy")
    (document,) = formats.read(tmp_path / "joined.spacy")
    assert len(document.relations) > 3
    assert [(r.head.text, r.tail.text, r.score) for r in document.relations] == [
        (r.head.text, r.tail.text, r.score) for r in joined._.relations
    ]


def test_our_format_reads_what_became_of_the_group(docs: list[Doc], tmp_path: Path):
    doc = docs[0].copy()
    first = doc._.relations[0]
    doc.spans["sc"] = [span for span in doc.spans["sc"] if place(span) != place(first.head)]
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "changed.spacy")
    notes: Counter[str] = Counter()
    (document,) = formats.read(tmp_path / "changed.spacy", notes=notes)
    stay = [r for r in doc._.relations if place(first.head) not in (place(r.head), place(r.tail))]
    assert [(r.head.text, r.tail.text) for r in document.relations] == [(r.head.text, r.tail.text) for r in stay]
    assert [e.score for e in document.entities] == [span._.score for span in doc.spans["sc"]]
    assert notes == {"relation left out, since an entity of it is no longer there": len(doc._.relations) - len(stay)}


def test_a_part_of_a_doc_has_the_relations_inside_it(docs: list[Doc]):
    doc = docs[0]
    cut = [doc[start:end] for start, end in itertools.combinations(range(len(doc) + 1), 2)]
    shown = 0
    for part in cut:
        inside = [
            (*texts, r.score)
            for r, (*texts, _) in zip(doc._.relations, texts_of(doc), strict=True)
            if all(part.start <= span.start and span.end <= part.end for span in (r.head, r.tail))
        ]
        own = part.as_doc(copy_user_data=True)
        assert texts_of(own) == inside
        assert all(span._.score is not None for span in own.ents)
        shown += len(inside)
        assert part.as_doc()._.relations == []
    assert shown > len(doc._.relations)


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
    register_extensions()  # there is no pipeline that would
    formats.write(twenty, tmp_path / "twenty.spacy", "spacy")
    docs = DocBin().from_disk(tmp_path / "twenty.spacy").get_docs(spacy.blank("en").vocab)
    for doc, document in zip(docs, twenty, strict=True):
        shown = [(r.head.text, r.head.label_, r.label, r.tail.text) for r in doc._.relations]
        assert shown == [(r.head.text, r.head.label, r.label, r.tail.text) for r in document.relations]


def test_our_format_reads_what_the_component_wrote(docs: list[Doc], tmp_path: Path):
    DocBin(docs=docs).to_disk(tmp_path / "found.spacy")
    for doc, document in zip(docs, formats.read(tmp_path / "found.spacy"), strict=True):
        assert [[e.char_start, e.char_end, e.label, e.score] for e in document.entities] == found(doc)[1]
        linked = [[r.head.text, r.tail.text, r.label, r.score] for r in document.relations]
        assert linked == [[r.head.text, r.tail.text, r.label, r.score] for r in doc._.relations]
    assert any(doc._.relations for doc in docs)


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


# displaCy


def test_displacy_draws_sentences_together_that_a_relation_joins():
    doc = merged(["New", "York", "hosts", "Penn", "State", "games"])
    document = Document.from_words([[t.text for t in doc]], [(0, 2, "A"), (3, 5, "B"), (5, 6, "C")], [(1, 0, "R")])
    annotate(doc, document, spans_key="sc", overwrite_ents=True)
    (whole,) = arcs(doc)  # without any sentences
    for token in doc:
        token.is_sent_start = token.i in (0, 2, 4, 5)
    (picture,) = arcs(doc)
    assert [word["text"] for word in picture["words"]] == ["New York", "hosts", "Penn State"]
    assert picture["arcs"] == whole["arcs"] == [{"start": 0, "end": 2, "label": "R", "dir": "left"}]


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
