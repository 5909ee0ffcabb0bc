"""A document for reading on a terminal: its text with the entities marked in it, and the relations below.

    console.print(terminal.View(document, palette))

In colour an entity has the colour of its label, which follows it; without (a pipe, `NO_COLOR`) it stands in brackets.
Nothing in a text is taken for Rich's markup or reaches the terminal as a control character.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from unire.documents import Document, Entity, Relation
from unire.rendering.characters import visible
from unire.rendering.palette import Palette
from unire.rendering.running_text import steps

__all__ = ["View"]

HUES = (198, 29, 165, 100, 69, 130, 31, 167, 30, 200, 28, 93, 136, 32, 202, 33)
"""The palette in a terminal's 256 colours: the hues of `html/text.css`, to be read on black and on white."""


@dataclass(frozen=True)
class View:
    """What Rich prints of a document. Views that share a palette agree on colours."""

    document: Document
    palette: Palette = field(default_factory=Palette)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour = console.color_system is not None and not console.no_color
        if self.document.id:
            yield Text(visible(self.document.id), "dim")
        yield self._text(colour)
        triples = [self._triple(relation, colour, options.ascii_only) for relation in self.document.relations]
        widths = [max(part.cell_len for part in column) + 2 for column in zip(*triples, strict=True)]
        for triple in triples:
            if sum(widths) <= options.max_width:  # in columns, if there is room
                for part, width in zip(triple[:-1], widths, strict=False):
                    part.pad_right(width - 2 - part.cell_len)
            line = Text("  ").join(triple)
            line.rstrip()
            yield Padding(line, (0, 0, 0, 2), expand=False)
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
        return text

    def _innermost(self, opened: list[Entity]) -> Style | str:
        return self._style(opened[-1].label) + Style(bold=True, underline=True) if opened else ""

    def _label(self, label: str, colour: bool) -> Text:
        return Text(f" {visible(label)}", self._style(label)) if colour else Text(f" | {visible(label)}]")

    def _triple(self, relation: Relation, colour: bool, ascii_only: bool) -> list[Text]:
        """Head, relation, tail and score."""
        name = visible(relation.label)
        arrow = f"- {name} ->" if ascii_only else f"— {name} →"
        return [
            self._argument(relation.head, colour),
            Text(arrow, self._style(relation.label) if colour else ""),
            self._argument(relation.tail, colour),
            Text("" if relation.score is None else f"{relation.score:.2f}"),
        ]

    def _argument(self, entity: Entity, colour: bool) -> Text:
        return Text(" ".join(visible(entity.text).split()), self._style(entity.label) if colour else "")

    def _style(self, label: str) -> Style:
        return Style(color=f"color({HUES[self.palette[label]]})")
