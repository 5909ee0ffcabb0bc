"""Documents as HTML: every text is there, none is markup, and the data of the tables is the output of the model."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.noisy_extractor import noisy_extractor
from unire.decoding import decoders
from unire.documents import Document
from unire.rendering import html, merge_symmetric
from unire.rendering.html.page import SCALE
from unire.rendering.views import View, decode_again, gold_views, views
from unire.tables import fill_sentence, read_table
from unire.utils import escape_controls


class Reader(HTMLParser):
    """Tags, nested as they must be, the text of the sentences, and the data of the scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.text = ""
        self.data: list[dict] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in {"meta"}:
            self.open.append((tag, dict(attrs).get("class") or dict(attrs).get("type") or ""))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        classes = [name for _, names in self.open for name in names.split()]
        if ("sentence" in classes and "label" not in classes) or classes[-1:] == ["row"]:
            self.text += data
        if "application/json" in classes or "data" in classes:
            self.data.append(json.loads(data))


def page(seen, labels=None, **options) -> str:
    out = io.StringIO()
    html.write(seen, out, labels, **options)
    return out.getvalue()


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u2")


def overlapping(draw):
    """A document with entities that nest and cross, within and across sentences, over hostile text."""
    word = st.text(st.sampled_from("<>&\"'a \n\x00\u202e") | st.characters(), min_size=1, max_size=4)
    sentences = draw(st.lists(st.lists(word, max_size=4), max_size=4))
    n = sum(map(len, sentences))
    spans = st.integers(0, max(n - 1, 0)).flatmap(lambda s: st.tuples(st.just(s), st.integers(s + 1, max(n, s + 1))))
    entities = [(*span, label) for span, label in draw(st.lists(st.tuples(spans, word), max_size=4)) if span[1] <= n]
    pairs = st.integers(0, max(len(entities) - 1, 0))
    few = draw(st.lists(st.tuples(pairs, pairs, word), max_size=3)) if entities else []
    ways = [way for head, tail, label in few for way in ((head, tail, label), (tail, head, label))]
    relations = draw(st.lists(st.sampled_from(ways), max_size=8)) if ways else []  # both ways, and several times
    return Document.from_words(sentences, entities, relations, id=draw(word))


DRAWING = {"svg", "g", "text", "path", "rect", "circle"}


@given(st.composite(overlapping)())
def test_a_fragment_nests_its_elements_and_shows_the_whole_text(document):
    reader = Reader(document._repr_html_())
    assert reader.text == escape_controls(document.text)
    directions = Counter((r.head, r.tail, r.label) for r in document.relations)
    both = sum(min(n, directions[tail, head, label]) for (head, tail, label), n in directions.items() if head != tail)
    assert reader.tags.count("li") == len(document.relations) - both // 2
    assert reader.tags.count("mark") + reader.tags.count("rect") >= len(document.entities)
    assert set(reader.tags) <= {"div", "style", "mark", "span", "small", "bdi", "ul", "li"} | DRAWING


@given(st.composite(overlapping)())
def test_a_page_nests_its_elements_and_shows_the_whole_text(document):
    reader = Reader(page([View(document)], title=document.id))
    assert reader.text == escape_controls(document.text)
    assert reader.tags.count("script") == 3
    positions = [position for relation in reader.data[1]["relations"] for position in relation["positions"]]
    assert sorted(positions) == list(range(len(document.relations)))
    assert len(reader.data[1]["relations"]) == len(merge_symmetric(document.relations))


def test_a_fragment_is_for_light_and_dark_and_brings_its_style():
    shown = Document.from_words([["Ada"]], [(0, 1, "Peop")])._repr_html_()
    assert '<mark class="entity c' in shown
    assert "prefers-color-scheme" not in shown
    assert "<style>" in shown
    assert len(shown) < 4096


@pytest.fixture(scope="module")
def noisy(twenty, scierc_labels):
    return noisy_extractor(twenty, scierc_labels, noise=1.0)


def test_a_view_finds_what_the_extractor_finds_and_keeps_gold_and_tables(noisy, twenty):
    seen = list(views(noisy, twenty))
    assert [view.document for view in seen] == list(noisy.annotate(twenty))
    assert [view.gold for view in seen] == twenty
    for view in seen:
        assert [table.place.start for table in view.tables] == [s.start for s in view.document.sentences]


def test_a_document_without_annotation_has_no_gold(noisy, twenty):
    assert all(view.gold is None for view in views(noisy, [document.bare for document in twenty]))


def test_tables_far_down_a_document_are_not_kept_and_counted(noisy, twenty):
    notes: Counter[str] = Counter()
    seen = list(views(noisy, twenty, notes=notes, max_words=20))
    assert [view.document for view in seen] == list(noisy.annotate(twenty))
    for view in seen:
        assert len(view.tables) == sum(sentence.end <= 20 for sentence in view.document.sentences)
    left_out = sum(len(view.document.sentences) - len(view.tables) for view in seen)
    assert left_out
    assert notes == {"table that is not shown, past word 20 of its document": left_out}


