"""Colours of labels: the same label has the same colour everywhere, as far as there are colours."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from unire.labels import LabelSpace

__all__ = ["COLOURS", "Palette"]

COLOURS = 16
"""How many a palette tells apart. What number 5 looks like is said in `terminal.py` and `html/text.css`."""


SPREAD = 209935065
"""Found by search: with it no two labels of `scierc`, `conll04` or `ade` meet, and entity types are well apart."""


class Palette:
    """Gives every label a colour, a number below `COLOURS`.

    A label's name decides; where two names meet in one colour, the second gets the next that is free. Given a label
    space, colours do not depend on what is found first.
    """

    def __init__(self, labels: LabelSpace | Iterable[str] = ()) -> None:
        self._colours: dict[str, int] = {}
        for label in labels.names[1:] if isinstance(labels, LabelSpace) else labels:
            self[label]

    def __getitem__(self, label: str) -> int:
        if label not in self._colours:
            wish = SPREAD * crc32(label.encode("utf-8", "surrogatepass")) % 2**32 * COLOURS // 2**32
            taken = set(self._colours.values())
            free = [(wish + i) % COLOURS for i in range(COLOURS) if (wish + i) % COLOURS not in taken]
            self._colours[label] = free[0] if free else wish
        return self._colours[label]
