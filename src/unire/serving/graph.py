"""A knowledge graph behind a page: `/graph` is the page, and answers the questions that it asks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from unire.errors import UnireError
from unire.graph.explore import RankedNode, compare, count_types, get_overview, search
from unire.graph.query import EdgeFilter, KnowledgeGraph
from unire.graph.records import EdgeRecord
from unire.rendering.html.graph_page import GraphEncoder, encode_evidence, render_graph_page
from unire.serving.schemas import ApiError, GraphRequest
from unire.serving.service import Service

__all__ = ["GraphService"]

THREADS = 2
"""Questions that are answered at a time."""
MEMORY_BYTES = 2**29
"""Memory of DuckDB in each thread."""
MAX_EDGES = 300
"""Edges of an entity that an answer has."""
SUPPORTED_EDGES = 40
"""Edges of an answer that come with sentences; for others, the page asks when they are chosen."""
EVIDENCE = 5
"""Sentences of an edge."""
FOUND = 12
"""Entities that a search finds."""
ROWS, COLUMNS = 30, 12
"""Size of a comparison table."""
MAX_PATH_EDGES = 6


class GraphService:
    """A graph that many clients may ask at once, within the limits of the server. It only reads.

    Args:
        folder: The graph.
        service: The server's counts and limits.

    Raises:
        UnireError: The folder is no graph.
    """

    def __init__(self, folder: str | Path, service: Service) -> None:
        self.service = service
        self._graphs = [KnowledgeGraph.open(folder, memory=MEMORY_BYTES) for _ in range(THREADS)]
        self._free: SimpleQueue[KnowledgeGraph] = SimpleQueue()
        for graph in self._graphs:
            self._free.put(graph)
        self._pool = ThreadPoolExecutor(THREADS, "graph")
        self._waiting: Counter[str] = Counter()
        """Questions of each client that have no answer yet."""
        first = self._graphs[0]
        types = count_types(first)
        self.overview = lru_cache(maxsize=64)(get_overview)
        relations = self.overview(first, EdgeFilter(), 30).relations
        self._encoder = GraphEncoder(types, relations)
        data = {"documents": first.documents, "counts": types, **self._encoder.labels}
        shell, self.html = render_graph_page(data, connects=True)
        self.headers = {
            "Content-Security-Policy": f"{shell.policy}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
        }

    def close(self) -> None:
        """Stop all queries and close the files."""
        for graph in self._graphs:
            graph.interrupt()
        self._pool.shutdown(cancel_futures=True)
        for graph in self._graphs:
            graph.close()

    async def answer(self, request: GraphRequest, client: str, disconnected: Callable[[], Any]) -> bytes:
        """Answer a question; see `Service.answer`."""
        limits = self.service.limits
        if self._waiting.total() >= limits.queue_requests or self._waiting[client] >= limits.of_client(
            limits.queue_requests
        ):
            raise ApiError(429, "the server is busy; try again in a second", 1)
        question = _Question(self, request)
        self._waiting[client] += 1
        try:
            result = asyncio.wrap_future(self._pool.submit(question.answer))
            found: bytes = await self.service.wait(result, disconnected, "choose a higher score or fewer types")
            return found
        finally:
            question.cancel()
            self._waiting[client] -= 1
            self._waiting += Counter()  # drop clients that wait for nothing

    def find(self, graph: KnowledgeGraph, request: GraphRequest) -> dict[str, Any]:
        """The answer to a question."""
        keep = EdgeFilter(
            request.min_score, frozenset(request.hidden_types or ()), frozenset(request.hidden_relations or ())
        )
        if request.entity is not None:
            edges = graph.neighbours(request.entity, None, keep)
            return {**self._encode(graph, edges[:MAX_EDGES], request.entity), "total": len(edges)}
        if request.search is not None:
            return self._rank(search(graph, request.search, keep, FOUND))
        if request.path is not None:
            return self._encode(graph, graph.path(*request.path, MAX_PATH_EDGES, keep))
        if request.evidence is not None:
            head, relation, tail = request.evidence
            edge = EdgeRecord(
                head=head, relation=relation, tail=tail, symmetric=False, mentions=0, documents=0, score=None
            )
            return {"evidence": list(map(encode_evidence, graph.get_evidence(edge, EVIDENCE)))}
        if request.table is not None:
            kind, other = [*request.table, None][:2]
            return self._encode(graph, compare(graph, str(kind), other, keep, ROWS, COLUMNS))
        counts = self.overview(graph, keep, request.overview or 0)
        return {
            "entities": counts.nodes,
            "relations": counts.edges,
            "counts": counts.relations,
            **self._rank(counts.hubs),
        }

    def _encode(self, graph: KnowledgeGraph, edges: list[EdgeRecord], entity: str | None = None) -> dict[str, Any]:
        """Encode edges, the first of them with sentences, and their nodes."""
        ends = dict.fromkeys(end for edge in edges for end in (edge.head, edge.tail))
        nodes = graph.get_nodes([*ends, *([entity] if entity else ())]).values()
        evidence = graph.get_evidence_of(edges[:SUPPORTED_EDGES], EVIDENCE)
        return self._encoder.encode(
            nodes, [(edge, evidence.get((edge.head, edge.relation, edge.tail))) for edge in edges]
        )

    def _rank(self, ranked: list[RankedNode]) -> dict[str, Any]:
        return {**self._encoder.encode(node for node, _ in ranked), "degrees": [degree for _, degree in ranked]}


class _Question:
    """A question that waits for a thread, or is being answered."""

    def __init__(self, service: GraphService, request: GraphRequest) -> None:
        self._service = service
        self._request = request
        self._lock = threading.Lock()
        self._graph: KnowledgeGraph | None = None
        self._cancelled = False

    def answer(self) -> bytes:
        """Answer it with the next free graph. Called in a thread."""
        with self._lock:
            if self._cancelled:
                return b""
            graph = self._graph = self._service._free.get()
        try:
            found = self._service.find(graph, self._request)
            return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        except UnireError as error:
            raise UnireError(f"the question cannot be answered: {error}") from None
        finally:
            with self._lock:
                self._graph = None
            self._service._free.put(graph)

    def cancel(self) -> None:
        """Stop answering it, because nobody waits for it any more."""
        with self._lock:
            self._cancelled = True
            if self._graph is not None:
                self._graph.interrupt()
