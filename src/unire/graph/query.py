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

__all__ = ["EdgeFilter", "GraphStatistics", "KnowledgeGraph"]

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


class EdgeFilter(NamedTuple):
    """Which edges to look at."""

    min_score: float = 0.0
    """The lowest score; edges without a score pass."""
    hidden_types: frozenset[str] = frozenset()
    """Entity types whose nodes are left out with their edges."""
    hidden_relations: frozenset[str] = frozenset()

    @property
    def condition(self) -> str:
        """A condition of SQL on edges."""
        parts = []
        if self.min_score > 0:
            parts.append(f"coalesce(score, 1) >= {self.min_score!r}")
        if self.hidden_types:
            hidden = ", ".join(map(quote_text, sorted(self.hidden_types)))
            parts.append(f"head_type NOT IN ({hidden}) AND tail_type NOT IN ({hidden})")
        if self.hidden_relations:
            parts.append(f"relation NOT IN ({', '.join(map(quote_text, sorted(self.hidden_relations)))})")
        return " AND ".join(parts) or "true"


ALL_EDGES = EdgeFilter()


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

    def interrupt(self) -> None:
        """Stop the query that another thread runs. It raises `UnireError`."""
        self._database.interrupt()

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
        return map(to_node, self._stream(f"SELECT {NODE_COLUMNS} FROM nodes ORDER BY node"))

    def iter_edges(self) -> Iterator[EdgeRecord]:
        """Yield the edges in the order of head, relation and tail."""
        return map(to_edge, self._stream(f"SELECT {EDGE_COLUMNS} FROM edges ORDER BY head, relation, tail"))

    def iter_evidence(self) -> Iterator[EvidenceRecord]:
        """Yield the evidence in the order of the edges; of one edge, in the order of documents and offsets."""
        return map(to_evidence, self._stream(f"SELECT {EVIDENCE_COLUMNS} FROM evidence ORDER BY {EVIDENCE_ORDER}"))

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
        order = "ORDER BY documents DESC, node LIMIT ?"
        exact = self.query(f"SELECT {NODE_COLUMNS} FROM nodes WHERE node IN (?, ?, ?) {order}", [*keys, limit])
        exact = exact or self.query(
            f"SELECT {NODE_COLUMNS} FROM nodes "
            f"WHERE len(list_filter(names, lambda x: lower(x.name) = lower(?))) > 0 {order}",
            [name, limit],
        )
        found = {row[0]: to_node(row) for row in exact}
        if len(found) < limit and name.strip():
            others = self.query(
                f"SELECT {NODE_COLUMNS} FROM nodes WHERE contains(lower(name), lower(?)) {order}",
                [name, limit],
            )
            found |= {row[0]: to_node(row) for row in others if row[0] not in found}
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
        rows = self.query(f"SELECT {NODE_COLUMNS} FROM nodes WHERE node IN (SELECT unnest(?::UBIGINT[]))", [keys])
        return {format_id(row[0]): to_node(row) for row in rows}

    def neighbours(self, node: str, limit: int | None = None, keep: EdgeFilter = ALL_EDGES) -> list[EdgeRecord]:
        """The edges of a node, those with the highest scores first."""
        rows = self.query(
            f"SELECT {EDGE_COLUMNS} FROM edges WHERE (head = ? OR tail = ?) AND {keep.condition} "
            "ORDER BY score DESC NULLS LAST, documents DESC, head, relation, tail LIMIT ?",
            [_parse_id(node), _parse_id(node), 2**62 if limit is None else limit],
        )
        return list(map(to_edge, rows))

    def get_evidence(self, edge: EdgeRecord, limit: int | None = None) -> list[EvidenceRecord]:
        """The sentences that state a relation, those with the highest scores first."""
        rows = self.query(
            f"SELECT {EVIDENCE_COLUMNS} FROM evidence WHERE head = ? AND relation = ? AND tail = ? "
            f"ORDER BY score DESC NULLS LAST, {EVIDENCE_ORDER} LIMIT ?",
            [_parse_id(edge.head), edge.relation, _parse_id(edge.tail), 2**62 if limit is None else limit],
        )
        return list(map(to_evidence, rows))

    def get_evidence_of(
        self, edges: Sequence[EdgeRecord], limit: int
    ) -> dict[tuple[str, str, str], list[EvidenceRecord]]:
        """The best sentences of each of some edges, by head, relation and tail."""
        columns = [[int(e.head, 16) for e in edges], [e.relation for e in edges], [int(e.tail, 16) for e in edges]]
        rows = self.query(
            f"""
            WITH wanted AS (
                SELECT unnest(?::UBIGINT[]) AS head, unnest(?::VARCHAR[]) AS relation, unnest(?::UBIGINT[]) AS tail)
            SELECT {EVIDENCE_COLUMNS} FROM evidence SEMI JOIN wanted USING (head, relation, tail)
            QUALIFY row_number() OVER (
                PARTITION BY head, relation, tail ORDER BY score DESC NULLS LAST, {EVIDENCE_ORDER}) <= ?
            ORDER BY score DESC NULLS LAST, {EVIDENCE_ORDER}""",
            [*columns, limit],
        )
        found: dict[tuple[str, str, str], list[EvidenceRecord]] = {}
        for row in map(to_evidence, rows):
            found.setdefault((row.head, row.relation, row.tail), []).append(row)
        return found

    def path(self, first: str, last: str, max_edges: int = 6, keep: EdgeFilter = ALL_EDGES) -> list[EdgeRecord]:
        """A shortest path between two nodes, whatever the directions of its edges; empty if there is none.

        The search goes from both ends towards the middle, so that it sees few nodes.

        Args:
            first: The id of a node.
            last: The id of a node.
            max_edges: Longer paths are not searched.
            keep: The edges that a path may take.
        """
        ends = _parse_id(first), _parse_id(last)
        if ends[0] == ends[1] or None in ends:
            return []
        came: list[dict[int | None, EdgeRecord | None]] = [{end: None} for end in ends]
        frontiers: list[list[int | None]] = [[end] for end in ends]
        for _ in range(max_edges):
            side = int(len(frontiers[1]) < len(frontiers[0]))
            frontiers[side] = self._expand(frontiers[side], came[side], keep)
            if met := [node for node in frontiers[side] if node in came[1 - side]]:
                return [*self._trace(came[0], met[0])[::-1], *self._trace(came[1], met[0])]
            if not frontiers[side]:
                break
        return []

    def _expand(
        self, frontier: list[int | None], came: dict[int | None, EdgeRecord | None], keep: EdgeFilter
    ) -> list[int | None]:
        """Go one edge further, along the edges with the highest scores. Return the new nodes."""
        rows = self.query(
            f"""
            WITH frontier AS (SELECT unnest(?::UBIGINT[]) AS node),
            steps AS (
                SELECT tail AS node, {EDGE_COLUMNS} FROM edges SEMI JOIN frontier ON head = node WHERE {keep.condition}
                UNION ALL
                SELECT head AS node, {EDGE_COLUMNS} FROM edges SEMI JOIN frontier ON tail = node WHERE {keep.condition})
            SELECT * FROM steps QUALIFY row_number() OVER (
                PARTITION BY node ORDER BY score DESC NULLS LAST, head, relation, tail) = 1
            ORDER BY score DESC NULLS LAST, head, relation, tail, node""",
            [frontier],
        )
        new = [row for row in rows if row[0] not in came]
        came |= {row[0]: to_edge(row[1:]) for row in new}
        return [row[0] for row in new]

    @staticmethod
    def _trace(came: dict[int | None, EdgeRecord | None], node: int | None) -> list[EdgeRecord]:
        """The edges from a node back to where the search began."""
        steps = []
        while (edge := came[node]) is not None:
            steps.append(edge)
            head, tail = _parse_id(edge.head), _parse_id(edge.tail)
            node = head if node == tail else tail
        return steps

    def statistics(self, hubs: int = 10) -> GraphStatistics:
        """Count nodes, edges and components."""
        shared = self.query("SELECT count(*) FROM nodes WHERE documents > 1")[0][0]
        types = self.query(
            "SELECT t.type, CAST(sum(t.mentions) AS BIGINT) AS n FROM (SELECT unnest(types) AS t FROM nodes) "
            "GROUP BY t.type ORDER BY n DESC, t.type"
        )
        relations = self.query("SELECT relation, count(*) AS n FROM edges GROUP BY relation ORDER BY n DESC, relation")
        degrees = self.query(
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

    def query(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query of SQL on the tables `nodes`, `edges`, `evidence` and `merges`."""
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


def to_node(row: tuple[Any, ...]) -> NodeRecord:
    node, name, names, types, mentions, documents = row
    return NodeRecord(
        id=format_id(node),
        name=name,
        types={item["type"]: item["mentions"] for item in types},
        mentions=mentions,
        documents=documents,
        names={item["name"]: item["mentions"] for item in names},
    )


def to_edge(row: tuple[Any, ...]) -> EdgeRecord:
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


def to_evidence(row: tuple[Any, ...]) -> EvidenceRecord:
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
