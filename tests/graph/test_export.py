"""Exports of a graph: other tools read back what was written, and no text breaks a file."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import networkx
import pytest
import rdflib
from hypothesis import given
from rdflib import compare

from helpers.graphs import HOSTILE, met, texts
from unire.documents import Document
from unire.errors import UnireError
from unire.graph import EXPORTERS, Graph, export_graph, write_cypher, write_graphml, write_jsonld, write_turtle
from unire.graph.export import MAX_EVIDENCE, _dump_string

GEPHI_TYPES = {"string", "int", "long", "float", "double", "boolean"}
NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


def written(write, *documents: Document) -> str:
    out = io.StringIO(newline="")
    write(Graph(documents), out)
    return out.getvalue()


def test_the_ending_names_the_format(tmp_path):
    graph = Graph([met("Ada", "Bob", id="a")])
    for suffix in EXPORTERS:
        export_graph(graph, tmp_path / f"graph{suffix}")
        export_graph(graph, tmp_path / f"graph{suffix}")  # and replaces an older one
    assert sorted(file.name for file in (tmp_path / "graph").iterdir()) == ["nodes.csv", "relationships.csv"]
    with pytest.raises(UnireError, match=r"has no ending of a graph format; give one of \.graphml, \.cypher"):
        export_graph(graph, tmp_path / "graph.doc")


@pytest.mark.parametrize("text", HOSTILE)
def test_graphml_loads_in_networkx_with_every_text(text, tmp_path):
    path = tmp_path / "graph.graphml"
    documents = [met(text, "Bob", id=text, relation=text), met(text, "Bob", id="b", relation="likes")]
    write_graphml(Graph(documents), path)
    graph = networkx.read_graphml(path)
    node = next(data for _, data in graph.nodes(data=True) if data["label"] != "Bob")
    assert node["label"] == text
    assert (node["type"], node["mentions"], node["documents"]) == ("Peop", 2, 2)
    assert json.loads(node["names"]) == {text: 2}
    edges = {data["label"]: data for _, _, data in graph.edges(data=True)}
    assert edges.keys() == {text, "likes"}
    (evidence,) = json.loads(edges[text]["evidence"])
    assert evidence == {"document": text, "sentence": f"{text} met Bob", "score": 0.5}


def test_graphml_follows_the_rules_of_gephi():
    """Gephi shows `label`, wants a numeric `weight`, declared attributes of simple types, and edges of known nodes."""
    tree = ET.fromstring(written(write_graphml, met("Ada", "Bob", id="a"), met("Bob", "Cy", id="b", score=None)))
    keys = {key.get("id"): key for key in tree.iter(f"{NAMESPACE}key")}
    assert {key.get("attr.type") for key in keys.values()} <= GEPHI_TYPES
    (drawn,) = tree.iter(f"{NAMESPACE}graph")
    assert drawn.get("edgedefault") == "directed"
    nodes = {node.get("id") for node in drawn.iter(f"{NAMESPACE}node")}
    assert len(nodes) == 3
    for kind in ("node", "edge"):
        for element in drawn.iter(f"{NAMESPACE}{kind}"):
            data = {keys[item.get("key")].get("attr.name"): item.text for item in element}
            assert {keys[item.get("key")].get("for") for item in element} == {kind}
            assert data["label"] in ("Ada", "Bob", "Cy", "knows")
            if kind == "edge":
                assert {element.get("source"), element.get("target")} <= nodes
                assert float(data["weight"]) == 1.0
    ids = [edge.get("id") for edge in drawn.iter(f"{NAMESPACE}edge")]
    assert len(ids) == len(set(ids)) == 2


def test_graphml_marks_what_xml_cannot_hold():
    tree = ET.fromstring(written(write_graphml, met("a\x00b\x1b", "Bob")))
    assert "a\ufffdb\ufffd" in {data.text for data in tree.iter() if data.get("key") == "node_label"}


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
    lines = written(write_cypher, met(text, "Bob", id=text, relation=text)).splitlines()
    assert [line.split()[0] for line in lines] == ["CREATE", "MERGE", "MERGE", "MATCH"]
    assert all(line.endswith(";") for line in lines)
    assert text in [*literals(lines[1]), *literals(lines[2])]
    bare = re.sub(r"'(?:[^'\\]|\\.)*'", "''", lines[3])
    type_name = re.search(r"\[r:`([^`]*)` \{relation: ''", bare)[1]
    assert re.fullmatch(r"[\w -]+", type_name)
    assert re.sub(r"`[^`]*`", "``", bare).startswith("MATCH (a:Entity {id: ''}), (b:Entity {id: ''}) MERGE (a)-[r:``")


def test_cypher_sets_values_so_that_a_second_import_changes_nothing():
    statements = written(write_cypher, met("Ada", "Bob", id="a"), met("Ada", "Bob", id="b", score=None))
    assert "SET n:`Peop`, n.name = 'Ada', n.type = 'Peop', n.mentions = 2, n.documents = 2" in statements
    assert "MERGE (a)-[r:`knows` {relation: 'knows'}]->(b) SET r.mentions = 2, r.documents = 2" in statements
    assert "+=" not in statements
    assert "CREATE (" not in statements


@pytest.mark.parametrize("text", [*HOSTILE, "\x00\x1f\x7f", "a_b.c"])
def test_turtle_and_json_ld_say_the_same_with_every_text(text):
    documents = [met(text, "Bob", id=text, relation=text), met("Bob", "Cy", id="b", relation="COMPARE", score=None)]
    graphs = [
        rdflib.Graph().parse(data=written(write, *documents), format=name)
        for write, name in ((write_turtle, "turtle"), (write_jsonld, "json-ld"))
    ]
    assert compare.isomorphic(*graphs)
    name = rdflib.URIRef("http://www.w3.org/2000/01/rdf-schema#label")
    assert {str(value) for value in graphs[0].objects(predicate=name)} == {text, "Bob", "Cy"}
    sentences = {str(value) for value in graphs[0].objects(predicate=rdflib.URIRef("urn:unire:sentence"))}
    assert sentences == {f"{text} met Bob", "Bob met Cy"}
    relation = rdflib.URIRef("urn:unire:relation:COMPARE")
    assert relation in set(graphs[0].subjects(rdflib.RDF.type, rdflib.OWL.SymmetricProperty))
    assert len(list(graphs[0].triples((None, relation, None)))) == 1  # a symmetric relation is one triple


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.mark.parametrize("text", HOSTILE)
def test_neo4j_reads_a_line_for_every_node_and_edge(text, tmp_path):
    export_graph(Graph([met(text, "Bob", id=text, relation=text)]), tmp_path / "neo4j")
    nodes, edges = (read_table(tmp_path / "neo4j" / f"{name}.csv") for name in ("nodes", "relationships"))
    assert len((tmp_path / "neo4j" / "nodes.csv").read_text(encoding="utf-8").split("\n")) == 4
    assert list(nodes[0]) == ["id:ID", "name", "type", "mentions:long", "documents:long", "types", "names", ":LABEL"]
    assert list(edges[0])[:4] == [":START_ID", ":END_ID", ":TYPE", "relation"]
    assert {node["name"] for node in nodes} == {" ".join(text.split()), "Bob"}
    assert {edges[0][":START_ID"], edges[0][":END_ID"]} == {node["id:ID"] for node in nodes}
    assert re.fullmatch(r"[\w -]+", edges[0][":TYPE"])
    assert json.loads(edges[0]["evidence"])[0]["score"] == 0.5


def test_a_graph_database_imports_the_tables_and_answers(tmp_path):
    kuzu = pytest.importorskip("kuzu", reason="needs kuzu, an embedded graph database")
    hostile = [met(text, "Bob", id=text, relation="knows") for text in HOSTILE]
    documents = [met("Ada", "Bob", id="a", score=0.5), met("Bob", "Cy", id="b"), met("ADA", "Bob", id="c"), *hostile]
    graph = Graph(documents)
    export_graph(graph, tmp_path / "neo4j")
    connection = kuzu.Connection(kuzu.Database(str(tmp_path / "database")))
    nodes = (
        "id STRING, name STRING, type STRING, mentions INT64, documents INT64, types STRING, names STRING, label STRING"
    )
    edges = (
        "kind STRING, relation STRING, mentions INT64, documents INT64, score DOUBLE, symmetric BOOL, evidence STRING"
    )
    connection.execute(f"CREATE NODE TABLE Entity({nodes}, PRIMARY KEY(id))")
    connection.execute(f"CREATE REL TABLE Related(FROM Entity TO Entity, {edges})")
    for table, name in (("Entity", "nodes"), ("Related", "relationships")):
        file = tmp_path / "neo4j" / f"{name}.csv"
        connection.execute(f"COPY {table} FROM '{file}' (HEADER=true, ESCAPE='\"', PARALLEL=false)")

    def ask(query: str) -> list[list[object]]:
        return connection.execute(query).get_all()

    assert ask("MATCH (n:Entity) RETURN count(*)") == [[len(list(graph.iter_nodes()))]]
    assert ask("MATCH ()-[r:Related]->() RETURN count(*)") == [[len(list(graph.iter_edges()))]]
    query = "MATCH (a:Entity)-[:Related]->(b:Entity)-[r:Related]->(c:Entity {name: 'Cy'}) RETURN b.name, r.score"
    assert ask(query)[0] == ["Bob", 0.5]
    names = {row[0] for row in ask("MATCH (n:Entity) RETURN n.name")}
    assert names == {" ".join(node.name.split()) for node in graph.iter_nodes()}


def test_an_edge_is_written_with_its_best_sentences():
    documents = [met("Ada", "Bob", id=f"d{i}", score=i / 10) for i in range(10)]
    evidence = networkx.parse_graphml(written(write_graphml, *documents)).edges(data="evidence")
    (rows,) = (json.loads(rows) for *_, rows in evidence)
    assert [row["document"] for row in rows] == ["d9", "d8", "d7", "d6", "d5"][:MAX_EVIDENCE]


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_a_file_is_written_whole_or_not_at_all(suffix, tmp_path):
    out = tmp_path / f"graph{suffix}"
    graph = Graph([met("Ada", "Bob")])
    export_graph(graph, out)
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    class BrokenGraph(Graph):
        def iter_edges(self):
            raise UnireError("the stream broke")

    with pytest.raises(UnireError, match="the stream broke"):
        export_graph(BrokenGraph([met("Ada", "Bob")]), out)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_an_output_that_cannot_be_written_is_one_sentence(suffix, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnireError, match=r"cannot be (written|read)"):
        export_graph(Graph([met("Ada", "Bob")]), tmp_path / "file" / f"graph{suffix}")
    if suffix not in (".graphml", ".jsonld", ".html"):
        with pytest.raises(UnireError, match=r"cannot be written: its encoding, utf-8, lacks '\\ud800'"):
            export_graph(Graph([met("\ud800", "Bob")]), tmp_path / f"graph{suffix}")
