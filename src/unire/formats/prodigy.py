"""`prodigy`: JSON lines as in Prodigy's `rel.manual` and `ner.manual`, one text per line.

    {"text": "Ada lives in London.", "id": "a", "answer": "accept", "sentences": [5],
     "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": true}, …],
     "spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "Peop"}, …],
     "relations": [{"head": 0, "child": 3, "label": "Live_In",
                    "head_span": {"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "Peop"},
                    "child_span": {"start": 13, "end": 19, "token_start": 3, "token_end": 3, "label": "Loc"}}]}

Spans count characters, or tokens if they have `token_start` and `token_end` (inclusive). A relation goes from `head` to
`child`, the last tokens of two spans, and usually names those spans too. Texts whose `answer` is not `accept` are
skipped and counted. A text without `tokens` is split into sentences and words. `meta` and all other keys are the
document's meta data. `entities`, a key of other formats, is counted, and is an error if there are no `spans`.

unire adds `id` and `sentences` (the number of tokens of each sentence). Without `sentences`, a text with tokens is one
sentence. It also adds `score` and `attributes` of spans and relations. The format cannot represent the cuts of a
document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.alignment import EntityAligner, split_text
from unire.formats.base import ALL_CAPABILITIES, LOST_ARGUMENT, Capability, ReadOptions, add_location
from unire.formats.json_utils import Json

__all__ = ["CAPABILITIES", "read", "to_json", "write"]

CAPABILITIES = ALL_CAPABILITIES - {Capability.CUTS, Capability.CLUSTERS}
KEYS = ("text", "id", "tokens", "sentences", "spans", "relations", "meta", "answer")

SpanEntities = list[tuple[Json, Entity | None]]
"""Spans with their entities, or with `None` for an entity that was left out."""


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    for position, (location, item) in enumerate(json_utils.iter_objects(path, options)):
        if item.get("answer", "accept") != "accept":
            options.notes["text that was not accepted, left out"] += 1
            continue
        document = None
        options.skipped.clear()
        with add_location(location, options.on_error):
            document = _parse_document(item, position, options)
        if document is not None:
            options.report_skipped(location)
            yield document


def write(documents: Iterable[Document], path: Path, on_error: OnError, *, answer: str | None = "accept") -> None:
    """Write examples, without an `answer` if it is `None`: they are to be corrected."""
    json_utils.write_lines(documents, path, on_error, partial(to_json, answer=answer))


def to_json(document: Document, answer: str | None = "accept") -> Iterator[Json]:
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
            **json_utils.dump_properties(entity),
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
            **json_utils.dump_properties(relation),
        }
        for relation, head, tail in json_utils.index_arguments(document.relations, document.entities)
    ]
    yield {
        "text": document.text,
        "id": document.id,
        "tokens": tokens,
        "sentences": list(map(len, document.sentences)),
        "spans": spans,
        "relations": relations,
        "meta": dict(document.meta),
        **({} if answer is None else {"answer": answer}),
    }


def _parse_document(item: Json, position: int, options: ReadOptions) -> Document:
    document = _parse_tokens(item, position) if "tokens" in item else _split_item(item, position, options)
    if "entities" in item:
        if "spans" not in item:
            raise UnireError(
                '"entities" is not a key of the format prodigy, which has "spans"; choose the format of the file'
            )
        options.notes['"entities" beside "spans", taken as meta data'] += 1
    aligner = EntityAligner(document, options.notes)
    spans: SpanEntities = []
    for value in json_utils.get_list(item, "spans"):
        try:
            spans.append((value, _parse_entity(value, aligner, in_tokens="tokens" in item)))
        except UnireError as error:
            options.skip(error, "entity")
            if isinstance(value, dict):
                spans.append((value, None))
    relations = []
    for value in json_utils.get_list(item, "relations"):
        try:
            relation = _parse_relation(value, spans)
        except UnireError as error:
            options.skip(error, "relation")
            continue
        if relation is None:
            options.notes[LOST_ARGUMENT] += 1
        else:
            relations.append(relation)
    return document.annotated((entity for _, entity in spans if entity), relations)


def _get_meta(item: Json) -> Json:
    return {**json_utils.expect(item.get("meta", {}), dict, '"meta"'), **json_utils.get_other_keys(item, KEYS)}


def _split_item(item: Json, position: int, options: ReadOptions) -> Document:
    text, name = json_utils.require(item, "text", str), json_utils.parse_id(item, "id", position)
    return split_text(text, options, id=name, meta=_get_meta(item))


def _parse_tokens(item: Json, position: int) -> Document:
    text = json_utils.require(item, "text", str)
    words, offsets = [], []
    for token in json_utils.require(item, "tokens", list):
        what = json_utils.ErrorSubject("token", token)
        json_utils.expect(token, dict, what)
        start, end = json_utils.parse_integer(token, "start", what), json_utils.parse_integer(token, "end", what)
        if not 0 <= start <= end <= len(text):
            raise UnireError(f"{what} is outside the text, which has {len(text)} characters")
        words.append(json_utils.parse_label(token, "text", what))
        offsets.append((start, end))
    sentences = json_utils.split_by_lengths(words, item.get("sentences", [len(words)]))
    return Document.from_words(
        sentences, text=text, offsets=offsets, id=json_utils.parse_id(item, "id", position), meta=_get_meta(item)
    )


def _parse_entity(value: Any, aligner: EntityAligner, *, in_tokens: bool) -> Entity | None:
    what = json_utils.ErrorSubject("span", value)
    json_utils.expect(value, dict, what)
    label, properties = json_utils.parse_label(value, "label", what), json_utils.parse_properties(value, what)
    if in_tokens and "token_start" in value:
        start, last = (
            json_utils.parse_integer(value, "token_start", what),
            json_utils.parse_integer(value, "token_end", what),
        )
        span = json_utils.check_span(start, last + 1, aligner.document.n_words, what)
        return aligner.document.entity(*span, label, *properties)
    return aligner.align(
        [(json_utils.parse_integer(value, "start", what), json_utils.parse_integer(value, "end", what))],
        label,
        *properties,
    )


def _parse_relation(value: Any, spans: SpanEntities) -> Relation | None:
    """Read a relation, or return `None` if one of its entities was left out."""
    what = json_utils.ErrorSubject("relation", value)
    json_utils.expect(value, dict, what)
    head, tail = (_find_argument(value, key, spans, what) for key in ("head", "child"))
    label, properties = json_utils.parse_label(value, "label", what), json_utils.parse_properties(value, what)
    return None if head is None or tail is None else Relation(head, tail, label, *properties)


def _find_argument(value: Json, key: str, spans: SpanEntities, what: object) -> Entity | None:
    """The entity of an argument, or `None` if it was left out.

    It is the equal span, or the span with the same characters and label, or the one that ends with the token.
    """
    span = value.get(f"{key}_span")
    candidates = [entity for other, entity in spans if other == span]
    if not candidates and isinstance(span, dict):
        key_values = [span.get(name) for name in ("start", "end", "label")]
        candidates = [e for other, e in spans if [other.get(name) for name in ("start", "end", "label")] == key_values]
    if not candidates and span is None:
        candidates = [entity for _, entity in spans if entity and entity.end - 1 == value.get(key)]
    if not candidates:
        raise UnireError(f'{what} has a "{key}" that is not a span')
    return candidates[0]
