"""Knowledge graph: documents merged into one graph, in memory or on disk, and written for other tools."""

from __future__ import annotations

from unire.graph.build import Graph, to_networkx
from unire.graph.export import (
    EXPORTERS,
    export_graph,
    write_cypher,
    write_graphml,
    write_jsonld,
    write_neo4j,
    write_turtle,
)
from unire.graph.names import find_acronyms, fold_name, normalize_text
from unire.graph.query import GraphStatistics, KnowledgeGraph
from unire.graph.records import EdgeRecord, EvidenceRecord, GraphSource, MergeRecord, NodeRecord
from unire.graph.store import GraphInputs, add_to_graph, build_graph

__all__ = [
    "EXPORTERS",
    "EdgeRecord",
    "EvidenceRecord",
    "Graph",
    "GraphInputs",
    "GraphSource",
    "GraphStatistics",
    "KnowledgeGraph",
    "MergeRecord",
    "NodeRecord",
    "add_to_graph",
    "build_graph",
    "export_graph",
    "find_acronyms",
    "fold_name",
    "normalize_text",
    "to_networkx",
    "write_cypher",
    "write_graphml",
    "write_jsonld",
    "write_neo4j",
    "write_turtle",
]
