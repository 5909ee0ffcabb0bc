"""What a document says about nodes and edges: its mentions with the nodes that they name, and its relations.

A mention names the node of its canonical name (see `unire.graph.names`), whatever its type. Acronyms hold in the
document that defines them. A generic mention, such as "our method" or "it", names a node only through its coreference
cluster: the node that the cluster names most often.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from unire.documents import Document, Entity
from unire.graph.names import (
    OTHERS,
    expand_acronyms,
    find_acronyms,
    fold_name,
    is_plural,
    names_nothing,
    normalize_text,
    strip_general_noun,
)
from unire.labels import LabelSpace

__all__ = [
    "GENERIC_MENTION", "GENERIC_RELATION", "DocumentFacts", "GraphRules", "MentionFact", "RelationFact",
    "collect_facts", "find_evidence", "node_id", "separate_node",
]  # fmt: skip

FOLDED, ACRONYM, COREFERENCE = "folded", "acronym", "coreference"
"""Why a mention has the node that it has; see `MergeRecord.reason`."""
GENERIC_MENTION = "generic mention without a name, left out of the graph"
GENERIC_RELATION = "relation of a generic mention without a name, left out of the graph"
DEFAULT_LABELS = "scierc"
"""The label space of results that come without one: that of the default model."""
Span = tuple[int, int]


@dataclass(frozen=True)
class GraphRules:
    """How documents become a graph."""

    symmetric: frozenset[str]
    """Relation types without a direction."""
    generic: frozenset[str]
    """Entity types of mentions that name nothing."""
    keep_generic: bool = False
    """Give a generic mention without a name a node of its own in its document, instead of leaving it out."""

    @classmethod
    def of(cls, labels: LabelSpace | str | None = None, *, keep_generic: bool = False) -> GraphRules:
        """The rules of a label space, or of one that is named. [default: that of the default model]"""
        space = labels if isinstance(labels, LabelSpace) else LabelSpace.load(labels or DEFAULT_LABELS)
        return cls(space.symmetric, space.generic, keep_generic)


class MentionFact(NamedTuple):
    """Mentions of a node in a document that have the same text and type."""

    node: int
    name: str
    type: str
    reason: str
    named: bool
    """Whether the text is a name. That of a generic mention is not."""
    mentions: int


class RelationFact(NamedTuple):
    """A relation that a document states. Offsets are as in `EvidenceRecord`."""

    head: int
    relation: str
    tail: int
    sentence: str
    sentence_start: int
    head_start: int
    head_end: int
    tail_start: int
    tail_end: int
    head_named: bool
    tail_named: bool
    score: float | None


class DocumentFacts(NamedTuple):
    """All facts of a document."""

    key: int
    """Identifies the document by its id, text and annotation."""
    document: str
    """Its id, or a name made of the key."""
    mentions: list[MentionFact]
    relations: list[RelationFact]
    definitions: list[tuple[int, int]]
    """The acronyms that the document defines, with their long forms, as nodes."""
    left_out: Counter[str]


class _Name(NamedTuple):
    """What a mention names."""

    key: str
    type: str
    reason: str
    named: bool


def node_id(key: str) -> int:
    """The id of the node with a key: 64 bits, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def separate_node(name: str, document: str | None) -> int:
    """The id of the node that a name gets if its merge is undone, everywhere or in one document."""
    return node_id(f"={normalize_text(name)}\0{document or ''}")


_fold = lru_cache(maxsize=2**16)(fold_name)
_node_id = lru_cache(maxsize=2**16)(node_id)


def collect_facts(document: Document, rules: GraphRules) -> DocumentFacts:
    """Collect what a document says about nodes and edges."""
    key = _document_key(document)
    acronyms = find_acronyms(document.text)
    names = _resolve(document, acronyms, rules, f"{key:016x}")
    counts: Counter[tuple[int, str, str, str, bool]] = Counter()
    left_out: Counter[str] = Counter()
    for entity in document.entities:
        name = names.get((entity.start, entity.end, entity.label))
        if name is None:
            left_out[GENERIC_MENTION] += 1
        else:
            counts[_node_id(name.key), entity.text, name.type, name.reason, name.named] += 1
    relations: dict[tuple[str, Span, Span], RelationFact] = {}
    for relation in document.relations:
        head, tail = relation.head, relation.tail
        if relation.label in rules.symmetric and tail.span < head.span:  # both directions are one mention
            head, tail = tail, head
        head_name, tail_name = (names.get((end.start, end.end, end.label)) for end in (head, tail))
        if head_name is None or tail_name is None:
            left_out[GENERIC_RELATION] += 1
            continue
        place = relation.label, head.span, tail.span
        score = None if relation.score is None else round(relation.score, 4)
        if place not in relations or (score or 0) > (relations[place].score or 0):
            sentence, start = find_evidence(document, min(head.start, tail.start), max(head.end, tail.end) - 1)
            relations[place] = RelationFact(
                head=_node_id(head_name.key),
                relation=relation.label,
                tail=_node_id(tail_name.key),
                sentence=sentence,
                sentence_start=start,
                head_start=head.char_start - start,
                head_end=head.char_end - start,
                tail_start=tail.char_start - start,
                tail_end=tail.char_end - start,
                head_named=head_name.named,
                tail_named=tail_name.named,
                score=score,
            )
    return DocumentFacts(
        key,
        document.id or f"#{key:016x}",
        [MentionFact(*fact, count) for fact, count in sorted(counts.items())],
        list(relations.values()),
        sorted({(_node_id(_fold(short)), _node_id(_fold(long))) for short, long in acronyms.items()}),
        left_out,
    )


