"""Documents on a terminal, and as an HTML page with the tables.

What both share is here: colours and codes of labels, the words with their entities, pairs of symmetric relations.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace

__all__ = [
    "N_COLOURS",
    "Palette",
    "TextStep",
    "abbreviate_labels",
    "format_score",
    "iter_steps",
    "merge_symmetric",
]

N_COLOURS = 16
"""Colours of a palette. `terminal.py` and `html/text.css` define what each number looks like."""

HASH_MULTIPLIER = 209935065
"""Found by search: labels of `scierc`, `conll04` and `ade` never share a colour, and entity types differ clearly."""


NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Palette:
    """Assigns every label a colour, a number below `N_COLOURS`, and a code of a few letters.

    The hash of the label's name chooses the colour; if that is in use, the label gets the next free one. With a label
    space, colours and codes do not depend on the order of the predictions. Codes tell labels apart where a reader does
    not see the colours.
    """

    def __init__(self, labels: LabelSpace | Iterable[str] = ()) -> None:
        self._colours: dict[str, int] = {}
        self._codes: dict[str, str] = {}
        for label in labels.names[1:] if isinstance(labels, LabelSpace) else labels:
            self[label]

    def __getitem__(self, label: str) -> int:
        if label not in self._colours:
            preferred = HASH_MULTIPLIER * crc32(label.encode("utf-8", "surrogatepass")) % 2**32 * N_COLOURS // 2**32
            used = set(self._colours.values())
            free = [(preferred + i) % N_COLOURS for i in range(N_COLOURS) if (preferred + i) % N_COLOURS not in used]
            self._colours[label] = free[0] if free else preferred
            self._codes[label] = _abbreviate(label, set(self._codes.values()))
        return self._colours[label]

    def code(self, label: str) -> str:
        """The code of a label: no other label has it."""
        self[label]
        return self._codes[label]


def abbreviate_labels(labels: Iterable[str]) -> dict[str, str]:
    """Abbreviate labels to a few letters each. Different labels get different letters.

    >>> abbreviate_labels(["Method", "Metric", "USED-FOR", "OtherScientificTerm"])
    {'Method': 'M', 'Metric': 'ME', 'USED-FOR': 'UF', 'OtherScientificTerm': 'OST'}
    """
    abbreviations: dict[str, str] = {}
    for label in labels:
        abbreviations[label] = _abbreviate(label, set(abbreviations.values()))
    return abbreviations


def _abbreviate(label: str, used: set[str]) -> str:
    parts: list[str] = NAME_PARTS.findall(label) or [label]
    initials = "".join(part[0] for part in parts[:-1])
    candidates = [initials + parts[-1][:n] for n in range(1, len(parts[-1]) + 1)]
    numbered = (f"{initials}{n}" for n in range(len(used) + 1))
    return next(code for code in (*(c.upper() for c in candidates), *numbered) if code not in used)


def merge_symmetric(relations: Sequence[Relation]) -> list[tuple[int, ...]]:
    """Group the positions of relations: the two directions of a symmetric relation together, in order of the first."""
    alone: defaultdict[tuple[Entity, Entity, str, str], deque[int]] = defaultdict(deque)  # a relation may occur twice
    groups: list[tuple[int, ...]] = []
    for position, relation in enumerate(relations):
        head, tail, label, score = relation.head, relation.tail, relation.label, format_score(relation)
        mirrors = alone[tail, head, label, score] if head != tail else None
        if mirrors:
            groups[mirrors.popleft()] += (position,)
        else:
            alone[head, tail, label, score].append(len(groups))
            groups.append((position,))
    return groups


def format_score(relation: Relation) -> str:
    """Format the score of a relation; empty if it has none."""
    return "" if relation.score is None else f"{relation.score:.2f}"


class TextStep(NamedTuple):
    """A word and the text before it. The texts of all steps, in order, are the text of the document."""

    before: str
    opening: list[int]
    """Positions in `document.entities` of the entities that start at this word, longest first."""
    word: str
    closing: list[int]
    """Positions of the entities that end at this word, shortest first."""


def iter_steps(document: Document) -> Iterator[TextStep]:
    """Yield a step for every word, and a last one without a word for the text after them."""
    entities = document.entities
    opening: dict[int, list[int]] = {}
    closing: dict[int, list[int]] = {}
    for i in sorted(range(len(entities)), key=lambda i: entities[i].start - entities[i].end):
        opening.setdefault(entities[i].start, []).append(i)
        closing.setdefault(entities[i].end - 1, []).insert(0, i)
    position = 0
    for i, (start, end) in enumerate(document.offsets):
        start, end = max(start, position), max(end, position)  # overlapping words are shown once
        yield TextStep(document.text[position:start], opening.get(i, []), document.text[start:end], closing.get(i, []))
        position = end
    yield TextStep(document.text[position:], [], "", [])
