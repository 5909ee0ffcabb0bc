"""The page at `/` in a real browser: typing, pointing, dragging, copying, and what it says when something is wrong."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helpers.browser import hover, shares
from helpers.server import Running
from unire.extractor import Extractor
from unire.graph.rows import TRIPLES, TSV
from unire.rendering import merge_symmetric
from unire.rendering.html.page import SCALE
from unire.rendering.views import views
from unire.segmentation import segment
from unire.serving.limits import ServingLimits

FIRST = "We train a chart parser on the Penn Treebank for dependency parsing."
UNSURE = "Our fast shift-reduce parser uses hand crafted lexical and syntactic features in a log linear framework."
"""A sentence in which the words are near and far in many ways."""
SIZES = "The method uses topic models, an ontology, and word sense and speech data."
"""A sentence with entities of one word, of two and of more: more cells allow a higher score of a square."""
FAILED = "Failed to load resource: "
"""How chromium begins to tell of an answer that is an error, or of none."""
OTHER = "We use a support vector machine for text classification. It is fast."


@pytest.fixture(scope="module")
def science(science: Extractor) -> Extractor:
    """Decoded by distances, whose chart is a part of the page."""
    return science.with_decoder("split")


@pytest.fixture(scope="module")
def bundled() -> Extractor:
    """The bundled model with its own decoder, `likely`."""
    return Extractor.load("science", device="cpu")


@pytest.fixture(scope="module")
def server(science) -> Iterator[Running]:
    with Running(science, ServingLimits(text_characters=2000)) as running:
        yield running


@pytest.fixture
def visit(browser, server) -> Iterator[Any]:
    """Open the page; at the end it must have complained of nothing, and asked nobody but its server."""
    contexts, complaints, requests = [], [], []

    def open_page(*, at: Running = server, width=1200, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(str(at))
        page.server = at
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if not text.startswith(FAILED)] == []
    assert all(url.startswith("http://127.0.0.1:") for url in requests)


def type_text(page, text: str) -> None:
    page.locator("#text").fill("")
    page.locator("#text").press_sequentially(text) if len(text) < 20 else page.locator("#text").fill(text)


def marks(page) -> list[str]:
    """Words of the entities on the page."""
    return page.locator("#document mark").evaluate_all(
        "all => all.map(mark => [...mark.querySelectorAll('.w')].map(word => word.textContent).join(' '))"
    )


def wait_for_marks(page, words: list[str]) -> None:
    page.wait_for_function(
        """words => JSON.stringify([...document.querySelectorAll("#document mark")].map(
          (mark) => [...mark.querySelectorAll(".w")].map((word) => word.textContent).join(" "))) === words""",
        arg=json.dumps(words, ensure_ascii=False, separators=(",", ":")),
    )


def wanted(science: Extractor, text: str, alpha: float | None = None) -> list[str]:
    document = (science if alpha is None else science.with_alpha(alpha)).extract(text)
    return [" ".join(document.words[e.start : e.end]) for e in document.entities]


def open_table(page, number=0):
    page.locator(".sentence-tables > summary").nth(number).click()
    page.locator(".sentence-tables").nth(number).locator("svg").first.wait_for()


def open_advanced(page) -> None:
    page.locator("#advanced > summary").click()


def drag_slider(page, alpha: float) -> None:
    """To a value, in small steps, as a hand would."""
    slider = page.locator("#alpha")
    box = slider.bounding_box()
    low, high, now = (float(slider.evaluate(f"e => e.{name}")) for name in ("min", "max", "value"))
    thumb = 16

    def at(value: float) -> float:
        return box["x"] + thumb / 2 + (box["width"] - thumb) * (value - low) / (high - low)

    page.mouse.move(at(now), box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(at(alpha), box["y"] + box["height"] / 2, steps=12)
    page.mouse.up()


def test_the_page_begins_with_an_example_and_shows_what_is_typed_at_once(visit, science):
    page = visit()
    page.locator("#document mark").first.wait_for()
    assert page.locator(".arcs .arc").count() > 0
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    document = science.extract(FIRST)
    assert page.locator("#document .relations li").count() == len(merge_symmetric(document.relations))
    assert page.locator(".arcs .arc").count() == len(merge_symmetric(document.relations))
    page.locator("#text").press_sequentially(" It beats a tagger.")
    wait_for_marks(page, wanted(science, f"{FIRST} It beats a tagger."))
    found = science.extract(f"{FIRST} It beats a tagger.")
    state = page.locator("#state").inner_text()
    relations = len(merge_symmetric(found.relations))
    assert relations < len(found.relations)  # one of them is symmetric
    assert re.fullmatch(rf"{len(found.entities)} entities, {relations} relations? in \d+ ms", state)
    page.locator("#text").fill(" ")
    page.locator("#document").wait_for(state="hidden")


def test_pointing_at_a_cell_shows_its_probabilities(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    open_table(page)
    (view,) = views(science, [segment(FIRST)])
    P, words = view.tables[0].P, view.document.words
    for row, column in [(3, 3), (3, 10), (7, 4), (0, 5)]:
        hover(page, "Model", row, column, len(words))
        shown = shares(page)
        for label, p in zip(science.labels.names, P[row, column].tolist(), strict=True):
            assert shown.get(label, 0) == pytest.approx(p, abs=0.001)
        assert page.locator(".sentence .w.on").all_inner_texts() == [words[i] for i in sorted({row, column})]


def test_a_table_that_is_open_stays_open_while_one_types(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    open_table(page)
    type_text(page, OTHER)
    wait_for_marks(page, wanted(science, OTHER))
    page.locator(".sentence-tables").first.locator("svg").first.wait_for()
    assert page.locator(".sentence-tables[open]").count() == 1
    assert "vector" in page.locator(".panel svg text").all_text_contents()


def test_dragging_alpha_splits_and_merges_spans_as_the_library_does(visit, science):
    page = visit()
    type_text(page, UNSURE)
    wait_for_marks(page, wanted(science, UNSURE))
    open_advanced(page)
    open_table(page)
    seen = set()
    for alpha in (0.05, 3.5, 0.4, 9.0):
        most = float(page.locator("#alpha").get_attribute("max"))
        drag_slider(page, min(alpha, most))
        now = float(page.locator("#alpha-value").inner_text())
        assert now == pytest.approx(min(alpha, most), abs=0.12)
        wait_for_marks(page, wanted(science, UNSURE, now))
        document = science.with_alpha(now).extract(UNSURE)
        panel = page.locator(".panel:has(figcaption:text('Decoded'))")
        page.wait_for_function(
            "n => document.querySelectorAll('.panel:last-child .cut').length === n",
            arg=2 * len(document.sentences[0].cuts),
        )
        assert panel.locator(".square").count() == len(document.entities)
        assert panel.locator(".rectangle").count() == len(document.relations)
        assert page.locator(".arcs .arc").count() == len(merge_symmetric(document.relations))
        assert page.locator(".bar.above").count() == len(document.sentences[0].cuts)
        page.locator(".alpha-name", has_text=f"α = {now:.2f}").wait_for()
        seen.add(len(document.sentences[0].cuts))
    assert len(seen) > 2
    assert 0 in seen  # all words are one span
    page.locator("#reset").click()
    wait_for_marks(page, wanted(science, UNSURE))
    assert page.locator("#reset").is_disabled()


def test_alpha_of_the_bundled_model_is_a_log_odds_threshold(visit, bundled):
    assert bundled.config.decoder == "likely"
    with Running(bundled) as server:
        page = visit(at=server)
        type_text(page, SIZES)
        wait_for_marks(page, wanted(bundled, SIZES))
        open_advanced(page)
        assert page.locator("#alpha-value").inner_text() == f"{bundled.config.alpha:.2f}"
        assert page.locator("#alpha-meaning").inner_text() == "Log-odds that a square needs to be an entity."
        open_table(page)
        seen = set()
        for alpha in (0.05, 20.0, 9.0, 2.0):
            drag_slider(page, alpha)
            now = float(page.locator("#alpha-value").inner_text())
            assert now == pytest.approx(alpha, abs=0.12)
            wait_for_marks(page, wanted(bundled, SIZES, now))
            (sentence,) = bundled.with_alpha(now).extract(SIZES).sentences
            page.wait_for_function(
                "n => document.querySelectorAll('.panel:last-child .cut').length === n", arg=2 * len(sentence.cuts)
            )
            panel = page.locator(".panel:has(figcaption:text('Decoded'))")
            assert panel.locator(".square").count() == len(sentence.entities)
            assert panel.locator(".rectangle").count() == len(sentence.relations)
            assert page.locator(".bar.above").count() == len(sentence.cuts)  # the distances say how far, not where
            seen.add(len(sentence.entities))
        assert len(seen) > 2
        assert page.locator(".bar").count() == len(sentence.words) - 1
        assert page.locator(".panel .alpha, .alpha-name, .handle").count() == 0
        page.locator("#reset").click()
        wait_for_marks(page, wanted(bundled, SIZES))
        assert page.locator("#reset").is_disabled()


def test_alpha_can_be_dragged_by_its_line(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    open_advanced(page)
    open_table(page)
    handle = page.locator(".handle")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0], middle[1] - 200, steps=10)
    page.mouse.up()
    page.wait_for_function("() => document.querySelectorAll('.panel .cut').length === 0")
    assert float(page.locator("#alpha-value").inner_text()) > 2
    page.mouse.move(0, 0)  # nothing is dragged any more
    page.mouse.move(*middle)
    wait_for_marks(page, wanted(science, FIRST, float(page.locator("#alpha-value").inner_text())))


def test_alpha_moves_by_keys(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    open_advanced(page)
    page.locator("#alpha").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert page.locator("#alpha-value").inner_text() == f"{science.config.alpha + 0.1:.2f}"
    page.keyboard.press("Home")
    wait_for_marks(page, wanted(science, FIRST, 0.01))


def test_raw_and_decoded_can_be_toggled(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    open_advanced(page)
    open_table(page)
    for choice, titles in (("raw", ["Model"]), ("decoded", ["Decoded"]), ("both", ["Model", "Decoded"])):
        page.get_by_label(choice).check()
        captions = page.locator(".panel figcaption").all_inner_texts()
        assert [caption.split()[0] for caption in captions] == titles
        assert page.locator(".panel .alpha").count() == 1  # the distances stay
    page.get_by_label("raw").check()
    page.locator("#text").fill(OTHER)
    wait_for_marks(page, wanted(science, OTHER))
    open_table(page, 1)
    assert page.locator(".panel").count() == 2  # of two sentences, one each


def test_json_and_triples_are_copied(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    document = science.extract(FIRST)
    page.locator("#copy-json").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == document.to_dict()
    page.locator("#copy-triples").click()
    page.get_by_role("button", name="Copied").nth(1).wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == TRIPLES.head(TSV) + TRIPLES.lines(document, TSV)
    page.get_by_role("button", name="Copy JSON").wait_for()


def test_copying_works_where_there_is_no_modern_clipboard(visit, science):
    page = visit()
    page.locator("#document mark").first.wait_for()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.addEventListener('copy', () => { window.copied = getSelection().toString(); })")
    page.locator("#copy-json").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert json.loads(page.evaluate("window.copied"))["entities"]


def test_errors_are_shown_in_one_sentence_and_go_away(visit, science):
    page = visit()
    page.locator("#document mark").first.wait_for()
    page.locator("#text").fill("word " * 500)
    problem = page.get_by_role("alert")
    problem.wait_for()
    assert problem.inner_text() == "the text has 2,500 characters, and a text may have 2,000; send it in parts"
    assert not page.locator("#document").is_visible()
    page.locator("#text").fill(FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    problem.wait_for(state="hidden")
    assert "stale" not in page.locator("#document").get_attribute("class")
    assert page.locator("#length").inner_text() == f"{len(FIRST)} of 2,000 characters"


def test_the_page_shows_when_the_server_is_gone_or_busy(visit, science):
    with Running(science) as server:
        page = visit(at=server)
        page.locator("#document mark").first.wait_for()
        page.route(
            "**/view", lambda route: route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "busy"})
        )
        page.locator("#text").fill(FIRST)
        page.get_by_role("alert").filter(has_text="busy").wait_for()
        page.unroute("**/view")
        wait_for_marks(page, wanted(science, FIRST))  # it asks again by itself
    page.context.set_offline(True)
    page.locator("#text").fill(OTHER)
    page.get_by_role("alert").filter(has_text="the server does not answer; is it still running?").wait_for()
    page.goto("about:blank")


def test_a_key_is_asked_for_where_one_is_needed(visit, science):
    with Running(science, key="sesame") as server:
        page = visit(at=server)
        page.get_by_role("alert").filter(has_text="this server needs its key").wait_for()
        page.get_by_label("Key").fill("sesame")
        page.get_by_label("Key").press("Enter")  # a form that is sent would break the page's own policy
        page.locator("#document mark").first.wait_for()
        page.get_by_role("alert").wait_for(state="hidden")


@pytest.mark.parametrize("width", [1200, 390])
def test_no_key_is_asked_for_where_none_is_needed(visit, width):
    page = visit(width=width)
    page.locator("#document mark").first.wait_for()
    assert not page.get_by_label("Key").is_visible()
    assert page.locator("#key").bounding_box() is None


def test_hostile_text_is_shown_as_text(visit, science):
    attack = 'We train a <img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script> parser.'
    page = visit()
    page.locator("#text").fill(attack)
    page.wait_for_function("() => document.querySelector('#document').textContent.includes('onerror')")
    open_table(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#document img, #document script").count() == 0


def test_keys_are_enough(visit, science):
    """Every list is one stop for the Tab key."""
    page = visit()
    page.locator("#document mark").first.wait_for()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    assert reached[:7] == ["text", "examples", "score", "copy-json", "copy-triples", "copy-link", "advanced"]
    # chips, an entity, a table and a relation
    assert reached[7:] == ["legend", "document", "document", "document", None]
    page.locator(".sentence-tables > summary").first.focus()
    page.keyboard.press("Enter")
    page.locator(".frame").first.wait_for()
    page.keyboard.press("Tab")
    assert page.locator(".note:visible .title").inner_text() == "We"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit, science, scheme):
    page = visit(width=390, height=844, color_scheme=scheme, has_touch=True, is_mobile=True)
    page.locator("#text").fill(f"{OTHER} {'antidisestablishmentarianism ' * 10}.")
    page.wait_for_function("() => document.querySelector('#document').textContent.includes('antidis')")
    open_table(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".panel").count() == 2
    assert page.locator(".panel .bar.above").first.bounding_box()["height"] > 10
    page.locator(".panel .ground").first.scroll_into_view_if_needed()
    box = page.locator(".panel .ground").first.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    note = page.locator(".note:visible").bounding_box()
    assert note["x"] >= 0
    assert note["x"] + note["width"] <= 390


def test_the_cells_that_a_page_is_sent_are_those_of_the_library(server, science):
    answer = server.ask("POST", "/view", {"text": OTHER, "cells": [0, 1]}).json
    (view,) = views(science, [segment(OTHER)])
    for sent, table in zip(answer["tables"], view.tables, strict=True):
        P = np.frombuffer(zlib.decompress(base64.b64decode(sent["model"]["P"])), "<u2").reshape(table.P.shape)
        assert np.abs(P / SCALE - table.P).max() <= 0.5 / SCALE + 1e-6
