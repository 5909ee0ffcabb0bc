"""Reading documents on a page: relations beside the text, filters, search, paper, keys, fingers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from helpers.browser import accessibility_problems
from helpers.noisy_extractor import noisy_extractor
from unire.documents import Document, Relation
from unire.labels import LabelSpace
from unire.rendering import merge_symmetric
from unire.rendering.views import View, views
from unire.segmentation import segment

WORDS = ["Ada", "Lovelace", "and", "Mary", "Somerville", "met", "in", "London", "."]
DOCUMENT = Document.from_words(
    [WORDS, ["They", "talked", "."]],
    [(0, 2, "Person"), (3, 5, "Person"), (7, 8, "Place"), (9, 10, "Person")],
    [(0, 1, "KNOWS"), (1, 0, "KNOWS"), (0, 2, "WAS-IN"), (1, 2, "WAS-IN")],
    id="notes/ada.txt:1",
)


def scored(document: Document, entities: list[float], relations: list[float]) -> Document:
    """The document with these scores, in order."""
    found = [replace(e, score=score) for e, score in zip(document.entities, entities, strict=True)]
    place = dict(zip(document.entities, found, strict=True))
    return document.annotated(
        found,
        [
            Relation(place[r.head], place[r.tail], r.label, score)
            for r, score in zip(document.relations, relations, strict=True)
        ],
    )


SCORED = scored(DOCUMENT, [0.9, 0.8, 0.7, 0.2], [0.6, 0.6, 0.5, 0.3])


def long_document(sentences: int = 30) -> Document:
    """Relations in every sentence, so that the list is longer than a window."""
    text = [[f"alpha{i}", "is", "a", f"beta{i}", "."] for i in range(sentences)]
    entities = [(5 * i + k, 5 * i + k + 1, "T") for i in range(sentences) for k in (0, 3)]
    return Document.from_words(text, entities, [(2 * i, 2 * i + 1, "IS-A") for i in range(sentences)])


def many(n: int = 5) -> list[Document]:
    return [
        Document.from_words([[f"Paper{i}", "is", "on", topic, "."]], [(3, 4, "Topic")], id=f"{i}.txt")
        for i, topic in enumerate(["parsing", "tagging", "parsing", "speech", "vision"][:n])
    ]


def is_in_window(page, locator) -> bool:
    box = locator.bounding_box()
    return box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]


def shown_triples(page) -> list[str]:
    return [" ".join(item.split()) for item in page.locator(".relations li:visible").all_inner_texts()]


# The list beside the text


def test_the_list_is_beside_the_text_and_stays_in_sight(visit):
    page = visit([View(long_document())])
    text, side = (page.locator(name).first.bounding_box() for name in (".text", ".side"))
    assert side["x"] >= text["x"] + text["width"]
    page.evaluate("scrollTo(0, 1000)")
    side = page.locator(".side").first.bounding_box()
    assert side["y"] >= 0
    assert side["y"] + side["height"] <= 900


def test_the_list_is_below_the_text_on_a_phone(visit):
    page = visit([View(long_document())], width=390)
    text, side = (page.locator(name).first.bounding_box() for name in (".text", ".side"))
    assert side["y"] >= text["y"] + text["height"]


def wait_until_in_window(page, selector: str) -> None:
    page.wait_for_function(
        """(selector) => {
          const { top, bottom } = document.querySelector(selector).getBoundingClientRect();
          return top >= 0 && bottom <= innerHeight;
        }""",
        arg=selector,
    )


@pytest.mark.parametrize("width", [1200, 390])
def test_a_click_goes_from_the_list_to_the_arc_and_back(visit, width):
    page = visit([View(long_document())], width=width, reduced_motion="reduce")
    item, name = page.locator("li[data-relation='25']"), page.locator(".name[data-relation='25']")
    item.click()
    wait_until_in_window(page, ".name[data-relation='25']")
    assert page.locator(".arc.on").get_attribute("data-relation") == "25"
    assert item.get_attribute("aria-selected") == "true"
    page.evaluate("scrollTo(0, 0); document.querySelector('.side').scrollTo(0, 0)")
    other = page.locator(".name[data-relation='20']")
    other.scroll_into_view_if_needed()
    other.click()
    wait_until_in_window(page, "li[data-relation='20']")
    assert page.locator("[aria-selected='true']").get_attribute("data-relation") == "20"
    page.mouse.move(1, 1)
    assert page.locator(".arc.on").get_attribute("data-relation") == "20"  # it is kept
    page.locator(".relations li").first.focus()
    page.keyboard.press("Escape")
    assert page.locator("[aria-selected='true'], .name.on").count() == 0
    assert name.count() == 1


def test_keys_go_from_an_entity_to_its_relation_and_back(visit):
    page = visit([View(DOCUMENT)])
    page.locator("[data-entity='2']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.relation") == "1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.entity") == "1"


def test_every_list_is_one_stop_for_the_tab_key(visit):
    labels = LabelSpace.learn([DOCUMENT])
    page = visit(views(noisy_extractor([DOCUMENT], labels), [DOCUMENT]), labels)
    stops = "[...document.querySelectorAll('{}')].filter((e) => e.tabIndex === 0).length"
    for selector in (".chip", "mark", ".sentence-tables > summary", ".relations li"):
        assert page.locator(selector).count() > 1, selector
        assert page.evaluate(stops.format(selector)) == 1, selector
    page.locator("mark").first.focus()
    for key, wanted in (("ArrowRight", "1"), ("End", "3"), ("ArrowLeft", "2"), ("Home", "0")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.entity") == wanted
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.dataset.entity") == "3"  # where one was
    page = visit([View(document) for document in many()])
    assert page.evaluate(stops.format(".document > summary")) == 1


def test_an_entity_tells_its_type_score_and_relations(visit):
    page = visit([View(SCORED)])
    page.locator("[data-entity='2']").hover()
    note = page.locator(".note:visible")
    assert note.inner_text().split("\n") == ["London", "Place · score 0.70 · 2 relations"]
    page.locator("[data-entity='3']").focus()
    assert note.inner_text().split("\n") == ["They", "Person · score 0.20 · 0 relations"]
    page.mouse.move(1, 1)
    page.locator(".chip").first.focus()
    assert note.count() == 0


def test_mentions_of_one_thing_are_framed_and_named_together(visit):
    words = ["Ada", "Lovelace", "wrote", "it", ".", "She", "met", "Mary", ";", "Ada", "left", "."]
    entities = [(0, 2, "Person"), (5, 6, "Person"), (7, 8, "Person"), (9, 10, "Person")]
    document = Document.from_words([words], entities, clusters=[[(0, 2), (5, 6), (9, 10)]])
    page = visit([View(document)])
    page.locator("[data-entity='1']").hover()
    assert page.locator("mark.same").evaluate_all("all => all.map(mark => mark.dataset.entity)") == ["0", "1", "3"]
    assert page.locator(".note:visible .aside").inner_text() == "also: Ada Lovelace, Ada"
    page.locator("[data-entity='2']").hover()
    assert page.locator("mark.same, .note .aside").count() == 0


def test_no_name_of_an_arc_is_below_a_line(visit):
    """Names are above all lines of the document: whatever is at the middle of a name is that name."""
    n = 8
    document = Document.from_words(
        [[f"w{i}" for i in range(2 * n)]],
        [(2 * i, 2 * i + 1, "T") for i in range(n)],
        [(i, j, f"r{i}{j}") for i in range(n) for j in range(i + 1, n) if (i * j) % 3 == 0],
    )
    for width in (1200, 500):
        page = visit([View(document)], width=width, height=3000)
        page.locator(".arcs .name").first.wait_for()
        at_middle = page.evaluate(
            """() => [...document.querySelectorAll(".arcs .name text")].map((text) => {
              const { x, y, width, height } = text.getBoundingClientRect();
              return document.elementFromPoint(x + width / 2, y + height / 2)?.parentElement === text.parentElement;
            })"""
        )
        assert len(at_middle) >= len(document.relations)
        assert all(at_middle)
        order = page.evaluate(
            """() => document.querySelector(".arcs .line").compareDocumentPosition(
              document.querySelector(".arcs .name")) & Node.DOCUMENT_POSITION_FOLLOWING"""
        )
        assert order


# Documents


def test_documents_are_headed_by_their_first_words(visit):
    text = "A very long title of a paper on the extraction of relations. " * 4
    page = visit([View(replace(segment(text), id="a.txt")), View(Document.from_words([["Short", "one"]]))])
    long, short = page.locator(".document h2").all_inner_texts()
    assert long.startswith("A very long title of a paper")
    assert long.endswith(" …")
    assert len(long) <= 112
    assert short == "Short one"
    assert page.locator(".facts").all_inner_texts() == ["a.txt · 0 entities, 0 relations", "0 entities, 0 relations"]


def test_paragraphs_are_kept(visit):
    page = visit([View(segment("One is here.\nTwo is here.\n\nThree is here. Four is here.\n \n\nFive is here."))])
    paragraphs = [paragraph.split("\n") for paragraph in page.locator(".paragraph").all_inner_texts()]
    assert paragraphs == [["One is here.", "Two is here."], ["Three is here.", "Four is here."], ["Five is here."]]
    tops = [row.bounding_box() for row in page.locator(".row").all()]
    gaps = [below["y"] - above["y"] - above["height"] for above, below in pairwise(tops)]
    assert min(gaps[1], gaps[3]) > 10 > max(gaps[0], gaps[2])


def test_documents_can_be_searched(visit):
    page = visit([View(document) for document in many()])
    shown = page.locator(".document:visible")
    assert page.locator(".state").inner_text() == "5 documents"
    page.locator("body").press("/")
    page.keyboard.type("PARSING on")
    assert shown.locator("h2").all_inner_texts() == ["Paper0 is on parsing .", "Paper2 is on parsing ."]
    assert page.locator(".state").inner_text() == "2 of 5 documents"
    page.get_by_role("searchbox").fill("3.txt")
    assert shown.locator("h2").all_inner_texts() == ["Paper3 is on speech ."]
    page.get_by_role("searchbox").fill("topic")  # the label of every entity, and no text
    assert shown.count() == 0
    page.get_by_role("searchbox").fill("")
    assert shown.count() == 5


def test_all_documents_can_be_opened_and_closed(visit):
    page = visit([View(document) for document in many()])
    assert page.locator(".document[open]").count() == 1
    page.get_by_role("button", name="Expand all").click()
    assert page.locator(".document[open]").count() == 5
    page.get_by_role("button", name="Collapse all").click()
    assert page.locator(".document[open]").count() == 0
    page.locator(".document > summary").nth(2).click()
    assert page.get_by_role("button", name="Expand all").is_visible()


def test_a_document_has_an_address(visit):
    page = visit([View(document) for document in many()])
    page.evaluate("location.hash = 'document-4'")
    page.locator("#document-4[open]").wait_for()


def test_one_document_needs_no_search(visit):
    page = visit([View(DOCUMENT)])
    assert page.get_by_role("searchbox").count() == 0
    assert not page.locator("#score").is_visible()  # nothing has a score
    assert page.locator(".chip").count() == 4  # the legend


def test_a_note_about_omitted_documents_is_at_the_top(visit):
    page = visit([View(document) for document in many()], limit=3)
    remark = page.locator("#remark")
    assert remark.inner_text() == "This page shows the first 3 documents and leaves out the others."
    assert remark.bounding_box()["y"] < page.locator(".document").first.bounding_box()["y"]


# Filters


def test_the_slider_filters_by_score_as_the_library_does(visit):
    page = visit([View(SCORED), View(scored(many(1)[0], [0.4], []))])
    for score in (0.0, 0.35, 0.55, 0.75, 1.0):
        page.locator("#score").fill(str(score))
        kept = SCORED.confident(score)
        assert page.locator("#document-1 mark:not(.off)").count() == len(kept.entities)
        groups = merge_symmetric(kept.relations)
        assert page.locator(".relations li:visible").count() == len(groups)
        assert page.locator(".arcs .arc").count() == len(groups)
        entity = "entity" if len(kept.entities) == 1 else "entities"
        relation = "relation" if len(groups) == 1 else "relations"
        assert page.locator(".counts").first.inner_text() == f"{len(kept.entities)} {entity}, {len(groups)} {relation}"
        assert page.locator(".counts").nth(1).inner_text().startswith("1 entity" if score <= 0.4 else "0 entities")
    assert page.locator(".side .aside").first.inner_text() == "All relations are filtered out."


def test_chips_switch_types_off_and_on(visit):
    page = visit([View(SCORED)])
    assert page.locator(".chip").all_inner_texts() == ["P\nPerson\n3", "PL\nPlace\n1", "K\nKNOWS\n1", "WI\nWAS-IN\n2"]
    page.get_by_role("button", name="Place").click()
    assert page.get_by_role("button", name="Place").get_attribute("aria-pressed") == "false"
    assert shown_triples(page) == ["Ada Lovelace P ← KNOWS → Mary Somerville P 0.60"]
    assert page.locator("mark.off").all_inner_texts() == ["London"]  # without its label
    page.get_by_role("button", name="Place").click()
    page.get_by_role("button", name="KNOWS").click()
    assert [triple.split()[3] for triple in shown_triples(page)] == ["WAS-IN", "WAS-IN"]
    page.locator("#score").fill("0.4")
    assert page.locator(".chip .count").all_inner_texts() == ["2", "1", "1", "1"]


def test_documents_that_are_opened_later_are_filtered_too(visit):
    page = visit([View(many(1)[0]), View(SCORED)])
    page.get_by_role("button", name="KNOWS").click()
    page.locator(".document > summary").nth(1).click()
    page.locator("#document-2 .arcs .arc").first.wait_for(state="attached")
    assert page.locator("#document-2 .arcs .arc").count() == 2


def test_symmetric_relations_are_counted_once_everywhere(visit):
    page = visit([View(scored(DOCUMENT, [0.9] * 4, [0.61, 0.612, 0.5, 0.5]))])  # the scores look the same
    assert page.locator(".counts").inner_text() == "4 entities, 3 relations"
    assert page.locator(".chip").filter(has_text="KNOWS").locator(".count").inner_text() == "1"
    assert (page.locator(".relations li").count(), page.locator(".arcs .arc").count()) == (3, 3)
    page.locator("[data-entity='0']").hover()
    assert page.locator(".note:visible").inner_text().endswith("2 relations")


def test_codes_tell_types_apart_without_colours(visit):
    """Types whose colours are nearly equal to some readers have their own letters in the list and in the legend."""
    labels = ("Method", "OtherScientificTerm", "Metric")
    document = Document.from_words(
        [["a", "b", "c"]], [(i, i + 1, label) for i, label in enumerate(labels)], [(0, 1, "R")]
    )
    page = visit([View(document)])
    assert page.locator(".chip .label").all_inner_texts() == ["M", "OST", "ME", "R"]
    assert page.locator(".relations .entity .label").all_inner_texts() == ["M", "OST"]


# Paper, fingers, scripts


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_keeps_arcs_and_colours(visit, scheme):
    page = visit([View(SCORED)], scheme=scheme)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.locator("#tools").is_visible()
    style = "(element) => { const s = getComputedStyle(element); return [s.backgroundColor, s.printColorAdjust]; }"
    colour, adjust = page.locator("mark").first.evaluate(style)
    assert colour.startswith("oklch")
    assert adjust == "exact"
    assert page.locator("body").evaluate(style)[0] == "rgb(255, 255, 255)"
    width = page.locator("body").bounding_box()["width"]
    assert width <= 718  # A4 with margins of a centimetre
    for relation, arc in zip(SCORED.relations[1:], page.locator(".arcs .arc").all(), strict=True):
        tail = page.locator(f"[data-entity='{SCORED.entities.index(relation.tail)}']").bounding_box()
        tip = arc.locator("path.tip").last.bounding_box()
        if relation.label == "WAS-IN":
            assert tail["x"] < tip["x"] < tail["x"] + tail["width"]
            assert abs(tip["y"] + tip["height"] - tail["y"]) < 8
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#tools").evaluate("element => element.closest('.printing')") is None


def test_a_browser_that_prints_draws_documents_that_were_out_of_sight(visit, tmp_path):
    page = visit([View(long_document(120)), View(DOCUMENT)])
    page.locator(".document > summary").nth(1).evaluate("element => element.click()")
    assert page.locator("#document-2 .arc").count() == 0
    page.pdf(path=tmp_path / "page.pdf")
    assert page.locator("#document-2 .arc").count() == 3


def test_a_finger_hits_everything(visit):
    page = visit([View(SCORED), View(many(1)[0])], width=390, has_touch=True, is_mobile=True)
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("button, summary, input, [role=option], .arcs .target")]
          .filter((element) => element.checkVisibility())
          .map((element) => [element.outerHTML.slice(0, 60), element.getBoundingClientRect()])
          .map(([name, { width, height }]) => [name, width, height])"""
    )
    assert len(sizes) > 10
    assert [size for size in sizes if min(size[1:]) < 23.9] == []


