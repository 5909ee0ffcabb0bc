"""`unire-released`: JSON lines as the paper's authors released them, one sentence per line.

    {"sentId": 0, "articleId": "a", "sentText": "Ada lives in London",
     "entityMentions": [{"emId": "E1", "text": "Ada", "offset": [0, 1], "label": "Peop"},
                        {"emId": "E2", "text": "London", "offset": [3, 4], "label": "Loc"}],
     "relationMentions": [{"em1Id": "E1", "em1Text": "Ada", "em2Id": "E2", "em2Text": "London", "label": "Live_In"}]}

Words of `sentText` are separated by spaces, unless `tokens` lists them. Offsets count words of the sentence; ends are
exclusive. Consecutive lines with the same `articleId` and a growing `sentId` form one document. Keys with data for one
encoder (`wordpieceSentText`, `jointLabelMatrix`, …) are skipped and counted.

unire adds `score` and `attributes`, and `meta` in the first line of a document. The format cannot represent annotation
across sentences, the text or the cuts of a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.base import ALL_CAPABILITIES, Capability, ReadOptions, add_location
from unire.formats.json_utils import Json

__all__ = ["CAPABILITIES", "read", "to_json", "write"]

CAPABILITIES = ALL_CAPABILITIES - {
    Capability.NOTHING,
    Capability.TEXT,
    Capability.CUTS,
    Capability.CLUSTERS,
    Capability.SPANNING_ENTITIES,
    Capability.SPANNING_RELATIONS,
}
MENTION_KEYS = (
    *("emId", "text", "offset", "label", "score", "attributes"),
    *("em1Id", "em2Id", "em1Text", "em2Text"),
)
KEYS = ("articleId", "sentId", "sentText", "tokens", "entityMentions", "relationMentions", "meta")


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    parts: list[Document] = []
    last = ("", 0)
    size = 0
    for position, (location, item) in enumerate(json_utils.iter_objects(path, options)):
        part = None
        options.skipped.clear()
        with add_location(location, options.on_error):
            part, key = _parse_sentence(item, options), _parse_key(item, position)
        if part is None:
            continue
        options.report_skipped(location)
        for name in json_utils.get_other_keys(item, KEYS):
            options.notes[f'"{name}" of a sentence, left out'] += 1
        if parts and (key[0] != last[0] or key[1] <= last[1]):
            yield from _read_joined(parts, last[0], size, path, options)
            parts, size = [], 0
        size += len(part.text)
        if not parts or size <= options.limits.max_document:
            parts.append(part)
        last = key
    if parts:
        yield from _read_joined(parts, last[0], size, path, options)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_lines(documents, path, on_error, to_json)


def to_json(document: Document) -> Iterator[Json]:
    for i, sentence in enumerate(document.sentences):
        words = list(sentence.words)
        names = [f"E{n}" for n in range(1, len(sentence.entities) + 1)]
        item: Json = {"sentId": i, "articleId": document.id, "sentText": " ".join(words)}
        if _split_words(item["sentText"]) != words:
            item["tokens"] = words
        item["entityMentions"] = [
            {
                "emId": name,
                "text": " ".join(words[e.start - sentence.start : e.end - sentence.start]),
                "offset": [e.start - sentence.start, e.end - sentence.start],
                "label": e.label,
                **json_utils.dump_properties(e),
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
                **json_utils.dump_properties(relation),
            }
            for relation, head, tail in json_utils.index_arguments(sentence.relations, sentence.entities)
        ]
        yield {**item, "meta": dict(document.meta)} if document.meta and i == 0 else item


def _parse_key(item: Json, position: int) -> tuple[str, int]:
    """The document's id and the sentence's number in it. A line without an id is a separate document."""
    number = item.get("sentId", 0)
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if not json_utils.is_integer(number):
        raise UnireError(f'"sentId" must be a whole number, but is {json_utils.shorten_json(number)}')
    return json_utils.parse_id(item, "articleId", position), number


def _parse_sentence(item: Json, options: ReadOptions) -> Document:
    """Read a line as a document of one sentence."""
    text = json_utils.require(item, "sentText", str)
    words = json_utils.parse_words(item["tokens"], '"tokens"') if "tokens" in item else _split_words(text)
    document = Document.from_words([words], meta=json_utils.expect(item.get("meta", {}), dict, '"meta"'))
    entities: dict[str, Entity] = {}
    for i, value in enumerate(json_utils.get_list(item, "entityMentions")):
        try:
            name = str(json_utils.expect(value, dict, json_utils.ErrorSubject("entity", value)).get("emId", i))
            if name in entities:
                raise UnireError(f'{json_utils.ErrorSubject("entity", value)} has the same "emId" as another one')
            entities[name] = _parse_entity(value, document)
        except UnireError as error:
            options.skip(error, "entity")
        else:
            json_utils.count_extra(value, MENTION_KEYS, options)
    relations = []
    for value in json_utils.get_list(item, "relationMentions"):
        try:
            relations.append(_parse_relation(value, entities))
        except UnireError as error:
            options.skip(error, "relation")
        else:
            json_utils.count_extra(value, MENTION_KEYS, options)
    return document.annotated(entities.values(), relations)


def _parse_entity(value: Json, document: Document) -> Entity:
    what = json_utils.ErrorSubject("entity", value)
    offset = value.get("offset")
    if not isinstance(offset, list) or len(offset) != 2 or not all(map(json_utils.is_integer, offset)):
        raise UnireError(f'"offset" of {what} is not [start, end]')
    span = json_utils.check_span(offset[0], offset[1], document.n_words, what)
    label, (score, attributes) = json_utils.parse_label(value, "label", what), json_utils.parse_properties(value, what)
    return replace(document.entity(*span, label, score), attributes=attributes)


def _parse_relation(value: Any, entities: dict[str, Entity]) -> Relation:
    what = json_utils.ErrorSubject("relation", value)
    json_utils.expect(value, dict, what)
    if missing := [key for key in ("em1Id", "em2Id") if str(value.get(key)) not in entities]:
        raise UnireError(f'{what} refers to a missing entity by its "{missing[0]}"')
    head, tail = entities[str(value["em1Id"])], entities[str(value["em2Id"])]
    return Relation(head, tail, json_utils.parse_label(value, "label", what), *json_utils.parse_properties(value, what))


def _read_joined(
    parts: list[Document], name: str, n_characters: int, path: Path, options: ReadOptions
) -> Iterator[Document]:
    """Join the sentences of one document, unless they are inconsistent or too many."""
    document = None
    with add_location(str(path), options.on_error):
        options.limits.check_document(n_characters, f"document {name!r}")
        document = _join_sentences(parts, name)
    if document is not None:
        yield document


def _join_sentences(parts: list[Document], name: str) -> Document:
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


def _split_words(text: str) -> list[str]:
    return text.split(" ") if text else []
