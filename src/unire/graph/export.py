"""Exports of a knowledge graph: GraphML, Cypher, Turtle, JSON-LD, a page, and CSV files for the bulk import of Neo4j.

Every writer streams the records of a graph, which may be in memory or on disk, and replaces its target atomically. An
edge is written with its best `MAX_EVIDENCE` sentences.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote
from xml.sax.saxutils import escape

from unire.errors import UnireError
from unire.files import open_text_output, replace_atomically
from unire.graph.records import EdgeRecord, EvidenceRecord, GraphSource, NodeRecord
from unire.output_files import check_output_folder, locks_output

__all__ = [
    "EXPORTERS", "MAX_EVIDENCE", "export_graph", "iter_supported_edges",
    "write_cypher", "write_graphml", "write_jsonld", "write_neo4j", "write_turtle",
]  # fmt: skip

MAX_EVIDENCE = 5
"""Sentences of an edge that an export has: those with the highest scores."""


def export_graph(graph: GraphSource, out: str | Path) -> None:
    """Write a graph in the format that the ending of the output names: a suffix of `EXPORTERS`.

    >>> export_graph(graph, "graph.graphml")  # doctest: +SKIP

    Raises:
        UnireError: There is no format with this ending, or the output cannot be written.
    """
    suffix = Path(out).suffix.lower()
    if suffix not in EXPORTERS:
        endings = ", ".join(filter(None, EXPORTERS))
        raise UnireError(f"{out} has no ending of a graph format; give one of {endings}, or none for a folder of CSV")
    EXPORTERS[suffix](graph, out)


def iter_supported_edges(graph: GraphSource) -> Iterator[tuple[EdgeRecord, list[EvidenceRecord]]]:
    """Yield every edge with its best evidence."""
    evidence = groupby(graph.iter_evidence(), key=lambda row: (row.head, row.relation, row.tail))
    for edge, (_, rows) in zip(graph.iter_edges(), evidence, strict=True):
        yield edge, nsmallest(MAX_EVIDENCE, rows, key=lambda row: -(row.score or 0))


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _evidence_json(rows: Iterable[EvidenceRecord]) -> str:
    return _to_json([{"document": row.document, "sentence": row.sentence, "score": row.score} for row in rows])


# GraphML

GRAPHML_ATTRIBUTES = {
    "node": {
        "label": "string",
        "type": "string",
        "mentions": "int",
        "documents": "int",
        "types": "string",
        "names": "string",
    },
    "edge": {
        "label": "string",
        "weight": "double",
        "score": "double",
        "mentions": "int",
        "documents": "int",
        "symmetric": "boolean",
        "evidence": "string",
    },
}
"""Attributes and their types. Viewers show `label`, which is the name, and draw edges as thick as their `weight`."""
INVALID_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(graph: GraphSource, target: str | Path | TextIO) -> None:
    """Write GraphML, for Gephi, Cytoscape, yEd and networkx.

    `label` is the name of a node, or the relation type of an edge. `weight` is the number of documents of an edge.
    GraphML has no lists, so `types`, `names` and `evidence` are JSON. U+FFFD replaces characters that XML does not
    allow, such as NUL and most other control characters.

    >>> write_graphml(Graph(documents), "graph.graphml")  # doctest: +SKIP

    Args:
        graph: The graph.
        target: A path, which is replaced atomically, or an open text stream.
    """
    with open_text_output(target) as file:
        file.writelines(f"{line}\n" for line in _iter_graphml(graph))


def _iter_graphml(graph: GraphSource) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for kind, attributes in GRAPHML_ATTRIBUTES.items():
        for name, value_type in attributes.items():
            yield f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{value_type}"/>'
    yield '<graph id="unire" edgedefault="directed">'
    for node in graph.iter_nodes():
        data = _dump_data("node", {"label": node.name, **_node_values(node)})
        yield f'<node id="n{node.id}">{data}</node>'
    for number, (edge, rows) in enumerate(iter_supported_edges(graph)):
        values = {"label": edge.relation, "weight": float(edge.documents), **_edge_values(edge)}
        data = _dump_data("edge", {**values, "evidence": _evidence_json(rows)})
        yield f'<edge id="e{number}" source="n{edge.head}" target="n{edge.tail}">{data}</edge>'
    yield "</graph>"
    yield "</graphml>"


def _node_values(node: NodeRecord) -> dict[str, Any]:
    return {
        "type": node.type,
        "mentions": node.mentions,
        "documents": node.documents,
        "types": _to_json(dict(node.types)),
        "names": _to_json(dict(node.names)),
    }


def _edge_values(edge: EdgeRecord) -> dict[str, Any]:
    return {
        "mentions": edge.mentions,
        "documents": edge.documents,
        "score": edge.score,
        "symmetric": "true" if edge.symmetric else "false",
    }


def _dump_data(kind: str, values: dict[str, Any]) -> str:
    return "".join(
        f'<data key="{kind}_{name}">{_escape_xml(str(value))}</data>'
        for name, value in values.items()
        if value is not None
    )


def _escape_xml(value: str) -> str:
    """Escape text for XML. A carriage return becomes a reference, because XML would read it as a line feed."""
    return escape(INVALID_XML.sub("\ufffd", value), {"\r": "&#13;"})


# Cypher

CYPHER_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
BACKSLASH_U = re.compile(r"(?<=\\)(?=u)")


def write_cypher(graph: GraphSource, target: str | Path | TextIO) -> None:
    """Write Cypher statements, for Neo4j 4.4 or newer and Memgraph.

        MERGE (n:Entity {id: '…'}) SET n:`Method`, n.name = 'chart parser', n.mentions = 3, …;
        MATCH (a:Entity {id: '…'}), (b:Entity {id: '…'}) MERGE (a)-[r:`USED-FOR` {relation: 'USED-FOR'}]->(b) SET …;

    There is one statement per line: `cypher-shell < graph.cypher`. Values are set and never added, so importing a file
    twice changes nothing. Text from the data is always inside a string literal, except the types of nodes and
    relations. Those are names in backticks, where `_` replaces everything but letters, digits, spaces, `-` and `_`. The
    properties `type` and `relation` have the exact types.

    >>> write_cypher(Graph(documents), "graph.cypher")  # doctest: +SKIP

    Args:
        graph: The graph.
        target: A path, which is replaced atomically, or an open text stream.
    """
    with open_text_output(target) as file:
        file.writelines(f"{statement};\n" for statement in _iter_statements(graph))


def _iter_statements(graph: GraphSource) -> Iterator[str]:
    yield "CREATE CONSTRAINT unire_entity IF NOT EXISTS FOR (n:Entity) REQUIRE n.id IS UNIQUE"
    for node in graph.iter_nodes():
        values = {
            "name": _dump_string(node.name),
            "type": _dump_string(node.type),
            "mentions": str(node.mentions),
            "documents": str(node.documents),
            "names": _dump_list(node.names),
        }
        yield f"MERGE (n:Entity {{id: '{node.id}'}}) SET n:{_quote_name(node.type)}, {_dump_properties('n', values)}"
    for edge, rows in iter_supported_edges(graph):
        values = {
            "mentions": str(edge.mentions),
            "documents": str(edge.documents),
            "score": "null" if edge.score is None else f"{edge.score:.6f}",
            "symmetric": "true" if edge.symmetric else "false",
            "sentences": _dump_list(row.sentence for row in rows),
            "sources": _dump_list(row.document for row in rows),
        }
        yield (
            f"MATCH (a:Entity {{id: '{edge.head}'}}), (b:Entity {{id: '{edge.tail}'}}) "
            f"MERGE (a)-[r:{_quote_name(edge.relation)} {{relation: {_dump_string(edge.relation)}}}]->(b) "
            f"SET {_dump_properties('r', values)}"
        )


def _dump_properties(variable: str, values: dict[str, str]) -> str:
    return ", ".join(f"{variable}.{name} = {value}" for name, value in values.items())


def _dump_list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_dump_string, texts))}]"


def _dump_string(text: str) -> str:
    """A string literal.

    Some parsers replace `\\uXXXX` anywhere in a query before they read it, even after another backslash. So the
    literal is split between a backslash of the text and a `u`.
    """
    parts = BACKSLASH_U.split(text)
    return " + ".join(f"'{''.join(CYPHER_ESCAPES.get(c) or _escape_character(c) for c in part)}'" for part in parts)


def _escape_character(character: str) -> str:
    """Escape invisible characters as UTF-16. Half a surrogate pair stays, and raises an error when it is written."""
    if character.isprintable() or "\ud800" <= character <= "\udfff":
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))


def _quote_name(label: str) -> str:
    return f"`{_to_identifier(label)}`"


def _to_identifier(label: str) -> str:
    """A type without characters that could end a name in Cypher, or a list in CSV."""
    return "".join(c if c.isalnum() or c in " -_" else "_" for c in label) or "_"


# RDF

VOCABULARY = "urn:unire:"
"""The namespace of nodes, types, relations and properties."""
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "unire": VOCABULARY,
}
TURTLE_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    | {code: f"\\u{code:04X}" for code in (*range(9), 11, 12, *range(14, 32), 127)}
)


def _iri(kind: str, name: str) -> str:
    return f"{VOCABULARY}{kind}:{quote(name, safe='', errors='replace')}"


def write_turtle(graph: GraphSource, target: str | Path | TextIO) -> None:
    """Write RDF in Turtle: names as `rdfs:label`, types as classes, relations as properties.

    Every edge is a triple, and also an `rdf:Statement` with its counts, its score and its evidence. A symmetric
    relation is one triple, and its property is an `owl:SymmetricProperty`.

    >>> write_turtle(Graph(documents), "graph.ttl")  # doctest: +SKIP

    Args:
        graph: The graph.
        target: A path, which is replaced atomically, or an open text stream.
    """
    with open_text_output(target) as file:
        file.writelines(f"{line}\n" for line in _iter_turtle(graph))


def _iter_turtle(graph: GraphSource) -> Iterator[str]:
    yield from (f"@prefix {prefix}: <{iri}> ." for prefix, iri in PREFIXES.items())
    for relation in sorted(graph.symmetric):
        yield f"<{_iri('relation', relation)}> a owl:SymmetricProperty ."
    for node in graph.iter_nodes():
        types = ", ".join(f"<{_iri('type', label)}>" for label in node.types)
        others = [_literal(name) for name in node.names if name != node.name]
        alternatives = f" ; skos:altLabel {', '.join(others)}" if others else ""
        yield (
            f"<{_iri('node', node.id)}> a {types} ; rdfs:label {_literal(node.name)}{alternatives} ; "
            f"unire:mentions {node.mentions} ; unire:documents {node.documents} ."
        )
    for edge, rows in iter_supported_edges(graph):
        head, relation, tail = _iri("node", edge.head), _iri("relation", edge.relation), _iri("node", edge.tail)
        score = "" if edge.score is None else f' ; unire:score "{edge.score}"^^xsd:double'
        evidence = "".join(
            f" ; unire:evidence [ unire:document {_literal(row.document)} ; unire:sentence {_literal(row.sentence)} ]"
            for row in rows
        )
        yield f"<{head}> <{relation}> <{tail}> ."
        yield (
            f"[] a rdf:Statement ; rdf:subject <{head}> ; rdf:predicate <{relation}> ; rdf:object <{tail}> ; "
            f"unire:mentions {edge.mentions} ; unire:documents {edge.documents}{score}{evidence} ."
        )


def _literal(text: str) -> str:
    return f'"{text.translate(TURTLE_ESCAPES)}"'


def write_jsonld(graph: GraphSource, target: str | Path | TextIO) -> None:
    """Write the same RDF as `write_turtle` in JSON-LD, with one object per line.

    >>> write_jsonld(Graph(documents), "graph.jsonld")  # doctest: +SKIP

    Args:
        graph: The graph.
        target: A path, which is replaced atomically, or an open text stream.
    """
    with open_text_output(target) as file:
        names = {"name": "rdfs:label", "names": "skos:altLabel", "score": {"@id": "unire:score", "@type": "xsd:double"}}
        names |= {name: f"unire:{name}" for name in ("mentions", "documents", "document", "sentence", "evidence")}
        file.write(f'{{"@context": {_to_json({**PREFIXES, **names})},\n"@graph": [\n')
        for number, item in enumerate(_iter_jsonld(graph)):
            file.write(f"{',' if number else ''}{_to_json(item)}\n")
        file.write("]}\n")


def _iter_jsonld(graph: GraphSource) -> Iterator[dict[str, Any]]:
    for relation in sorted(graph.symmetric):
        yield {"@id": _iri("relation", relation), "@type": "owl:SymmetricProperty"}
    for node in graph.iter_nodes():
        yield {
            "@id": _iri("node", node.id),
            "@type": [_iri("type", label) for label in node.types],
            "name": node.name,
            "names": [name for name in node.names if name != node.name],
            "mentions": node.mentions,
            "documents": node.documents,
        }
    for edge, rows in iter_supported_edges(graph):
        head, relation, tail = _iri("node", edge.head), _iri("relation", edge.relation), _iri("node", edge.tail)
        yield {"@id": head, relation: {"@id": tail}}
        yield {
            "@type": "rdf:Statement",
            "rdf:subject": {"@id": head},
            "rdf:predicate": {"@id": relation},
            "rdf:object": {"@id": tail},
            "mentions": edge.mentions,
            "documents": edge.documents,
            **({} if edge.score is None else {"score": edge.score}),
            "evidence": [{"document": row.document, "sentence": row.sentence} for row in rows],
        }


# CSV for Neo4j

NODE_COLUMNS = ("id:ID", "name", "type", "mentions:long", "documents:long", "types", "names", ":LABEL")
EDGE_COLUMNS = (
    ":START_ID", ":END_ID", ":TYPE", "relation", "mentions:long", "documents:long", "score:double", "symmetric:boolean",
    "evidence",
)  # fmt: skip


@locks_output
def write_neo4j(graph: GraphSource, out: str | Path) -> None:
    """Write a folder with `nodes.csv` and `relationships.csv`, for the bulk import of Neo4j.

        neo4j-admin database import full --nodes=nodes.csv --relationships=relationships.csv

    `types`, `names` and `evidence` are JSON. A line end or a tab in a text becomes a space.

    >>> write_neo4j(Graph(documents), "neo4j")  # doctest: +SKIP

    Args:
        graph: The graph.
        out: A new or empty folder, or one with such files.
    """
    check_output_folder(out, replaceable=("nodes.csv", "relationships.csv"))
    try:
        with replace_atomically(out, directory=True) as folder:
            _write_table(folder / "nodes.csv", NODE_COLUMNS, map(_node_row, graph.iter_nodes()))
            _write_table(folder / "relationships.csv", EDGE_COLUMNS, map(_edge_row, iter_supported_edges(graph)))
    except OSError as error:
        raise UnireError(f"{out} cannot be written: {error.strerror or error}") from None


def _node_row(node: NodeRecord) -> tuple[object, ...]:
    values = _node_values(node)
    return node.id, node.name, *values.values(), f"Entity;{_to_identifier(node.type)}"


def _edge_row(item: tuple[EdgeRecord, list[EvidenceRecord]]) -> tuple[object, ...]:
    edge, rows = item
    kind = _to_identifier(edge.relation)
    return edge.head, edge.tail, kind, edge.relation, *_edge_values(edge).values(), _evidence_json(rows)


def _write_table(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with open_text_output(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([" ".join(value.split()) if isinstance(value, str) else value for value in row])


def _write_page(graph: GraphSource, target: str | Path) -> None:
    from unire.rendering.html.graph_page import write_graph_page

    write_graph_page(graph, target)


EXPORTERS: dict[str, Callable[[GraphSource, str | Path], None]] = {
    ".graphml": write_graphml,
    ".cypher": write_cypher,
    ".ttl": write_turtle,
    ".jsonld": write_jsonld,
    ".html": _write_page,
    "": write_neo4j,
}
"""The function that writes a graph, by the suffix of the output."""
