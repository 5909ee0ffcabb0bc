"""The table of a sentence, drawn with letters: a square for every entity, a rectangle for every relation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from unire.documents import Sentence
from unire.rendering.characters import visible
from unire.rendering.hues import style
from unire.rendering.palette import Palette

__all__ = ["Grid", "codes"]

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
