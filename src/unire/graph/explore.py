"""What a page asks of a large graph: an overview, the entities that match some words, and rows of a comparison table.

All functions take the filter of the page, so that counts and lists agree with what is shown. `graph_data.js` computes
the same for a graph that a page holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unire.graph.query import EDGE_COLUMNS, EdgeFilter, KnowledgeGraph, to_edge
from unire.graph.records import EdgeRecord, NodeRecord, format_id

__all__ = ["Overview", "RankedNode", "compare", "count_types", "get_overview", "search"]


class RankedNode(NamedTuple):
    """A node with its number of edges that pass a filter."""

    node: NodeRecord
    degree: int


class Overview(NamedTuple):
    """Counts of what passes a filter."""

    nodes: int
    """Nodes with edges."""
    edges: int
    relations: dict[str, int]
    """Edges of each relation, whatever is hidden, above the lowest score."""
    hubs: list[RankedNode]
    """The nodes with the most edges."""


def count_types(graph: KnowledgeGraph) -> dict[str, int]:
    """Count the nodes with edges by entity type, the most frequent type first."""
    return dict(
        graph.query(
            "SELECT type, count(*) AS n FROM (SELECT head AS node, head_type AS type FROM edges "
            "UNION SELECT tail, tail_type FROM edges) GROUP BY type ORDER BY n DESC, type"
        )
    )


def get_overview(graph: KnowledgeGraph, keep: EdgeFilter, hubs: int) -> Overview:
    """Count what passes a filter, and find the nodes with the most edges."""
    above = EdgeFilter(keep.min_score).condition
    relations = graph.query(
        f"SELECT relation, count(*) AS n FROM edges WHERE {above} GROUP BY relation ORDER BY n DESC, relation"
    )
    rows = graph.query(
        f"""
        WITH ends AS (
            SELECT head AS node FROM edges WHERE {keep.condition}
            UNION ALL SELECT tail FROM edges WHERE {keep.condition}),
        degrees AS (SELECT node, count(*) AS degree FROM ends GROUP BY node)
        SELECT node, degree, count(*) OVER () AS nodes, CAST(sum(degree) OVER () AS BIGINT) // 2 AS edges
        FROM degrees ORDER BY degree DESC, node LIMIT ?""",
        [hubs],
    )
    nodes = graph.get_nodes(format_id(row[0]) for row in rows)
    ranked = [RankedNode(nodes[format_id(node)], degree) for node, degree, _, _ in rows]
    return Overview(rows[0][2] if rows else 0, rows[0][3] if rows else 0, dict(relations), ranked)


def search(graph: KnowledgeGraph, words: str, keep: EdgeFilter, limit: int) -> list[RankedNode]:
    """Find nodes with edges by a name, as `KnowledgeGraph.find` does."""
    nodes = graph.find(words, 4 * limit)
    rows = graph.query(
        f"""
        WITH wanted AS (SELECT unnest(?::UBIGINT[]) AS node),
        ends AS (
            SELECT head AS node FROM edges WHERE {keep.condition}
            UNION ALL SELECT tail FROM edges WHERE {keep.condition})
        SELECT node, count(*) FROM ends SEMI JOIN wanted USING (node) GROUP BY node""",
        [[int(node.id, 16) for node in nodes]],
    )
    degrees = {format_id(node): degree for node, degree in rows}
    return [RankedNode(node, degrees[node.id]) for node in nodes if node.id in degrees][:limit]


def compare(
    graph: KnowledgeGraph, kind: str, other: str | None, keep: EdgeFilter, rows: int, columns: int
) -> list[EdgeRecord]:
    """The edges of a comparison table.

    Args:
        graph: The graph.
        kind: The entity type of the rows.
        other: The entity type of the columns, which are then its entities with the most edges to rows. `None`: the
            columns are entity types, and rows with edges to many types come first.
        keep: The edges to look at.
        rows: Number of rows.
        columns: Number of columns if they are entities; otherwise of edges in a cell.
    """
    ranked = "count(DISTINCT other_type) DESC, count(*) DESC" if other is None else "count(DISTINCT other) DESC"
    sides = f"""
        WITH sides AS (
            SELECT head AS entity, tail AS other, tail_type AS other_type, * FROM edges
            WHERE head_type = ? AND (? IS NULL OR tail_type = ?) AND {keep.condition}
            UNION ALL SELECT tail, head, head_type, * FROM edges
            WHERE tail_type = ? AND (? IS NULL OR head_type = ?) AND {keep.condition})"""
    values: Sequence[object] = [kind, other, other] * 2
    if other is None:
        query = f"""
            {sides}, best AS (SELECT entity FROM sides GROUP BY entity ORDER BY {ranked}, entity LIMIT ?)
            SELECT DISTINCT {EDGE_COLUMNS} FROM (
                SELECT * FROM sides SEMI JOIN best USING (entity) QUALIFY row_number() OVER (
                    PARTITION BY entity, other_type ORDER BY documents DESC, score DESC NULLS LAST, head, relation, tail
                ) <= ?)
            ORDER BY head, relation, tail"""
        return list(map(to_edge, graph.query(query, [*values, rows, columns])))
    query = f"""
        {sides}, tops AS (
            SELECT other FROM sides GROUP BY other ORDER BY count(DISTINCT entity) DESC, other LIMIT ?),
        inside AS (SELECT * FROM sides SEMI JOIN tops USING (other)),
        best AS (SELECT entity FROM inside GROUP BY entity ORDER BY {ranked}, entity LIMIT ?)
        SELECT DISTINCT {EDGE_COLUMNS} FROM inside SEMI JOIN best USING (entity) ORDER BY head, relation, tail"""
    return list(map(to_edge, graph.query(query, [*values, columns, rows])))
