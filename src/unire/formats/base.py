"""Formats and their capabilities: the common interface of readers and writers, and what each format can represent.

Every format names the `Capability` values that it supports. `project` removes everything else from a document and
counts it. So writers can write all that they get, and nothing is lost silently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats.alignment import find_words
from unire.limits import DEFAULT_LIMITS, ReadLimits
from unire.tables import keep_longest

__all__ = [
    "ALL_CAPABILITIES",
    "EXTRA_FIELD",
    "LOST_ARGUMENT",
    "SERIOUS_LOSSES",
    "UNREADABLE",
    "Capability",
    "Format",
    "ReadOptions",
    "add_location",
    "explain_not_lines",
    "import_extra",
    "project",
    "raise_error",
]


class Capability(Enum):
    """Something that one format can represent and another cannot. The value is the note that counts its loss."""

    META = "document with meta data"
    CUTS = "sentence with the cuts of a decoder"
    CLUSTERS = "document with coreference clusters"
    WORDS = "document whose words are not separated by spaces"
    SPANNING_ENTITIES = "entity across sentences"
    SPANNING_RELATIONS = "relation across sentences"
    OVERLAPS = "entity that overlaps a longer one"
    TWINS = "relation of a second entity on the same words"
    CHARACTERLESS = "entity without characters of its own"
    SCORES = "score of an entity or relation"
    ATTRIBUTES = "entity or relation with attributes"
    TEXT = "text that is not the words joined by spaces"
    EMPTY = "sentence without words"
    NOTHING = "document without sentences"
    SENTENCES = "document of several sentences, written as one document for each"


ALL_CAPABILITIES = frozenset(Capability)

LOST_ARGUMENT = "relation whose entity is left out"
UNREADABLE = "that cannot be read, left out"
"""The end of the notes that count entities, relations and the like."""
EXTRA_FIELD = "further field of an entity or relation, left out"
LOST_CHARACTERS = "exact characters of an entity"
RESERVED_META = "meta data under a name that the format uses itself"
SERIOUS_LOSSES = frozenset(
    {
        Capability.SPANNING_ENTITIES.value,
        Capability.SPANNING_RELATIONS.value,
        Capability.OVERLAPS.value,
        Capability.TWINS.value,
        Capability.CHARACTERLESS.value,
        Capability.NOTHING.value,
        LOST_ARGUMENT,
    }
)
"""Losses of entities, relations and documents. The other losses concern only their properties."""


def raise_error(error: UnireError) -> None:
    raise error


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading documents."""

    predicted: bool = False
    """Read the predictions of a file that holds both predictions and gold annotation."""
    spaces: bool = False
    """Split text without words at its spaces and line ends. By default `segment` splits it by rules."""
    line_breaks: bool | None = None
    """Whether every line end of a text without words ends a sentence; see `segment`."""
    events: Literal["trigger", "pairs"] = "trigger"
    """How `brat` events become relations: from the trigger to each argument, or between pairs of arguments."""
    notes: Counter[str] = field(default_factory=Counter)
    """Counts what the reader changed or left out."""
    on_error: OnError = raise_error
    on_annotation_error: OnError | None = None
    """Called for every entity or relation that cannot be read and is left out. Without it, its document is an error."""
    limits: ReadLimits = DEFAULT_LIMITS
    skipped: list[UnireError] = field(default_factory=list)
    """The errors of `skip` in the document that is being read."""

    def skip(self, error: UnireError, what: str) -> None:
        """Leave out an entity or a relation, or raise the error if the document may not lose any."""
        if self.on_annotation_error is None:
            raise error
        self.notes[f"{what} {UNREADABLE}"] += 1
        self.skipped.append(error)

    def report_skipped(self, location: str) -> None:
        """Report what was left out of a document, with the document's location in front."""
        if self.on_annotation_error is not None:
            for error in self.skipped:
                self.on_annotation_error(UnireError(f"{location}: {error}"))
        self.skipped.clear()


