"""A document for reading on a terminal: its text with the entities marked in it, and the relations below.

    console.print(terminal.View(document, palette))

In colour an entity has the colour of its label, which follows it; without (a pipe, `NO_COLOR`) it stands in brackets.
Nothing in a text is taken for Rich's markup or reaches the terminal as a control character.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from unire.documents import Document, Entity, Relation
from unire.rendering.both_ways import score_of, shown_once
from unire.rendering.characters import visible
from unire.rendering.grid import Grid
from unire.rendering.hues import style
from unire.rendering.palette import Palette
from unire.rendering.running_text import steps

__all__ = ["View", "plain"]

WIDTH = 100
"""Columns where there is no terminal to say how many."""


@dataclass(frozen=True)
class View:
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
            for positions in shown_once(relations)
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
    Console(file=file, width=WIDTH, color_system=None).print(View(document, tables=tables), end="")
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
