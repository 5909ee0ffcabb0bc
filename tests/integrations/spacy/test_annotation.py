"""What the component writes on docs: beside other entities, on other tokens, and after docs are changed."""

from __future__ import annotations

import itertools
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from helpers.spacy import TEXTS, found, in_a_fresh_process, merged, pipeline, place, texts_of
from unire import Document, formats
from unire.integrations.spacy.annotation import (
    DROPPED_ENTITY,
    DROPPED_RELATION,
    WIDENED_ENTITY,
    annotate,
    arcs,
    register_extensions,
)


@pytest.fixture(scope="module", autouse=True)
def extensions() -> None:
    """What a pipeline with the component in it registers."""
    register_extensions()


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


def test_earlier_components_keep_their_entities_if_configured(exported: Path):
    nlp = pipeline(exported, overwrite_ents=False)
    nlp.add_pipe("entity_ruler", before="unire").add_patterns([{"label": "OLD", "pattern": "Penn"}])
    assert [ent.text for ent in nlp(TEXTS[0]).ents if ent.label_ == "OLD"] == ["Penn"]


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
    assert notes == {WIDENED_ENTITY: 1, DROPPED_ENTITY: 1, DROPPED_RELATION: 1}
    assert [(ent.text, ent.label_, ent._.score) for ent in doc.ents] == [("f(x)", "A", 0.9), ("x", "B", 0.7)]
    assert [(r.head.text, r.tail.text, r.score) for r in doc._.relations] == [("f(x)", "x", 0.5)]
    assert doc._.unaligned == [(0, 1, "A"), (2, 3, "B")]


def test_annotation_that_does_not_fit_the_tokens_is_counted_with_one_warning(exported: Path):
    class Spaces:
        def __init__(self, vocab: spacy.Vocab) -> None:
            self.vocab = vocab

        def __call__(self, text: str) -> Doc:
            return Doc(self.vocab, words=text.split())

    nlp = pipeline(exported)
    nlp.tokenizer = Spaces(nlp.vocab)
    with pytest.warns(UserWarning, match="does not align with the tokens") as warned:
        docs = list(nlp.pipe([TEXTS[0], TEXTS[2]] * 2))
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(nlp.pipe([TEXTS[0]]))
    component = nlp.get_pipe("unire")
    unaligned = sum(len(doc._.unaligned) for doc in docs)
    assert 0 < unaligned < component.notes[WIDENED_ENTITY] + component.notes[DROPPED_ENTITY]


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
import unire.integrations.spacy
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "shown", "name"),
    [
        ('Doc.set_extension("relations", default="mine")', "doc._.relations", "doc._.relations"),
        ('Span.set_extension("score", getter=lambda span: "mine")', "doc[:2]._.score", "span._.score"),
    ],
)
def test_extensions_of_others_are_not_overwritten(exported: Path, tmp_path: Path, claim: str, shown: str, name: str):
    code = CLAIMED.format(claim=claim, shown=shown)
    error, found = in_a_fresh_process(code, exported, tmp_path / "saved").splitlines()
    assert error.startswith(f"`{name}` already exists and is not from unire; ")
    assert 'config={"prefix": "unire_"}' in error
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


def test_merged_tokens_extend_entities_and_give_no_loops():
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


# Our format


def test_relations_of_our_format_are_read_too(twenty: list[Document], tmp_path: Path):
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