@dataclass(frozen=True)
class Format:
    """A reader and a writer of one format."""

    read: Callable[[Path, ReadOptions], Iterator[Document]]
    write: Callable[[Iterable[Document], Path, OnError], None] | None = None
    """Receives documents that hold only what the format supports. `None` for a format that can only be read."""
    capabilities: frozenset[Capability] = ALL_CAPABILITIES
    reserved_keys: tuple[str, ...] = ()
    """Keys of the format at the level of the document's meta data, which cannot use the same names."""
    folder: bool = False
    folder_of_files: bool = False
    """Whether a folder of such files can be read as one."""
    suffix: str = ".jsonl"
    """The usual suffix of a file in this format."""
    folder_suffixes: tuple[str, ...] = ()
    """Suffixes of the files that are read from a folder in this format."""


@contextmanager
def add_location(location: str, on_error: OnError) -> Iterator[None]:
    """Pass errors of the body to `on_error`, with the location in front."""
    try:
        yield
    except UnireError as error:
        on_error(UnireError(f"{location}: {error}"))


MAX_FIRST_LINE = 1000
"""Bytes of the first line of JSON that was laid out for people, at most."""


def explain_not_lines(first_line: bytes, path: Path) -> str:
    """Say that a file is not JSON lines, and how to make it so, if its first line shows that it is JSON otherwise."""
    start = first_line.strip()
    name, lines = path.name, path.with_suffix(".jsonl").name
    lines = lines if lines != name else f"lines-{name}"
    if re.match(rb"\[\s*([\[{]|$)", start):
        return f"this is a JSON list, and not one document per line; write it as lines: `jq -c '.[]' {name} > {lines}`"
    if start.startswith(b"{") and len(start) < MAX_FIRST_LINE and start.endswith((b",", b"[", b"{", b":")):
        return (
            "this is JSON in which a document takes several lines, and not one document per line; write it as lines: "
            f"`jq -c . {name} > {lines}`"
        )
    return ""


def import_extra(module: str, extra: str) -> Any:
    """Import a module that comes with an extra of the package, or raise an error that names the extra."""
    try:
        return import_module(module)
    except ImportError:
        raise UnireError(f'this format needs {module}; install it with `pip install "unire[{extra}]"`') from None


def project(
    document: Document, capabilities: frozenset[Capability], lost: Counter[str], reserved_keys: Collection[str] = ()
) -> list[Document]:
    """Reduce a document to what a format supports, as one document or several. Count what is removed.

    Args:
        document: The document to write.
        capabilities: What the format supports.
        lost: Counts what is removed.
        reserved_keys: Keys of the format that meta data cannot use.
    """
    for remove in _removals(capabilities):
        document = remove(document, lost)
    if reserved := document.meta.keys() & set(reserved_keys):
        lost[RESERVED_META] += len(reserved)
        meta = {name: value for name, value in document.meta.items() if name not in reserved}
        document = replace(document, meta=meta)
    if not document.sentences and Capability.NOTHING not in capabilities:
        lost[Capability.NOTHING.value] += 1
        return []
    if Capability.SENTENCES in capabilities or len(document.sentences) == 1:
        return [document]
    return _split_sentences(document, lost)


def _remove_meta(document: Document, lost: Counter[str]) -> Document:
    if document.meta:
        lost[Capability.META.value] += 1
        document = replace(document, meta={})
    return document


def _remove_cuts(document: Document, lost: Counter[str]) -> Document:
    if cut := sum(sentence.cuts is not None for sentence in document.sentences):
        lost[Capability.CUTS.value] += cut
        document = document.annotated(document.entities, document.relations, clusters=document.clusters)
    return document


def _remove_clusters(document: Document, lost: Counter[str]) -> Document:
    if document.clusters:
        lost[Capability.CLUSTERS.value] += 1
        document = replace(document, clusters=())
    return document


def _count_words(document: Document, lost: Counter[str]) -> Document:
    """Nothing to remove: the reader will split the text again."""
    lines = document.text.split("\n")
    if [line.split() for line in lines] != [list(s.words) for s in document.sentences]:
        lost[Capability.WORDS.value] += 1
    return document


