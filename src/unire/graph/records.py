"""What a knowledge graph consists of: nodes, edges, and the sentences that support them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["EdgeRecord", "EvidenceRecord", "GraphSource", "MergeRecord", "NodeRecord", "format_id"]


def format_id(node: int) -> str:
    """The id of a node as text, which sorts as the number does."""
    return f"{node:016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One thing that texts speak of, under one or several names."""

    id: str
    """Identifies the node in its graph, and stays the same however the graph is built."""
    name: str
    """The name to show: the most frequent one; of equally frequent ones, the longest one without brackets or
    determiner."""
    types: Mapping[str, int]
    """How many mentions have each entity type."""
    mentions: int
    documents: int
    """The number of documents with a mention."""
    names: Mapping[str, int] = field(default_factory=dict)
    """How many mentions have each text, `name` included: the most frequent texts, without generic ones such as "it"."""

    @property
    def type(self) -> str:
        """The most frequent entity type. Of equally frequent ones, the first in the alphabet."""
        return min(self.types, key=lambda label: (-self.types[label], label))


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRecord:
    """A relation between two nodes, with all its mentions. A symmetric relation is one edge."""

    head: str
    """The id of a node. For a symmetric relation, the smaller id."""
    relation: str
    tail: str
    symmetric: bool
    mentions: int
    documents: int
    score: float | None
    """1 − Π(1 − p) over the scores p of its mentions: the probability that at least one is right, if they were
    independent. `None` if no mention has a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecord:
    """A sentence that states a relation, with the places of both mentions."""

    head: str
    relation: str
    tail: str
    document: str
    """The id of the document."""
    sentence: str
    """The text of the sentence."""
    sentence_start: int
    """The character offset of the sentence in the document's text."""
    head_start: int
    """Character offsets of the two mentions in `sentence`; the end is exclusive."""
    head_end: int
    tail_start: int
    tail_end: int
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRecord:
    """Why a name belongs to a node: what makes a merge visible, and reversible."""

    name: str
    node: str = ""
    """The id of the node."""
    reason: str = ""
    """`folded` (case, hyphens, determiners, plural), `acronym` or `coreference`."""
    document: str | None = None
    """The id of the document where it holds; `None` if it holds everywhere."""


class GraphSource(Protocol):
    """A graph that can be read from start to end: in memory or in a folder."""

    @property
    def documents(self) -> int:
        """The number of documents."""

    @property
    def symmetric(self) -> frozenset[str]:
        """The relation types without a direction."""

    def iter_nodes(self) -> Iterator[NodeRecord]:
        """Yield the nodes in the order of their ids."""

    def iter_edges(self) -> Iterator[EdgeRecord]:
        """Yield the edges in the order of head, relation and tail."""

    def iter_evidence(self) -> Iterator[EvidenceRecord]:
        """Yield the evidence in the order of the edges; of one edge, in the order of documents and offsets."""

    def iter_merges(self) -> Iterator[MergeRecord]:
        """Yield the merges in the order of nodes, names, reasons and documents."""
