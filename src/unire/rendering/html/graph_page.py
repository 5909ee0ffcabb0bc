"""A knowledge graph as one self-contained page: an entity with its neighbours, and the sentences behind the edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from pathlib import Path
from typing import Any, TextIO

from unire.files import open_text_output
from unire.graph.export import iter_supported_edges
from unire.graph.records import EdgeRecord, EvidenceRecord, GraphSource, NodeRecord
from unire.rendering import Palette
from unire.rendering.html.markup import PageTemplate, escape_text, read_asset
from unire.rendering.html.page import embed_json
from unire.utils import escape_controls

__all__ = ["MAX_EDGES", "write_graph_page"]

MAX_EDGES = 20_000
"""Edges on a page: those in most documents. A page with more opens slowly."""
MAX_NAMES = 8
"""Other names of an entity that are shown."""

STYLE = ("text.css", "page.css", "graph.css")
SCRIPT = ("elements.js", "filters.js", "graph.js")

SupportedEdge = tuple[EdgeRecord, list[EvidenceRecord]]


def write_graph_page(
    graph: GraphSource, target: str | Path | TextIO, *, title: str = "Knowledge graph", limit: int = MAX_EDGES
) -> None:
    """Write a page that shows a graph.

    The page has the entities that have edges. An edge has its best sentences. Memory is that of the page.

    >>> write_graph_page(Graph(documents), "graph.html")  # doctest: +SKIP

    Args:
        graph: The graph.
        target: A path, which is replaced atomically, or an open text stream.
        title: The title of the page.
        limit: Edges to show, those in most documents first. If there are more, the page says so.
    """
    total = 0

    def count() -> Iterable[SupportedEdge]:
        nonlocal total
        for item in iter_supported_edges(graph):
            total += 1
            yield item

    edges = nlargest(limit, count(), key=lambda item: (item[0].documents, item[0].score or 0))
    ends = {end for edge, _ in edges for end in (edge.head, edge.tail)}
    nodes = [node for node in graph.iter_nodes() if node.id in ends]
    remark = "" if total <= limit else f"This page shows {limit:,} of {total:,} relations, those in most documents."
    shell = PageTemplate(title, "\n".join(map(read_asset, STYLE)), "\n".join(map(read_asset, SCRIPT)))
    with open_text_output(target) as file:
        file.write(shell.head)
        body = read_asset("graph.html").replace("{remark}", escape_text(remark))
        start, end = body.replace("{title}", escape_text(title)).split("{data}")
        file.write(start)
        file.write(embed_json(encode_graph(graph.documents, nodes, edges), 'id="graph"'))
        file.write(f"{end}</html>\n")


def encode_graph(documents: int, nodes: list[NodeRecord], edges: list[SupportedEdge]) -> dict[str, Any]:
    """Encode a graph for `graph.js`. Nodes and edges are lists, so that a page stays small."""
    types = [label for label, _ in Counter(node.type for node in nodes).most_common()]
    relations = [label for label, _ in Counter(edge.relation for edge, _ in edges).most_common()]
    palette = Palette((*types, *relations))
    place = {node.id: i for i, node in enumerate(nodes)}

    def encode_labels(kind: str, labels: list[str]) -> list[dict[str, Any]]:
        return [
            {
                "kind": kind,
                "label": escape_controls(label),
                "code": escape_controls(palette.code(label)),
                "colour": palette[label],
            }
            for label in labels
        ]

    return {
        "documents": documents,
        "types": encode_labels("entity", types),
        "relations": encode_labels("relation", relations),
        "nodes": [
            [
                node.id,
                escape_controls(node.name),
                types.index(node.type),
                node.mentions,
                node.documents,
                [escape_controls(name) for name in node.names if name != node.name][:MAX_NAMES],
            ]
            for node in nodes
        ],
        "edges": [
            [
                place[edge.head],
                place[edge.tail],
                relations.index(edge.relation),
                int(edge.symmetric),
                edge.mentions,
                edge.documents,
                None if edge.score is None else round(edge.score, 4),
                [_encode_evidence(row) for row in rows],
            ]
            for edge, rows in edges
        ],
    }


def _encode_evidence(row: EvidenceRecord) -> list[Any]:
    """The document, the score, and the sentence in parts: text, and `[text, end]` for the head (0) and the tail (1)."""
    spans = sorted([(row.head_start, row.head_end, 0), (row.tail_start, row.tail_end, 1)])
    parts: list[str | list[str | int]] = []
    position = 0
    for start, stop, end in spans:
        start = max(start, position)  # mentions may overlap
        if stop <= start:
            continue
        parts += [escape_controls(row.sentence[position:start]), [escape_controls(row.sentence[start:stop]), end]]
        position = stop
    parts.append(escape_controls(row.sentence[position:]))
    score = None if row.score is None else round(row.score, 4)
    return [escape_controls(row.document), score, [part for part in parts if part]]
