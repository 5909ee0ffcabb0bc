"""Export of results: rows for spreadsheets (CSV, TSV), GraphML, and Cypher for Neo4j.

Every writer takes a stream of documents and a target: a path, which is replaced atomically, or an open text stream.

CSV follows RFC 4180. Spreadsheets run a cell that starts with `=`, `+`, `-`, `@`, a tab or a line end as a formula, so
the writer puts an apostrophe before such a text. It also puts one before a text that starts with an apostrophe. Readers
therefore strip one leading apostrophe.

TSV has one line per row and no quotes, so that `cut` and `awk` can read it. A tab, a line end or a backslash in a text
is written `\\t`, `\\n`, `\\r` or `\\\\`. Formulas are not escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape

from unire.documents import Document
from unire.files import open_text_output
from unire.graph.build import Edge, Graph, Node

__all__ = [
    "CSV", "ENTITIES", "TRIPLES", "TSV", "WRITERS", "RowDialect", "RowWriter", "get_evidence", "round_score",
    "write_cypher", "write_graphml",
]  # fmt: skip

# Rows

FORMULA_PREFIXES = tuple("=+-@＝＋－＠\t\r\n'")
"""Starts of cells that spreadsheets run as formulas. Some accept the full-width forms, too."""
TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class RowDialect:
    """The syntax of rows."""

    text: Callable[[str], str]
    """Escapes a text for a cell."""
    delimiter: str
    line_end: str
    quoting: int


CSV = RowDialect(
    text=lambda text: f"'{text}" if text.startswith(FORMULA_PREFIXES) else text,
    delimiter=",",
    line_end="\r\n",
    quoting=csv.QUOTE_MINIMAL,
)
TSV = RowDialect(text=lambda text: text.translate(TSV_ESCAPES), delimiter="\t", line_end="\n", quoting=csv.QUOTE_NONE)


@dataclass(frozen=True)
class RowWriter:
    """Writes documents as rows of a CSV or TSV file."""

    columns: tuple[str, ...]
    rows: Callable[[Document], Iterable[tuple[object, ...]]]

    def head(self, dialect: RowDialect = CSV) -> str:
        """The header line."""
        return _dump_rows([self.columns], dialect)

    def lines(self, document: Document, dialect: RowDialect = CSV) -> str:
        """The rows of a document, one per line. A quoted text in CSV may contain line ends."""
        return _dump_rows(self.rows(document), dialect)

    def write(self, documents: Iterable[Document], target: str | Path | TextIO, dialect: RowDialect = CSV) -> int:
        """Write the rows of a stream of documents, and return the number of documents."""
        count = 0
        with open_text_output(target) as file:
            file.write(self.head(dialect))
            for document in documents:
                count += 1
                file.write(self.lines(document, dialect))
        return count


def get_evidence(document: Document, first: int, last: int) -> str:
    """The text of the sentences that contain the words `first` to `last`."""
    # the last sentence that starts at the word or before; sentences without words precede it
    begin, end = (bisect_right(document.sentences, word, key=attrgetter("start")) - 1 for word in (first, last))
    return document.text[document.sentences[begin].offsets[0][0] : document.sentences[end].offsets[-1][1]]


def round_score(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def _dump_rows(rows: Iterable[tuple[object, ...]], dialect: RowDialect) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(
        buffer,
        delimiter=dialect.delimiter,
        lineterminator=dialect.line_end,
        quoting=dialect.quoting,  # type: ignore[arg-type]
        quotechar='"' if dialect.quoting == csv.QUOTE_MINIMAL else None,
    )
    for row in rows:
        writer.writerow([dialect.text(value) if isinstance(value, str) else value for value in row])
    return buffer.getvalue()


def _iter_entity_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for entity in document.entities:
        sentence = get_evidence(document, entity.start, entity.end - 1)
        yield (
            entity.text,
            entity.label,
            round_score(entity.score),
            document.id,
            sentence,
            entity.char_start,
            entity.char_end,
        )


ENTITIES = RowWriter(("entity", "label", "score", "document", "sentence", "start", "end"), _iter_entity_rows)


def _iter_triple_rows(document: Document) -> Iterator[tuple[object, ...]]:
    for relation in document.relations:
        head, tail = relation.head, relation.tail
        yield (
            head.text,
            head.label,
            relation.label,
            tail.text,
            tail.label,
            round_score(relation.score),
            document.id,
            get_evidence(document, min(head.start, tail.start), max(head.end, tail.end) - 1),
            head.char_start,
            head.char_end,
            tail.char_start,
            tail.char_end,
        )


TRIPLES = RowWriter(
    (
        "head",
        "head_label",
        "relation",
        "tail",
        "tail_label",
        "score",
        "document",
        "sentence",
        "head_start",
        "head_end",
        "tail_start",
        "tail_end",
    ),
    _iter_triple_rows,
)


# GraphML

GRAPHML_ATTRIBUTES = {
    "name": "string",
    "key": "string",
    "label": "string",
    "count": "int",
    "documents": "int",
    "score": "double",
    "forms": "string",
    "sources": "string",
}
INVALID_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(documents: Iterable[Document], target: str | Path | TextIO) -> int:
    """Merge the documents and write GraphML, for Gephi, Cytoscape, yEd and networkx.

    GraphML has no lists, so `forms` and `sources` are JSON. U+FFFD replaces characters that XML does not allow, such as
    NUL and most other control characters.

    >>> write_graphml(documents, "graph.graphml")  # doctest: +SKIP

    Args:
        documents: The documents, which may be a stream.
        target: A path, which is replaced atomically, or an open text stream.

    Returns:
        The number of documents.
    """
    with open_text_output(target) as file:
        graph = Graph(documents)
        file.writelines(f"{line}\n" for line in _iter_graphml(graph))
    return graph.documents


def _iter_graphml(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for name, kind in GRAPHML_ATTRIBUTES.items():
        yield f'<key id="{name}" for="all" attr.name="{name}" attr.type="{kind}"/>'
    yield '<graph id="unire" edgedefault="directed">'
    ids = {node_key: f"n{i}" for i, node_key in enumerate(graph.nodes)}
    for node_key, node in graph.nodes.items():
        forms = json.dumps(node.forms, ensure_ascii=False)
        yield f'<node id="{ids[node_key]}">{_dump_data(node, name=node.name, key=node.key, forms=forms)}</node>'
    for i, ((head, _, tail), edge) in enumerate(graph.edges.items()):
        yield f'<edge id="e{i}" source="{ids[head]}" target="{ids[tail]}">{_dump_data(edge)}</edge>'
    yield "</graph>"
    yield "</graphml>"


def _dump_data(item: Node | Edge, **extra: str) -> str:
    sources = json.dumps(item.sources, ensure_ascii=False)
    values = {
        **extra,
        "label": item.label,
        "count": item.count,
        "documents": item.documents,
        "score": item.score,
        "sources": sources,
    }
    return "".join(
        f'<data key="{name}">{_escape_xml(str(value))}</data>' for name, value in values.items() if value is not None
    )


def _escape_xml(value: str) -> str:
    """Escape text for XML. A carriage return becomes a reference, because XML would read it as a line feed."""
    return escape(INVALID_XML.sub("\ufffd", value), {"\r": "&#13;"})


# Cypher

CYPHER_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
BACKSLASH_U = re.compile(r"(?<=\\)(?=u)")


def write_cypher(documents: Iterable[Document], target: str | Path | TextIO) -> int:
    """Merge the documents and write Cypher statements, for Neo4j 4.4 or newer.

        MERGE (n:Entity {label: 'Method', key: 'chart parser'}) SET n:`Method`, n.name = 'chart parser', n.count = 3, …;
        MATCH (a:Entity {…}), (b:Entity {…}) MERGE (a)-[r:`USED-FOR` {label: 'USED-FOR'}]->(b) SET r.count = 2, …;

    There is one statement per line: `cypher-shell < graph.cypher`. Values are set and never added, so importing a file
    twice changes nothing. Text from the data is always inside a string literal, except the types of nodes and
    relations. Those are names in backticks, where `_` replaces everything but letters, digits, spaces, `-` and `_`. The
    property `label` has the exact type.

    >>> write_cypher(documents, "graph.cypher")  # doctest: +SKIP

    Args:
        documents: The documents, which may be a stream.
        target: A path, which is replaced atomically, or an open text stream.

    Returns:
        The number of documents.
    """
    with open_text_output(target) as file:
        graph = Graph(documents)
        file.writelines(f"{statement};\n" for statement in _iter_statements(graph))
    return graph.documents


def _iter_statements(graph: Graph) -> Iterator[str]:
    yield "CREATE CONSTRAINT unire_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.label, n.key) IS UNIQUE"
    for node_key, node in graph.nodes.items():
        forms = _dump_list(node.forms)
        yield (
            f"MERGE (n:Entity {_dump_match(node_key)}) "
            f"SET n:{_quote_name(node.label)}, n.name = {_dump_string(node.name)}, n.forms = {forms}, "
            f"{_dump_properties('n', node)}"
        )
    for (head, label, tail), edge in graph.edges.items():
        yield (
            f"MATCH (a:Entity {_dump_match(head)}), (b:Entity {_dump_match(tail)}) "
            f"MERGE (a)-[r:{_quote_name(label)} {{label: {_dump_string(label)}}}]->(b) "
            f"SET {_dump_properties('r', edge)}"
        )


def _dump_match(node_key: tuple[str, str]) -> str:
    return f"{{label: {_dump_string(node_key[0])}, key: {_dump_string(node_key[1])}}}"


def _dump_properties(variable: str, item: Node | Edge) -> str:
    values = {
        "count": str(item.count),
        "documents": str(item.documents),
        "score": "null" if item.score is None else f"{item.score:.6f}",
        "sources": _dump_list(item.sources),
    }
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
    return "`" + ("".join(c if c.isalnum() or c in " -_" else "_" for c in label) or "_") + "`"


WRITERS: dict[str, Callable[[Iterable[Document], str | Path | TextIO], int]] = {
    "csv": partial(TRIPLES.write, dialect=CSV),
    "tsv": partial(TRIPLES.write, dialect=TSV),
    "entities-csv": partial(ENTITIES.write, dialect=CSV),
    "entities-tsv": partial(ENTITIES.write, dialect=TSV),
    "graphml": write_graphml,
    "cypher": write_cypher,
}
"""The writers of graphs and rows, by format. Each takes documents and a target, and returns the number of documents."""
