"""Knowledge graph: extraction results merged into one graph, and written for databases, network tools, spreadsheets."""

from __future__ import annotations

from unire.graph.build import Edge, Graph, Node, normalize_text
from unire.graph.export import WRITERS, write_cypher, write_graphml

__all__ = ["WRITERS", "Edge", "Graph", "Node", "normalize_text", "write_cypher", "write_graphml"]
