"""The merged graph and what is written of it: joined as promised, and no text breaks a file."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import timeit
import xml.etree.ElementTree as ET

import networkx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unire.documents import Document
from unire.errors import UnireError
from unire.graph import WRITERS, build, write_graphml
from unire.graph.build import Graph
from unire.graph.export import CSV, ENTITIES, TRIPLES, TSV, _dump_string, get_evidence
from unire.graph.names import normalize_text

HOSTILE = [
    'it\'s "quoted"',
    "back\\slash \\' \\u0027 \\\\u0060",
    "two\nlines\r\nand\ta tab",
    "`}) DETACH DELETE n;//",
    "</data><b>&amp;",
    "=HYPERLINK(1)",
    "naïve 王小明 👩‍👩‍👧 \u2028 \u202e",
    "-1",
]

texts = st.text(st.sampled_from("\\u'`0\n\r\t=+-@,\"<&") | st.characters(exclude_categories=["Cs"]), max_size=20)


def met(head: str, tail: str, *, id: str = "", score: float | None = 0.5, relation: str = "knows") -> Document:
    words = [[head, "met", tail]]
    return Document.from_words(words, [(0, 1, "Peop", score), (2, 3, "Peop", score)], [(0, 1, relation, score)], id=id)


def written(format: str, documents: list[Document]) -> str:
    out = io.StringIO(newline="")
    assert WRITERS[format](iter(documents), out) == len(documents)
    return out.getvalue()


@pytest.mark.parametrize(
    ("first", "second"),
    [("Ada", "ADA"), ("straße", "STRASSE"), ("part  of\nspeech", "Part of Speech"), ("ﬁne", "fine"), ("Å", "A\u030a")],
)
def test_texts_that_differ_in_case_space_or_spelling_of_characters_are_one_node(first, second):
    assert normalize_text(first) == normalize_text(second)
    graph = Graph([met(first, "Bob", id="a"), met(second, "Bob", id="b")])
    assert len(graph.nodes) == 2
    assert len(graph.edges) == 1


@given(texts)
def test_a_key_is_its_own_key(text):
    assert normalize_text(normalize_text(text)) == normalize_text(text)


def test_equal_texts_with_different_labels_are_two_nodes():
    document = Document.from_words([["Jordan", "visits", "Jordan"]], [(0, 1, "Peop"), (2, 3, "Loc")])
    assert set(Graph([document]).nodes) == {("Peop", "jordan"), ("Loc", "jordan")}


def test_a_node_counts_mentions_and_documents_and_keeps_forms_and_sources():
    graph = Graph([met("Ada", "Bob", id="a", score=0.4), met("ADA", "ada", id="b", score=0.8)])
    node = graph.nodes["Peop", "ada"]
    assert (node.count, node.documents, node.sources) == (3, 2, ["a", "b"])
    assert node.forms == {"Ada": 1, "ADA": 1, "ada": 1}
    assert node.name == "Ada"
    assert node.score == pytest.approx((0.4 + 0.8 + 0.8) / 3)
    edge = graph.edges[("Peop", "ada"), "knows", ("Peop", "ada")]
    assert (edge.count, edge.score, edge.sources) == (1, 0.8, ["b"])


def test_gold_annotation_has_no_score_and_a_document_without_id_is_a_number():
    graph = Graph([met("Ada", "Bob", score=None), met("Ada", "Bob", score=None)])
    node = graph.nodes["Peop", "ada"]
    assert node.score is None
    assert node.sources == ["#1", "#2"]


def test_memory_is_bounded_by_nodes_while_counts_go_on(monkeypatch):
    monkeypatch.setattr(build, "MAX_NAMES", 3)
    graph = Graph(met(form, "Bob", id=f"d{i}") for i, form in enumerate(["Ada", "ADA", "ada", "aDa", "adA", "Ada"]))
    node = graph.nodes["Peop", "ada"]
    assert (node.count, node.documents) == (6, 6)
    assert node.sources == ["d0", "d1", "d2"]
    assert node.forms == {"Ada": 2, "ADA": 1, "ada": 1}


def test_a_document_and_a_graph_become_networkx():
    document = met("Ada", "Bob", id="a")
    graph = document.to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    assert graph.nodes["Peop", "ada"]["name"] == "Ada"
    assert graph.edges[("Peop", "ada"), ("Peop", "bob"), "knows"]["count"] == 1
    both = Graph([document, met("Ada", "Bob", id="b", relation="likes")]).to_networkx()
    assert both.number_of_edges() == 2


def test_without_networkx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UnireError, match=r"unire\[graph\]"):
        Graph().to_networkx()


@pytest.mark.parametrize("text", HOSTILE)
def test_graphml_loads_in_networkx_with_every_text(text, tmp_path):
    path = tmp_path / "graph.graphml"
    documents = [met(text, "Bob", id=text, relation=text), met(text, "Bob", id="b", relation="likes")]
    assert write_graphml(documents, path) == 2
    graph = networkx.read_graphml(path)
    node = next(data for _, data in graph.nodes(data=True) if data["name"] != "Bob")
    assert node["name"] == text
    assert json.loads(node["forms"]) == {text: 2}
    assert json.loads(node["sources"]) == [text, "b"]
    assert (node["count"], node["documents"], node["score"]) == (2, 2, 0.5)
    assert {data["label"] for _, _, data in graph.edges(data=True)} == {text, "likes"}


def test_graphml_says_what_xml_cannot_hold():
    tree = ET.fromstring(written("graphml", [met("a\x00b\x1b", "Bob")]))
    assert "a\ufffdb\ufffd" in {data.text for data in tree.iter() if data.get("key") == "name"}


def literals(statement: str) -> list[str]:
    """The string literals of a Cypher statement, read as its grammar says; what is left must hold no text."""
    names = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
    found = []
    for quoted in re.findall(r"'(?:[^'\\]|\\.)*'(?: \+ '(?:[^'\\]|\\.)*')*", statement):
        parts = re.findall(r"'((?:[^'\\]|\\.)*)'", quoted)
        units = re.sub(
            r"\\(u([0-9A-F]{4})|.)",
            lambda m: chr(int(m[2], 16)) if m[2] else names.get(m[1], m[1]),
            "".join(parts),
        )
        found.append(units.encode("utf-16", "surrogatepass").decode("utf-16"))
    return found


@given(texts)
def test_cypher_strings_say_the_text_and_stay_within_their_quotes(text):
    literal = _dump_string(text)
    assert literals(literal) == [text]
    assert not re.search(r"[\x00-\x1f\u2028\u2029]", literal)
    # some parsers replace \uXXXX before they read, even behind a backslash: none may come from the text
    assert not re.search(r"(?<!\\)(\\\\)+u", literal)


@pytest.mark.parametrize("text", HOSTILE)
def test_cypher_merges_whatever_the_text(text):
    lines = written("cypher", [met(text, "Bob", id=text, relation=text)]).splitlines()
    assert [line.split()[0] for line in lines] == ["CREATE", "MERGE", "MERGE", "MATCH"]
    assert all(line.endswith(";") for line in lines)
    assert text in literals(lines[1])
    bare = re.sub(r"'(?:[^'\\]|\\.)*'", "''", lines[3])
    type_name = re.search(r"\[r:`([^`]*)` \{label: ''", bare)[1]
    assert re.fullmatch(r"[\w -]+", type_name)
    assert re.sub(r"`[^`]*`", "``", bare).startswith("MATCH (a:Entity {label: '', key: ''")


def test_cypher_sets_values_so_that_a_second_import_changes_nothing():
    statements = written("cypher", [met("Ada", "Bob", id="a"), met("Ada", "Bob", id="b", score=None)])
    assert "SET n:`Peop`, n.name = 'Ada', n.forms = ['Ada'], n.count = 2, n.documents = 2" in statements
    assert "MERGE (a)-[r:`knows` {label: 'knows'}]->(b) SET r.count = 2" in statements
    assert "+=" not in statements
    assert "CREATE (" not in statements


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@given(texts, texts)
def test_csv_gives_back_every_text_and_runs_none(head, relation):
    text = written("csv", [met(head, "Bob", id="a", relation=relation)])
    (row,) = read_csv(text)
    entity = read_csv(written("entities-csv", [met(head, "Bob", id="a", relation=relation)]))[0]
    for cell, text in ((row["head"], head), (row["relation"], relation), (entity["entity"], head)):
        assert (cell[1:] if cell.startswith("'") else cell) == text
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))


@given(texts, texts)
def test_tsv_has_a_line_for_every_row_and_gives_back_every_text(head, relation):
    lines = written("tsv", [met(head, "Bob", id="a", relation=relation)]).split("\n")
    assert len(lines) == 3
    assert lines[2] == ""
    cells = lines[1].split("\t")
    names = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    row = dict(zip(TRIPLES.columns, (re.sub(r"\\(.)", lambda m: names[m[1]], cell) for cell in cells), strict=True))
    assert (row["head"], row["relation"], row["tail"]) == (head, relation, "Bob")


def test_a_triple_has_its_labels_score_sentence_and_characters():
    document = Document.from_words(
        [["Hello", "."], ["Ada", "lives", "in", "London"], []],
        [(2, 3, "Peop"), (5, 6, "Loc")],
        [(0, 1, "Live_In", 0.75)],
        id="a",
    )
    text = written("csv", [document])
    assert text.splitlines(keepends=True)[0] == ",".join(TRIPLES.columns) + "\r\n"
    (row,) = read_csv(text)
    assert (row["head"], row["head_label"], row["relation"], row["tail"], row["tail_label"]) == (
        "Ada",
        "Peop",
        "Live_In",
        "London",
        "Loc",
    )
    assert (row["score"], row["document"], row["sentence"]) == ("0.75", "a", "Ada lives in London")
    assert document.text[int(row["head_start"]) : int(row["head_end"])] == "Ada"
    assert document.text[int(row["tail_start"]) : int(row["tail_end"])] == "London"


def test_an_entity_has_its_row_in_a_relation_or_not():
    document = Document.from_words(
        [["Hello", "."], ["Ada", "lives", "in", "London"], []], [(2, 3, "Peop", 0.75), (5, 6, "Loc")], id="a"
    )
    text = written("entities-csv", [document])
    assert text.splitlines(keepends=True)[0] == "entity,label,score,document,sentence,start,end\r\n"
    ada, london = read_csv(text)
    assert list(ada.values())[:5] == ["Ada", "Peop", "0.75", "a", "Ada lives in London"]
    assert list(london.values())[:5] == ["London", "Loc", "", "a", "Ada lives in London"]
    assert document.text[int(london["start"]) : int(london["end"])] == "London"


def test_a_relation_across_sentences_shows_them_all():
    document = Document.from_words([["Ada", "came"], ["She", "left"]], [(0, 1, "Peop"), (2, 3, "Peop")], [(1, 0, "is")])
    (row,) = read_csv(written("csv", [document]))
    assert row["sentence"] == "Ada came\nShe left"
    assert row["score"] == ""


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_the_evidence_is_every_sentence_from_the_first_to_the_last(lengths, data):
    numbers = iter(range(100))
    document = Document.from_words([[f"w{next(numbers)}" for _ in range(length)] for length in lengths])
    assume(document.n_words)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, document.n_words - 1)] * 2)))
    inside = [s.words for s in document.sentences if s.start <= last and first < s.end]
    assert get_evidence(document, first, last).split() == [word for words in inside for word in words]


@pytest.mark.no_cover
def test_a_row_takes_as_long_in_a_long_document_as_in_a_short_one():
    def seconds(sentences: int) -> float:
        document = Document.from_words([["a"]] * sentences, [(i, i + 1, "A") for i in range(sentences)])
        assert document.entities  # made once
        return min(timeit.repeat(lambda: ENTITIES.lines(document), number=1, repeat=3)) / sentences

    assert seconds(8000) < 4 * seconds(500)


@pytest.mark.parametrize("format", WRITERS)
def test_a_file_is_written_whole_or_not_at_all(format, tmp_path):
    path = tmp_path / "graph"
    assert WRITERS[format]([], path) == 0
    before = path.read_bytes()
    assert before

    def broken():
        yield met("Ada", "Bob")
        raise UnireError("the stream broke")

    with pytest.raises(UnireError, match="the stream broke"):
        WRITERS[format](broken(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("format", WRITERS)
def test_what_cannot_be_written_is_said_in_a_sentence(format, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnireError, match="cannot be written"):
        WRITERS[format]([met("Ada", "Bob")], tmp_path / "file" / "graph")
    if format != "graphml":  # which has a character for it
        with pytest.raises(UnireError, match=r"cannot be written: its encoding, utf-8, lacks '\\ud800'"):
            WRITERS[format]([met("\ud800", "Bob")], tmp_path / "graph")


@pytest.mark.parametrize(
    ("format", "table", "dialect"),
    [("csv", TRIPLES, CSV), ("tsv", TRIPLES, TSV), ("entities-csv", ENTITIES, CSV), ("entities-tsv", ENTITIES, TSV)],
)
def test_rows_can_be_written_document_by_document(format, table, dialect):
    documents = [met("Ada", "Bob", id="a"), met("a,b\t\n", "Bob", id="b")]
    parts = [table.head(dialect), *(table.lines(document, dialect) for document in documents)]
    assert "".join(parts) == written(format, documents)
