"""The graph of many documents: equal mentions are one node, equal relations between equal nodes one edge.

Two mentions are equal if they have the same label and their texts have the same `key`. A symmetric relation is kept in
the directions in which it was found. Memory grows with the number of different nodes and edges alone: of forms and of
sources the first `KEPT` are kept by name, while `count` and `documents` count on.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import UnireError

__all__ = ["KEPT", "Edge", "Graph", "Node", "key"]

KEPT = 100
"""Surface forms of a node, and sources of a node or an edge, that are kept by name."""

NodeKey = tuple[str, str]
"""A node's label and the key of its texts."""
EdgeKey = tuple[NodeKey, str, NodeKey]
"""Head, relation type, tail."""


def key(text: str) -> str:
    """What equal texts have in common: Unicode's NFKC form, case folded, every run of white space as one space.

    >>> key("Part-of-Speech\\n  TAGGING")
    'part-of-speech tagging'
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


@dataclass(kw_only=True)
class Found:
    """How often something was found, how sure the model was, and where."""

    count: int = 0
    """Mentions."""
    documents: int = 0
    """Documents with at least one."""
    sources: list[str] = field(default_factory=list)
    """Ids of the first `KEPT` of these documents; `#3` for a third one without an id."""
    _last: int = 0
    _scores: float = 0.0
    _scored: int = 0

    @property
    def score(self) -> float | None:
        """The mean score of the mentions that have one."""
        return self._scores / self._scored if self._scored else None

    def add(self, score: float | None, position: int, source: str) -> None:
        """Count a mention in the document at `position`; documents come one after the other."""
        self.count += 1
        if score is not None:
            self._scores += score
            self._scored += 1
        if position != self._last:
            self._last = position
            self.documents += 1
            if len(self.sources) < KEPT:
                self.sources.append(source)


@dataclass(kw_only=True)
class Node(Found):
    """Equal mentions."""

    label: str
    key: str
    forms: Counter[str] = field(default_factory=Counter)
    """The texts of the mentions as they stand, each with its count; the first `KEPT` different ones."""

    @property
    def name(self) -> str:
        """The most frequent form; of equally frequent ones the first."""
        return self.forms.most_common(1)[0][0]


@dataclass(kw_only=True)
class Edge(Found):
    """Equal relations."""

    label: str


class Graph:
    """A merged knowledge graph.

    >>> graph = Graph(documents)  # doctest: +SKIP
    >>> graph.nodes["Method", "chart parser"].count  # doctest: +SKIP
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.nodes: dict[NodeKey, Node] = {}
        self.edges: dict[EdgeKey, Edge] = {}
        self.documents = 0
        for document in documents:
            self.add(document)

    def add(self, document: Document) -> None:
        """Merge in what was found in one more document."""
        self.documents += 1
        source = document.id or f"#{self.documents}"
        for entity in document.entities:
            self._add_entity(entity, source)
        for relation in document.relations:
            self._add_relation(relation, source)

    def to_networkx(self) -> Any:
        """A `networkx.MultiDiGraph`: nodes are `(label, key)`, edges are keyed by the relation's type.

        Nodes have the attributes `name`, `label`, `count`, `documents`, `score`, `forms` and `sources`, edges all but
        `name` and `forms`.
        """
        try:
            import networkx
        except ModuleNotFoundError:
            raise UnireError('a networkx graph needs networkx: pip install "unire[graph]"') from None
        graph = networkx.MultiDiGraph()
        for place, node in self.nodes.items():
            graph.add_node(place, name=node.name, **_attributes(node), forms=dict(node.forms))
        for (head, label, tail), edge in self.edges.items():
            graph.add_edge(head, tail, key=label, **_attributes(edge))
        return graph

    def _add_entity(self, entity: Entity, source: str) -> None:
        place = _place(entity)
        node = self.nodes.get(place)
        if node is None:
            node = self.nodes[place] = Node(label=place[0], key=place[1])
        node.add(entity.score, self.documents, source)
        if entity.text in node.forms or len(node.forms) < KEPT:
            node.forms[entity.text] += 1

    def _add_relation(self, relation: Relation, source: str) -> None:
        place = (_place(relation.head), relation.label, _place(relation.tail))
        edge = self.edges.get(place)
        if edge is None:
            edge = self.edges[place] = Edge(label=relation.label)
        edge.add(relation.score, self.documents, source)


def _place(entity: Entity) -> NodeKey:
    return entity.label, key(entity.text)


def _attributes(found: Node | Edge) -> dict[str, Any]:
    return {
        "label": found.label,
        "count": found.count,
        "documents": found.documents,
        "score": found.score,
        "sources": list(found.sources),
    }
