"""Alignment of characters and words: for formats that locate entities by characters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unire.documents import CHARACTERS, Document, Entity
from unire.errors import UnireError

if TYPE_CHECKING:
    from unire.formats.base import ReadOptions

__all__ = ["BRIDGED", "WIDENED", "WORDLESS", "EntityAligner", "find_words", "split_text"]

WIDENED = "entity that splits a word, extended to the whole word"
BRIDGED = "entity in several parts, taken with the words between them"
WORDLESS = "entity that covers no word, skipped"


def split_text(text: str, options: ReadOptions, *, id: str, meta: Mapping[str, Any] | None = None) -> Document:
    """Split a text into sentences and words.

    Args:
        text: The text of the document, which does not change.
        options: With `spaces`, sentences are split at line ends and words at white space, instead of by the rules of
            `segment`.
        id: The document's id.
        meta: The document's meta data.
    """
    options.limits.check_document(len(text), "the text")
    if not options.spaces:
        from unire.segmentation import segment

        return replace(segment(text, id=id, line_breaks=options.line_breaks), meta=dict(meta or {}))
    sentences: list[list[str]] = []
    offsets: list[tuple[int, int]] = []
    position = 0
    for line in text.split("\n"):
        words = line.split()
        for word in words:
            position = text.index(word, position)
            offsets.append((position, position + len(word)))
            position += len(word)
        sentences.append(words)
    return Document.from_words(sentences, text=text, offsets=offsets, id=id, meta=meta)


def find_words(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The span of words that share a character with `[start, end)`, or `None` if there is no such word."""
    first = bisect_right(offsets, start, key=lambda span: span[1])
    last = bisect_left(offsets, end, key=lambda span: span[0])
    return (first, last) if first < last else None


class EntityAligner:
    """Places entities that are located by characters on the words of a document."""

    def __init__(self, document: Document, notes: Counter[str]) -> None:
        self.document = document
        self.notes = notes

    def align(
        self,
        parts: Sequence[tuple[int, int]],
        label: str,
        score: float | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Entity | None:
        """The entity on all words from the first part to the last, or `None` if it covers no word.

        If its characters are not exactly those of its words, they are kept as an attribute and counted in `notes`.

        Args:
            parts: Start and end characters of every part, in order.
            label: The entity type.
            score: The entity's score.
            attributes: The entity's attributes.
        """
        start, end = parts[0][0], parts[-1][1]
        length = len(self.document.text)
        if not 0 <= start < end <= length:
            raise UnireError(
                f"characters {start} to {end} of {label!r} are outside the text, which has {length} characters"
            )
        words = find_words(self.document.offsets, start, end)
        if words is None:
            self.notes[WORDLESS] += 1
            return None
        entity = self.document.entity(*words, label, score, attributes)
        if len(parts) == 1 and (start, end) == (entity.char_start, entity.char_end):
            return entity
        exact = [list(part) for part in parts]
        self.notes[BRIDGED if len(parts) > 1 else WIDENED] += 1
        return replace(entity, attributes={**entity.attributes, CHARACTERS: exact})
