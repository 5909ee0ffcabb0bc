"""The graph of documents in memory: what `unire extract --out graph.graphml` writes.

Memory grows with mentions and evidence. For more documents than memory holds, `unire.graph.build_graph` builds the same
graph on disk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from unire.documents import Document
from unire.errors import UnireError
from unire.graph.facts import DocumentFacts, GraphRules, RelationFact, collect_facts, separate_node
from unire.graph.names import AWKWARD_NAME, CAPITALS
from unire.graph.records import EdgeRecord, EvidenceRecord, GraphSource, MergeRecord, NodeRecord, format_id
from unire.labels import LabelSpace

__all__ = ["MAX_NAMES", "REPEATED", "SELF_LOOP", "Graph", "combine_scores", "score_weight", "to_networkx"]

MAX_NAMES = 100
"""The number of names of a node that are listed, the most frequent ones."""
SELF_LOOP = "relation of a node with itself, left out of the graph"
REPEATED = "document that is in the graph already, counted once"
MIN_DEFINITIONS = 10
"""An acronym has its long form in documents that do not define it if as many documents define it, 95% of them alike."""
WEIGHT_UNIT = 10**9
"""Weights are whole numbers, so that their sum does not depend on their order."""
MAX_WEIGHT = round(-math.log(1e-12) * WEIGHT_UNIT)
"""The weight of a score of 1."""


def score_weight(score: float) -> int:
    """−ln(1 − p) in billionths: the weights of independent scores add up."""
    return MAX_WEIGHT if score >= 1 else min(MAX_WEIGHT, round(-math.log1p(-score) * WEIGHT_UNIT))


def combine_scores(weight: int) -> float:
    """1 − Π(1 − p), from the sum of the weights.

    >>> combine_scores(score_weight(0.5) + score_weight(0.5))
    0.75
    """
    return round(-math.expm1(-weight / WEIGHT_UNIT), 6)


_Evidence = tuple[str, int, RelationFact]
"""The id and the key of a document, and what it states."""


@dataclass
class _Node:
    mentions: int = 0
    documents: set[int] = field(default_factory=set)
    types: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)

    def add(self, other: _Node) -> None:
        self.mentions += other.mentions
        self.documents |= other.documents
        self.types += other.types
        self.names += other.names

    @property
    def name(self) -> str:
        return min(self.names.items(), key=_name_order)[0]


def _name_order(item: tuple[str, int]) -> tuple[int, bool, int, str]:
    """The most frequent name first; of equally frequent ones, the longest one without brackets or determiner."""
    name, mentions = item
    return -mentions, AWKWARD_NAME.search(name) is not None, -len(name), name


class Graph:
    """A knowledge graph of documents.

    >>> graph = Graph(documents)  # doctest: +SKIP
    >>> [node.name for node in graph.iter_nodes()]  # doctest: +SKIP
    ['chart parser', 'Penn Treebank']

    A document that is added twice counts once. The order of documents does not matter.

    Args:
        documents: The documents, which may be a stream.
        labels: The label space of the annotation, or its name. It says which relations are symmetric and which entity
            types are generic. [default: that of the default model]
        keep_generic: Keep generic mentions without a name, with nodes of their own in each document.
        undo: Merges to undo: each of these names, or only in a document, gets a node of its own.
    """

    def __init__(
        self,
        documents: Iterable[Document] = (),
        labels: LabelSpace | str | None = None,
        *,
        keep_generic: bool = False,
        undo: Iterable[MergeRecord] = (),
    ) -> None:
        self.rules = GraphRules.of(labels, keep_generic=keep_generic)
        self.notes: Counter[str] = Counter()
        """Counts of what was left out."""
        self._undone = {(merge.name, merge.document): separate_node(merge.name, merge.document) for merge in undo}
        self._documents: set[int] = set()
        self._nodes: dict[int, _Node] = {}
        self._evidence: dict[tuple[int, str, int], list[_Evidence]] = {}
        self._merges: set[tuple[int, str, str, str]] = set()
        self._definitions: Counter[tuple[int, int]] = Counter()
        for document in documents:
            self.add(document)

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self._documents)

    @property
    def symmetric(self) -> frozenset[str]:
        """The relation types without a direction."""
        return self.rules.symmetric

    def add(self, document: Document) -> None:
        """Add the mentions and relations of one more document."""
        facts = collect_facts(document, self.rules)
        if facts.key in self._documents:
            self.notes[REPEATED] += 1
            return
        self._documents.add(facts.key)
        self.notes.update(facts.left_out)
        self._definitions.update(facts.definitions)
        for mention in facts.mentions:
            node_id = self._undo(mention.node, mention.name, facts.document, named=mention.named)
            if node_id is None:
                continue
            node = self._nodes.setdefault(node_id, _Node())
            node.mentions += mention.mentions
            node.documents.add(facts.key)
            node.types[mention.type] += mention.mentions
            if mention.named:
                node.names[mention.name] += mention.mentions
            if node_id == mention.node:
                place = "" if mention.reason == "folded" else facts.document
                self._merges.add((node_id, mention.name, mention.reason, place))
        for relation in facts.relations:
            self._add_relation(relation, facts)

    def _undo(self, node: int, name: str, document: str, *, named: bool) -> int | None:
        """The node of a mention; `None` if it is generic and lost its name."""
        if not self._undone:
            return node
        separate = self._undone.get((name, document)) or self._undone.get((name, None))
        return node if separate is None else separate if named else None

    def _add_relation(self, fact: RelationFact, facts: DocumentFacts) -> None:
        names = fact.sentence[fact.head_start : fact.head_end], fact.sentence[fact.tail_start : fact.tail_end]
        head = self._undo(fact.head, names[0], facts.document, named=fact.head_named)
        tail = self._undo(fact.tail, names[1], facts.document, named=fact.tail_named)
        if head is None or tail is None:
            return
        if head == tail:
            self.notes[SELF_LOOP] += 1
            return
        if fact.relation in self.symmetric and tail < head:
            head, tail, fact = tail, head, _swap(fact)
        self._evidence.setdefault((head, fact.relation, tail), []).append((facts.document, facts.key, fact))

    def _find_aliases(self) -> dict[int, int]:
        """The nodes of acronyms that documents agree on, with those of their long forms."""
        meanings: dict[int, list[tuple[int, int]]] = {}
        for (short, long), count in self._definitions.items():
            meanings.setdefault(short, []).append((-count, long))
        aliases = {}
        for short, counted in meanings.items():
            count, long = min(counted)
            agreed = -count >= MIN_DEFINITIONS and 20 * count <= 19 * sum(count for count, _ in counted)
            if agreed and short in self._nodes and long not in meanings:
                names = self._nodes[short].names
                capitals = sum(count for name, count in names.items() if CAPITALS.search(name))
                if names and 20 * capitals >= 19 * names.total():
                    aliases[short] = long
        return aliases

    def _merge_nodes(self) -> dict[int, _Node]:
        aliases = self._find_aliases()
        nodes: dict[int, _Node] = {}
        for node_id, node in self._nodes.items():
            nodes.setdefault(aliases.get(node_id, node_id), _Node()).add(node)
        return nodes

    def _merge_evidence(self) -> list[tuple[tuple[int, str, int], list[_Evidence]]]:
        """The edges with their evidence, in order."""
        aliases = self._find_aliases()
        merged: dict[tuple[int, str, int], list[_Evidence]] = {}
        for (head, relation, tail), rows in self._evidence.items():
            ends = aliases.get(head, head), aliases.get(tail, tail)
            if ends[0] == ends[1]:
                continue
            if swap := relation in self.symmetric and ends[1] < ends[0]:
                ends = ends[1], ends[0]
            swapped = [(document, key, _swap(fact)) for document, key, fact in rows] if swap else rows
            merged.setdefault((ends[0], relation, ends[1]), []).extend(swapped)
        return sorted(merged.items(), key=lambda item: item[0])

    def iter_nodes(self) -> Iterator[NodeRecord]:
        """Yield the nodes in the order of their ids."""
        for node_id, node in sorted(self._merge_nodes().items()):
            names = sorted(node.names.items(), key=_name_order)
            yield NodeRecord(
                id=format_id(node_id),
                name=node.name,
                types=dict(sorted(node.types.items())),
                mentions=node.mentions,
                documents=len(node.documents),
                names=dict(names[:MAX_NAMES]),
            )

    def iter_edges(self) -> Iterator[EdgeRecord]:
        """Yield the edges in the order of head, relation and tail."""
        for (head, relation, tail), rows in self._merge_evidence():
            scores = [fact.score for _, _, fact in rows if fact.score is not None]
            yield EdgeRecord(
                head=format_id(head),
                relation=relation,
                tail=format_id(tail),
                symmetric=relation in self.symmetric,
                mentions=len(rows),
                documents=len({key for _, key, _ in rows}),
                score=combine_scores(sum(map(score_weight, scores))) if scores else None,
            )

    def iter_evidence(self) -> Iterator[EvidenceRecord]:
        """Yield the evidence in the order of the edges; of one edge, in the order of documents and offsets."""
        for (head, relation, tail), rows in self._merge_evidence():
            for document, _, fact in sorted(rows, key=_evidence_order):
                yield EvidenceRecord(
                    head=format_id(head),
                    relation=relation,
                    tail=format_id(tail),
                    document=document,
                    sentence=fact.sentence,
                    sentence_start=fact.sentence_start,
                    head_start=fact.head_start,
                    head_end=fact.head_end,
                    tail_start=fact.tail_start,
                    tail_end=fact.tail_end,
                    score=fact.score,
                )

    def iter_merges(self) -> Iterator[MergeRecord]:
        """Yield why names belong to nodes, in the order of nodes, names, reasons and documents.

        The name that a node is shown by needs no reason.
        """
        aliases, nodes = self._find_aliases(), self._merge_nodes()
        merges = set()
        for node_id, name, reason, document in self._merges:
            aliased = node_id in aliases and reason == "folded"
            merges.add((aliases.get(node_id, node_id), name, "acronym" if aliased else reason, document))
        for node_id, name, reason, document in sorted(merges):
            if not (reason == "folded" and name == nodes[node_id].name):
                yield MergeRecord(name=name, node=format_id(node_id), reason=reason, document=document or None)

    def to_networkx(self) -> Any:
        """Convert to a `networkx.MultiDiGraph`; see `to_networkx`."""
        return to_networkx(self)


def _swap(fact: RelationFact) -> RelationFact:
    """The same fact with head and tail exchanged."""
    return fact._replace(
        head_start=fact.tail_start, head_end=fact.tail_end, tail_start=fact.head_start, tail_end=fact.head_end
    )


def _evidence_order(row: _Evidence) -> tuple[Any, ...]:
    document, key, fact = row
    return document, key, fact.sentence_start, fact.head_start, fact.head_end, fact.tail_start, fact.tail_end


def to_networkx(graph: GraphSource) -> Any:
    """Convert a graph to a `networkx.MultiDiGraph`. Nodes have ids as keys, and edges relation types.

    Nodes and edges have the attributes of `NodeRecord` and `EdgeRecord`. Edges also have `evidence`, a list of
    `EvidenceRecord`.

    >>> to_networkx(graph)  # doctest: +SKIP

    Raises:
        UnireError: networkx is not installed.
    """
    try:
        import networkx
    except ModuleNotFoundError:
        raise UnireError('a networkx graph needs networkx: pip install "unire[graph]"') from None
    result = networkx.MultiDiGraph()
    for node in graph.iter_nodes():
        result.add_node(
            node.id,
            name=node.name,
            type=node.type,
            types=dict(node.types),
            mentions=node.mentions,
            documents=node.documents,
            names=dict(node.names),
        )
    for edge in graph.iter_edges():
        result.add_edge(
            edge.head,
            edge.tail,
            key=edge.relation,
            relation=edge.relation,
            symmetric=edge.symmetric,
            mentions=edge.mentions,
            documents=edge.documents,
            score=edge.score,
            evidence=[],
        )
    for row in graph.iter_evidence():
        result.edges[row.head, row.tail, row.relation]["evidence"].append(row)
    return result
