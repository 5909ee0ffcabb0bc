"""A document for reading on a terminal: its text with the entities marked in it, and the relations below.

    console.print(terminal.View(document, palette))

In colour an entity has the colour of its label, which follows it; without (a pipe, `NO_COLOR`) it stands in brackets.
Nothing in a text is taken for Rich's markup or reaches the terminal as a control character.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.color import Color, ColorSystem, ColorType
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from unire.documents import Document, Entity, Relation, Sentence
from unire.rendering.common import Palette, merge_symmetric, score_of, visible

__all__ = ["FEW", "HUES", "Grid", "TerminalView", "TextStep", "codes", "plain", "steps", "style"]

HUES = (198, 29, 165, 100, 69, 130, 31, 167, 30, 200, 28, 93, 136, 32, 202, 33)
"""The palette in a terminal's 256 colours: the hues of `html/text.css`, to be read on black and on white."""

FEW = (1, 14, 5, 10, 4, 11, 12, 9, 14, 9, 2, 13, 11, 12, 3, 6)
"""The same where there are but 16, of which four are grey: entity types of one built-in label space never meet."""


class Hue(Color):
    """A colour that knows what stands for it among 16; the nearest to it, Rich's choice, is that of others too."""

    def downgrade(self, system: ColorSystem) -> Color:  # type: ignore[override]  # which is a cached function
        if system in (ColorSystem.STANDARD, ColorSystem.WINDOWS) and self.number is not None:
            return Color.from_ansi(FEW[HUES.index(self.number)]).downgrade(system)
        return super().downgrade(system)


def style(palette: Palette, label: str) -> Style:
    number = HUES[palette[label]]
    return Style(color=Hue(f"color({number})", ColorType.EIGHT_BIT, number))


class TextStep(NamedTuple):
    """A word and what stands before it. All the texts together, in order, are the document's text."""

    before: str
    opening: list[int]
    """Positions in `document.entities` of those that begin with the word, the longest first."""
    word: str
    closing: list[int]
    """Of those that end with it, the shortest first."""


def steps(document: Document) -> Iterator[TextStep]:
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
        yield TextStep(document.text[position:start], opening.get(i, []), document.text[start:end], closing.get(i, []))
        position = end
    yield TextStep(document.text[position:], [], "", [])


LONGEST = 16
"""Columns for the words at the side; longer ones are cut."""
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def codes(labels: Iterable[str]) -> dict[str, str]:
    """A few letters for each label, different ones for different labels.

    >>> codes(["Method", "Metric", "USED-FOR", "OtherScientificTerm"])
    {'Method': 'M', 'Metric': 'ME', 'USED-FOR': 'UF', 'OtherScientificTerm': 'OST'}
    """
    found: dict[str, str] = {}
    for label in labels:
        parts = PARTS.findall(label) or [label]
        initials = "".join(part[0] for part in parts[:-1])
        wishes = [initials + parts[-1][:n] for n in range(1, len(parts[-1]) + 1)]
        numbered = (f"{initials}{n}" for n in range(len(found) + 1))
        taken = set(found.values())
        found[label] = next(wish for wish in (*(w.upper() for w in wishes), *numbered) if wish not in taken)
    return found


@dataclass(frozen=True)
class Grid:
    """What Rich prints of a sentence's table, as it was decoded: a row and a column for every word.

    Cells hold the codes of labels, which stand below; entities are underlined. A table that is wider than the console
    is left out, and said to be.
    """

    sentence: Sentence
    palette: Palette = field(default_factory=Palette)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.sentence.entities:
            yield Text(f"  (nothing in a table of {len(self.sentence)} words)", "dim")
            return
        labels = [*(e.label for e in self.sentence.entities), *(r.label for r in self.sentence.relations)]
        code = codes(dict.fromkeys(labels))
        nothing = "." if options.ascii_only else "·"
        cell = 1 + max(map(len, code.values()))
        words = [Text(visible(word)) for word in self.sentence.words]
        side = min(LONGEST, max(word.cell_len for word in words))
        if 2 + side + cell * len(words) > options.max_width:
            yield Text(f"  (a table of {len(words)} words is too wide for this terminal; --format html has it)", "dim")
            return
        cells = self._cells()
        for row, word in enumerate(words):
            word.truncate(side, pad=True)
            line = Text("  ").append_text(word)
            for column in range(len(words)):
                label, look = cells.get((row, column), (None, Style(dim=True)))
                text = nothing if label is None else code[label]
                line.append(" " * (cell - len(text))).append(text, look)
            yield line
        key = (Text(f"{short} {visible(label)}", style(self.palette, label)) for label, short in code.items())
        yield Text("  ").append_text(Text("  ").join(key))

    def _cells(self) -> dict[tuple[int, int], tuple[str, Style]]:
        """Label and look of each cell that has one."""
        first = self.sentence.start
        rectangles = [(r.head.span, r.tail.span, r.label, Style()) for r in self.sentence.relations]
        squares = [(e.span, e.span, e.label, Style(bold=True, underline=True)) for e in self.sentence.entities]
        return {
            (row - first, column - first): (label, style(self.palette, label) + look)
            for rows, columns, label, look in (*rectangles, *squares)
            for row in range(*rows)
            for column in range(*columns)
        }


