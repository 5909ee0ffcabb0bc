"""A knowledge graph as one self-contained page: an entity with its neighbours, and the sentences behind the edges.

The same page, served by `unire serve --graph`, asks the server instead of its own data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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

__all__ = ["MAX_EDGES", "GraphEncoder", "encode_evidence", "render_graph_page", "write_graph_page"]

MAX_EDGES = 20_000
"""Edges on a page: those in most documents. A page with more opens slowly."""
MAX_NAMES = 8
"""Other names of an entity that are shown."""

STYLE = ("text.css", "page.css", "graph.css")
SCRIPT = ("elements.js", "filters.js", "graph_data.js", "graph_table.js", "graph.js")

SupportedEdge = tuple[EdgeRecord, Sequence[EvidenceRecord] | None]
"""An edge with its best evidence; `None` if the page asks for it."""


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
    types = [label for label, _ in Counter(node.type for node in nodes).most_common()]
    relations = [label for label, _ in Counter(edge.relation for edge, _ in edges).most_common()]
    encoder = GraphEncoder(types, relations)
    remark = "" if total <= limit else f"This page shows {limit:,} of {total:,} relations, those in most documents."
    data = {"documents": graph.documents, **encoder.labels, **encoder.encode(nodes, edges)}
    with open_text_output(target) as file:
        file.write(render_graph_page(data, title=title, remark=remark)[1])


def render_graph_page(
    data: dict[str, Any], *, title: str = "Knowledge graph", remark: str = "", connects: bool = False
) -> tuple[PageTemplate, str]:
    """Render the page with the data that it holds. With `connects`, it asks its server for the rest."""
    shell = PageTemplate(
        title, "\n".join(map(read_asset, STYLE)), "\n".join(map(read_asset, SCRIPT)), connects=connects
    )
    body = read_asset("graph.html").replace("{remark}", escape_text(remark)).replace("{title}", escape_text(title))
    start, end = body.split("{data}")
    script = embed_json(data, 'id="graph"')
    return shell, f"{shell.head}{start}{script}{end}</html>\n"


class GraphEncoder:
    """Encodes parts of a graph for `graph_data.js`. Nodes and edges are lists, so that a page stays small.

    Args:
        types: The entity types, in the order of the legend.
        relations: The relation types.
    """

    def __init__(self, types: Iterable[str], relations: Iterable[str]) -> None:
        self._types = {label: i for i, label in enumerate(types)}
        self._relations = {label: i for i, label in enumerate(relations)}

    @property
    def labels(self) -> dict[str, list[dict[str, Any]]]:
        """The labels with their colours."""
        palette = Palette((*self._types, *self._relations))
        kinds = {"types": ("entity", self._types), "relations": ("relation", self._relations)}
        return {
            name: [
                {
                    "kind": kind,
                    "label": escape_controls(label),
                    "code": escape_controls(palette.code(label)),
                    "colour": palette[label],
                }
                for label in labels
            ]
            for name, (kind, labels) in kinds.items()
        }

    def encode(self, nodes: Iterable[NodeRecord], edges: Iterable[SupportedEdge] = ()) -> dict[str, Any]:
        """Encode nodes, and edges between them."""
        nodes = list(nodes)
        place = {node.id: i for i, node in enumerate(nodes)}
        return {
            "nodes": [
                [
                    node.id,
                    escape_controls(node.name),
                    self._types[node.type],
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
                    self._relations[edge.relation],
                    int(edge.symmetric),
                    edge.mentions,
                    edge.documents,
                    None if edge.score is None else round(edge.score, 4),
                    None if rows is None else list(map(encode_evidence, rows)),
                ]
                for edge, rows in edges
            ],
        }


def encode_evidence(row: EvidenceRecord) -> list[Any]:
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
