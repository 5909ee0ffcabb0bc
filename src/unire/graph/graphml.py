"""GraphML, which Gephi, Cytoscape, yEd and networkx read.

Nodes and edges carry what `Graph` knows of them. GraphML knows no lists, so `forms` and `sources` are JSON. Characters
that XML cannot hold (NUL and most other control characters) are written as U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape

from unire.documents import Document
from unire.files import open_text_output
from unire.graph.build import Edge, Graph, Node

__all__ = ["write"]

ATTRIBUTES = {
    "name": "string",
    "key": "string",
    "label": "string",
    "count": "int",
    "documents": "int",
    "score": "double",
    "forms": "string",
    "sources": "string",
}
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(documents: Iterable[Document], target: str | Path | TextIO) -> int:
    """Merge the documents, write their graph, and return how many they were."""
    with open_text_output(target) as file:
        graph = Graph(documents)
        file.writelines(f"{line}\n" for line in _lines(graph))
    return graph.documents


def _lines(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for name, kind in ATTRIBUTES.items():
        yield f'<key id="{name}" for="all" attr.name="{name}" attr.type="{kind}"/>'
    yield '<graph id="unire" edgedefault="directed">'
    ids = {place: f"n{i}" for i, place in enumerate(graph.nodes)}
    for place, node in graph.nodes.items():
        forms = json.dumps(node.forms, ensure_ascii=False)
        yield f'<node id="{ids[place]}">{_data(node, name=node.name, key=node.key, forms=forms)}</node>'
    for i, ((head, _, tail), edge) in enumerate(graph.edges.items()):
        yield f'<edge id="e{i}" source="{ids[head]}" target="{ids[tail]}">{_data(edge)}</edge>'
    yield "</graph>"
    yield "</graphml>"


def _data(found: Node | Edge, **more: str) -> str:
    sources = json.dumps(found.sources, ensure_ascii=False)
    values = {
        **more,
        "label": found.label,
        "count": found.count,
        "documents": found.documents,
        "score": found.score,
        "sources": sources,
    }
    return "".join(
        f'<data key="{name}">{_text(str(value))}</data>' for name, value in values.items() if value is not None
    )


def _text(value: str) -> str:
    """A carriage return is written as a reference, since XML would read it as a line feed."""
    return escape(NOT_XML.sub("\ufffd", value), {"\r": "&#13;"})
