"""Graph of many documents: equal mentions are one node, and equal relations between equal nodes are one edge.

Two mentions are equal if they have the same label and the same normalized text. A symmetric relation keeps the
directions in which it was predicted. Memory grows only with the number of different nodes and edges. Only the first
`MAX_NAMES` surface forms and sources are kept by name; `count` and `documents` count all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.graph.names import normalize_text

__all__ = ["MAX_NAMES", "Edge", "Graph", "Node"]

MAX_NAMES = 100
"""The number of surface forms of a node, and of sources of a node or an edge, that are kept by name."""

NodeKey = tuple[str, str]
"""A node's label and normalized text."""
EdgeKey = tuple[NodeKey, str, NodeKey]
"""Head, relation type, tail."""


@dataclass(kw_only=True)
class Occurrences:
    """Count, mean score and sources of a node or an edge."""

    count: int = 0
    """The number of mentions."""
    documents: int = 0
    """The number of documents with a mention."""
    sources: list[str] = field(default_factory=list)
    """Ids of the first `MAX_NAMES` of these documents. The third document without an id is `#3`."""
    _last: int = 0
    _scores: float = 0.0
    _scored: int = 0

    @property
    def score(self) -> float | None:
        """The mean score of the mentions that have one."""
        return self._scores / self._scored if self._scored else None

    def add(self, score: float | None, position: int, source: str) -> None:
        """Count a mention in the document at `position`. Documents are added one after the other."""
        self.count += 1
        if score is not None:
            self._scores += score
            self._scored += 1
        if position != self._last:
            self._last = position
            self.documents += 1
            if len(self.sources) < MAX_NAMES:
                self.sources.append(source)


@dataclass(kw_only=True)
class Node(Occurrences):
    """Mentions with the same label and normalized text."""

    label: str
    """The entity type."""
    key: str
    """The normalized text."""
    forms: Counter[str] = field(default_factory=Counter)
    """Counts of the first `MAX_NAMES` different texts of the mentions."""

    @property
    def name(self) -> str:
        """The most frequent form, or the first of equally frequent ones."""
        return self.forms.most_common(1)[0][0]


@dataclass(kw_only=True)
class Edge(Occurrences):
    """Relations of the same type between the same nodes."""

    label: str
    """The relation type."""


class Graph:
    """A knowledge graph of many documents, in which equal mentions are one node.

    >>> graph = Graph(documents)  # doctest: +SKIP
    >>> graph.nodes["Method", "chart parser"].count  # doctest: +SKIP
    2

    Args:
        documents: The documents, which may be a stream.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.nodes: dict[NodeKey, Node] = {}
        """The nodes, by label and normalized text."""
        self.edges: dict[EdgeKey, Edge] = {}
        """The edges, by head, relation type and tail."""
        self.documents = 0
        """The number of documents."""
        for document in documents:
            self.add(document)

    def add(self, document: Document) -> None:
        """Add the entities and relations of one more document."""
        self.documents += 1
        source = document.id or f"#{self.documents}"
        for entity in document.entities:
            self._add_entity(entity, source)
        for relation in document.relations:
            self._add_relation(relation, source)

    def to_networkx(self) -> Any:
        """Convert to a `networkx.MultiDiGraph`. Nodes are `(label, key)`, and edges have the relation type as key.

        Nodes have the attributes `name`, `label`, `count`, `documents`, `score`, `forms` and `sources`. Edges have all
        of these but `name` and `forms`.

        >>> graph.to_networkx()  # doctest: +SKIP

        Raises:
            UnireError: networkx is not installed.
        """
        try:
            import networkx
        except ModuleNotFoundError:
            raise UnireError('a networkx graph needs networkx: pip install "unire[graph]"') from None
        graph = networkx.MultiDiGraph()
        for key, node in self.nodes.items():
            graph.add_node(key, name=node.name, **_attributes(node), forms=dict(node.forms))
        for (head, label, tail), edge in self.edges.items():
            graph.add_edge(head, tail, key=label, **_attributes(edge))
        return graph

    def _add_entity(self, entity: Entity, source: str) -> None:
        key = _node_key(entity)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(label=key[0], key=key[1])
        node.add(entity.score, self.documents, source)
        if entity.text in node.forms or len(node.forms) < MAX_NAMES:
            node.forms[entity.text] += 1

    def _add_relation(self, relation: Relation, source: str) -> None:
        key = (_node_key(relation.head), relation.label, _node_key(relation.tail))
        edge = self.edges.get(key)
        if edge is None:
            edge = self.edges[key] = Edge(label=relation.label)
        edge.add(relation.score, self.documents, source)


def _node_key(entity: Entity) -> NodeKey:
    return entity.label, normalize_text(entity.text)


def _attributes(item: Node | Edge) -> dict[str, Any]:
    return {
        "label": item.label,
        "count": item.count,
        "documents": item.documents,
        "score": item.score,
        "sources": list(item.sources),
    }
