"""Documents on a terminal: the text with its entities marked, and the relations below.

    console.print(TerminalView(document, palette))

With colours, an entity has the colour of its label, which follows it; without (a pipe, `NO_COLOR`) it is in brackets.
Text is never interpreted as Rich's markup, and control characters never reach the terminal.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field

from rich.color import Color, ColorSystem, ColorType
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from unire.documents import Document, Entity, Relation, Sentence
from unire.rendering import Palette, abbreviate_labels, format_score, iter_steps, merge_symmetric
from unire.utils import escape_controls

__all__ = ["COLOURS_16", "COLOURS_256", "Grid", "TerminalView", "label_style", "render_text"]

COLOURS_256 = (198, 29, 165, 100, 63, 130, 32, 167, 30, 163, 28, 99, 94, 27, 166, 31)
"""The palette in the 256 colours of a terminal: the hues of `html/text.css`, readable on black and on white."""

COLOURS_16 = (1, 3, 5, 2, 12, 3, 12, 9, 6, 9, 2, 13, 3, 12, 3, 6)
"""The palette in the 8 of 16 colours that are readable on black and on white.

Entity types of a built-in label space never share one.
"""


class Hue(Color):
    """A colour with its own replacement among 16. Rich would choose the nearest, which other labels share."""

    def downgrade(self, system: ColorSystem) -> Color:  # type: ignore[override]  # which is a cached function
        if system in (ColorSystem.STANDARD, ColorSystem.WINDOWS) and self.number is not None:
            return Color.from_ansi(COLOURS_16[COLOURS_256.index(self.number)]).downgrade(system)
        return super().downgrade(system)


def label_style(palette: Palette, label: str) -> Style:
    number = COLOURS_256[palette[label]]
    return Style(color=Hue(f"color({number})", ColorType.EIGHT_BIT, number))


MAX_WORD_COLUMNS = 16
"""Columns for the words at the side; longer ones are cut."""


@dataclass(frozen=True)
class Grid:
    """The decoded table of a sentence for Rich: a row and a column for every word.

    Cells hold abbreviated labels, with a legend below; entities are underlined. A table that is wider than the console
    is replaced by a note.
    """

    sentence: Sentence
    palette: Palette = field(default_factory=Palette)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.sentence.entities:
            yield Text(f"  (no entities in a table of {len(self.sentence)} words)", "dim")
            return
        labels = [*(e.label for e in self.sentence.entities), *(r.label for r in self.sentence.relations)]
        code = abbreviate_labels(dict.fromkeys(labels))
        empty = "." if options.ascii_only else "·"
        cell = 1 + max(map(len, code.values()))
        words = [Text(escape_controls(word)) for word in self.sentence.words]
        side = min(MAX_WORD_COLUMNS, max(word.cell_len for word in words))
        if 2 + side + cell * len(words) > options.max_width:
            yield Text(f"  (the table of {len(words)} words is too wide for this terminal; use --format html)", "dim")
            return
        cells = self._cells()
        for row, word in enumerate(words):
            word.truncate(side, pad=True)
            line = Text("  ").append_text(word)
            for column in range(len(words)):
                label, cell_style = cells.get((row, column), (None, Style(dim=True)))
                text = empty if label is None else code[label]
                line.append(" " * (cell - len(text))).append(text, cell_style)
            yield line
        key = (
            Text(f"{short} {escape_controls(label)}", label_style(self.palette, label)) for label, short in code.items()
        )
        yield Text("  ").append_text(Text("  ").join(key))

    def _cells(self) -> dict[tuple[int, int], tuple[str, Style]]:
        """The label and style of each cell that has a label."""
        first = self.sentence.start
        rectangles = [(r.head.span, r.tail.span, r.label, Style()) for r in self.sentence.relations]
        squares = [(e.span, e.span, e.label, Style(bold=True, underline=True)) for e in self.sentence.entities]
        return {
            (row - first, column - first): (label, label_style(self.palette, label) + cell_style)
            for rows, columns, label, cell_style in (*rectangles, *squares)
            for row in range(*rows)
            for column in range(*columns)
        }


TEXT_WIDTH = 100
"""Columns if the output is not a terminal."""


@dataclass(frozen=True)
class TerminalView:
    """A document for Rich. Views that share a palette have the same colours."""

    document: Document
    palette: Palette = field(default_factory=Palette)
    tables: bool = False
    """Whether to draw the table of each sentence below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour = console.color_system is not None and not console.no_color
        if self.document.id:
            yield Text(escape_controls(self.document.id), "dim")
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
            if columns + triple[-1].cell_len <= options.max_width:  # otherwise the triple gets its own lines
                for part, width in zip(triple[:-1], widths, strict=False):
                    part.pad_right(width - part.cell_len)
            yield Padding(Text("  ").join(filter(None, triple)), (0, 0, 0, 2), expand=False)
        for sentence in self.document.sentences if self.tables else ():
            yield Text()
            yield Grid(sentence, self.palette)
        yield Text()

    def _text(self, colour: bool) -> Text:
        """Entities may nest or overlap: a word has the colour of the entity that started last."""
        text = Text()
        entities = self.document.entities
        opened: list[Entity] = []
        for step in iter_steps(self.document):
            text.append(escape_controls(step.before), self._innermost(opened) if colour else "")
            for entity in step.opening:
                opened.append(entities[entity])
                text.append("" if colour else "[")
            text.append(escape_controls(step.word), self._innermost(opened) if colour else "")
            for entity in step.closing:
                opened.remove(entities[entity])
                text.append_text(self._label(entities[entity].label, colour))
        text.rstrip()
        return text

    def _innermost(self, opened: list[Entity]) -> Style | str:
        return label_style(self.palette, opened[-1].label) + Style(bold=True, underline=True) if opened else ""

    def _label(self, label: str, colour: bool) -> Text:
        return (
            Text(f" {escape_controls(label)}", label_style(self.palette, label))
            if colour
            else Text(f"|{escape_controls(label)}]")
        )

    def _triple(self, relation: Relation, both: bool, colour: bool, ascii_only: bool) -> list[Text]:
        """Score, head, relation and tail."""
        name = escape_controls(relation.label)
        if ascii_only:
            arrow = f"<- {name} ->" if both else f"- {name} ->"
        else:
            arrow = f"← {name} →" if both else f"— {name} →"
        return [
            Text(format_score(relation)),
            self._argument(relation.head, colour),
            Text(arrow, label_style(self.palette, relation.label) if colour else ""),
            self._argument(relation.tail, colour),
        ]

    def _argument(self, entity: Entity, colour: bool) -> Text:
        return Text(
            " ".join(escape_controls(entity.text).split()), label_style(self.palette, entity.label) if colour else ""
        )


def render_text(document: Document, *, tables: bool = False) -> str:
    """Render a document as text for a file, without colour."""
    file = io.StringIO()
    Console(file=file, width=TEXT_WIDTH, color_system=None).print(TerminalView(document, tables=tables), end="")
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
