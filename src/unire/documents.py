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

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

from unire.exceptions import UnireError

__all__ = ["Document", "Entity", "Relation", "Sentence"]


@dataclass(frozen=True, slots=True)
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
    """What a format says of it beyond its label (a sub-type, say), as plain JSON values. `characters` has the exact
    `[start, end]` of its parts where they are not those of its words."""

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    def __str__(self) -> str:
        return f"{self.text} [{self.label}]"


@dataclass(frozen=True, slots=True)
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

    def __str__(self) -> str:
        return f"{self.head} –{self.label}→ {self.tail}"


@dataclass(frozen=True, slots=True)
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

    @property
    def end(self) -> int:
        return self.start + len(self.words)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Document:
    """A text, its sentences, and the entities and relations in it."""

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
        split = [tuple(words) for words in sentences]
        if text is None:
            text, offsets = _joined(split)
        elif offsets is None or len(offsets) != sum(map(len, split)):
            raise UnireError(f"document {id!r}: `text` needs `offsets` with one character span per word")
        placed = []
        start = 0
        for words in split:
            placed.append(Sentence(start, words, tuple(offsets[start : start + len(words)])))
            start += len(words)
        bare = cls(text=text, sentences=tuple(placed), id=id, meta=dict(meta or {}))
        found = [bare.entity(*entity) for entity in entities]
        linked = [Relation(found[r[0]], found[r[1]], *r[2:]) for r in relations]
        return bare.annotated(found, linked) if found else bare

    def entity(
        self, start: int, end: int, label: str, score: float | None = None, attributes: Mapping[str, Any] | None = None
    ) -> Entity:
        """Make an entity of the document's words `start` to `end` (exclusive)."""
        offsets = self.offsets
        if not 0 <= start < end <= len(offsets):
            raise UnireError(
                f"document {self.id!r}: entity {label!r} spans words {start} to {end}, "
                f"but the document has words 0 to {self.n_words}"
            )
        char_start, char_end = offsets[start][0], offsets[end - 1][1]
        text = self.text[char_start:char_end]
        return Entity(start, end, label, char_start, char_end, text, score, attributes or {})

    def annotated(
        self,
        entities: Iterable[Entity],
        relations: Iterable[Relation] = (),
        cuts: Sequence[tuple[int, ...] | None] | None = None,
    ) -> Document:
        """The same text with other annotation, each item laid into the sentence that holds it."""
        ends = [sentence.end for sentence in self.sentences]
        inside: list[list[Entity]] = [[] for _ in self.sentences]
        linked: list[list[Relation]] = [[] for _ in self.sentences]
        spanning_entities: list[Entity] = []
        spanning_relations: list[Relation] = []
        for entity in entities:
            first, last = bisect_right(ends, entity.start), bisect_left(ends, entity.end)
            (inside[first] if first == last else spanning_entities).append(entity)
        for relation in relations:
            head, tail = relation.head, relation.tail
            first, last = bisect_right(ends, min(head.start, tail.start)), bisect_left(ends, max(head.end, tail.end))
            (linked[first] if first == last else spanning_relations).append(relation)
        sentences = tuple(
            Sentence(sentence.start, sentence.words, sentence.offsets, tuple(e), tuple(r), c)
            for sentence, e, r, c in zip(self.sentences, inside, linked, cuts or [None] * len(inside), strict=True)
        )
        return replace(
            self,
            sentences=sentences,
            spanning_entities=tuple(spanning_entities),
            spanning_relations=tuple(spanning_relations),
        )

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
        return self if has_none else self.annotated(())

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(sentence.words for sentence in self.sentences))

    @cached_property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        return tuple(chain.from_iterable(sentence.offsets for sentence in self.sentences))

    @property
    def is_joined(self) -> bool:
        """Whether the text is no more than the words, joined by spaces and the sentences by line ends."""
        words = [sentence.words for sentence in self.sentences]
        if self.text != "\n".join(map(" ".join, words)):
            return False
        return list(self.offsets) == _joined(words)[1]  # words that are white space may stand elsewhere in such a text

    @property
    def n_words(self) -> int:
        return self.sentences[-1].end if self.sentences else 0

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All entities, sentence by sentence, those across sentences last."""
        return tuple(e for sentence in self.sentences for e in sentence.entities) + self.spanning_entities

    @property
    def relations(self) -> tuple[Relation, ...]:
        """All relations, sentence by sentence, those across sentences last."""
        return tuple(r for sentence in self.sentences for r in sentence.relations) + self.spanning_relations

    def to_networkx(self) -> Any:
        """A `networkx.MultiDiGraph` of the document, equal mentions joined: see `unire.graph.Graph.to_networkx`."""
        from unire.graph import Graph

        return Graph([self]).to_networkx()

    def _repr_html_(self) -> str:
        """What a notebook shows: the text with its entities marked, and the relations below."""
        from unire.rendering.html import fragment

        return fragment(self)


def _joined(sentences: Sequence[Sequence[str]]) -> tuple[str, list[tuple[int, int]]]:
    """Words joined by spaces, sentences by line ends, and where each word landed."""
    offsets: list[tuple[int, int]] = []
    position = 0
    for words in sentences:
        starts = list(accumulate([len(word) + 1 for word in words], initial=position))
        offsets += zip(starts, [start - 1 for start in starts[1:]], strict=False)
        position = starts[-1] if words else position + 1
    return "\n".join(map(" ".join, sentences)), offsets
