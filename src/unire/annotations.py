"""Entities, relations and sentences: what a `Document` consists of.

Spans are given in words of the document (`start`, `end`) and in characters of its text (`char_start`, `char_end`). Ends
are exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CHARACTERS", "Entity", "Relation", "Sentence"]

CHARACTERS = "characters"
"""The attribute with the exact `[start, end]` of each fragment of an entity, if these are not whole words."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A labelled span of words.

    >>> from unire.documents import Document
    >>> entity = Document.from_words([["Ada", "lives", "in", "London"]]).entity(3, 4, "Loc")
    >>> entity.text, entity.char_start, entity.char_end
    ('London', 13, 19)
    """

    start: int
    """The index of its first word in the document."""
    end: int
    """The index after its last word."""
    label: str
    """Its type."""
    char_start: int
    """The position of its first character in the text of the document."""
    char_end: int
    """The position after its last character."""
    text: str
    """The text between the two."""
    score: float | None = None
    """The probability that it is correct, calibrated if the model is; `None` for gold annotation."""
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further information of a format (for example a subtype) as plain JSON values; see `CHARACTERS`."""

    @property
    def span(self) -> tuple[int, int]:
        """`(start, end)`, in words of the document."""
        return self.start, self.end

    @property
    def fragments(self) -> list[tuple[int, int]]:
        """The exact character spans: those in the attribute `CHARACTERS`, or else that of its words."""
        parts = self.attributes.get(CHARACTERS) or [(self.char_start, self.char_end)]
        return [(start, end) for start, end in parts]

    def __str__(self) -> str:
        return f"{self.text} [{self.label}]"


@dataclass(frozen=True, slots=True)
class Relation:
    """A labelled, ordered pair of entities."""

    head: Entity
    """The first argument."""
    tail: Entity
    """The second argument."""
    label: str
    """Its type."""
    score: float | None = None
    """The probability that it and both entities are correct, calibrated if the model is; `None` for gold annotation."""
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further information of a format, as plain JSON values."""

    def __str__(self) -> str:
        return f"{self.head} –{self.label}→ {self.tail}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Consecutive words of a document, and the annotation inside them."""

    start: int
    """The index of its first word in the document."""
    words: tuple[str, ...]
    """Its words."""
    offsets: tuple[tuple[int, int], ...]
    """The character span of each word in the text of the document."""
    entities: tuple[Entity, ...] = ()
    """The entities inside it."""
    relations: tuple[Relation, ...] = ()
    """The relations inside it."""
    cuts: tuple[int, ...] | None = None
    """The split positions of the decoder: a cut at `i` is between words `i - 1` and `i` of the document."""

    @property
    def end(self) -> int:
        """The index after its last word in the document."""
        return self.start + len(self.words)

    @property
    def bare(self) -> Sentence:
        """The same words without annotation."""
        return Sentence(self.start, self.words, self.offsets)

    def __len__(self) -> int:
        return len(self.words)
