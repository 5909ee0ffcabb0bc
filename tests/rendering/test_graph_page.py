"""The page of a knowledge graph: one entity with its neighbours, and the sentences that state the relations."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from helpers.browser import accessibility_problems
from helpers.graphs import DOCUMENTS, LABELS, stated
from unire.documents import Document
from unire.graph import Graph, export_graph
from unire.rendering.html.graph_page import write_graph_page

ATTACK = "</script><img src=x onerror='window.hacked=1'>"


@pytest.fixture
def visit(browser, tmp_path) -> Iterator[Any]:
    """Write the page of a graph and open it; it must not complain, and must ask for nothing."""
    contexts, complaints, requests = [], [], []

    def open_page(documents=DOCUMENTS, *, width=1280, at="", limit=20_000, scheme="light"):
        path = tmp_path / "graph.html"
        write_graph_page(Graph(documents, LABELS), path, limit=limit)
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri() + at)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert {request[:5] for request in requests} <= {"file:", "blob:"}


def names(page, where: str) -> list[str]:
    return page.locator(f"#ego .{where} .go bdi").all_inner_texts()


def sentences(page) -> list[str]:
    return page.locator("#evidence li p:first-child").all_inner_texts()


def state(page) -> dict[str, list[str]]:
    return parse_qs(page.url.partition("#")[2])


def test_the_most_connected_entity_is_first_with_what_it_is_related_to(visit):
    page = visit()
    assert page.locator("#facts").inner_text() == "6 documents · 7 connected entities · 5 relations"
    assert page.locator(".centre bdi").inner_text() == "Ada"
    assert names(page, "in") == []
    assert sorted(names(page, "out")) == ["Charles", "London", "engine"]  # a symmetric relation is on the right
    assert page.locator("#hubs li").first.inner_text().split("\n") == ["P", "Ada", "3"]
    assert page.locator("#ego .links path").count() == 3
    page.get_by_role("button", name="London").click()
    assert sorted(names(page, "in")) == ["Ada", "Mary"]
    assert names(page, "out") == []


def test_evidence_is_in_sight_with_both_mentions_marked(visit):
    page = visit()
    assert sentences(page) == [
        "Ada met Charles .",
        "Charles met Ada again .",
        "Ada was in London .",
        "Ada used the engine .",
    ]
    assert page.locator("#evidence li").first.locator("mark").all_inner_texts() == ["Ada", "Charles"]
    assert page.locator("#evidence .facts").first.inner_text() == "MET · 0.90 · a"
    page.get_by_role("button", name="MET 0.98: show 2 sentences").click()
    assert sentences(page) == ["Ada met Charles .", "Charles met Ada again ."]
    page.get_by_role("button", name="MET 0.98: show 2 sentences").click()
    assert len(sentences(page)) == 4
    page.locator("#search").fill("mary")
    page.keyboard.press("Enter")
    assert page.locator("#evidence mark").all_inner_texts() == ["Mary", "London"]  # after an emoji


def test_filters_hide_relations_and_entities(visit):
    page = visit()
    page.locator("#score").fill("0.5")
    assert "engine" not in names(page, "out")
    assert page.locator("#facts").inner_text() == "6 documents · 6 connected entities · 4 relations"
    page.get_by_role("button", name="Place").click()
    assert names(page, "out") == ["Charles"]
    page.get_by_role("button", name="MET 2").or_(page.locator(".chip").filter(has_text="MET")).first.click()
    assert page.locator(".centre .aside").inner_text() == "No relations pass the filters."


def test_search_finds_names_and_can_be_used_with_keys(visit):
    page = visit()
    page.locator("body").press("/")
    page.keyboard.type("a")
    found = page.locator("#results li bdi")
    assert found.all_inner_texts()[0] == "Ada"  # it begins so
    assert set(found.all_inner_texts()) == {"Ada", "Charles", "Grace", "Mary"}
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    last = found.all_inner_texts()[-1]
    page.keyboard.press("Enter")
    assert page.locator(".centre bdi").inner_text() == last
    assert not page.locator("#results").is_visible()


def test_the_address_has_the_state_and_one_can_go_back(visit):
    page = visit()
    page.get_by_role("button", name="London").click()
    page.locator("#score").fill("0.65")
    assert names(page, "in") == ["Ada"]
    assert state(page)["score"] == ["0.65"]
    other = visit(at="#" + page.url.partition("#")[2])
    assert other.locator(".centre bdi").inner_text() == "London"
    assert names(other, "in") == ["Ada"]
    page.locator("#score").fill("0")
    page.get_by_role("button", name="Mary").click()
    page.go_back()
    page.wait_for_function("() => document.querySelector('.centre bdi').textContent === 'London'")
    strange = visit(at="#entity=nobody&score=7&off=entity:None&to=x")
    assert strange.locator(".centre bdi").inner_text() == "Ada"


def test_a_path_joins_two_entities_with_its_evidence(visit):
    page = visit(at="")
    page.locator("#search").fill("Charles")
    page.keyboard.press("Enter")
    page.locator("#goal").fill("Mary")
    page.keyboard.press("Enter")
    assert page.locator("#path .go bdi").all_inner_texts() == ["Charles", "Ada", "London", "Mary"]
    assert page.locator("#path .arrow").all_inner_texts() == ["↔ MET ↔", "— WAS-IN →", "← WAS-IN —"]
    assert sentences(page)[-2:] == ["Ada was in London .", "Mary 😀 was in London ."]
    page.locator("#goal").fill("COBOL")
    page.keyboard.press("Enter")
    assert page.locator("#path").inner_text() == "No path leads to COBOL."


def test_what_is_shown_can_be_downloaded(visit):
    documents = [
        *DOCUMENTS,
        stated("Ada used =1+1, today .", [(0, 1, "Person"), (2, 3, "Tool")], (0, 1, "USED"), 0.9, "g"),
    ]
    page = visit(documents)
    with page.expect_download() as download:
        page.locator("#download").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))
    assert {(row["relation"], row["documents"]) for row in rows} == {("MET", "2"), ("WAS-IN", "1"), ("USED", "1")}
    assert "'=1+1," in {row["tail"] for row in rows}


def table(page) -> list[list[str]]:
    return page.locator("#table tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()))"
    )


def test_a_table_compares_entities_by_what_they_are_related_to(visit):
    page = visit()
    page.get_by_role("button", name="Table").click()
    page.get_by_label("Rows").select_option("Person")
    assert table(page) == [
        ["Person", "Person", "Place", "Tool"],
        ["P Ada", "M ↔ Charles", "WI → London", "U → engine"],
        ["P Charles", "M ↔ Ada", "", ""],
        ["P Mary", "", "WI → London", ""],
        ["P Grace", "", "", "U → COBOL"],
    ]
    assert len(sentences(page)) == 6
    page.locator("#table").get_by_role("button", name="London").first.click()
    assert sentences(page) == ["Ada was in London ."]
    page.get_by_label("Columns").select_option("Place")
    assert table(page) == [["Person", "PL London"], ["P Ada", "WI →"], ["P Mary", "WI →"]]
    other = visit(at="#" + page.url.partition("#")[2])
    assert table(other) == table(page)
    page.locator("#score").fill("0.65")
    assert table(page) == [["Person", "PL London"], ["P Ada", "WI →"]]
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "table.csv"
    assert download.value.path().read_text(encoding="utf-8") == ",London\nAda,(WAS-IN 0.70)\n"
    page.get_by_label("Columns").select_option("Tool")
    page.get_by_label("Rows").select_option("Place")
    assert page.locator("#empty").is_visible()
    page.go_back()
    page.go_back()
    page.locator("#table").get_by_role("button", name="Ada").first.click()
    assert page.locator(".centre bdi").inner_text() == "Ada"


def test_hostile_names_and_sentences_are_text(visit):
    words = [ATTACK, "met", "\u202eB", "\x00", "."]
    document = Document.from_words([words], [(0, 1, ATTACK), (2, 3, ATTACK)], [(0, 1, ATTACK)], id=ATTACK)
    page = visit([document])
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert ATTACK in page.locator("#evidence").inner_text()
    assert ATTACK in page.locator(".centre").inner_text() + page.locator("#ego .out, #ego .in").first.inner_text()
    assert "‹U+202E›" in page.locator("#evidence").inner_text()


def test_a_large_graph_shows_its_best_relations_and_says_so(visit):
    page = visit(limit=2)
    assert page.locator("#remark").inner_text() == "This page shows 2 of 5 relations, those in most documents."
    assert sorted(names(page, "out")) == ["Charles", "London"]
    assert not visit().locator("#remark").is_visible()


def test_many_neighbours_are_folded(visit):
    documents = [
        stated(f"Ada used tool{i} .", [(0, 1, "Person"), (2, 3, "Tool")], (0, 1, "USED"), 0.9, str(i))
        for i in range(30)
    ]
    page = visit(documents)
    assert len(names(page, "out")) == 14
    page.get_by_role("button", name="and 16 more").click()
    assert len(names(page, "out")) == 30
    assert page.locator("#ego .links path").count() == 30


def test_a_graph_without_relations_is_a_page(visit):
    page = visit([Document.from_words([["Ada"]], [(0, 1, "Person")])])
    assert page.locator("#facts").inner_text() == "1 document · 0 connected entities · 0 relations"


def test_a_phone_needs_no_sideways_scrolling(visit):
    page = visit(width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    centre, out = (page.locator(name).first.bounding_box() for name in (".centre", ".out"))
    assert out["y"] >= centre["y"] + centre["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_barrier(visit, width, scheme):
    page = visit(width=width, scheme=scheme)
    assert accessibility_problems(page) == []
    page.locator("#goal").fill("Mary")
    page.keyboard.press("Enter")
    page.locator(".edge").first.click()
    page.locator("#search").fill("a")
    assert accessibility_problems(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Table").click()
    assert accessibility_problems(page) == []


def test_printing_has_the_table_without_the_controls(visit):
    page = visit(at="#view=table&rows=Person")
    page.emulate_media(media="print")
    assert page.locator("#table").is_visible()
    assert page.locator("#evidence li").count() == 6
    for control in ("#search", "#hubs", "#download", "[data-view]"):
        assert not page.locator(control).first.is_visible()


def test_the_ending_html_names_the_page(tmp_path):
    export_graph(Graph(DOCUMENTS, LABELS), tmp_path / "graph.html")
    page = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
