"""The lines of a sentence as SVG shows them: SVG does not wrap text, and a notebook runs no scripts that could.

The fonts of a reader are unknown, so the width of a word is estimated. `textLength` makes the browser keep to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from unire.documents import Document, Entity
from unire.rendering import TextStep
from unire.utils import escape_controls

__all__ = ["FONT_SIZE", "LABEL_SIZE", "LINE_WIDTH", "Mark", "PlacedText", "TextLine", "lay_out", "measure_text"]

FONT_SIZE = 16.0
LABEL_SIZE = 11.0
LINE_WIDTH = 720.0
"""Pixels of a line. A notebook of a usual width shows it without scrolling."""

PADDING = 4.0
"""Pixels between the words of an entity and the edge of its mark."""
LABEL_GAP = 6.0
NARROW = frozenset(".,:;'’|!ijlI` ")
SLIM = frozenset('frt()[]{}-/\\"*')
WIDE = frozenset("mwMW@%—…→←")
BOLD = 1.08


class PlacedText(NamedTuple):
    """A text and its place in a line."""

    text: str
    x: float
    width: float
    before: str = ""
    """White space before a word."""


@dataclass
class Mark:
    """The background of an entity, or of the part of it that is in one line."""

    entity: int
    left: float
    right: float
    depth: int
    """How many other entities contain it."""


@dataclass
class TextLine:
    """A line of words, marks below them, and the labels of the entities that end in it."""

    words: list[PlacedText] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    labels: list[PlacedText] = field(default_factory=list)
    width: float = 0.0


class _Atom(NamedTuple):
    """What no line ends in: a word, or text between words that is not white space."""

    before: str
    text: str
    opening: Sequence[int]
    closing: Sequence[int]


def lay_out(
    document: Document, steps: Sequence[TextStep], already_open: Sequence[int] = (), *, mirror: bool = False
) -> list[TextLine]:
    """Break the words of a sentence into lines of at most `LINE_WIDTH`, and find the place of each.

    A line ends at white space outside entities if possible.

    Args:
        document: The document of the entities.
        steps: The words, each with the text before it.
        already_open: Entities that started before the sentence.
        mirror: Place the words from right to left.
    """
    setter = _Typesetter(document.entities, already_open)
    for group in _groups(_atoms(steps), already_open):
        setter.add(group)
    lines = setter.finish()
    return list(map(_mirror, lines)) if mirror else lines


def measure_text(text: str, size: float = FONT_SIZE, *, bold: bool = False) -> float:
    """Estimate the width of a text in pixels."""
    return sum(map(_measure_character, text)) * size * (BOLD if bold else 1)


@cache
def _measure_character(character: str) -> float:
    """The width of a character in units of the font size, in a usual sans-serif font."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in NARROW:
        return 0.27
    if character in SLIM:
        return 0.36
    if character in WIDE:
        return 0.88
    return 0.67 if character.isupper() else 0.57


def _atoms(steps: Iterable[TextStep]) -> Iterator[_Atom]:
    for step in steps:
        space = ""
        for part in re.split(r"(\s+)", escape_controls(step.before)):
            if part.strip():
                yield _Atom(space, part, (), ())
            space = "" if part.strip() else space + part
        yield _Atom(space, escape_controls(step.word), step.opening, step.closing)


def _groups(atoms: Iterable[_Atom], already_open: Iterable[int]) -> Iterator[list[_Atom]]:
    """Atoms that stay in one line if possible: those of an entity, and those without white space between them."""
    group: list[_Atom] = []
    opened = set(already_open)
    for atom in atoms:
        if group and atom.before and not opened:
            yield group
            group = []
        group.append(atom)
        opened.update(atom.opening)
        opened.difference_update(atom.closing)
    if group:
        yield group


class _Typesetter:
    """Places atoms from left to right, and begins a new line where one is full."""

    def __init__(self, entities: Sequence[Entity], already_open: Iterable[int]) -> None:
        self.entities = entities
        self.lines = [TextLine()]
        self.x = 0.0
        self.open: list[Mark] = []
        for entity in already_open:
            self._open(entity)

    def add(self, group: Sequence[_Atom]) -> None:
        self._break_before(group[0], sum(map(self._advance, group)))
        for atom in group:
            self._break_before(atom, self._advance(atom))
            self._place(atom)

    def finish(self) -> list[TextLine]:
        for mark in self.open:
            self._end(mark)
        self.lines[-1].width = self.x
        return self.lines

    def _break_before(self, atom: _Atom, width: float) -> None:
        """Begin a new line if a text does not fit. A comma or full stop may reach over the end of a line."""
        hangs = not atom.text or (not atom.before and len(atom.text) == 1 and not atom.text.isalnum())
        if self.lines[-1].words and not hangs and self.x + self._gap(atom) + width > LINE_WIDTH:
            self._new_line()

    def _new_line(self) -> None:
        continued = [mark.entity for mark in self.open]
        self.finish()
        self.lines.append(TextLine())
        self.x, self.open = 0.0, []
        for entity in continued:
            self._open(entity)

    def _place(self, atom: _Atom) -> None:
        if self.lines[-1].words:
            self.x += self._gap(atom)
        for entity in atom.opening:
            self._open(entity)
        before = atom.before
        for i, part in enumerate(_cut(atom.text, LINE_WIDTH - 8 * PADDING)):
            if i:
                self._new_line()
            width = measure_text(part)
            self.lines[-1].words.append(PlacedText(part, self.x, width, before))
            self.x += width
            before = ""
        for entity in atom.closing:
            self._close(entity)

    def _open(self, entity: int) -> None:
        mark = Mark(entity, self.x, self.x, len(self.open))
        self.open.append(mark)
        self.lines[-1].marks.append(mark)
        self.x += PADDING

    def _close(self, entity: int) -> None:
        label = escape_controls(self.entities[entity].label)
        width = measure_text(label, LABEL_SIZE, bold=True)
        self.lines[-1].labels.append(PlacedText(label, self.x + LABEL_GAP, width))
        self.x += LABEL_GAP + width
        mark = next(mark for mark in self.open if mark.entity == entity)
        self.open.remove(mark)
        self._end(mark)

    def _end(self, mark: Mark) -> None:
        self.x += PADDING
        mark.right = self.x

    def _advance(self, atom: _Atom) -> float:
        """The width of an atom with the edges and labels of its entities."""
        labels = (escape_controls(self.entities[entity].label) for entity in atom.closing)
        closing = sum(LABEL_GAP + measure_text(label, LABEL_SIZE, bold=True) + PADDING for label in labels)
        return self._gap(atom) + len(atom.opening) * PADDING + measure_text(atom.text) + closing

    def _gap(self, atom: _Atom) -> float:
        return measure_text(" ") if atom.before else 0.0


def _cut(text: str, width: float) -> list[str]:
    """Cut a text into parts that are at most so wide."""
    parts, start, x = [], 0, 0.0
    for i, character in enumerate(text):
        advance = measure_text(character)
        if x + advance > width and i > start:
            parts.append(text[start:i])
            start, x = i, 0.0
        x += advance
    return [*parts, text[start:]]


def _mirror(line: TextLine) -> TextLine:
    def flip(texts: list[PlacedText]) -> list[PlacedText]:
        return [text._replace(x=LINE_WIDTH - text.x - text.width) for text in texts]

    marks = [Mark(m.entity, LINE_WIDTH - m.right, LINE_WIDTH - m.left, m.depth) for m in line.marks]
    return TextLine(flip(line.words), marks, flip(line.labels), LINE_WIDTH)
