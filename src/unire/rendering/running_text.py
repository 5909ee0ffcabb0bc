"""A document's text, word by word, with the entities that begin and end at each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unire.documents import Document

__all__ = ["Step", "steps"]


class Step(NamedTuple):
    """A word and what stands before it. All the texts together, in order, are the document's text."""

    before: str
    opening: list[int]
    """Positions in `document.entities` of those that begin with the word, the longest first."""
    word: str
    closing: list[int]
    """Of those that end with it, the shortest first."""


def steps(document: Document) -> Iterator[Step]:
    """A step for every word of the document, and a last one without a word for the text behind them."""
    entities = document.entities
    opening: dict[int, list[int]] = {}
    closing: dict[int, list[int]] = {}
    for i in sorted(range(len(entities)), key=lambda i: entities[i].start - entities[i].end):
        opening.setdefault(entities[i].start, []).append(i)
        closing.setdefault(entities[i].end - 1, []).insert(0, i)
    position = 0
    for i, (start, end) in enumerate(document.offsets):
        start, end = max(start, position), max(end, position)  # words that overlap are not shown twice
        yield Step(document.text[position:start], opening.get(i, []), document.text[start:end], closing.get(i, []))
        position = end
    yield Step(document.text[position:], [], "", [])