def _remove_spanning_entities(document: Document, lost: Counter[str]) -> Document:
    if not document.spanning_entities:
        return document
    inside = [entity for sentence in document.sentences for entity in sentence.entities]
    return _with_entities(document, inside, Capability.SPANNING_ENTITIES, lost)


def _remove_spanning_relations(document: Document, lost: Counter[str]) -> Document:
    if not document.spanning_relations:
        return document
    inside = [relation for sentence in document.sentences for relation in sentence.relations]
    return _with_relations(document, inside, Capability.SPANNING_RELATIONS, lost)


def _remove_overlaps(document: Document, lost: Counter[str]) -> Document:
    """Keep the longest of overlapping entities, and the first of equally long ones, as label tables do."""
    return _with_entities(document, keep_longest(document.entities), Capability.OVERLAPS, lost)


def _remove_twins(document: Document, lost: Counter[str]) -> Document:
    first = {(entity.start, entity.end): entity for entity in reversed(document.entities)}
    first_ids = set(map(id, first.values()))
    if all(id(r.head) in first_ids and id(r.tail) in first_ids for r in document.relations):  # the common case, faster
        return document
    relations = [
        replace(r, head=first[r.head.span], tail=first[r.tail.span])
        for r in document.relations
        if first.get(r.head.span) == r.head and first.get(r.tail.span) == r.tail
    ]
    if dropped := len(document.relations) - len(relations):
        lost[Capability.TWINS.value] += dropped
    return _annotate(document, document.entities, relations)


def _remove_characterless(document: Document, lost: Counter[str]) -> Document:
    """Remove entities on empty words, and those that share their characters with other words."""
    kept = [e for e in document.entities if find_words(document.offsets, e.char_start, e.char_end) == e.span]
    return _with_entities(document, kept, Capability.CHARACTERLESS, lost)


def _remove_scores(document: Document, lost: Counter[str]) -> Document:
    if scored := sum([1 for item in _items(document) if item.score is not None]):
        lost[Capability.SCORES.value] += scored
        document = _map_items(document, lambda e: replace(e, score=None), lambda r: replace(r, score=None))
    return document


def _remove_attributes(document: Document, lost: Counter[str]) -> Document:
    if described := sum([1 for item in _items(document) if item.attributes]):
        lost[Capability.ATTRIBUTES.value] += described
        document = _map_items(document, lambda e: replace(e, attributes={}), lambda r: replace(r, attributes={}))
    return document


def _remove_text(document: Document, lost: Counter[str]) -> Document:
    if document.is_joined:
        return document
    lost[Capability.TEXT.value] += 1
    _count_characters(document, lost)
    return _with_words(document, [sentence.words for sentence in document.sentences])


def _count_characters(document: Document, lost: Counter[str]) -> None:
    """Count exact characters of entities: they refer to the original text."""
    if exact := sum(CHARACTERS in entity.attributes for entity in document.entities):
        lost[LOST_CHARACTERS] += exact


def _remove_empty(document: Document, lost: Counter[str]) -> Document:
    words = [sentence.words for sentence in document.sentences if sentence.words]
    if len(words) == len(document.sentences):
        return document
    lost[Capability.EMPTY.value] += len(document.sentences) - len(words)
    return _with_words(document, words)


REMOVALS: dict[Capability, Callable[[Document, Counter[str]], Document]] = {
    Capability.META: _remove_meta,
    Capability.CUTS: _remove_cuts,
    Capability.CLUSTERS: _remove_clusters,
    Capability.WORDS: _count_words,
    Capability.SPANNING_ENTITIES: _remove_spanning_entities,
    Capability.SPANNING_RELATIONS: _remove_spanning_relations,
    Capability.OVERLAPS: _remove_overlaps,
    Capability.TWINS: _remove_twins,
    Capability.CHARACTERLESS: _remove_characterless,
    Capability.SCORES: _remove_scores,
    Capability.ATTRIBUTES: _remove_attributes,
    Capability.TEXT: _remove_text,
    Capability.EMPTY: _remove_empty,
}
"""In the order of application: the text is replaced last, when nothing depends on its characters any more."""


