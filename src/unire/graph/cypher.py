"""Cypher statements for Neo4j (4.4 or newer), one a line: `cypher-shell < graph.cypher`.

    MERGE (n:Entity {label: 'Method', key: 'chart parser'}) SET n:`Method`, n.name = 'chart parser', n.count = 3, …;
    MATCH (a:Entity {…}), (b:Entity {…}) MERGE (a)-[r:`USED-FOR` {label: 'USED-FOR'}]->(b) SET r.count = 2, …;

Values are set, never added up, so that importing the same file twice changes nothing. What comes from data is only ever
inside a string literal, but for the types of nodes and relations: those are names in backticks, in which everything
but letters, digits, spaces, `-` and `_` becomes `_`; the property `label` has the type exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from unire.documents import Document
from unire.files import open_text_output
from unire.graph.build import Edge, Graph, Node

__all__ = ["write"]

ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
BEFORE_U = re.compile(r"(?<=\\)(?=u)")


def write(documents: Iterable[Document], target: str | Path | TextIO) -> int:
    """Merge the documents, write their graph, and return how many they were."""
    with open_text_output(target) as file:
        graph = Graph(documents)
        file.writelines(f"{statement};\n" for statement in _statements(graph))
    return graph.documents


def _statements(graph: Graph) -> Iterator[str]:
    yield "CREATE CONSTRAINT unire_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.label, n.key) IS UNIQUE"
    for place, node in graph.nodes.items():
        forms = _list(node.forms)
        yield (
            f"MERGE (n:Entity {_match(place)}) "
            f"SET n:{_name(node.label)}, n.name = {_string(node.name)}, n.forms = {forms}, {_properties('n', node)}"
        )
    for (head, label, tail), edge in graph.edges.items():
        yield (
            f"MATCH (a:Entity {_match(head)}), (b:Entity {_match(tail)}) "
            f"MERGE (a)-[r:{_name(label)} {{label: {_string(label)}}}]->(b) SET {_properties('r', edge)}"
        )


def _match(place: tuple[str, str]) -> str:
    return f"{{label: {_string(place[0])}, key: {_string(place[1])}}}"


def _properties(variable: str, found: Node | Edge) -> str:
    values = {
        "count": str(found.count),
        "documents": str(found.documents),
        "score": "null" if found.score is None else f"{found.score:.6f}",
        "sources": _list(found.sources),
    }
    return ", ".join(f"{variable}.{name} = {value}" for name, value in values.items())


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_string, texts))}]"


def _string(text: str) -> str:
    """A string literal.

    Some parsers replace `\\uXXXX` anywhere in a query before they read it, even behind another backslash. So no
    backslash of the text stays before a `u`: the literal is closed there and goes on in a second one.
    """
    parts = BEFORE_U.split(text)
    return " + ".join(f"'{''.join(ESCAPES.get(c) or _character(c) for c in part)}'" for part in parts)


def _character(character: str) -> str:
    """What cannot be seen as the UTF-16 that `\\u` can say. Half a surrogate pair is left for the file to refuse."""
    if character.isprintable() or "\ud800" <= character <= "\udfff":
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))


def _name(label: str) -> str:
    return "`" + ("".join(c if c.isalnum() or c in " -_" else "_" for c in label) or "_") + "`"