def test_right_to_left_text_keeps_its_direction(visit):
    words = ["يعيش", "محمد", "في", "القاهرة"]
    document = Document.from_words(
        [words, ["He", "does", "."]], [(1, 2, "Person"), (3, 4, "Place")], [(0, 1, "LIVES-IN")]
    )
    page = visit([View(document)])
    boxes = [word.bounding_box()["x"] for word in page.locator(".row").first.locator(".w").all()]
    assert boxes == sorted(boxes, reverse=True)
    item = page.locator(".relations li").first
    assert item.locator("bdi").all_inner_texts() == [words[1], words[3]]
    head, arrow, tail = (item.locator(name).bounding_box() for name in ("bdi >> nth=0", ".arrow", "bdi >> nth=1"))
    assert head["y"] < arrow["y"]
    assert arrow["x"] < tail["x"]  # the triple itself runs from left to right


def test_the_text_can_be_read_without_scripts(browser, visit, tmp_path):
    visit([View(DOCUMENT)])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    text = " ".join(page.locator(".text").inner_text().split())
    assert text.startswith("Ada Lovelace Person and Mary Somerville Person met in London Place .")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_axe_finds_no_barrier(visit, width, scheme):
    labels = LabelSpace.learn([DOCUMENT])
    seen = [*views(noisy_extractor([DOCUMENT], labels), [DOCUMENT]), View(SCORED), *map(View, many())]
    page = visit(seen, labels, width=width, scheme=scheme)
    assert accessibility_problems(page) == []
    page.locator(".sentence-tables > summary").first.click()
    page.locator(".panel").first.wait_for()
    page.locator(".document > summary").nth(1).click()
    page.locator("#document-2 mark").first.click()
    page.locator(".chip").first.click()
    page.locator("#score").fill("0.4")
    assert accessibility_problems(page) == []
