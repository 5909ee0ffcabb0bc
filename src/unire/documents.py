"""Documents: a text, its sentences, and the entities, relations and coreference clusters in it.

Spans are given in words of the document (`start`, `end`) and in characters of its text (`char_start`, `char_end`). Ends
are exclusive.
"""

from __future__ import annotations

import reprlib
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, overload

from unire.annotations import CHARACTERS, Entity, Relation, Sentence
from unire.errors import UnireError, are_fragments, check_annotation, check_clusters, check_offsets, check_split_words

__all__ = [
    "CHARACTERS",
    "Document",
    "Entity",
    "Relation",
    "Sentence",
    "count_annotations",
    "count_relations",
    "restrict_clusters",
    "shorten",
]


@dataclass(frozen=True, repr=False)
class Document:
    """A text, its sentences, and the entities and relations in it. `print` shows all of them, `repr` is one line.

    `Extractor.extract` and `formats.read` return documents. `Document.from_words` builds one from split words.
    """

    text: str
    """The text. Characters of entities count from its start."""
    sentences: tuple[Sentence, ...] = ()
    """The sentences, with their words and annotation."""
    id: str = ""
    """The name of the document."""
    spanning_entities: tuple[Entity, ...] = ()
    """Entities that cross a sentence boundary, which no table can represent."""
    spanning_relations: tuple[Relation, ...] = ()
    """Relations between different sentences, which no table can represent."""
    clusters: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Coreference: the `(start, end)` of all mentions of the same thing, in words of the document, sorted. Most are
    entities. A mention without a cluster corefers with no other."""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further data of a format, which is written back if the format has it."""

    @classmethod
    def from_words(
        cls,
        sentences: Iterable[Sequence[str]],
        entities: Iterable[tuple[int, int, str] | tuple[int, int, str, float | None]] = (),
        relations: Iterable[tuple[int, int, str] | tuple[int, int, str, float | None]] = (),
        *,
        clusters: Iterable[Iterable[tuple[int, int]]] = (),
        text: str | None = None,
        offsets: Sequence[tuple[int, int]] | None = None,
        id: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> Document:
        """Build a document from split words.

        >>> words = [["Ada", "lives", "in", "London"]]
        >>> print(*Document.from_words(words, [(0, 1, "Peop"), (3, 4, "Loc")], [(0, 1, "Live_In")]).relations)
        Ada [Peop] –Live_In→ London [Loc]

        Args:
            sentences: The words of each sentence.
            entities: `(start, end, label)` or `(start, end, label, score)`, in words of the document.
            relations: `(head, tail, label)` or `(head, tail, label, score)`, head and tail as positions in `entities`.
            clusters: The mentions of each thing that is mentioned several times, as `(start, end)`.
            text: The original text. [default: the words joined by spaces, the sentences by line ends]
            offsets: The character span of every word in `text`; required with it.
            id: A name for the document.
            meta: Further data to keep with the document.

        Returns:
            The document.

        Raises:
            UnireError: An annotation is outside the words or has another form, or the offsets do not fit the text.
        """
        split = [check_split_words(words, id) for words in ((sentences,) if isinstance(sentences, str) else sentences)]
        joined = text is None
        if text is None:
            text, placed = "\n".join(map(" ".join, split)), _join_offsets(split)
        elif offsets is None or len(offsets) != sum(map(len, split)):
            raise UnireError(f"document {id!r}: `text` needs `offsets` with one character span per word")
        else:
            check_offsets(offsets, len(text), id)
            ends = list(accumulate(map(len, split)))
            placed = [tuple(offsets[end - len(words) : end]) for words, end in zip(split, ends, strict=True)]
        built_sentences = []
        start = 0
        for words, spans in zip(split, placed, strict=True):
            built_sentences.append(Sentence(start, words, spans))
            start += len(words)
        n_words = sum(map(len, split))
        bare = cls(
            text, tuple(built_sentences), id, clusters=check_clusters(clusters, n_words, id), meta=dict(meta or {})
        )
        bare.__dict__["offsets"] = tuple(chain(*placed))
        if joined:
            bare.__dict__["is_joined"] = True
        built = [bare.entity(*check_annotation(entity, "entity", "start, end", id)) for entity in entities]
        items = [check_annotation(relation, "relation", "head, tail", id) for relation in relations]
        linked = [_build_relation(item, built, id) for item in items]
        return bare.annotated(built, linked, clusters=bare.clusters) if built else bare

    def entity(
        self, start: int, end: int, label: str, score: float | None = None, attributes: Mapping[str, Any] | None = None
    ) -> Entity:
        """Return an entity of the document's words `start` to `end` (exclusive), without adding it.

        Raises:
            UnireError: The document does not have these words.
        """
        offsets = self.offsets
        if not 0 <= start < end <= len(offsets):
            raise self._outside_error(start, end, label)
        char_start, char_end = offsets[start][0], offsets[end - 1][1]
        text = self.text[char_start:char_end]
        if attributes and CHARACTERS in attributes and not are_fragments(attributes[CHARACTERS], len(self.text)):
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
        clusters: Iterable[Iterable[tuple[int, int]]] | None = None,
    ) -> Document:
        """Return a copy of the document with other annotation.

        >>> document = Document.from_words([["Ada", "lives", "in", "London"]])
        >>> document.annotated([document.entity(3, 4, "Loc")])
        <Document: 'Ada lives in London' (1 entity, 0 relations)>

        Args:
            entities: The entities. Each is assigned to the sentence that contains it.
            relations: The relations between them.
            cuts: The split positions of every sentence, if a decoder has recorded them.
            clusters: Coreference, as in `from_words`. [default: none]

        Raises:
            UnireError: The document does not have the words of an entity or of a mention in a cluster.
        """
        ends = [sentence.end for sentence in self.sentences]
        inside: list[list[Entity]] = [[] for _ in ends]
        linked: list[list[Relation]] = [[] for _ in ends]
        spanning_entities: list[Entity] = []
        spanning_relations: list[Relation] = []
        start = end = position = 0
        for entity in entities:
            if not start <= entity.start < end:
                position = self._find_sentence(entity, ends)
                start, end = ends[position - 1] if position else 0, ends[position]
            if entity.end <= end:
                inside[position].append(entity)
            else:
                self._find_sentence(entity, ends)
                spanning_entities.append(entity)
        for relation in relations:
            head, tail = relation.head, relation.tail
            if not start <= head.start < end:
                position = self._find_sentence(head, ends)
                start, end = ends[position - 1] if position else 0, ends[position]
            if head.end <= end and start <= tail.start and tail.end <= end:
                linked[position].append(relation)
            else:
                self._find_sentence(head, ends)
                self._find_sentence(tail, ends)
                spanning_relations.append(relation)
        sentences = [
            Sentence(sentence.start, sentence.words, sentence.offsets, tuple(e), tuple(r), c)
            for sentence, e, r, c in zip(self.sentences, inside, linked, cuts or [None] * len(inside), strict=True)
        ]
        checked = check_clusters(clusters, self.n_words, self.id) if clusters else ()
        return self.with_sentences(tuple(sentences), tuple(spanning_entities), tuple(spanning_relations), checked)

    def _find_sentence(self, entity: Entity, ends: Sequence[int]) -> int:
        """The index of the sentence in which an entity starts. Raises an error if the document lacks its words."""
        if not 0 <= entity.start < entity.end <= self.n_words:
            raise self._outside_error(entity.start, entity.end, entity.label)
        return bisect_right(ends, entity.start)

    def _outside_error(self, start: int, end: int, label: str) -> UnireError:
        return UnireError(
            f"document {self.id!r}: entity {label!r} spans words {start} to {end}, "
            f"but the document has words 0 to {self.n_words}"
        )

    def with_sentences(
        self,
        sentences: tuple[Sentence, ...],
        spanning_entities: tuple[Entity, ...] = (),
        spanning_relations: tuple[Relation, ...] = (),
        clusters: tuple[tuple[tuple[int, int], ...], ...] = (),
    ) -> Document:
        """Return the document with other sentences of the same words, which carry other annotation."""
        document = Document(self.text, sentences, self.id, spanning_entities, spanning_relations, clusters, self.meta)
        document.__dict__.update({name: self.__dict__[name] for name in WORD_PROPERTIES if name in self.__dict__})
        return document

    def confident(self, min_score: float) -> Document:
        """Return the document without entities and relations of a lower score, and without relations of these entities.

        >>> document.confident(0.5)  # doctest: +SKIP
        """
        from unire.result_filter import ResultFilter

        return ResultFilter(min_score)(self)

    @property
    def bare(self) -> Document:
        """The same text without annotation."""
        has_none = (
            not self.spanning_entities
            and not self.clusters
            and all(s.entities == () and s.cuts is None for s in self.sentences)
        )
        return self if has_none else self.with_sentences(tuple([s.bare for s in self.sentences]))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of all sentences."""
        return tuple(chain(*[sentence.words for sentence in self.sentences]))

    @cached_property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """The character span of every word."""
        return tuple(chain(*[sentence.offsets for sentence in self.sentences]))

    @cached_property
    def is_joined(self) -> bool:
        """Whether the text is just the words joined by spaces, and the sentences joined by line ends."""
        words = [sentence.words for sentence in self.sentences]
        if self.text != "\n".join(map(" ".join, words)):
            return False
        # words that are white space may be elsewhere in such a text
        return [sentence.offsets for sentence in self.sentences] == _join_offsets(words)

    @property
    def n_words(self) -> int:
        """The number of words."""
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
        """Return the annotation as plain JSON values: texts, labels, characters, and scores rounded to four digits.

        >>> sorted(Document("Ada lives in London.").to_dict())
        ['entities', 'id', 'relations', 'text']
        """
        plain: dict[str, Any] = {
            "id": self.id,
            "text": self.text,
            "entities": [{**_to_plain(entity), "score": _round(entity.score)} for entity in self.entities],
            "relations": [
                {"head": _to_plain(r.head), "tail": _to_plain(r.tail), "label": r.label, "score": _round(r.score)}
                for r in self.relations
            ],
        }
        if self.clusters:
            plain["clusters"] = [[self._mention_to_plain(*span) for span in cluster] for cluster in self.clusters]
        return plain

    def _mention_to_plain(self, start: int, end: int) -> dict[str, Any]:
        first, last = self.offsets[start][0], self.offsets[end - 1][1]
        return {"text": self.text[first:last], "char_start": first, "char_end": last}

    def to_networkx(self) -> Any:
        """Return the knowledge graph of the document as a `networkx.MultiDiGraph`; see `unire.graph.to_networkx`."""
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
            path: The file to write, which is replaced if it exists. [default: return the page]

        Returns:
            The page, if no path is given.

        Raises:
            UnireError: The file cannot be written.
        """
        from unire.document_list import Documents

        return Documents([self]).to_html(path)

    def __repr__(self) -> str:
        name = f" {self.id!r}" if self.id else ""
        counts = count_annotations(len(self.entities), count_relations(self.relations))
        return f"<Document{name}: {shorten(self.text, MAX_REPR_CHARACTERS)!r} ({counts})>"

    def __str__(self) -> str:
        lines = [self.text]
        for name, items in (("entities", self.entities), ("relations", self.relations)):
            lines += [f"{name}:", *(f"  {item}{_in_brackets(item.score)}" for item in items)] if items else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Render for a notebook: the text with entities and arcs, and the relations as a list."""
        from unire.rendering.html.fragment import render_fragment

        return render_fragment(self)


MAX_REPR_CHARACTERS = 60
"""Characters of the text in the `repr` of a document."""

WORD_PROPERTIES = ("words", "offsets", "is_joined")
"""Cached properties that copies with other annotation share."""


def restrict_clusters(
    clusters: Iterable[Iterable[tuple[int, int]]], mentions: Container[tuple[int, int]]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Coreference clusters without all other mentions, and without clusters that are left with one mention."""
    kept = (tuple(span for span in cluster if span in mentions) for cluster in clusters)
    return tuple(cluster for cluster in kept if len(cluster) > 1)


