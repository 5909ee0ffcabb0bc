"""`jsonl`: the default output of `unire extract`, one text per line. It can only be read.

    {"id": "a", "text": "Ada lives in London.",
     "entities": [{"text": "Ada", "label": "Peop", "char_start": 0, "char_end": 3, "score": 0.98}, …],
     "relations": [{"head": {"text": "Ada", "label": "Peop", "char_start": 0, "char_end": 3},
                    "tail": {"text": "London", "label": "Loc", "char_start": 13, "char_end": 19},
                    "label": "Live_In", "score": 0.91}],
     "clusters": [[{"text": "Ada", "char_start": 0, "char_end": 3}, …], …]}

The reader splits the text into sentences and words as extraction does. `head` and `tail` name entities by their
characters and label. `clusters` lists the mentions of each thing that is mentioned several times; the key is missing if
there is none. All other keys are the document's meta data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.formats import json_utils
from unire.formats.alignment import EntityAligner, find_words, split_text
from unire.formats.base import LOST_ARGUMENT, ReadOptions
from unire.formats.json_utils import Json

__all__ = ["read"]

KEYS = ("id", "text", "entities", "relations", "clusters")
FOREIGN_KEYS = {"sentences": "unire", "tokens": "prodigy", "spans": "prodigy"}
"""Keys that do not belong into the meta data, and the format that defines them."""

EntityKey = tuple[int, int, str]


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    return json_utils.read_lines(path, options, partial(_parse_document, options=options))


def _parse_document(item: Json, position: int, options: ReadOptions) -> Document:
    for foreign in FOREIGN_KEYS.keys() & item.keys():
        raise UnireError(
            f'"{foreign}" is not a key of the format jsonl; give the format, perhaps {FOREIGN_KEYS[foreign]}'
        )
    text, name = json_utils.require(item, "text", str), json_utils.parse_id(item, "id", position)
    aligner = EntityAligner(
        split_text(text, options, id=name, meta=json_utils.get_other_keys(item, KEYS)),
        options.notes,
    )
    entities: list[Entity | None] = []
    by_key: dict[EntityKey, Entity | None] = {}
    for value in json_utils.require(item, "entities", list):
        what = json_utils.ErrorSubject("entity", value)
        key = None
        try:
            start, end, label = key = _parse_key(value, what)
            entities.append(aligner.align([(start, end)], label, *json_utils.parse_properties(value, what)))
        except UnireError as error:
            options.skip(error, "entity")
            entities.append(None)
        else:
            json_utils.count_extra(value, (*json_utils.ENTITY_KEYS, "label"), options)
        if key:
            by_key.setdefault(key, entities[-1])
    relations = []
    for value in json_utils.get_list(item, "relations"):
        what = json_utils.ErrorSubject("relation", value)
        try:
            head, tail = (_find_argument(value, side, by_key, what) for side in ("head", "tail"))
            label, properties = json_utils.parse_label(value, "label", what), json_utils.parse_properties(value, what)
        except UnireError as error:
            options.skip(error, "relation")
            continue
        if head is None or tail is None:
            options.notes[LOST_ARGUMENT] += 1
        else:
            relations.append(Relation(head, tail, label, *properties))
            json_utils.count_extra(value, (*json_utils.RELATION_KEYS, "label"), options)
    clusters = [_parse_cluster(value, aligner) for value in json_utils.get_list(item, "clusters")]
    return aligner.document.annotated(filter(None, entities), relations, clusters=clusters)


def _parse_cluster(value: Any, aligner: EntityAligner) -> list[tuple[int, int]]:
    """The mentions of a cluster, without those that cover no word."""
    mentions = []
    for mention in json_utils.expect(value, list, 'a cluster of "clusters"'):
        what = json_utils.ErrorSubject("mention", mention)
        json_utils.expect(mention, dict, what)
        span = (
            json_utils.parse_integer(mention, "char_start", what),
            json_utils.parse_integer(mention, "char_end", what),
        )
        mentions.append(find_words(aligner.document.offsets, *span))
    return [mention for mention in mentions if mention]


def _parse_key(value: Any, what: object) -> EntityKey:
    json_utils.expect(value, dict, what)
    start, end = json_utils.parse_integer(value, "char_start", what), json_utils.parse_integer(value, "char_end", what)
    return start, end, json_utils.parse_label(value, "label", what)


def _find_argument(value: Any, side: str, by_key: dict[EntityKey, Entity | None], what: object) -> Entity | None:
    """The entity that a relation refers to, or `None` if it was left out."""
    key = _parse_key(json_utils.expect(value, dict, what).get(side), f'"{side}" of {what}')
    if key not in by_key:
        raise UnireError(f'"{side}" of {what} is not one of the entities')
    return by_key[key]
