"""`unire-released`: JSON lines as the paper's authors have them, one sentence a line.

    {"sentId": 0, "articleId": "a", "sentText": "Ada lives in London",
     "entityMentions": [{"emId": "E1", "text": "Ada", "offset": [0, 1], "label": "Peop"},
                        {"emId": "E2", "text": "London", "offset": [3, 4], "label": "Loc"}],
     "relationMentions": [{"em1Id": "E1", "em1Text": "Ada", "em2Id": "E2", "em2Text": "London", "label": "Live_In"}]}

Words of `sentText` stand between spaces, unless `tokens` lists them; offsets count words of the sentence, ends are
exclusive. Lines that follow each other with the same `articleId` and a growing `sentId` are one document. Keys with
what was made for one encoder (`wordpieceSentText`, `jointLabelMatrix`, …) are left out, and noted.

Scores and attributes stand under `score` and `attributes`, the document's meta data under `meta` in its first line.
What crosses sentences, the text and the cuts of a document have no place in the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.base import ReadOptions, at
from unire.formats.capabilities import EVERYTHING, Capability
from unire.formats.json_utils import Json

__all__ = ["HOLDS", "read", "to_json", "write"]

HOLDS = EVERYTHING - {
    Capability.NOTHING,
    Capability.TEXT,
    Capability.CUTS,
    Capability.SPANNING_ENTITIES,
    Capability.SPANNING_RELATIONS,
}
KEYS = ("articleId", "sentId", "sentText", "tokens", "entityMentions", "relationMentions", "meta")


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    parts: list[Document] = []
    last = ("", 0)
    for position, (place, item) in enumerate(json_utils.objects(path, how.on_error)):
        part = None
        with at(place, how.on_error):
            part, key = _sentence(item), _key(item, position)
        if part is None:
            continue
        for name in json_utils.rest(item, KEYS):
            how.notes[f'"{name}" of a sentence, left out'] += 1
        if parts and (key[0] != last[0] or key[1] <= last[1]):
            yield from _joined(parts, last[0], path, how)
            parts = []
        parts.append(part)
        last = key
    if parts:
        yield from _joined(parts, last[0], path, how)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_lines(documents, path, on_error, to_json)


def to_json(document: Document) -> Iterator[Json]:
    for i, sentence in enumerate(document.sentences):
        words = list(sentence.words)
        names = [f"E{n}" for n in range(1, len(sentence.entities) + 1)]
        item: Json = {"sentId": i, "articleId": document.id, "sentText": " ".join(words)}
        if _split(item["sentText"]) != words:
            item["tokens"] = words
        item["entityMentions"] = [
            {
                "emId": name,
                "text": " ".join(words[e.start - sentence.start : e.end - sentence.start]),
                "offset": [e.start - sentence.start, e.end - sentence.start],
                "label": e.label,
                **json_utils.extras(e),
            }
            for name, e in zip(names, sentence.entities, strict=True)
        ]
        item["relationMentions"] = [
            {
                "em1Id": names[head],
                "em1Text": item["entityMentions"][head]["text"],
                "em2Id": names[tail],
                "em2Text": item["entityMentions"][tail]["text"],
                "label": relation.label,
                **json_utils.extras(relation),
            }
            for relation, head, tail in json_utils.numbered(sentence.relations, sentence.entities)
        ]
        yield {**item, "meta": dict(document.meta)} if document.meta and i == 0 else item


def _key(item: Json, position: int) -> tuple[str, int]:
    """The document's name and the sentence's number in it; a line without a name is a document of its own."""
    number = item.get("sentId", 0)
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if not json_utils.is_integer(number):
        raise UnireError(f'"sentId" must be a whole number, but is {json_utils.shown(number)}')
    return json_utils.name(item, "articleId", position), number


def _sentence(item: Json) -> Document:
    """A line as a document of one sentence."""
    text = json_utils.required(item, "sentText", str)
    words = json_utils.words(item["tokens"], '"tokens"') if "tokens" in item else _split(text)
    document = Document.from_words([words], meta=json_utils.expect(item.get("meta", {}), dict, '"meta"'))
    entities: dict[str, Entity] = {}
    for value in json_utils.optional(item, "entityMentions"):
        what = json_utils.What("entity", value)
        name = str(json_utils.expect(value, dict, what).get("emId", len(entities)))
        if name in entities:
            raise UnireError(f'{what} has the "emId" of another one')
        offset = value.get("offset")
        if not isinstance(offset, list) or len(offset) != 2 or not all(map(json_utils.is_integer, offset)):
            raise UnireError(f'"offset" of {what} is not [start, end]')
        span = json_utils.span(offset[0], offset[1], document.n_words, what)
        label, (score, attributes) = json_utils.label(value, "label", what), json_utils.properties(value, what)
        entities[name] = replace(document.entity(*span, label, score), attributes=attributes)  # of the whole document
    relations = [_relation(value, entities) for value in json_utils.optional(item, "relationMentions")]
    return document.annotated(entities.values(), relations)


def _relation(value: Any, entities: dict[str, Entity]) -> Relation:
    what = json_utils.What("relation", value)
    json_utils.expect(value, dict, what)
    if missing := [key for key in ("em1Id", "em2Id") if str(value.get(key)) not in entities]:
        raise UnireError(f'{what} refers to a missing entity by its "{missing[0]}"')
    head, tail = entities[str(value["em1Id"])], entities[str(value["em2Id"])]
    return Relation(head, tail, json_utils.label(value, "label", what), *json_utils.properties(value, what))


def _joined(parts: list[Document], name: str, path: Path, how: ReadOptions) -> Iterator[Document]:
    """One document from its sentences, if it is one."""
    document = None
    with at(str(path), how.on_error):
        document = _of_sentences(parts, name)
    if document is not None:
        yield document


def _of_sentences(parts: list[Document], name: str) -> Document:
    document = Document.from_words([part.words for part in parts], id=name, meta=parts[0].meta)
    entities: list[Entity] = []
    relations: list[Relation] = []
    for part, sentence in zip(parts, document.sentences, strict=True):
        moved = {
            id(e): document.entity(e.start + sentence.start, e.end + sentence.start, e.label, e.score, e.attributes)
            for e in part.entities
        }
        entities += moved.values()
        relations += [replace(r, head=moved[id(r.head)], tail=moved[id(r.tail)]) for r in part.relations]
    return document.annotated(entities, relations)


def _split(text: str) -> list[str]:
    return text.split(" ") if text else []
