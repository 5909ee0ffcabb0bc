"""Relations as displaCy draws them."""

from __future__ import annotations

import spacy
from spacy import displacy

from helpers.spacy import merged, pipeline
from unire import Document
from unire.integrations.spacy.annotation import annotate, arcs


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
    places = {"chart parser": 3, "Penn Treebank": 6, "dependency parsing": 8}
    found = {(places[r.head.text], places[r.tail.text]) for r in doc._.relations if r.head.text in places}
    assert (6, 3) in found
    drawn = {(min(pair), max(pair), "right" if pair[0] < pair[1] else "left") for pair in found}
    assert {(arc["start"], arc["end"], arc["dir"]) for arc in first["arcs"]} == drawn
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
