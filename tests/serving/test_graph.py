"""The page of a knowledge graph that the server has: the same page as in a file, but it asks for what it shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="needs the extra graph")

from helpers.browser import accessibility_problems
from helpers.graphs import DOCUMENTS, LABELS, stated
from helpers.server import Running, until
from unire import formats
from unire.errors import UnireError
from unire.graph import KnowledgeGraph, build_graph
from unire.graph.explore import compare, get_overview, search
from unire.graph.query import EdgeFilter
from unire.labels import LabelSpace
from unire.serving import graph as serving_graph
from unire.serving.limits import ServingLimits

HUB = [
    stated(f"Hub{i} used tool{j} .", [(0, 1, "Person"), (2, 3, "Tool")], (0, 1, "USED"), 0.9 - j / 1000, f"{i}-{j}")
    for i in range(2)
    for j in range(350 * (1 - i) + 3)
]


def build(folder: Path, documents: list[Any], labels: LabelSpace = LABELS) -> Path:
    formats.write(documents, folder / "found.jsonl", "unire")
    build_graph([folder / "found.jsonl"], folder / "graph", labels=labels)
    return folder / "graph"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("graph"), DOCUMENTS)


@pytest.fixture(scope="module")
def server(science, folder) -> Iterator[Running]:
    with Running(science, graph=folder) as running:
        yield running


@pytest.fixture
def visit(browser, server) -> Iterator[Any]:
    """Open the page; it must not complain, and must ask nobody but its server."""
    contexts, complaints, requests = [], [], []

    def open_page(*, of=server, width=1280, at=""):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{of}/graph{at}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []
    assert all(url.startswith(("http://127.0.0.1:", "blob:")) for url in requests)


def centre(page, name: str) -> None:
    page.locator(".centre bdi", has_text=name).wait_for()


def names(page, where: str = "out") -> list[str]:
    return sorted(page.locator(f"#ego .{where} .go bdi").all_inner_texts())


def sentences(page) -> list[str]:
    return page.locator("#evidence li p:first-child").all_inner_texts()


def ask(server: Running, **question: Any) -> Any:
    return server.ask("POST", "/graph", question)


def test_the_served_page_shows_what_the_file_shows(visit):
    page = visit()
    centre(page, "Ada")
    assert page.locator("#facts").inner_text() == "6 documents · 7 connected entities · 5 relations"
    assert names(page) == ["Charles", "London", "engine"]
    assert len(sentences(page)) == 4
    assert page.locator("#hubs li").first.inner_text().split("\n") == ["P", "Ada", "3"]
    assert page.locator(".chip", has_text="Person").locator(".count").inner_text() == "4"
    page.get_by_role("button", name="London").click()
    centre(page, "London")
    assert names(page, "in") == ["Ada", "Mary"]
    page.get_by_role("button", name="WAS-IN 0.60: show 1 sentence").click()
    assert sentences(page) == ["Mary 😀 was in London ."]
    page.go_back()
    centre(page, "Ada")


def test_filters_search_paths_and_tables_are_answered_by_the_server(visit):
    page = visit()
    centre(page, "Ada")
    page.locator("#score").fill("0.5")
    page.locator("#facts", has_text="6 connected entities · 4 relations").wait_for()
    page.locator("#ego bdi", has_text="engine").wait_for(state="detached")
    page.locator(".chip", has_text="Place").click()
    page.locator("#facts", has_text="4 connected entities · 2 relations").wait_for()
    page.locator("#ego bdi", has_text="London").wait_for(state="detached")
    assert names(page) == ["Charles"]
    page.locator(".chip", has_text="Place").click()
    page.locator("#search").fill("char")
    page.keyboard.press("Enter")
    centre(page, "Charles")
    page.locator("#goal").fill("mary")
    page.locator("#goals bdi", has_text="Mary").click()
    page.locator("#path .go bdi", has_text="Mary").wait_for()
    assert page.locator("#path .go bdi").all_inner_texts() == ["Charles", "Ada", "London", "Mary"]
    assert sentences(page)[-2:] == ["Ada was in London .", "Mary 😀 was in London ."]
    page.get_by_role("button", name="Table").click()
    page.get_by_label("Columns").select_option("Place")
    page.get_by_label("Rows").select_option("Person")
    page.wait_for_function("() => document.querySelectorAll('#table tr').length === 3")
    assert page.locator("#table th").all_inner_texts()[0] == "Person"
    again = visit(at="#" + page.url.partition("#")[2])
    again.locator("#table th", has_text="Mary").wait_for()
    assert accessibility_problems(again) == []


def test_an_entity_with_many_relations_shows_the_best_ones(visit, science, tmp_path):
    with Running(science, graph=build(tmp_path, HUB)) as running:
        page = visit(of=running)
        centre(page, "Hub0")
        assert page.locator(".centre .aside").inner_text() == "300 of 353 relations, the best ones"
        page.get_by_role("button", name="and 286 more").click()
        assert len(names(page)) == 300
        last = page.locator("#ego .out .edge").last
        last.click()  # its sentence is asked for now
        page.wait_for_function("() => document.querySelectorAll('#evidence li').length === 1")
        assert sentences(page) == ["Hub0 used tool299 ."]


def test_a_key_is_asked_for_and_sent(visit, science, folder):
    with Running(science, key="secret", graph=folder) as running:
        assert ask(running, overview=1).status == 401
        page = visit(of=running)
        page.locator("#problem", has_text="this server needs its key").wait_for()
        page.locator("#key").fill("secret")
        page.locator("#key").press("Enter")
        centre(page, "Ada")
        assert not page.locator("#problem").is_visible()


def test_questions_that_cannot_be_used_are_refused_with_a_sentence(server):
    assert server.get("/graph").headers["content-security-policy"].count("connect-src 'self'") == 1
    assert "give one of" in ask(server).error
    assert ask(server, overview=1, search="x").status == 422
    assert ask(server, nonsense=1).status == 422
    assert ask(server, path=["a"]).status == 422
    assert ask(server, overview=1, min_score=2).status == 422
    assert ask(server, entity="nobody").json == {"nodes": [], "edges": [], "total": 0}
    assert ask(server, path=["x", "y"]).json == {"nodes": [], "edges": []}
    assert ask(server, table=["'; DROP TABLE x"]).json["edges"] == []
    assert ask(server, overview=1, hidden_types=["'"], hidden_relations=["MET", "') OR true --"]).json["relations"] == 4
    assert server.ask("POST", "/graph", b"{}", Host="bad.example").status == 421
    assert server.ask("POST", "/graph", b"{}", Content_Type="text/plain").status == 415


def test_a_server_without_a_graph_has_no_such_page(science):
    with Running(science) as running:
        assert running.get("/graph").status == 404


def test_a_folder_that_is_no_graph_is_refused(science, tmp_path):
    with pytest.raises(UnireError, match="is no graph"):
        Running(science, graph=tmp_path)


def test_questions_beyond_the_limits_are_refused_and_slow_ones_are_stopped(science, folder, monkeypatch):
    slow = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range * b.range % 7 = 3"
    stopped = threading.Event()

    def hang(graph: KnowledgeGraph, *rest: Any) -> Any:
        try:
            return graph.query(slow)
        finally:
            stopped.set()

    monkeypatch.setattr(serving_graph, "search", hang)
    with Running(science, ServingLimits(queue_requests=2, timeout_seconds=1), graph=folder) as running:
        answers = []
        callers = [threading.Thread(target=lambda: answers.append(ask(running, search="x"))) for _ in range(3)]
        started = time.monotonic()
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert sorted(answer.status for answer in answers) == [429, 503, 503]
        assert time.monotonic() - started < 10
        until(stopped.is_set)
        until(lambda: not running.service.busy)
        assert ask(running, entity="x").status == 200  # the threads are free again


def test_the_queries_of_the_page_agree_with_the_edges(folder):
    with KnowledgeGraph.open(folder) as graph:
        edges = list(graph.iter_edges())
        nodes = graph.get_nodes(end for edge in edges for end in (edge.head, edge.tail))
        keep = EdgeFilter(0.5, frozenset({"Place"}))
        kept = [
            edge
            for edge in edges
            if edge.score >= 0.5 and "Place" not in (nodes[edge.head].type, nodes[edge.tail].type)
        ]
        overview = get_overview(graph, keep, 10)
        assert overview.edges == len(kept)
        assert overview.nodes == len({end for edge in kept for end in (edge.head, edge.tail)})
        assert overview.relations == {"WAS-IN": 2, "MET": 1, "USED": 1}
        assert [(node.name, degree) for node, degree in search(graph, "grace", EdgeFilter(), 3)] == [("Grace", 1)]
        assert compare(graph, "Person", None, EdgeFilter(), 10, 10) == edges
        assert {edge.relation for edge in compare(graph, "Place", "Person", EdgeFilter(), 10, 10)} == {"WAS-IN"}
        assert graph.path(*(graph.find_one(name).id for name in ("Ada", "Mary")), keep=keep) == []
