"""Colours of labels: the same label has the same colour everywhere, as far as there are colours."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from zlib import crc32

from unire.documents import Entity, Relation
from unire.labels import LabelSpace

__all__ = ["COLOURS", "Palette", "merge_symmetric", "score_of", "visible"]

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters but for tab and line feed, those that turn the direction of writing, halves of surrogate pairs."""


def visible(text: str) -> str:
    """`text` with a sign or a code in the place of every such character: `␛[31m`, `‹U+202E›`."""
    return ACTING.sub(_sign, text) if ACTING.search(text) else text


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"


COLOURS = 16
"""How many a palette tells apart. What number 5 looks like is said in `hues.py` and `html/text.css`."""


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


def merge_symmetric(relations: Sequence[Relation]) -> list[tuple[int, ...]]:
    """Positions of the relations, those of one that holds both ways together, at the place of the first of the two."""
    alone: defaultdict[tuple[Entity, Entity, str, str], deque[int]] = defaultdict(deque)  # one may be given twice
    shown: list[tuple[int, ...]] = []
    for position, relation in enumerate(relations):
        head, tail, label, score = relation.head, relation.tail, relation.label, score_of(relation)
        mirrors = alone[tail, head, label, score] if head != tail else None
        if mirrors:
            shown[mirrors.popleft()] += (position,)
        else:
            alone[head, tail, label, score].append(len(shown))
            shown.append((position,))
    return shown


def score_of(relation: Relation) -> str:
    """Its score as it is shown; nothing if it has none."""
    return "" if relation.score is None else f"{relation.score:.2f}"