WIDTH = 100
"""Columns where there is no terminal to say how many."""


@dataclass(frozen=True)
class TerminalView:
    """What Rich prints of a document. Views that share a palette agree on colours."""

    document: Document
    palette: Palette = field(default_factory=Palette)
    tables: bool = False
    """Whether the table of each sentence is drawn below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour = console.color_system is not None and not console.no_color
        if self.document.id:
            yield Text(visible(self.document.id), "dim")
        text = self._text(colour)
        if text:
            yield text
        if not self.document.entities:
            yield Text("  (nothing found)", "dim")
        relations = self.document.relations
        triples = [
            self._triple(relations[positions[0]], len(positions) > 1, colour, options.ascii_only)
            for positions in merge_symmetric(relations)
        ]
        widths = [max(part.cell_len for part in column) for column in zip(*triples, strict=True)]
        columns = 2 * len(widths) + sum(widths[:-1])
        for triple in triples:
            if columns + triple[-1].cell_len <= options.max_width:  # otherwise it has the line for itself
                for part, width in zip(triple[:-1], widths, strict=False):
                    part.pad_right(width - part.cell_len)
            yield Padding(Text("  ").join(filter(None, triple)), (0, 0, 0, 2), expand=False)
        for sentence in self.document.sentences if self.tables else ():
            yield Text()
            yield Grid(sentence, self.palette)
        yield Text()

    def _text(self, colour: bool) -> Text:
        """Entities may nest or overlap: a word has the colour of the one that was opened last."""
        text = Text()
        entities = self.document.entities
        opened: list[Entity] = []
        for step in steps(self.document):
            text.append(visible(step.before), self._innermost(opened) if colour else "")
            for entity in step.opening:
                opened.append(entities[entity])
                text.append("" if colour else "[")
            text.append(visible(step.word), self._innermost(opened) if colour else "")
            for entity in step.closing:
                opened.remove(entities[entity])
                text.append_text(self._label(entities[entity].label, colour))
        text.rstrip()
        return text

    def _innermost(self, opened: list[Entity]) -> Style | str:
        return style(self.palette, opened[-1].label) + Style(bold=True, underline=True) if opened else ""

    def _label(self, label: str, colour: bool) -> Text:
        return Text(f" {visible(label)}", style(self.palette, label)) if colour else Text(f"|{visible(label)}]")

    def _triple(self, relation: Relation, both: bool, colour: bool, ascii_only: bool) -> list[Text]:
        """Score, head, relation and tail."""
        name = visible(relation.label)
        if ascii_only:
            arrow = f"<- {name} ->" if both else f"- {name} ->"
        else:
            arrow = f"← {name} →" if both else f"— {name} →"
        return [
            Text(score_of(relation)),
            self._argument(relation.head, colour),
            Text(arrow, style(self.palette, relation.label) if colour else ""),
            self._argument(relation.tail, colour),
        ]

    def _argument(self, entity: Entity, colour: bool) -> Text:
        return Text(" ".join(visible(entity.text).split()), style(self.palette, entity.label) if colour else "")


def plain(document: Document, *, tables: bool = False) -> str:
    """The view as text for a file, without colour."""
    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None).print(TerminalView(document, tables=tables), end="")
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