@cache
def _removals(capabilities: frozenset[Capability]) -> list[Callable[[Document, Counter[str]], Document]]:
    return [remove for capability, remove in REMOVALS.items() if capability not in capabilities]


def _split_sentences(document: Document, lost: Counter[str]) -> list[Document]:
    """One document per sentence, with the ids `ID#0`, `ID#1` and so on, and without the meta data of the document."""
    lost[Capability.SENTENCES.value] += 1
    _count_characters(document, lost)
    document = _remove_meta(document, lost)
    documents = []
    for i, sentence in enumerate(document.sentences):
        bare = Document.from_words([sentence.words], id=f"{document.id}#{i}")
        documents.append(_transfer(bare, sentence.entities, sentence.relations, sentence.start))
    return documents


def _with_words(document: Document, words: Sequence[Sequence[str]]) -> Document:
    """The same annotation on words joined by spaces."""
    bare = Document.from_words(words, id=document.id, meta=document.meta)
    return replace(_transfer(bare, document.entities, document.relations), clusters=document.clusters)


def _transfer(bare: Document, entities: Iterable[Entity], relations: Iterable[Relation], shift: int = 0) -> Document:
    """Annotate another document, moving every entity `shift` words to the left."""

    def move(entity: Entity) -> Entity:
        attributes = {name: value for name, value in entity.attributes.items() if name != CHARACTERS}
        return bare.entity(entity.start - shift, entity.end - shift, entity.label, entity.score, attributes)

    return bare.annotated(*_map_entities(entities, relations, move))


def _map_entities(
    entities: Iterable[Entity], relations: Iterable[Relation], change: Callable[[Entity], Entity]
) -> tuple[list[Entity], list[Relation]]:
    """Change all entities, also those in relations.

    Equal entities may differ in attributes, so a relation keeps the very entities that it had.
    """
    before = list(entities)
    after = list(map(change, before))
    changed = {id(old): new for old, new in zip(before, after, strict=True)}

    def replacement(entity: Entity) -> Entity:
        return changed.get(id(entity)) or change(entity)

    return after, [replace(r, head=replacement(r.head), tail=replacement(r.tail)) for r in relations]


def _items(document: Document) -> list[Entity | Relation]:
    return [*document.entities, *document.relations]


def _map_items(
    document: Document, change: Callable[[Entity], Entity], change_relation: Callable[[Relation], Relation]
) -> Document:
    return _annotate(document, *_map_entities(document.entities, map(change_relation, document.relations), change))


def _with_entities(document: Document, kept: list[Entity], capability: Capability, lost: Counter[str]) -> Document:
    """The document with only these of its entities, and the relations between them."""
    if not (dropped := len(document.entities) - len(kept)):
        return document
    lost[capability.value] += dropped
    kept_ids = set(map(id, kept))
    first_equal = {entity: entity for entity in reversed(kept)}

    def replacement(entity: Entity) -> Entity:
        return entity if id(entity) in kept_ids else first_equal[entity]

    relations = [
        replace(r, head=replacement(r.head), tail=replacement(r.tail))
        for r in document.relations
        if r.head in first_equal and r.tail in first_equal
    ]
    if orphaned := len(document.relations) - len(relations):
        lost[LOST_ARGUMENT] += orphaned
    return _annotate(document, kept, relations)


def _with_relations(document: Document, kept: list[Relation], capability: Capability, lost: Counter[str]) -> Document:
    if not (dropped := len(document.relations) - len(kept)):
        return document
    lost[capability.value] += dropped
    return _annotate(document, document.entities, kept)


def _annotate(document: Document, entities: Iterable[Entity], relations: Iterable[Relation]) -> Document:
    cuts = [sentence.cuts for sentence in document.sentences]
    return document.annotated(entities, relations, cuts, document.clusters)
