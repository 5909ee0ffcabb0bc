"""`jsonl`: what `unire extract` writes where it is not told otherwise, one text a line. Read only.

    {"id": "a", "text": "Ada lives in London.",
     "entities": [{"text": "Ada", "label": "Peop", "char_start": 0, "char_end": 3, "score": 0.98}, …],
     "relations": [{"head": {"text": "Ada", "label": "Peop", "char_start": 0, "char_end": 3},
                    "tail": {"text": "London", "label": "Loc", "char_start": 13, "char_end": 19},
                    "label": "Live_In", "score": 0.91}]}

The text is split into sentences and words as extraction does it. `head` and `tail` are entities, told by their
characters and label. All keys that are not named here are the document's meta data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.formats import json_utils
from unire.formats.alignment import Placer, split
from unire.formats.base import ReadOptions
from unire.formats.capabilities import ARGUMENT
from unire.formats.json_utils import Json

__all__ = ["from_lines", "read"]

KEYS = ("id", "text", "entities", "relations")
OTHERS = {"sentences": "unire", "tokens": "prodigy", "spans": "prodigy"}
"""Keys that would be lost among the meta data, and the format that has them."""

Place = tuple[int, int, str]


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    return json_utils.read_lines(path, how, partial(_document, how=how))


def _document(item: Json, position: int, how: ReadOptions) -> Document:
    for key in OTHERS.keys() & item.keys():
        raise UnireError(f'"{key}" is not of the format jsonl; give the format, perhaps {OTHERS[key]}')
    text, name = json_utils.required(item, "text", str), json_utils.name(item, "id", position)
    placer = Placer(split(text, spaces=how.spaces, id=name, meta=json_utils.rest(item, KEYS)), how.notes)
    entities: list[Entity | None] = []
    found: dict[Place, Entity | None] = {}
    for value in json_utils.required(item, "entities", list):
        what = json_utils.What("entity", value)
        start, end, label = place = _place(value, what)
        entities.append(placer.entity([(start, end)], label, *json_utils.properties(value, what)))
        found.setdefault(place, entities[-1])
    relations = []
    for value in json_utils.optional(item, "relations"):
        what = json_utils.What("relation", value)
        head, tail = (_argument(value, side, found, what) for side in ("head", "tail"))
        if head is None or tail is None:
            how.notes[ARGUMENT] += 1
        else:
            label = json_utils.label(value, "label", what)
            relations.append(Relation(head, tail, label, *json_utils.properties(value, what)))
    return placer.document.annotated(filter(None, entities), relations)


def _place(value: Any, what: object) -> Place:
    json_utils.expect(value, dict, what)
    start, end = json_utils.integer(value, "char_start", what), json_utils.integer(value, "char_end", what)
    return start, end, json_utils.label(value, "label", what)


def _argument(value: Any, side: str, found: dict[Place, Entity | None], what: object) -> Entity | None:
    """The entity that a relation means; `None` for one that was left out."""
    place = _place(json_utils.expect(value, dict, what).get(side), f'"{side}" of {what}')
    if place not in found:
        raise UnireError(f'"{side}" of {what} is none of the entities')
    return found[place]


def from_lines(lines: Iterable[str], name: str) -> Iterator[Document]:
    """The documents of some lines, called `name:1`, `name:2` and so on."""
    sentences: list[list[str]] = []
    count = 0
    for line in lines:
        if words := line.split():
            sentences.append(words)
        elif sentences:
            count += 1
            yield Document.from_words(sentences, id=f"{name}:{count}")
            sentences = []
    if sentences:
        yield Document.from_words(sentences, id=f"{name}:{count + 1}")
