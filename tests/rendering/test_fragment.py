"""Fragments for notebooks: arcs as SVG that needs no scripts, over words whose places are known in advance."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire.documents import Document
from unire.rendering.html.text_layout import LINE_WIDTH, measure_text

WORDS = ["Ada", "Lovelace", "and", "Mary", "Somerville", "met", "in", "London", "."]
DOCUMENT = Document.from_words(
    [WORDS, ["Nobody", "spoke", "."]],
    [(0, 2, "PER"), (3, 5, "PER"), (7, 8, "GPE"), (9, 10, "PER")],
    [(0, 1, "PER-SOC"), (1, 0, "PER-SOC"), (0, 2, "PHYS"), (1, 2, "PHYS")],
)
ATTACK = "</svg></style><script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>\"&lt;"


def drawings(document: Document) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", document._repr_html_(), re.DOTALL)]


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, "nan"))


def words_of(drawing: ElementTree.Element) -> list[ElementTree.Element]:
    return [text for text in drawing.findall("text") if text.get("class") is None]


def lines_of(drawing: ElementTree.Element) -> dict[float, list[ElementTree.Element]]:
    lines: dict[float, list[ElementTree.Element]] = {}
    for word in words_of(drawing):
        lines.setdefault(number(word, "y"), []).append(word)
    return lines


def long_document(n: int = 60) -> Document:
    words = [f"word{i}" for i in range(n)]
    entities = [(i, i + 2, "Type") for i in range(0, n - 4, 4)]
    relations = [(i, (5 * i + 2) % len(entities), f"relation-{i}") for i in range(len(entities))]
    return Document.from_words([words], entities, relations)


def test_sentences_with_relations_are_drawn_and_the_others_are_text():
    shown = DOCUMENT._repr_html_()
    assert shown.count("<svg") == 1
    assert shown.count('<mark class="entity') == 1
    (drawing,) = drawings(DOCUMENT)
    arcs = [arc for arc in drawing.findall("g") if arc.get("class", "").startswith("arc")]
    assert [arc.findtext("text") for arc in arcs] == ["PER-SOC", "PHYS", "PHYS"]
    assert [len(arc.findall("path[@class='tip']")) for arc in arcs] == [2, 1, 1]
    assert [word.text for word in words_of(drawing)] == WORDS
    assert "<svg" not in Document.from_words([WORDS], [(0, 2, "PER")])._repr_html_()


def test_a_fragment_has_no_script_no_style_attribute_and_no_address():
    hostile = Document.from_words([[ATTACK, "x", ATTACK]], [(0, 1, ATTACK), (2, 3, "T")], [(0, 1, ATTACK)], id=ATTACK)
    for document in (DOCUMENT, hostile):
        tags = re.findall(r"<(\w+)([^>]*)>", document._repr_html_())
        assert {name for name, _ in tags} <= {
            *("div", "style", "svg", "g", "text", "path", "rect", "circle", "mark", "span", "small", "bdi", "ul", "li"),
        }
        for _, attributes in tags:
            assert not re.search(r"\b(style|on\w+|href|src)=", attributes)
        assert drawings(document)


def test_arcs_begin_and_end_above_their_entities():
    (drawing,) = drawings(DOCUMENT)
    marks = [mark.find("rect") for mark in drawing.findall("g") if mark.find("rect") is not None]
    spans = [(number(mark, "x"), number(mark, "x") + number(mark, "width")) for mark in marks]
    for arc, (head, tail) in zip(drawing.findall("g[@aria-hidden]"), [(0, 1), (0, 2), (1, 2)], strict=True):
        starts = [float(x) for x in re.findall(r"M(-?[\d.]+)", arc.find("path[@class='line']").get("d"))]
        for x, (left, right) in zip(starts, (spans[head], spans[tail]), strict=True):
            assert left < x < right


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=60), st.data())
def test_no_line_is_too_long_and_no_words_overlap(words, data):
    starts = st.integers(0, len(words) - 1)
    entities = [
        (start, start + 1, "A label") for start in data.draw(st.lists(starts, min_size=1, max_size=5, unique=True))
    ]
    pairs = st.integers(0, len(entities) - 1)
    document = Document.from_words([words], entities, [(data.draw(pairs), data.draw(pairs), "R")])
    (drawing,) = drawings(document)
    for line in lines_of(drawing).values():
        boxes = sorted((number(word, "x"), number(word, "textLength")) for word in line if word.get("textLength"))
        for (x, width), (following, _) in pairwise(boxes):
            assert x + width <= following + 0.2
        hanging = measure_text("@")
        assert all(-hanging <= x and x + width <= LINE_WIDTH + hanging for x, width in boxes)


def test_a_line_ends_before_an_entity_that_does_not_fit():
    document = Document.from_words(
        [["word"] * 14 + ["natural", "language", "processing", "x"]], [(14, 17, "Task"), (17, 18, "T")], [(0, 1, "R")]
    )
    (drawing,) = drawings(document)
    first, second = lines_of(drawing).values()
    assert [word.text for word in first] == ["word"] * 14
    assert [word.text for word in second] == ["natural", "language", "processing", "x"]


def test_a_word_that_is_longer_than_a_line_is_cut():
    (drawing,) = drawings(Document.from_words([["x" * 300, "y"]], [(0, 1, "A"), (1, 2, "B")], [(0, 1, "R")]))
    assert "".join(word.text for word in words_of(drawing)) == "x" * 300 + "y"
    assert len(lines_of(drawing)) > 2
    assert number(drawing, "width") <= LINE_WIDTH + 20


def test_an_end_in_another_line_or_sentence_names_the_other():
    document = Document.from_words(
        [["Ada", "met", "Mary", "."], ["She", "left", "."]],
        [(0, 1, "PER"), (2, 3, "PER"), (4, 5, "PER")],
        [(2, 1, "SAME"), (0, 1, "MET")],
    )
    names = [arc.findtext("text") for drawing in drawings(document) for arc in drawing.findall("g[@aria-hidden]")]
    assert names == ["MET", "SAME ← She", "SAME → Mary"]


def test_right_to_left_scripts_run_from_right_to_left():
    document = Document.from_words([["يعيش", "محمد", "في", "القاهرة"]], [(1, 2, "P"), (3, 4, "L")], [(0, 1, "R")])
    places = [number(word, "x") for word in words_of(drawings(document)[0])]
    assert places == sorted(places, reverse=True)
    assert 'class="sentence drawn" dir="rtl"' in document._repr_html_()


def test_nested_and_spanning_entities_are_marked_where_they_are():
    document = Document.from_words(
        [["University", "of", "Paris"], ["in", "France"]],
        [(0, 3, "Org"), (2, 3, "Loc"), (1, 5, "Long"), (4, 5, "Loc")],
        [(0, 3, "In"), (1, 3, "In")],
    )
    first, second = drawings(document)
    assert [len(drawing.findall("g/rect")) for drawing in (first, second)] == [3, 2]
    labels = [[text.text for text in drawing.findall("text[@class='label']")] for drawing in (first, second)]
    assert labels == [["Loc", "Org"], ["Loc", "Long"]]


# In a browser


@pytest.fixture
def show(browser, tmp_path: Path) -> Iterator[Any]:
    """Show a fragment in a page that forbids everything but the style sheet of the fragment."""
    contexts, complaints = [], []

    def open_page(document, *, width=900, scheme="light"):
        shown = document._repr_html_()
        style = hashlib.sha256(re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1].encode()).digest()
        policy = f"default-src 'none'; style-src 'sha256-{base64.b64encode(style).decode()}'"
        head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        scheme_tag = (
            '<meta name="color-scheme" content="light dark"><meta name="viewport" content="width=device-width">'
        )
        path = tmp_path / "fragment.html"
        path.write_text(f"<!doctype html>{head}{scheme_tag}{shown}", encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 600}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_arcs_have_the_colours_of_their_labels(show, scheme):
    page = show(DOCUMENT, scheme=scheme)
    fill = "(element) => getComputedStyle(element).fill"
    fills = [mark.evaluate(fill) for mark in page.locator("rect.mark").all()]
    assert all(colour.startswith("oklch") for colour in fills)
    assert fills[0] == fills[1] != fills[2]
    background = page.locator("mark").first.evaluate("(element) => getComputedStyle(element).backgroundColor")
    assert background.startswith("oklch")  # and not the yellow of the browser
    word = page.locator(".drawing > text").first.evaluate(fill)
    assert word == ("rgb(0, 0, 0)" if scheme == "light" else "rgb(255, 255, 255)")


def test_the_browser_keeps_words_in_their_places_and_names_apart(show):
    page = show(long_document())
    texts = [text.bounding_box() for text in page.locator(".drawing text").all()]
    for i, a in enumerate(texts):
        for b in texts[:i]:
            apart_x = a["x"] + a["width"] <= b["x"] + 1 or b["x"] + b["width"] <= a["x"] + 1
            apart_y = abs(a["y"] + a["height"] / 2 - b["y"] - b["height"] / 2) >= 11
            assert apart_x or apart_y
    svg = page.locator(".drawing").bounding_box()
    assert all(
        svg["y"] - 1 <= text["y"] and text["y"] + text["height"] <= svg["y"] + svg["height"] + 1 for text in texts
    )


def test_a_narrow_notebook_scrolls_the_sentence_and_not_the_page(show):
    page = show(long_document(), width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".drawn").evaluate("e => e.scrollWidth > e.clientWidth")


def test_hostile_text_is_shown_as_text(show):
    page = show(Document.from_words([[ATTACK, "x"]], [(0, 1, ATTACK), (1, 2, "T")], [(0, 1, ATTACK)]))
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, script").count() == 0
    assert ATTACK in page.locator("svg").text_content().replace("\n", "")
