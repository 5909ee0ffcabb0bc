"""Documents, and what is found in them.

Everything is counted twice: in words of the document (`start`, `end`) and in characters of its text (`char_start`,
`char_end`). Ends are exclusive. A document that came as words has the words, joined by spaces, as its text, so that
character spans always index `document.text`.

    >>> document = Document.from_words(
    ...     [["Ada", "lives", "in", "London"]], entities=[(0, 1, "Peop"), (3, 4, "Loc")], relations=[(0, 1, "Live_In")]
    ... )
    >>> str(document.relations[0])
    'Ada [Peop] –Live_In→ London [Loc]'
"""

from __future__ import annotations

import reprlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import index
from pathlib import Path
from typing import Any, overload

from unire.errors import UnireError

__all__ = ["CHARACTERS", "Document", "Entity", "Relation", "Sentence", "count_annotations", "shorten"]

CHARACTERS = "characters"
"""The attribute with the exact `[start, end]` of the parts of an entity, where they are not those of its words."""


def _reduced(self: Any) -> tuple[type, tuple[Any, ...]]:
    """How to make a copy, or unpickle one: by the same call."""
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])


@dataclass(frozen=True, slots=True, init=False)
class Entity:
    """A labelled run of words."""

    start: int
    """First word, counted from the start of the document."""
    end: int
    """One past the last word."""
    label: str
    char_start: int
    char_end: int
    text: str
    score: float | None = None
    """The chance that it is right: the mean probability of its square in the table, calibrated where the model is;
    `None` for gold annotation."""
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What a format says of it beyond its label (a sub-type, say), as plain JSON values; see `CHARACTERS`."""

    def __new__(
        cls,
        start: int,
        end: int,
        label: str,
        char_start: int,
        char_end: int,
        text: str,
        score: float | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Entity:
        new: Any = OpenEntity()
        new.start = start
        new.end = end
        new.label = label
        new.char_start = char_start
        new.char_end = char_end
        new.text = text
        new.score = score
        new.attributes = {} if attributes is None else attributes
        new.__class__ = cls
        return new  # type: ignore[no-any-return]

    __reduce__ = _reduced

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def fragments(self) -> list[tuple[int, int]]:
        """Its exact characters, part by part: those that a format says, or else those of its words."""
        parts = self.attributes.get(CHARACTERS) or [(self.char_start, self.char_end)]
        return [(start, end) for start, end in parts]

    def __str__(self) -> str:
        return f"{self.text} [{self.label}]"


@dataclass(frozen=True, slots=True, init=False)
class Relation:
    """A labelled, ordered pair of entities."""

    head: Entity
    tail: Entity
    label: str
    score: float | None = None
    """The chance that it is right, arguments and all: the mean probability of its rectangle in the table, calibrated
    where the model is; `None` for gold annotation."""
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What a format says of it beyond its label, as plain JSON values."""

    def __new__(
        cls,
        head: Entity,
        tail: Entity,
        label: str,
        score: float | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Relation:
        new: Any = OpenRelation()
        new.head = head
        new.tail = tail
        new.label = label
        new.score = score
        new.attributes = {} if attributes is None else attributes
        new.__class__ = cls
        return new  # type: ignore[no-any-return]

    __reduce__ = _reduced

    def __str__(self) -> str:
        return f"{self.head} –{self.label}→ {self.tail}"


@dataclass(frozen=True, slots=True, init=False)
class Sentence:
    """A run of words of a document and the annotation that lies inside it."""

    start: int
    """First word, counted from the start of the document."""
    words: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """Character span of each word in the document's text."""
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    cuts: tuple[int, ...] | None = None
    """Where a decoder cut the table: a cut at `i` lies between words `i - 1` and `i` of the document."""

    def __new__(
        cls,
        start: int,
        words: tuple[str, ...],
        offsets: tuple[tuple[int, int], ...],
        entities: tuple[Entity, ...] = (),
        relations: tuple[Relation, ...] = (),
        cuts: tuple[int, ...] | None = None,
    ) -> Sentence:
        new: Any = OpenSentence()
        new.start = start
        new.words = words
        new.offsets = offsets
        new.entities = entities
        new.relations = relations
        new.cuts = cuts
        new.__class__ = cls
        return new  # type: ignore[no-any-return]

    __reduce__ = _reduced

    @property
    def end(self) -> int:
        return self.start + len(self.words)

    @property
    def bare(self) -> Sentence:
        """The same words without annotation."""
        return Sentence(self.start, self.words, self.offsets)

    def __len__(self) -> int:
        return len(self.words)


# Most of a document is these three, and the `__init__` of a frozen dataclass is slow: it sets each field by a call of
# `object.__setattr__`. Their `__new__` fills an instance of a class with the same slots that is not frozen, and then
# gives it its own class. Code that makes very many of them calls `__new__` itself, and saves the call of a class.
OpenEntity, OpenRelation, OpenSentence = (
    type(f"Open{kind.__name__}", (), {"__slots__": kind.__slots__}) for kind in (Entity, Relation, Sentence)
)


@dataclass(frozen=True, repr=False)
class Document:
    """A text, its sentences, and the entities and relations in it.

    `print(document)` shows the text and everything that was found in it; `repr` is one line.
    """

    text: str
    sentences: tuple[Sentence, ...] = ()
    id: str = ""
    spanning_entities: tuple[Entity, ...] = ()
    """Entities that cross a sentence boundary: no table can hold them."""
    spanning_relations: tuple[Relation, ...] = ()
    """Relations between entities of different sentences: no table can hold them."""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What a format carries and unire does not read (coreference clusters, say); written back where it fits."""

    @classmethod
    def from_words(
        cls,
        sentences: Iterable[Sequence[str]],
        entities: Iterable[tuple[int, int, str] | tuple[int, int, str, float | None]] = (),
        relations: Iterable[tuple[int, int, str] | tuple[int, int, str, float | None]] = (),
        *,
        text: str | None = None,
        offsets: Sequence[tuple[int, int]] | None = None,
        id: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> Document:
        """Build a document from split words.

        Args:
            sentences: The words of each sentence.
            entities: `(start, end, label)` or `(start, end, label, score)`, in words of the document.
            relations: `(head, tail, label)` or `(head, tail, label, score)`, head and tail as positions in `entities`.
            text: The original text; by default the words joined by spaces.
            offsets: Character span of every word in `text`, required with it.
            id: A name for the document.
            meta: Anything to carry along.
        """
        split = [_words(words, id) for words in ((sentences,) if isinstance(sentences, str) else sentences)]
        joined = text is None
        if text is None:
            text, placed = "\n".join(map(" ".join, split)), _joined(split)
        elif offsets is None or len(offsets) != sum(map(len, split)):
            raise UnireError(f"document {id!r}: `text` needs `offsets` with one character span per word")
        else:
            _check_offsets(offsets, len(text), id)
            ends = list(accumulate(map(len, split)))
            placed = [tuple(offsets[end - len(words) : end]) for words, end in zip(split, ends, strict=True)]
        laid = []
        start = 0
        for words, spans in zip(split, placed, strict=True):
            laid.append(Sentence(start, words, spans))
            start += len(words)
        bare = cls(text, tuple(laid), id, meta=dict(meta or {}))
        bare.__dict__["offsets"] = tuple(chain(*placed))
        if joined:
            bare.__dict__["is_joined"] = True  # known, and so never worked out
        found = [bare.entity(*_item(entity, "entity", "start, end", id)) for entity in entities]
        linked = [_relation(_item(relation, "relation", "head, tail", id), found, id) for relation in relations]
        return bare.annotated(found, linked) if found else bare

    def entity(
        self, start: int, end: int, label: str, score: float | None = None, attributes: Mapping[str, Any] | None = None
    ) -> Entity:
        """Make an entity of the document's words `start` to `end` (exclusive)."""
        offsets = self.offsets
        if not 0 <= start < end <= len(offsets):
            raise self._outside(start, end, label)
        char_start, char_end = offsets[start][0], offsets[end - 1][1]
        text = self.text[char_start:char_end]
        if attributes and CHARACTERS in attributes and not _are_parts(attributes[CHARACTERS], len(self.text)):
            raise UnireError(
                f"document {self.id!r}: `{CHARACTERS}` of entity {label!r} is {reprlib.repr(attributes[CHARACTERS])}, "
                f"but must be a list of [start, end], in order, in a text of {len(self.text)} characters"
            )
        return Entity(start, end, label, char_start, char_end, text, score, attributes or {})

    def annotated(
        self,
        entities: Iterable[Entity],
        relations: Iterable[Relation] = (),
        cuts: Sequence[tuple[int, ...] | None] | None = None,
    ) -> Document:
        """The same text with other annotation, each item laid into the sentence that holds it."""
        ends = [sentence.end for sentence in self.sentences]
        inside: list[list[Entity]] = [[] for _ in ends]
        linked: list[list[Relation]] = [[] for _ in ends]
        spanning_entities: list[Entity] = []
        spanning_relations: list[Relation] = []
        start = end = home = 0
        for entity in entities:
            if not start <= entity.start < end:
                home = self._home(entity, ends)
                start, end = ends[home - 1] if home else 0, ends[home]
            if entity.end <= end:
                inside[home].append(entity)
            else:
                self._home(entity, ends)
                spanning_entities.append(entity)
        for relation in relations:
            head, tail = relation.head, relation.tail
            if not start <= head.start < end:
                home = self._home(head, ends)
                start, end = ends[home - 1] if home else 0, ends[home]
            if head.end <= end and start <= tail.start and tail.end <= end:
                linked[home].append(relation)
            else:
                self._home(head, ends)
                self._home(tail, ends)
                spanning_relations.append(relation)
        sentences = [
            Sentence(sentence.start, sentence.words, sentence.offsets, tuple(e), tuple(r), c)
            for sentence, e, r, c in zip(self.sentences, inside, linked, cuts or [None] * len(inside), strict=True)
        ]
        return self.with_sentences(tuple(sentences), tuple(spanning_entities), tuple(spanning_relations))

    def _home(self, entity: Entity, ends: Sequence[int]) -> int:
        """The sentence that an entity begins in; one on words that the document does not have is refused."""
        if not 0 <= entity.start < entity.end <= self.n_words:
            raise self._outside(entity.start, entity.end, entity.label)
        return bisect_right(ends, entity.start)

    def _outside(self, start: int, end: int, label: str) -> UnireError:
        return UnireError(
            f"document {self.id!r}: entity {label!r} spans words {start} to {end}, "
            f"but the document has words 0 to {self.n_words}"
        )

    def with_sentences(
        self,
        sentences: tuple[Sentence, ...],
        spanning_entities: tuple[Entity, ...] = (),
        spanning_relations: tuple[Relation, ...] = (),
    ) -> Document:
        """The same text in sentences of the same words, with other annotation."""
        document = Document(self.text, sentences, self.id, spanning_entities, spanning_relations, self.meta)
        document.__dict__.update({name: self.__dict__[name] for name in OF_THE_WORDS if name in self.__dict__})
        return document

    def confident(self, min_score: float) -> Document:
        """The same without entities and relations of a lower score, nor relations that lose an argument by it."""
        kept = {entity for entity in self.entities if entity.score is None or entity.score >= min_score}
        return self.annotated(
            (entity for entity in self.entities if entity in kept),
            (
                relation
                for relation in self.relations
                if relation.head in kept and relation.tail in kept
                if relation.score is None or relation.score >= min_score
            ),
            [sentence.cuts for sentence in self.sentences],
        )

    @property
    def bare(self) -> Document:
        """The same text without annotation."""
        has_none = not self.spanning_entities and all(s.entities == () and s.cuts is None for s in self.sentences)
        return self if has_none else self.with_sentences(tuple([s.bare for s in self.sentences]))

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(chain(*[sentence.words for sentence in self.sentences]))

    @cached_property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        return tuple(chain(*[sentence.offsets for sentence in self.sentences]))

    @cached_property
    def is_joined(self) -> bool:
        """Whether the text is no more than the words, joined by spaces and the sentences by line ends."""
        words = [sentence.words for sentence in self.sentences]
        if self.text != "\n".join(map(" ".join, words)):
            return False
        # words that are white space may stand elsewhere in such a text
        return [sentence.offsets for sentence in self.sentences] == _joined(words)

    @property
    def n_words(self) -> int:
        return self.sentences[-1].end if self.sentences else 0

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """All entities, sentence by sentence, those across sentences last."""
        return tuple(chain(*[sentence.entities for sentence in self.sentences], self.spanning_entities))

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """All relations, sentence by sentence, those across sentences last."""
        return tuple(chain(*[sentence.relations for sentence in self.sentences], self.spanning_relations))

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data, ready for JSON: texts, labels, characters, and scores to four digits."""
        return {
            "id": self.id,
            "text": self.text,
            "entities": [{**_plain(entity), "score": _rounded(entity.score)} for entity in self.entities],
            "relations": [
                {
                    "head": _plain(relation.head),
                    "tail": _plain(relation.tail),
                    "label": relation.label,
                    "score": _rounded(relation.score),
                }
                for relation in self.relations
            ],
        }

    def to_networkx(self) -> Any:
        """A `networkx.MultiDiGraph` of the document, equal mentions merged: see `unire.graph.build.Graph`."""
        from unire.graph.build import Graph

        return Graph([self]).to_networkx()

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> None: ...

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Write a page that shows the text with its entities and relations, and needs no network.

        >>> document.to_html("page.html")  # doctest: +SKIP

        Args:
            path: The file to write, which is replaced if it exists. By default the page is returned.

        Returns:
            The page, if no path is given.

        Raises:
            UnireError: The file cannot be written.
        """
        from unire.document_list import Documents

        return Documents([self]).to_html(path)

    def __repr__(self) -> str:
        name = f" {self.id!r}" if self.id else ""
        counts = count_annotations(len(self.entities), len(self.relations))
        return f"<Document{name}: {shorten(self.text, MAX_REPR_CHARACTERS)!r} ({counts})>"

    def __str__(self) -> str:
        lines = [self.text]
        for name, items in (("entities", self.entities), ("relations", self.relations)):
            lines += [f"{name}:", *(f"  {item}{_in_brackets(item.score)}" for item in items)] if items else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows: the text with its entities marked, and the relations below."""
        from unire.rendering.html.text import fragment

        return fragment(self)


MAX_REPR_CHARACTERS = 60
"""Characters of the text in the `repr` of a document."""

OF_THE_WORDS = ("words", "offsets", "is_joined")
"""What a document works out once and hands on to copies of itself with other annotation."""


def _words(words: Sequence[str], name: str) -> tuple[str, ...]:
    """The words of a sentence; a string is a sequence of strings too, but of letters."""
    try:
        if not isinstance(words, str):
            "".join(found := tuple(words))  # the quickest way to look at every one
            return found
    except TypeError:
        pass
    raise UnireError(f"document {name!r}: a sentence is a list of words, but {reprlib.repr(words)} was given")


def _check_offsets(offsets: Sequence[tuple[int, int]], length: int, name: str) -> None:
    """Refuse spans that do not lie in a text of that many characters, or not in order; they may share characters."""
    first = last = 0
    for i, span in enumerate(offsets):
        try:
            start, end = span
            if not (first <= index(start) <= index(end) <= length and last <= end):
                raise ValueError
        except (TypeError, ValueError):
            raise UnireError(
                f"document {name!r}: offset {reprlib.repr(span)} of word {i} is not (start, end) in a text of {length} "
                "characters, behind the words before it"
            ) from None
        first, last = start, end


def _item(item: Any, kind: str, places: str, name: str) -> Any:
    """`(place, place, label)` with or without a score, and attributes behind that, as it was given."""
    if (
        not isinstance(item, Sequence)
        or not 3 <= len(item) <= 5
        or not all(hasattr(place, "__index__") for place in item[:2])
        or not isinstance(item[2], str)
    ):
        raise UnireError(
            f"document {name!r}: {reprlib.repr(item)} is no {kind}; give ({places}, label) or ({places}, label, score)"
        )
    return item


def _are_parts(value: Any, length: int) -> bool:
    """Whether a value is a list of `[start, end]`, in order, in a text of that many characters."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    last = 0
    for part in value:
        if (
            not isinstance(part, (list, tuple))
            or [type(place) for place in part] != [int, int]
            or not last <= part[0] < part[1] <= length
        ):
            return False
        last = part[1]
    return True


def _relation(item: Any, entities: Sequence[Entity], name: str) -> Relation:
    head, tail, label, *score = item
    if not (0 <= head < len(entities) and 0 <= tail < len(entities)):
        raise UnireError(
            f"document {name!r}: relation {label!r} joins entities {head} and {tail}, "
            f"but there are {len(entities)}, counted from 0"
        )
    return Relation(entities[head], entities[tail], label, *score)


def _joined(sentences: Iterable[Sequence[str]]) -> list[tuple[tuple[int, int], ...]]:
    """Where every word of every sentence lands when words are joined by spaces and sentences by line ends."""
    placed = []
    end = -1
    for words in sentences:
        placed.append(tuple([(start := end + 1, end := start + len(word)) for word in words]))
        end += not words
    return placed


def count_annotations(entities: int, relations: int) -> str:
    """Return `2 entities, 1 relation`."""
    return f"{entities:,} {'entity' if entities == 1 else 'entities'}, {relations:,} relation{'s' * (relations != 1)}"


def shorten(text: str, length: int) -> str:
    """Cut a text to `length` characters, the last of which is then an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _in_brackets(score: float | None) -> str:
    return "" if score is None else f" ({score:.2f})"


def _plain(entity: Entity) -> dict[str, Any]:
    return {
        "text": entity.text,
        "label": entity.label,
        "char_start": entity.char_start,
        "char_end": entity.char_end,
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