def _build_relation(item: Any, entities: Sequence[Entity], name: str) -> Relation:
    head, tail, label, score, attributes = (*item, None, None)[:5]
    if not (0 <= head < len(entities) and 0 <= tail < len(entities)):
        raise UnireError(
            f"document {name!r}: relation {label!r} joins entities {head} and {tail}, "
            f"but there are {len(entities)}, counted from 0"
        )
    return Relation(entities[head], entities[tail], label, score, attributes or {})


def _join_offsets(sentences: Iterable[Sequence[str]]) -> list[tuple[tuple[int, int], ...]]:
    """The character spans of words that are joined by spaces, in sentences that are joined by line ends."""
    placed = []
    end = -1
    for words in sentences:
        placed.append(tuple([(start := end + 1, end := start + len(word)) for word in words]))
        end += not words
    return placed


def count_annotations(entities: int, relations: int) -> str:
    """Return `2 entities, 1 relation`."""
    return f"{entities:,} {'entity' if entities == 1 else 'entities'}, {relations:,} relation{'s' * (relations != 1)}"


def count_relations(relations: Sequence[Relation]) -> int:
    """Count relations as pages show them: both directions of a symmetric one, which have the same score, are one."""
    known = {(r.head.span, r.tail.span, r.label, r.score) for r in relations}
    mirrored = sum(head != tail and (tail, head, label, score) in known for head, tail, label, score in known)
    return len(relations) - mirrored // 2


def shorten(text: str, length: int) -> str:
    """Shorten a text to `length` characters, with an ellipsis at the end."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _in_brackets(score: float | None) -> str:
    return "" if score is None else f" ({score:.2f})"


def _to_plain(entity: Entity) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in ("text", "label", "char_start", "char_end")}


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
