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

from helpers.browser import accessibility_problems, hover, shares
from helpers.noisy_extractor import noisy_extractor
from helpers.server import Running
from unire.documents import Document
from unire.extractor import Extractor
from unire.graph.rows import TRIPLES, TSV
from unire.labels import LabelSpace
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


def test_the_page_starts_with_an_example_and_updates_while_typing(visit, science):
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


def test_what_is_copied_is_what_passes_the_filters(visit, bundled):
    document = bundled.extract(FIRST)
    limit = round(max(relation.score for relation in document.relations) - 0.01, 2)
    kept = document.confident(limit)
    assert 0 < len(kept.relations) < len(document.relations)
    with Running(bundled) as server:
        page = visit(at=server)
        type_text(page, FIRST)
        wait_for_marks(page, wanted(bundled, FIRST))
        page.locator("#score").fill(str(limit))
        entities, relations = len(kept.entities), len(merge_symmetric(kept.relations))
        assert re.match(rf"{entities} entit\w+, {relations} relation", page.locator("#state").inner_text())
        page.locator("#copy-json").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert json.loads(page.evaluate("navigator.clipboard.readText()")) == kept.to_dict()
        page.locator("#copy-triples").click()
        page.get_by_role("button", name="Copied").nth(1).wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == TRIPLES.head(TSV) + TRIPLES.lines(kept, TSV)


def test_results_of_an_older_text_are_dimmed_and_cannot_be_copied(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    held = []
    page.route("**/view", lambda route: held.append(route))
    page.locator("#text").fill(OTHER)
    for name in ("copy-json", "copy-triples"):
        assert page.locator(f"#{name}").is_disabled()
    page.locator("#document.stale[aria-busy='true']").wait_for()
    page.wait_for_timeout(300)  # the pause after typing
    assert len(held) == 1
    page.unroute("**/view")
    page.locator("#text").fill(UNSURE)
    wait_for_marks(page, wanted(science, UNSURE))
    assert not page.get_by_role("alert").is_visible()
    assert page.locator("#copy-json").is_enabled()
    assert page.locator("#document.stale").count() == 0


def test_an_error_leaves_no_older_results(visit, science):
    page = visit()
    type_text(page, FIRST)
    wait_for_marks(page, wanted(science, FIRST))
    page.route("**/view", lambda route: route.fulfill(status=500, json={"error": "broken"}))
    page.locator("#text").fill(OTHER)
    page.get_by_role("alert").filter(has_text="broken").wait_for()
    assert not page.locator("#document").is_visible()
    assert page.locator("#state").inner_text() == ""
    assert page.locator("#copy-json").is_disabled()
    page.unroute("**/view")
    page.locator("#text").fill(FIRST)
    page.locator("#document:not(.stale)").wait_for()
    wait_for_marks(page, wanted(science, FIRST))
    assert page.locator("#copy-json").is_enabled()


def test_the_page_shows_the_length_limit_and_sends_no_longer_text(visit, science):
    page = visit()
    page.locator("#document mark").first.wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#text").fill("😀" * 1999)
    assert page.locator("#length").inner_text() == "1,999 of 2,000 characters"  # as Python counts them
    page.locator("#text").fill("x" * 2001)
    page.get_by_role("alert").filter(has_text="2,001 characters").wait_for()
    assert "over" in page.locator("#length").get_attribute("class")
    page.wait_for_timeout(400)
    assert asked == []


def test_the_address_has_the_text_and_the_settings(visit, science):
    page = visit()
    type_text(page, UNSURE)
    wait_for_marks(page, wanted(science, UNSURE))
    page.locator("#score").fill("0.3")
    page.get_by_role("button", name="CONJUNCTION").click()
    open_advanced(page)
    page.locator("#alpha").fill("2")
    page.wait_for_function("() => location.hash.includes('alpha=2.00')")
    wait_for_marks(page, wanted(science, UNSURE, 2.0))
    page.locator("#copy-link").click()
    page.get_by_role("button", name="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    other = visit()
    other.goto("about:blank")
    other.goto(link)
    wait_for_marks(other, wanted(science, UNSURE, 2.0))
    assert other.locator("#text").input_value() == UNSURE
    assert other.locator("#score").input_value() == "0.3"
    assert other.locator("#alpha-value").text_content() == "2.00"
    assert other.get_by_role("button", name="CONJUNCTION").get_attribute("aria-pressed") == "false"
    assert other.locator("#state").inner_text().split(" in ")[0] == page.locator("#state").inner_text().split(" in ")[0]
    other.locator("#text").fill("parser " * 600)  # too much for an address
    other.locator("#copy-link:disabled").wait_for()
    other.wait_for_function("() => location.hash === ''")


def test_a_strange_address_does_no_harm(visit, science):
    page = visit()
    for state in ("text=&score=9&alpha=x", "text=%3Cimg%20src=x%20onerror=alert(1)%3E&off=entity:&alpha=-1&score=nan"):
        page.goto("about:blank")
        page.goto(f"{page.server}/#{state}")
        page.wait_for_function("() => document.querySelector('#length').value")
        assert page.locator("img").count() == 0
        assert 0 <= float(page.locator("#score").input_value()) <= 1


def test_examples_suit_the_model(visit, science):
    page = visit()
    examples = page.locator("#examples .chip")
    assert page.locator("#text").input_value() == examples.first.get_attribute("title")
    examples.nth(1).click()
    wait_for_marks(page, wanted(science, examples.nth(1).get_attribute("title")))
    for chip in examples.all():
        assert len(science.extract(chip.get_attribute("title")).relations) >= 2
    news = Extractor.load("news", device="cpu")
    with Running(news) as server:
        page = visit(at=server)
        assert "Curie" in page.locator("#text").input_value()
        for chip in page.locator("#examples .chip").all():
            assert news.extract(chip.get_attribute("title")).relations


def test_a_model_of_another_kind_has_no_examples(visit):
    document = Document.from_words([["A", "b"]], [(0, 1, "Shape")])
    with Running(noisy_extractor([document], LabelSpace.learn([document]))) as server:
        page = visit(at=server)
        assert page.locator("#text").input_value() == ""
        assert page.locator("#text").get_attribute("placeholder").startswith("Type or paste a text.")
        assert not page.locator("#examples").is_visible()
        assert page.locator("#length").inner_text() == "0 of 20,000 characters"


def test_the_score_is_first_and_alpha_is_advanced(visit, science):
    page = visit()
    page.locator("#document mark").first.wait_for()
    assert not page.locator("#alpha").is_visible()
    assert page.locator("#tools").get_by_role("slider").first.get_attribute("id") == "score"
    open_advanced(page)
    assert page.locator("#alpha").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_axe_finds_no_barrier(visit, science, width, scheme):
    page = visit(width=width, color_scheme=scheme)
    page.locator("#document mark").first.wait_for()
    open_advanced(page)
    open_table(page)
    page.locator("#document mark").first.click()
    assert accessibility_problems(page) == []
    page.locator("#text").fill("x" * 2001)
    page.get_by_role("alert").wait_for()
    assert accessibility_problems(page) == []


def test_the_cells_that_a_page_is_sent_are_those_of_the_library(server, science):
    answer = server.ask("POST", "/view", {"text": OTHER, "cells": [0, 1]}).json
    (view,) = views(science, [segment(OTHER)])
    for sent, table in zip(answer["tables"], view.tables, strict=True):
        P = np.frombuffer(zlib.decompress(base64.b64decode(sent["model"]["P"])), "<u2").reshape(table.P.shape)
        assert np.abs(P / SCALE - table.P).max() <= 0.5 / SCALE + 1e-6
