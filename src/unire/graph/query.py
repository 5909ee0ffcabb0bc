"""A knowledge graph in a folder: entities by name, their neighbours, paths, statistics, and all records in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from unire.errors import UnireError
from unire.graph.facts import node_id
from unire.graph.merge import connect, explain_errors, quote_text
from unire.graph.names import fold_name, normalize_text
from unire.graph.records import EdgeRecord, EvidenceRecord, MergeRecord, NodeRecord, format_id
from unire.graph.store import DEFAULT_MEMORY, read_graph_file, require_duckdb

__all__ = ["GraphStatistics", "KnowledgeGraph"]

ROWS_AT_A_TIME = 10_000
NODE_COLUMNS = "node, name, names, types, mentions, documents"
EDGE_COLUMNS = "head, relation, tail, is_symmetric, mentions, documents, score"
EVIDENCE_COLUMNS = (
    "head, relation, tail, document, sentence, sentence_start, head_start, head_end, tail_start, tail_end, score"
)
EVIDENCE_ORDER = "head, relation, tail, document, doc, sentence_start, head_start, head_end, tail_start, tail_end"


class GraphStatistics(NamedTuple):
    """Counts of a graph."""

    documents: int
    nodes: int
    edges: int
    evidence: int
    shared: int
    """Nodes with mentions in several documents."""
    isolated: int
    """Nodes without edges."""
    largest_component: int
    """Nodes that are connected with each other, in the largest such group."""
    types: dict[str, int]
    """Mentions by entity type."""
    relations: dict[str, int]
    """Edges by relation type."""
    hubs: list[tuple[str, int, int]]
    """Names of the nodes with the most edges, with their numbers of edges and of documents."""


class KnowledgeGraph:
    """A graph that `build_graph` wrote.

    >>> with KnowledgeGraph.open("graph") as graph:  # doctest: +SKIP
    ...     node = graph.find("neural networks")[0]
    ...     for edge in graph.neighbours(node.id):
    ...         print(edge.relation, edge.score)

    The files are read when they are needed, so memory does not grow with the graph.
    """

    def __init__(self, folder: Path, about: dict[str, Any], database: Any) -> None:
        self.folder = folder
        self.about = about
        """The content of `graph.json`: counts, and what was left out."""
        self._database = database

    @classmethod
    def open(cls, folder: str | Path, *, memory: int = DEFAULT_MEMORY) -> KnowledgeGraph:
        """Open a graph.

        Args:
            folder: The folder that `build_graph` wrote.
            memory: Bytes that DuckDB may use.

        Raises:
            UnireError: The folder is no graph, or is not finished.
        """
        require_duckdb()
        path = Path(folder)
        about = read_graph_file(path)
        with explain_errors(path):
            database = connect(path, memory)
            for name in ("nodes", "edges", "evidence", "merges"):
                file = quote_text(str(path / f"{name}.parquet"))
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({file})")
        return cls(path, about, database)

    def close(self) -> None:
        """Close the files."""
        self._database.close()

    def __enter__(self) -> KnowledgeGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def documents(self) -> int:
        """The number of documents."""
        return int(self.about["documents"])

    @property
    def symmetric(self) -> frozenset[str]:
        """The relation types without a direction."""
        return frozenset(self.about["rules"]["symmetric"])

    def iter_nodes(self) -> Iterator[NodeRecord]:
        """Yield the nodes in the order of their ids."""
        return map(_node, self._stream(f"SELECT {NODE_COLUMNS} FROM nodes ORDER BY node"))

    def iter_edges(self) -> Iterator[EdgeRecord]:
        """Yield the edges in the order of head, relation and tail."""
        return map(_edge, self._stream(f"SELECT {EDGE_COLUMNS} FROM edges ORDER BY head, relation, tail"))

    def iter_evidence(self) -> Iterator[EvidenceRecord]:
        """Yield the evidence in the order of the edges; of one edge, in the order of documents and offsets."""
        return map(_evidence, self._stream(f"SELECT {EVIDENCE_COLUMNS} FROM evidence ORDER BY {EVIDENCE_ORDER}"))

    def iter_merges(self) -> Iterator[MergeRecord]:
        """Yield why names belong to nodes."""
        query = "SELECT name, node, reason, document FROM merges ORDER BY node, name, reason, document NULLS FIRST"
        for name, node, reason, document in self._stream(query):
            yield MergeRecord(name=name, node=format_id(node), reason=reason, document=document)

    def find(self, name: str, limit: int = 10) -> list[NodeRecord]:
        """Find nodes by a name: first the one that has it, then those with names that contain it.

        >>> graph.find("neural networks")  # doctest: +SKIP
        """
        keys = [node_id(fold_name(name)), node_id(normalize_text(name)), _parse_id(name)]
        exact = self._rows(
            f"SELECT {NODE_COLUMNS} FROM nodes WHERE node IN (?, ?, ?) "
            "OR len(list_filter(names, lambda x: lower(x.name) = lower(?))) > 0 ORDER BY documents DESC, node LIMIT ?",
            [*keys, name, limit],
        )
        found = {row[0]: _node(row) for row in exact}
        if len(found) < limit and name.strip():
            others = self._rows(
                f"SELECT {NODE_COLUMNS} FROM nodes WHERE contains(lower(name), lower(?)) "
                "ORDER BY documents DESC, node LIMIT ?",
                [name, limit],
            )
            found |= {row[0]: _node(row) for row in others if row[0] not in found}
        return list(found.values())[:limit]

    def find_one(self, name: str) -> NodeRecord:
        """Find the node that a name means most.

        Raises:
            UnireError: There is none.
        """
        found = self.find(name, 1)
        if not found:
            raise UnireError(f"no entity of the graph has the name {name!r}")
        return found[0]

    def get_nodes(self, ids: Iterable[str]) -> dict[str, NodeRecord]:
        """The nodes with some ids."""
        keys = sorted({key for key in map(_parse_id, ids) if key is not None})
        rows = self._rows(f"SELECT {NODE_COLUMNS} FROM nodes WHERE node IN (SELECT unnest(?::UBIGINT[]))", [keys])
        return {format_id(row[0]): _node(row) for row in rows}

    def neighbours(self, node: str, limit: int | None = None) -> list[EdgeRecord]:
        """The edges of a node, those with the highest scores first."""
        rows = self._rows(
            f"SELECT {EDGE_COLUMNS} FROM edges WHERE head = ? OR tail = ? "
            "ORDER BY score DESC NULLS LAST, documents DESC, head, relation, tail LIMIT ?",
            [_parse_id(node), _parse_id(node), 2**62 if limit is None else limit],
        )
        return list(map(_edge, rows))

    def get_evidence(self, edge: EdgeRecord, limit: int | None = None) -> list[EvidenceRecord]:
        """The sentences that state a relation, those with the highest scores first."""
        rows = self._rows(
            f"SELECT {EVIDENCE_COLUMNS} FROM evidence WHERE head = ? AND relation = ? AND tail = ? "
            f"ORDER BY score DESC NULLS LAST, {EVIDENCE_ORDER} LIMIT ?",
            [_parse_id(edge.head), edge.relation, _parse_id(edge.tail), 2**62 if limit is None else limit],
        )
        return list(map(_evidence, rows))

    def path(self, first: str, last: str, max_edges: int = 6) -> list[EdgeRecord]:
        """A shortest path between two nodes, whatever the directions of its edges; empty if there is none.

        Of the shortest paths, it takes the edge with the highest score at every step.

        Args:
            first: The id of a node.
            last: The id of a node.
            max_edges: Longer paths are not searched.
        """
        start, goal = _parse_id(first), _parse_id(last)
        came: dict[int | None, EdgeRecord | None] = {start: None}
        frontier = [start]
        for _ in range(max_edges):
            if goal in came or not frontier:
                break
            rows = self._rows(
                f"""
                WITH frontier AS (SELECT unnest(?::UBIGINT[]) AS node)
                SELECT {EDGE_COLUMNS} FROM edges
                WHERE head IN (SELECT node FROM frontier) OR tail IN (SELECT node FROM frontier)
                ORDER BY score DESC NULLS LAST, head, relation, tail""",
                [frontier],
            )
            inside = set(frontier)
            frontier = []
            for row in rows:
                for here, there in ((row[0], row[2]), (row[2], row[0])):
                    if here in inside and there not in came:
                        came[there] = _edge(row)
                        frontier.append(there)
        steps: list[EdgeRecord] = []
        place = goal
        while goal in came and (edge := came[place]) is not None:
            steps.append(edge)
            head, tail = _parse_id(edge.head), _parse_id(edge.tail)
            place = head if place == tail else tail
        return steps[::-1]

    def statistics(self, hubs: int = 10) -> GraphStatistics:
        """Count nodes, edges and components."""
        shared = self._rows("SELECT count(*) FROM nodes WHERE documents > 1")[0][0]
        types = self._rows(
            "SELECT t.type, CAST(sum(t.mentions) AS BIGINT) AS n FROM (SELECT unnest(types) AS t FROM nodes) "
            "GROUP BY t.type ORDER BY n DESC, t.type"
        )
        relations = self._rows("SELECT relation, count(*) AS n FROM edges GROUP BY relation ORDER BY n DESC, relation")
        degrees = self._rows(
            "SELECT name, degree, documents FROM (SELECT node, count(*) AS degree FROM "
            "(SELECT head AS node FROM edges UNION ALL SELECT tail FROM edges) GROUP BY node) JOIN nodes USING (node) "
            "ORDER BY degree DESC, documents DESC, node LIMIT ?",
            [hubs],
        )
        with explain_errors(self.folder):
            pairs = self._database.execute("SELECT DISTINCT head, tail FROM edges").fetchnumpy()
        connected, largest = _count_components(np.asarray(pairs["head"]), np.asarray(pairs["tail"]))
        return GraphStatistics(
            self.documents,
            self.about["nodes"],
            self.about["edges"],
            self.about["evidence"],
            shared,
            self.about["nodes"] - connected,
            largest if connected else min(1, self.about["nodes"]),
            dict(types),
            dict(relations),
            degrees,
        )

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with explain_errors(self.folder):
            return list(self._database.execute(query, list(values)).fetchall())

    def _stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows from a cursor of their own, so that several streams can be read at a time."""
        with explain_errors(self.folder), self._database.cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(ROWS_AT_A_TIME):
                yield from rows