def test_table_data_are_the_model_probabilities_in_thousandths(noisy, twenty, scierc_labels):
    seen = list(views(noisy, twenty))
    _, *documents = Reader(page(seen, scierc_labels)).data
    for view, data in zip(seen, documents, strict=True):
        for table, written in zip(view.tables, data["tables"], strict=True):
            sentence = view.document.sentences[table.place.sentence]
            n, model = len(sentence), written["model"]
            assert written["words"] == list(sentence.words)
            P = unpacked(model["P"]).reshape(n, n, len(scierc_labels)) / SCALE
            assert np.abs(P - table.P).max() <= 0.5 / SCALE + 1e-6
            assert (unpacked(model["argmax"]).reshape(n, n) == table.P.argmax(2)).all()
            prepared = decoders.BoundaryDecoder(table.P[None], np.array([n]), scierc_labels)
            assert model["distances"] == pytest.approx(prepared.distances[0].tolist(), abs=1e-4)
            assert model["alpha"] == noisy.config.alpha
            assert [cut + sentence.start for cut in model["cuts"]] == list(sentence.cuts)
            names = scierc_labels.names
            assert [(s, e, names[y]) for s, e, y, _ in model["entities"]] == [
                (e.start - sentence.start, e.end - sentence.start, e.label) for e in sentence.entities
            ]
            assert [(names[y], score) for _, _, y, score in model["relations"]] == [
                (r.label, round(r.score, 4)) for r in sentence.relations
            ]
            gold = read_table(
                fill_sentence(view.gold.sentences[table.place.sentence], scierc_labels).labels, scierc_labels
            )
            assert (
                [tuple(e) for e in written["gold"]["entities"]],
                [tuple(r) for r in written["gold"]["relations"]],
            ) == gold


def test_gold_that_a_table_cannot_hold_is_counted(scierc_labels):
    document = Document.from_words([["a", "b"]], [(0, 2, "Task"), (1, 2, "Method")])
    data = Reader(page(gold_views([document]), scierc_labels)).data
    assert data[1]["tables"][0]["gold"]["unheld"] == 1
    assert data[1]["tables"][0]["model"] is None


def test_hard_decoding_shows_no_distances(twenty, scierc_labels):
    extractor = noisy_extractor(twenty, scierc_labels, decoder="hard")
    data = Reader(page(views(extractor, twenty[:1]), scierc_labels)).data
    assert {table["model"]["distances"] for table in data[1]["tables"]} == {None}


def test_where_squares_are_weighed_distances_are_shown_without_a_threshold(twenty, scierc_labels):
    extractor = noisy_extractor(twenty, scierc_labels, decoder="likely", alpha=3.0)
    (view,) = views(extractor, twenty[:1])
    data = Reader(page([view], scierc_labels)).data
    assert all(len(table["model"]["distances"]) == len(table["words"]) - 1 for table in data[1]["tables"])
    assert {table["model"]["alpha"] for table in data[1]["tables"]} == {None}
    fewer = decode_again(extractor, view, 1000.0)
    assert view.document.entities
    assert not fewer.document.entities


def test_parts_of_a_long_sentence_are_tables_of_their_own(twenty, scierc_labels):
    extractor = noisy_extractor(twenty, scierc_labels, max_table=5)
    (view,) = views(extractor, twenty[:1])
    _, data = Reader(page([view], scierc_labels)).data
    assert len(view.tables) > len(view.document.sentences)
    assert all(len(table["words"]) <= 5 for table in data["tables"])
    assert [word for table in data["tables"] for word in table["words"]] == list(view.document.words)
    assert all(0 < cut < len(table["words"]) for table in data["tables"] for cut in table["model"]["cuts"])


def test_a_page_stops_at_its_limit_and_says_so(noisy, twenty, scierc_labels, tmp_path):
    path = tmp_path / "page.html"
    asked = []

    def stream():
        for document in twenty:
            asked.append(document)
            yield View(document)

    assert html.write(stream(), path, scierc_labels, limit=2) == (2, False)
    assert len(asked) == 3
    assert "This page shows the first 2 documents and leaves out the others." in path.read_text(encoding="utf-8")
    assert html.write([View(twenty[0])], path) == (1, True)
    assert "leaves out" not in path.read_text(encoding="utf-8")
    assert html.write([], path) == (0, True)
    assert "There are no documents." in path.read_text(encoding="utf-8")


def test_only_the_first_document_is_open():
    seen = [View(Document.from_words([["Ada"]], id=str(i))) for i in range(3)]
    assert re.findall(r'<details class="document" id="document-\d"( open)?>', page(seen)) == [" open", "", ""]


def test_a_page_allows_nothing_but_its_own_style_and_script():
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page([]))[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", page([]))