def find_evidence(document: Document, first: int, last: int) -> tuple[str, int]:
    """The text of the sentences that contain the words `first` to `last`, and the offset where it starts."""
    # the last sentence that starts at the word or before; sentences without words precede it
    begin, end = (bisect_right(document.sentences, word, key=attrgetter("start")) - 1 for word in (first, last))
    start, stop = document.sentences[begin].offsets[0][0], document.sentences[end].offsets[-1][1]
    return document.text[start:stop], start


def _document_key(document: Document) -> int:
    """A hash of all that the facts depend on. Scores have the four digits that `jsonl` has."""
    entities = sorted((e.char_start, e.char_end, e.label, _digits(e.score)) for e in document.entities)
    relations = sorted(
        (
            r.head.char_start,
            r.head.char_end,
            r.head.label,
            r.tail.char_start,
            r.tail.char_end,
            r.label,
            _digits(r.score),
        )
        for r in document.relations
    )
    return node_id(f"{document.id}\0{document.text}\0{entities}{relations}{document.clusters}")


def _digits(score: float | None) -> float:
    return -1.0 if score is None else round(score, 4)


def _resolve(
    document: Document, acronyms: Mapping[str, str], rules: GraphRules, key: str
) -> dict[tuple[int, int, str], _Name | None]:
    """What each mention names; `None` for a generic mention without a name."""
    names: dict[tuple[int, int, str], _Name | None] = {}
    by_span: dict[Span, list[Entity]] = {}
    unnamed: dict[tuple[int, int, str], str] = {}
    for entity in document.entities:
        place = _place(entity)
        by_span.setdefault(entity.span, []).append(entity)
        before = document.words[entity.start - 1] if entity.start else ""
        if entity.label in rules.generic or names_nothing(entity.text, before):
            unnamed[place] = before
            generic = _Name(f"{_fold(entity.text)}\0{key}", entity.label, FOLDED, True)
            names[place] = generic if rules.keep_generic else None
            continue
        own = _fold(entity.text)
        expanded = _fold(expand_acronyms(entity.text, acronyms)) if acronyms else own
        names[place] = _Name(expanded, entity.label, FOLDED if expanded == own else ACRONYM, True)
    for cluster in document.clusters:
        _join([e for start, end in cluster for e in by_span.get((start, end), ())], names, unnamed, rules)
    return names


def _join(
    entities: list[Entity],
    names: dict[tuple[int, int, str], _Name | None],
    unnamed: Mapping[tuple[int, int, str], str],
    rules: GraphRules,
) -> None:
    """Let the mentions of a cluster name the same node: the generic ones what it names most often in the same number.

    In a label space with generic types, mentions are concepts. Names that say different things stay different nodes,
    such as "face recognition" and "frontal face recognition", because other documents tell them apart. Elsewhere
    mentions are proper names, so that "King" and "Ada King" are one node.
    """
    named = [entity for entity in entities if _place(entity) not in unnamed]
    groups: dict[tuple[str, ...], list[Entity]] = {}
    for entity in named:
        kind = (_fold(strip_general_noun(entity.text)), entity.label) if rules.generic else ()
        groups.setdefault(kind, []).append(entity)
    for group in groups.values():
        key = _fullest(group, names).key
        for entity in group:
            own = names[_place(entity)]
            if own is not None and own.key != key:
                names[_place(entity)] = own._replace(key=key, reason=COREFERENCE)
    for entity in entities:
        place = _place(entity)
        before = unnamed.get(place)
        if before is None or before.casefold() in OTHERS:
            continue
        plural = is_plural(entity.text)
        known = [name for e in named or entities[:1] if is_plural(e.text) == plural and (name := names[_place(e)])]
        if known:
            counts = Counter(name.key for name in known)
            best = max(known, key=lambda name: counts[name.key])  # the first of equals
            own = names[place]
            if own is None or own.key != best.key:
                names[place] = _Name(best.key, best.type, COREFERENCE, not named)


def _fullest(named: Sequence[Entity], names: dict[tuple[int, int, str], _Name | None]) -> _Name:
    """What the most frequent name means, the first of equals; or a longer name that contains its words."""
    keys = [name.key for entity in named if (name := names[_place(entity)])]
    counts = Counter(keys)
    best = max(range(len(named)), key=lambda i: (counts[keys[i]], -named[i].start))
    words = f" {normalize_text(named[best].text)} "
    longer = [entity for entity in named if words in f" {normalize_text(entity.text)} "]
    name = names[_place(max(longer, key=lambda entity: (len(normalize_text(entity.text)), -entity.start)))]
    assert name is not None  # noqa: S101 - named mentions have names
    return name


def _place(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