def _parse_id(text: str) -> int | None:
    try:
        return int(text, 16) if len(text) == 16 else None
    except ValueError:
        return None


def _node(row: tuple[Any, ...]) -> NodeRecord:
    node, name, names, types, mentions, documents = row
    return NodeRecord(
        id=format_id(node),
        name=name,
        types={item["type"]: item["mentions"] for item in types},
        mentions=mentions,
        documents=documents,
        names={item["name"]: item["mentions"] for item in names},
    )


def _edge(row: tuple[Any, ...]) -> EdgeRecord:
    head, relation, tail, symmetric, mentions, documents, score = row
    return EdgeRecord(
        head=format_id(head),
        relation=relation,
        tail=format_id(tail),
        symmetric=symmetric,
        mentions=mentions,
        documents=documents,
        score=score,
    )


def _evidence(row: tuple[Any, ...]) -> EvidenceRecord:
    head, relation, tail, document, sentence, start, head_start, head_end, tail_start, tail_end, score = row
    return EvidenceRecord(
        head=format_id(head),
        relation=relation,
        tail=format_id(tail),
        document=document,
        sentence=sentence,
        sentence_start=start,
        head_start=head_start,
        head_end=head_end,
        tail_start=tail_start,
        tail_end=tail_end,
        score=score,
    )


def _count_components(heads: Any, tails: Any) -> tuple[int, int]:
    """The number of nodes with edges, and the size of the largest component: labels spread until none changes."""
    nodes, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    if not len(nodes):
        return 0, 0
    first, last = places[: len(heads)], places[len(heads) :]
    labels = np.arange(len(nodes))
    while True:
        smaller = np.minimum(labels[first], labels[last])
        spread = labels.copy()
        for ends in (first, last):
            np.minimum.at(spread, labels[ends], smaller)  # hook whole trees
            np.minimum.at(spread, ends, smaller)
        spread = spread[spread]
        if (spread == labels).all():
            return len(nodes), int(np.bincount(labels).max())
        labels = spread
