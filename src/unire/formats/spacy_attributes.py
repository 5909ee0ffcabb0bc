"""What our component of spaCy pipelines found in a text, kept on its `Doc` as plain data.

Spans are kept by their characters, which no retokenization changes; heads and tails are positions among them. spaCy has
no one place that goes everywhere a `Doc` goes, so there are two: `doc.user_data`, under a key of the kind that spaCy
moves along when it joins texts (`Doc.from_docs`) or cuts one (`span.as_doc(copy_user_data=True)`), and the `attrs` of
the group of spans, which a `DocBin` keeps even without user data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

__all__ = ["ATTRIBUTE", "Findings", "keep", "kept", "kept_score"]

ATTRIBUTE = "unire"
"""What our record is called in the `attrs` of a group: only groups that have it are ours."""
MARK = "._."
"""The first part of spaCy's keys for what hangs on a place in a text; a character's number is the third."""
PREFIX = "unire:"
"""Begins the second part, which ends with the name of the group, if there is one."""

Record = Mapping[str, Any]


@dataclass
class Findings:
    """Of one model, in one text."""

    entities: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    """First character, end, label, score; in order, and none overlaps another."""
    relations: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    """Head and tail, by their positions in `entities`, label, score."""
    unaligned: list[tuple[int, int, str]] = field(default_factory=list)
    """First character, end and label of the entities that do not begin and end where tokens do."""

    def add(self, record: Record, shift: int, length: int) -> None:
        """Take a record whose text begins at the character `shift` of one that is `length` long; it may stick out."""
        places: dict[int, int] = {}
        for position, (start, end, label, score) in enumerate(record["entities"]):
            if start + shift >= 0 and end + shift <= length:
                places[position] = len(self.entities)
                self.entities.append((start + shift, end + shift, label, score))
        self.relations += [
            (places[head], places[tail], label, score)
            for head, tail, label, score in record["relations"]
            if head in places and tail in places
        ]
        self.unaligned += [
            (start + shift, end + shift, label)
            for start, end, label in record["unaligned"]
            if start + shift >= 0 and end + shift <= length
        ]


def keep(doc: Any, group: str, findings: Findings) -> None:
    """Keep findings by the name of the group of spans that shows them, in place of earlier ones."""
    record = asdict(findings)
    for key in [key for key, name, _, _ in _stored(doc) if name == group]:
        del doc.user_data[key]
    if findings.entities:  # texts without any are joined at one and the same place
        doc.user_data[(MARK, PREFIX + group, 0, None)] = record
    if group in doc.spans:
        doc.spans[group].attrs[ATTRIBUTE] = record


def kept(doc: Any) -> dict[str, Findings]:
    """What is kept on a `Doc`, by the names of the groups."""
    found: dict[str, Findings] = {}
    length = doc[-1].idx + len(doc[-1]) if len(doc) else 0
    for group, shift, record in _records(doc):
        found.setdefault(group, Findings()).add(record, shift, length)
    return found


def kept_score(doc: Any, start: int, end: int, label: str) -> float | None:
    """The score of an entity; nothing if there is no such entity."""
    for _, shift, record in _records(doc):
        entities = record["entities"]
        place = bisect_left(entities, start - shift, key=itemgetter(0))
        if place < len(entities) and tuple(entities[place][:3]) == (start - shift, end - shift, label):
            return entities[place][3]  # type: ignore[no-any-return]
    return None


def _records(doc: Any) -> list[tuple[str, int, Record]]:
    """Groups, the characters at which their texts begin, and what was found in these."""
    stored = [(group, shift, record) for _, group, shift, record in _stored(doc)]
    known = {group for group, _, _ in stored}
    stored += [
        (name, 0, group.attrs[ATTRIBUTE])
        for name, group in doc.spans.items()
        if ATTRIBUTE in group.attrs and name not in known
    ]
    return sorted(stored, key=itemgetter(1))


def _stored(doc: Any) -> Iterator[tuple[Any, str, int, Record]]:
    for key, record in doc.user_data.items():
        if isinstance(key, tuple) and len(key) == 4 and key[0] == MARK and str(key[1]).startswith(PREFIX):
            yield key, key[1][len(PREFIX) :], key[2], record
