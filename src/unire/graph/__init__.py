"""Knowledge graph: extraction results merged into one graph, and written for databases, network tools, spreadsheets."""

from __future__ import annotations

from unire.graph.build import Edge, Graph, Node
from unire.graph.export import WRITERS, write_cypher, write_graphml
from unire.graph.names import find_acronyms, fold_name, normalize_text

__all__ = [
    "WRITERS",
    "Edge",
    "Graph",
    "Node",
    "find_acronyms",
    "fold_name",
    "normalize_text",
    "write_cypher",
    "write_graphml",
]
