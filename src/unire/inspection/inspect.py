"""All checks, over all files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from unire import tables
from unire.documents import CHARACTERS, Document, Entity, Relation, Sentence
from unire.inspection.finding import Finding, Kind
from unire.inspection.leaks import find_leaks
from unire.inspection.types import types_of
from unire.labels import LabelSpace

__all__ = ["inspect"]

RARE = 10
"""Examples below which a type is called rare."""


def inspect(
    files: Mapping[str, Sequence[Document]],
    labels: LabelSpace,
    *,
    near: float = 0.8,
    count_pieces: Callable[[Sequence[str]], int] | None = None,
    max_pieces: int = 512,
) -> Iterator[Finding]:
    """What is odd about some files of data, which are parts of one set.

    Args:
        files: The documents of each file, by its name.
        labels: The types that there should be.
        near: From which share of common words on two sentences are almost the same.
        count_pieces: How many pieces an encoder makes of a sentence's words; without it no sentence is too long.
        max_pieces: How many it can read.
    """
    for file, documents in files.items():
        for document in documents:
            yield from _of_document(document, file, labels)
            if count_pieces:
                for i, sentence in enumerate(document.sentences):
                    if (pieces := count_pieces(sentence.words)) > max_pieces:
                        detail = f"{pieces} pieces of {len(sentence)} words, where {max_pieces} can be read"
                        yield Finding(Kind.TOO_LONG, file, _place(document, i), detail)
        for name, count in Counter(document.id for document in documents).items():
            if count > 1:
                yield Finding(Kind.SHARED_ID, file, f"document {name!r}", f"{count} ×")
    yield from _of_types(files)
    yield from _unseen_types(files)
    yield from _both_ways(files, labels)
    yield from find_leaks(files, near)


def _place(document: Document, sentence: int) -> str:
    return f"document {document.id!r}, sentence {sentence + 1}"


def _of_document(document: Document, file: str, labels: LabelSpace) -> Iterator[Finding]:
    here = f"document {document.id!r}"
    for entity in document.entities:
        if entity.label not in labels.entity_types:
            yield Finding(Kind.UNKNOWN_TYPE, file, here, str(entity))
        if parts := entity.attributes.get(CHARACTERS):
            spelt = " … ".join(document.text[start:end] for start, end in parts)
            kind = Kind.IN_PARTS if len(parts) > 1 else Kind.SPLIT_WORD
            yield Finding(kind, file, here, f"{spelt!r} in {entity}")
    for relation in document.relations:
        if relation.label not in labels.relation_types:
            yield Finding(Kind.UNKNOWN_TYPE, file, here, str(relation))
    for item, reason in tables.spanning(document):
        yield Finding(Kind.of_unheld(reason), file, here, str(item))
    for i, sentence in enumerate(document.sentences):
        for kind, item in _of_sentence(sentence, labels):
            yield Finding(kind, file, _place(document, i), str(item))


def _of_sentence(sentence: Sentence, labels: LabelSpace) -> Iterator[tuple[Kind, Entity | Relation]]:
    entities = [entity for entity in sentence.entities if entity.label in labels.entity_types]
    relations = [
        r
        for r in sentence.relations
        if r.label in labels.relation_types and {r.head.label, r.tail.label} <= set(labels.entity_types)
    ]
    spans = {(*entity.span, entity.label) for entity in entities}
    held = tables.fill(entities, relations, labels, sentence.start, sentence.end)
    for item, reason in held.unheld:
        kind = Kind.of_unheld(reason)
        if kind is Kind.OVERLAP and isinstance(item, Entity):
            others = {label for start, end, label in spans if (start, end) == item.span and label != item.label}
            kind = Kind.TWO_TYPES if others else kind
        yield kind, item
    for entity, count in Counter(replace(e, score=None) for e in sentence.entities).items():
        if count > 1:
            yield Kind.REPEATED_ENTITY, entity
    for relation, count in Counter(replace(r, score=None) for r in sentence.relations).items():
        if count > 1:
            yield Kind.REPEATED_RELATION, relation


def _of_types(files: Mapping[str, Sequence[Document]]) -> Iterator[Finding]:
    """What is odd about the types themselves, over all files."""
    for kind, counted in types_of(document for documents in files.values() for document in documents).items():
        for label, count in sorted(counted.items()):
            if count < RARE:
                yield Finding(Kind.RARE, "all files", "", f"{kind} type {label!r}, {count} ×")
        spellings: dict[str, list[str]] = {}
        for label in sorted(counted):
            spellings.setdefault("".join(c for c in label.casefold() if c.isalnum()), []).append(label)
        for names in spellings.values():
            if len(names) > 1:
                told = ", ".join(f"{name!r} ({counted[name]:,} ×)" for name in names)
                yield Finding(Kind.ALIKE, "all files", "", f"{kind} types {told}")


def _unseen_types(files: Mapping[str, Sequence[Document]]) -> Iterator[Finding]:
    """Types that files have, and the first of them, which is to train on, has not."""
    (_, trained), *others = files.items() or [("", ())]
    known = types_of(trained)
    for file, documents in others:
        for kind, counted in types_of(documents).items():
            for label in sorted(counted.keys() - known[kind].keys()):
                yield Finding(Kind.UNSEEN_TYPE, file, "", f"{kind} type {label!r}, {counted[label]:,} ×")


def _both_ways(files: Mapping[str, Sequence[Document]], labels: LabelSpace) -> Iterator[Finding]:
    """Types that look symmetric: some pairs carry them in both directions."""
    pairs: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for documents in files.values():
        for document in documents:
            found = {(r.head.span, r.tail.span, r.label) for r in document.relations if r.head.span != r.tail.span}
            for head, tail, label in found:
                mirrored = (tail, head, label) in found
                if not mirrored or head < tail:
                    pairs[label] += 1
                    both[label] += mirrored
    for label in sorted(+both):
        if label not in labels.symmetric:
            detail = f"{label!r}, {both[label]:,} of {pairs[label]:,} pairs"
            yield Finding(Kind.BOTH_WAYS, "all files", "", detail)
