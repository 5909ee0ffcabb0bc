"""`prodigy`: JSON lines as Prodigy's `rel.manual` and `ner.manual` have them, one text a line.

    {"text": "Ada lives in London.", "id": "a", "answer": "accept", "sentences": [5],
     "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": true}, …],
     "spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "Peop"}, …],
     "relations": [{"head": 0, "child": 3, "label": "Live_In",
                    "head_span": {"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "Peop"},
                    "child_span": {"start": 13, "end": 19, "token_start": 3, "token_end": 3, "label": "Loc"}}]}

Spans count characters, or tokens where they say so (`token_end` is inclusive). A relation goes from `head` to `child`,
which are the last tokens of two spans, and mostly has those spans beside them. Texts whose `answer` is not `accept` are
left out, and noted. A text without `tokens` is split into sentences and words. `meta` and all keys that are not named
here are the document's meta data; `entities`, which other formats have, are noted, and refused where there are no
`spans`.

`id` and `sentences`, the number of tokens of each sentence, are ours: without the latter a text with tokens is one
sentence. Scores and attributes stand under `score` and `attributes` of spans and relations. The cuts of a document
have no place in the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.alignment import Placer, split
from unire.formats.base import ReadOptions, at
from unire.formats.capabilities import ARGUMENT, EVERYTHING, Capability
from unire.formats.json_utils import Json

__all__ = ["HOLDS", "read", "to_json", "write"]

HOLDS = EVERYTHING - {Capability.CUTS}
KEYS = ("text", "id", "tokens", "sentences", "spans", "relations", "meta", "answer")

Found = list[tuple[Json, Entity | None]]
"""Spans and their entities; `None` for one that was left out."""


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    for position, (place, item) in enumerate(json_utils.objects(path, how.on_error)):
        if item.get("answer", "accept") != "accept":
            how.notes["text that was not accepted, left out"] += 1
            continue
        document = None
        with at(place, how.on_error):
            document = _document(item, position, how)
        if document is not None:
            yield document


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_lines(documents, path, on_error, to_json)


def to_json(document: Document) -> Iterator[Json]:
    tokens = [
        {"text": word, "start": start, "end": end, "id": i, "ws": document.text[end : end + 1].isspace()}
        for i, (word, (start, end)) in enumerate(zip(document.words, document.offsets, strict=True))
    ]
    spans = [
        {
            "start": entity.char_start,
            "end": entity.char_end,
            "token_start": entity.start,
            "token_end": entity.end - 1,
            "label": entity.label,
            **json_utils.extras(entity),
        }
        for entity in document.entities
    ]
    relations = [
        {
            "head": relation.head.end - 1,
            "child": relation.tail.end - 1,
            "head_span": spans[head],
            "child_span": spans[tail],
            "label": relation.label,
            **json_utils.extras(relation),
        }
        for relation, head, tail in json_utils.numbered(document.relations, document.entities)
    ]
    yield {
        "text": document.text,
        "id": document.id,
        "tokens": tokens,
        "sentences": list(map(len, document.sentences)),
        "spans": spans,
        "relations": relations,
        "meta": dict(document.meta),
        "answer": "accept",
    }


def _document(item: Json, position: int, how: ReadOptions) -> Document:
    document = _tokenized(item, position) if "tokens" in item else _split(item, position, how)
    if "entities" in item:
        if "spans" not in item:
            raise UnireError('"entities" is not of the format prodigy, which has "spans"; give the format of the file')
        how.notes['"entities" beside "spans", taken as meta data'] += 1
    placer = Placer(document, how.notes)
    found = [
        (value, _entity(value, placer, in_tokens="tokens" in item)) for value in json_utils.optional(item, "spans")
    ]
    relations = [_relation(value, found) for value in json_utils.optional(item, "relations")]
    if orphaned := relations.count(None):
        how.notes[ARGUMENT] += orphaned
    return document.annotated((entity for _, entity in found if entity), filter(None, relations))


def _meta(item: Json) -> Json:
    return {**json_utils.expect(item.get("meta", {}), dict, '"meta"'), **json_utils.rest(item, KEYS)}


def _split(item: Json, position: int, how: ReadOptions) -> Document:
    text, name = json_utils.required(item, "text", str), json_utils.name(item, "id", position)
    return split(text, spaces=how.spaces, id=name, meta=_meta(item))


def _tokenized(item: Json, position: int) -> Document:
    text = json_utils.required(item, "text", str)
    words, offsets = [], []
    for token in json_utils.required(item, "tokens", list):
        what = json_utils.What("token", token)
        json_utils.expect(token, dict, what)
        start, end = json_utils.integer(token, "start", what), json_utils.integer(token, "end", what)
        if not 0 <= start <= end <= len(text):
            raise UnireError(f"{what} does not lie in a text of {len(text)} characters")
        words.append(json_utils.label(token, "text", what))
        offsets.append((start, end))
    sentences = json_utils.portions(words, item.get("sentences", [len(words)]))
    return Document.from_words(
        sentences, text=text, offsets=offsets, id=json_utils.name(item, "id", position), meta=_meta(item)
    )


def _entity(value: Any, placer: Placer, *, in_tokens: bool) -> Entity | None:
    what = json_utils.What("span", value)
    json_utils.expect(value, dict, what)
    label, properties = json_utils.label(value, "label", what), json_utils.properties(value, what)
    if in_tokens and "token_start" in value:
        start, last = json_utils.integer(value, "token_start", what), json_utils.integer(value, "token_end", what)
        span = json_utils.span(start, last + 1, placer.document.n_words, what)
        return placer.document.entity(*span, label, *properties)
    return placer.entity(
        [(json_utils.integer(value, "start", what), json_utils.integer(value, "end", what))], label, *properties
    )


def _relation(value: Any, found: Found) -> Relation | None:
    """The relation, unless one of its entities was left out."""
    what = json_utils.What("relation", value)
    json_utils.expect(value, dict, what)
    head, tail = (_argument(value, key, found, what) for key in ("head", "child"))
    label, properties = json_utils.label(value, "label", what), json_utils.properties(value, what)
    return None if head is None or tail is None else Relation(head, tail, label, *properties)


def _argument(value: Json, key: str, found: Found, what: object) -> Entity | None:
    """The entity that a relation means: the span beside it, else one with the same place and label, else by token.

    `None` for one that was left out.
    """
    span = value.get(f"{key}_span")
    candidates = [entity for other, entity in found if other == span]
    if not candidates and isinstance(span, dict):
        place = [span.get(name) for name in ("start", "end", "label")]
        candidates = [e for other, e in found if [other.get(name) for name in ("start", "end", "label")] == place]
    if not candidates and span is None:
        candidates = [entity for _, entity in found if entity and entity.end - 1 == value.get(key)]
    if not candidates:
        raise UnireError(f'{what} has a "{key}" that is no span')
    return candidates[0]
