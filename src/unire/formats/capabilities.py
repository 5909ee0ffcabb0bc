"""What a document may hold, and what is left of it in a format that holds less.

Every format says which `Content` it has a place for. `fit` takes the rest out of a document and counts it, so that
writers can write all that they are given and nothing is lost in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.formats.alignment import locate
from unire.tables import keep_longest

__all__ = ["ARGUMENT", "EVERYTHING", "SERIOUS", "Capability", "project"]


class Capability(Enum):
    """Something that one format holds and another does not. The value says what is lost, as a note would."""

    META = "document with meta data"
    CUTS = "sentence with the cuts of a decoder"
    WORDS = "document whose words are not those between spaces"
    SPANNING_ENTITIES = "entity across sentences"
    SPANNING_RELATIONS = "relation across sentences"
    OVERLAPS = "entity that overlaps a longer one"
    TWINS = "relation of an entity that is not the first on its words"
    CHARACTERLESS = "entity that cannot be told by its characters"
    SCORES = "score of an entity or relation"
    ATTRIBUTES = "entity or relation with attributes"
    TEXT = "text that is not the words joined by spaces"
    EMPTY = "sentence without words"
    NOTHING = "document without sentences"
    SENTENCES = "document of several sentences, written as one document for each"


EVERYTHING = frozenset(Capability)

ARGUMENT = "relation whose entity is left out"
EXACT = "exact characters of an entity"
CLASHING = "meta data under a name that the format uses itself"
SERIOUS = frozenset(
    {
        Capability.SPANNING_ENTITIES.value,
        Capability.SPANNING_RELATIONS.value,
        Capability.OVERLAPS.value,
        Capability.TWINS.value,
        Capability.CHARACTERLESS.value,
        Capability.NOTHING.value,
        ARGUMENT,
    }
)
"""Losses of entities, relations and documents themselves, rather than of something about them."""


def project(
    document: Document, holds: frozenset[Capability], lost: Counter[str], own: Collection[str] = ()
) -> list[Document]:
    """The document with only what a format holds, as one document or several; what it does not hold is counted.

    Args:
        document: What is to be written.
        holds: What the format has a place for.
        lost: Counts the rest.
        own: Names of the format, which meta data cannot have.
    """
    for leave_out in _steps(holds):
        document = leave_out(document, lost)
    if clashing := document.meta.keys() & set(own):
        lost[CLASHING] += len(clashing)
        document = replace(document, meta={name: value for name, value in document.meta.items() if name not in own})
    if not document.sentences and Capability.NOTHING not in holds:
        lost[Capability.NOTHING.value] += 1
        return []
    if Capability.SENTENCES in holds or len(document.sentences) == 1:
        return [document]
    return _one_by_one(document, lost)


def _leave_out_meta(document: Document, lost: Counter[str]) -> Document:
    if document.meta:
        lost[Capability.META.value] += 1
        document = replace(document, meta={})
    return document


def _leave_out_cuts(document: Document, lost: Counter[str]) -> Document:
    if cut := sum(sentence.cuts is not None for sentence in document.sentences):
        lost[Capability.CUTS.value] += cut
        document = document.annotated(document.entities, document.relations)
    return document


def _leave_out_words(document: Document, lost: Counter[str]) -> Document:
    """Only counted: the text that remains is split anew when it is read."""
    lines = document.text.split("\n")
    if [line.split() for line in lines] != [list(s.words) for s in document.sentences]:
        lost[Capability.WORDS.value] += 1
    return document


def _leave_out_spanning_entities(document: Document, lost: Counter[str]) -> Document:
    if not document.spanning_entities:
        return document
    inside = [entity for sentence in document.sentences for entity in sentence.entities]
    return _with_entities(document, inside, Capability.SPANNING_ENTITIES, lost)


def _leave_out_spanning_relations(document: Document, lost: Counter[str]) -> Document:
    if not document.spanning_relations:
        return document
    inside = [relation for sentence in document.sentences for relation in sentence.relations]
    return _with_relations(document, inside, Capability.SPANNING_RELATIONS, lost)


def _leave_out_overlaps(document: Document, lost: Counter[str]) -> Document:
    """Of overlapping entities the longest stays, of equally long ones the first, as in a table."""
    return _with_entities(document, keep_longest(document.entities), Capability.OVERLAPS, lost)


def _leave_out_twins(document: Document, lost: Counter[str]) -> Document:
    first = {(entity.start, entity.end): entity for entity in reversed(document.entities)}
    itself = set(map(id, first.values()))
    if all(id(r.head) in itself and id(r.tail) in itself for r in document.relations):  # the quick way to see it
        return document
    kept = [
        replace(r, head=first[r.head.span], tail=first[r.tail.span])
        for r in document.relations
        if first.get(r.head.span) == r.head and first.get(r.tail.span) == r.tail
    ]
    if dropped := len(document.relations) - len(kept):
        lost[Capability.TWINS.value] += dropped
    return _annotated(document, document.entities, kept)


def _leave_out_characterless(document: Document, lost: Counter[str]) -> Document:
    """Entities on empty words, and those whose characters other words share."""
    told = [e for e in document.entities if locate(document.offsets, e.char_start, e.char_end) == e.span]
    return _with_entities(document, told, Capability.CHARACTERLESS, lost)


def _leave_out_scores(document: Document, lost: Counter[str]) -> Document:
    if scored := sum([1 for item in _items(document) if item.score is not None]):
        lost[Capability.SCORES.value] += scored
        document = _changed(document, lambda e: replace(e, score=None), lambda r: replace(r, score=None))
    return document


def _leave_out_attributes(document: Document, lost: Counter[str]) -> Document:
    if described := sum([1 for item in _items(document) if item.attributes]):
        lost[Capability.ATTRIBUTES.value] += described
        document = _changed(
            document, lambda entity: replace(entity, attributes={}), lambda r: replace(r, attributes={})
        )
    return document


def _leave_out_text(document: Document, lost: Counter[str]) -> Document:
    if document.is_joined:
        return document
    lost[Capability.TEXT.value] += 1
    _count_exact(document, lost)
    return _of_words(document, [sentence.words for sentence in document.sentences])


def _count_exact(document: Document, lost: Counter[str]) -> None:
    """Exact characters, which are those of the text as it was."""
    if exact := sum(CHARACTERS in entity.attributes for entity in document.entities):
        lost[EXACT] += exact


def _leave_out_empty(document: Document, lost: Counter[str]) -> Document:
    words = [sentence.words for sentence in document.sentences if sentence.words]
    if len(words) == len(document.sentences):
        return document
    lost[Capability.EMPTY.value] += len(document.sentences) - len(words)
    return _of_words(document, words)


STEPS: dict[Capability, Callable[[Document, Counter[str]], Document]] = {
    Capability.META: _leave_out_meta,
    Capability.CUTS: _leave_out_cuts,
    Capability.WORDS: _leave_out_words,
    Capability.SPANNING_ENTITIES: _leave_out_spanning_entities,
    Capability.SPANNING_RELATIONS: _leave_out_spanning_relations,
    Capability.OVERLAPS: _leave_out_overlaps,
    Capability.TWINS: _leave_out_twins,
    Capability.CHARACTERLESS: _leave_out_characterless,
    Capability.SCORES: _leave_out_scores,
    Capability.ATTRIBUTES: _leave_out_attributes,
    Capability.TEXT: _leave_out_text,
    Capability.EMPTY: _leave_out_empty,
}
"""In the order in which they are taken: the text is joined anew once nothing more depends on its characters."""


@cache
def _steps(holds: frozenset[Capability]) -> list[Callable[[Document, Counter[str]], Document]]:
    return [leave_out for content, leave_out in STEPS.items() if content not in holds]


def _one_by_one(document: Document, lost: Counter[str]) -> list[Document]:
    """A document for every sentence, called `ID#0`, `ID#1` and so on, without the meta data of the whole."""
    lost[Capability.SENTENCES.value] += 1
    _count_exact(document, lost)
    document = _leave_out_meta(document, lost)
    parts = []
    for i, sentence in enumerate(document.sentences):
        bare = Document.from_words([sentence.words], id=f"{document.id}#{i}")
        parts.append(_moved(bare, sentence.entities, sentence.relations, sentence.start))
    return parts


def _of_words(document: Document, words: Sequence[Sequence[str]]) -> Document:
    """The same annotation on words joined by spaces."""
    bare = Document.from_words(words, id=document.id, meta=document.meta)
    return _moved(bare, document.entities, document.relations)


def _moved(bare: Document, entities: Iterable[Entity], relations: Iterable[Relation], by: int = 0) -> Document:
    """Annotation on the words of another document, `by` words further to the left."""

    def move(entity: Entity) -> Entity:
        attributes = {name: value for name, value in entity.attributes.items() if name != CHARACTERS}
        return bare.entity(entity.start - by, entity.end - by, entity.label, entity.score, attributes)

    return bare.annotated(*_each(entities, relations, move))


def _each(
    entities: Iterable[Entity], relations: Iterable[Relation], change: Callable[[Entity], Entity]
) -> tuple[list[Entity], list[Relation]]:
    """All entities changed; of equal ones, which may differ in attributes, relations have those that they had."""
    before = list(entities)
    after = list(map(change, before))
    became = {id(old): new for old, new in zip(before, after, strict=True)}

    def end(entity: Entity) -> Entity:
        return became.get(id(entity)) or change(entity)

    return after, [replace(r, head=end(r.head), tail=end(r.tail)) for r in relations]


def _items(document: Document) -> list[Entity | Relation]:
    return [*document.entities, *document.relations]


def _changed(
    document: Document, change: Callable[[Entity], Entity], change_relation: Callable[[Relation], Relation]
) -> Document:
    return _annotated(document, *_each(document.entities, map(change_relation, document.relations), change))


def _with_entities(document: Document, kept: list[Entity], content: Capability, lost: Counter[str]) -> Document:
    """The document with some of its entities and the relations that then still have theirs."""
    if not (dropped := len(document.entities) - len(kept)):
        return document
    lost[content.value] += dropped
    itself = set(map(id, kept))
    present = {entity: entity for entity in reversed(kept)}  # what is equal to one that is kept becomes that one

    def end(entity: Entity) -> Entity:
        return entity if id(entity) in itself else present[entity]

    relations = [
        replace(r, head=end(r.head), tail=end(r.tail))
        for r in document.relations
        if r.head in present and r.tail in present
    ]
    if orphaned := len(document.relations) - len(relations):
        lost[ARGUMENT] += orphaned
    return _annotated(document, kept, relations)


def _with_relations(document: Document, kept: list[Relation], content: Capability, lost: Counter[str]) -> Document:
    if not (dropped := len(document.relations) - len(kept)):
        return document
    lost[content.value] += dropped
    return _annotated(document, document.entities, kept)


def _annotated(document: Document, entities: Iterable[Entity], relations: Iterable[Relation]) -> Document:
    return document.annotated(entities, relations, [sentence.cuts for sentence in document.sentences])
