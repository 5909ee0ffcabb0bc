"""`dygie`: JSON lines as SciERC, DyGIE++ and PURE have them, one document a line.

    {"doc_key": "a", "sentences": [["Ada", "lives", "in", "London"]],
     "ner": [[[0, 0, "Peop"], [3, 3, "Loc"]]], "relations": [[[0, 0, 3, 3, "Live_In"]]]}

Words are counted from the document's start and ends are inclusive. `ner` and `relations` hold one list per sentence, or
are left out. Numbers after the label are scores, of which the last is taken (DyGIE++ puts a logit before its
probability); anything else there is ignored. Other keys, coreference clusters say, are kept in `Document.meta` and
written back.

A relation names the words of its arguments, not the entities: where two entities cover the same words it means the
first, and there is no way to speak of the second. The text, the attributes and the cuts of a document have no place in
the format: it is read back with its words joined by spaces.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.exceptions import UnireError
from unire.formats import fields, json_files
from unire.formats.contents import EVERYTHING, Content
from unire.formats.fields import Json
from unire.formats.format import OnError, Reading

__all__ = ["HOLDS", "from_json", "predictions", "read", "to_json", "write"]

HOLDS = EVERYTHING - {Content.TEXT, Content.CUTS, Content.ATTRIBUTES, Content.TWINS}
KEYS = ("doc_key", "sentences", "ner", "relations", "predicted_ner", "predicted_relations")


def read(path: Path, how: Reading) -> Iterator[Document]:
    def document(item: Json, position: int) -> Document:
        return from_json(predictions(item) if how.predicted else item, position)

    return json_files.read_lines(path, how, document)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_files.write_lines(documents, path, on_error, to_json)


def from_json(item: Json, position: int) -> Document:
    """The document with its annotation in `ner` and `relations`; predictions beside them are left out."""
    document = Document.from_words(
        fields.sentences(item), id=fields.name(item, "doc_key", position), meta=fields.rest(item, KEYS)
    )
    n_words = document.n_words
    entities = [_entity(value, document, n_words) for value in _flat(item, "ner")]
    at: dict[tuple[int, int], Entity] = {}
    for entity in entities:
        at.setdefault(entity.span, entity)
    return document.annotated(entities, [_relation(value, document, at) for value in _flat(item, "relations")])


def predictions(item: Json) -> Json:
    """The same item with `predicted_ner` and `predicted_relations`, where it has them, as its annotation.

    Predicted relations alone are those of the gold entities; predicted entities alone come without relations, since
    the gold ones were not predicted.
    """
    if "predicted_ner" in item:
        item = {**fields.rest(item, ("relations",)), "ner": item["predicted_ner"]}
    if "predicted_relations" in item:
        item = {**item, "relations": item["predicted_relations"]}
    return item


def to_json(document: Document) -> Iterator[Json]:
    ner = [[_entity_item(entity) for entity in sentence.entities] for sentence in document.sentences]
    relations = [[_relation_item(relation) for relation in sentence.relations] for sentence in document.sentences]
    starts = [sentence.start for sentence in document.sentences]
    for entity in document.spanning_entities:  # with the sentence in which it, or its head, begins
        ner[bisect_right(starts, entity.start) - 1].append(_entity_item(entity))
    for relation in document.spanning_relations:
        relations[bisect_right(starts, relation.head.start) - 1].append(_relation_item(relation))
    words = [sentence.words for sentence in document.sentences]
    item = {"doc_key": document.id, "sentences": words, "ner": ner, "relations": relations}
    yield {**item, **fields.rest(document.meta, KEYS)}


def _flat(item: Json, key: str) -> Iterator[Any]:
    """The items of every sentence's list under `key`."""
    lists = fields.optional(item, key)
    n = len(item["sentences"])
    if key in item and len(lists) != n:
        raise UnireError(f'"{key}" has {len(lists)} lists for {n} sentences; it needs one for each')
    for i, values in enumerate(lists):
        yield from fields.expect(values, list, f'list {i} of "{key}"')


def _entity(value: Any, document: Document, n_words: int) -> Entity:
    if not (
        isinstance(value, list)
        and len(value) > 2
        and type(value[0]) is type(value[1]) is int
        and isinstance(value[2], str)
    ):
        raise UnireError(f"entity {fields.shown(value)} is not [start, end, label]")
    start, last = value[0], value[1]
    if not 0 <= start <= last < n_words:
        fields.span(start, last + 1, n_words, fields.What("entity", value))
    return document.entity(start, last + 1, value[2], _score(value[3:]))


def _relation(value: Any, document: Document, at: dict[tuple[int, int], Entity]) -> Relation:
    if not (
        isinstance(value, list)
        and len(value) > 4
        and type(value[0]) is type(value[1]) is type(value[2]) is type(value[3]) is int
        and isinstance(value[4], str)
    ):
        raise UnireError(f"relation {fields.shown(value)} is not [head start, head end, tail start, tail end, label]")
    spans = (value[0], value[1] + 1), (value[2], value[3] + 1)
    head, tail = at.get(spans[0]), at.get(spans[1])
    if head is None or tail is None:
        what = fields.What("relation", value)
        start, end = fields.span(*spans[head is not None], document.n_words, what)
        raise UnireError(f"{what} refers to a missing entity: none covers the words {start} to {end - 1}")
    return Relation(head, tail, value[4], _score(value[5:]))


def _score(values: list[Any]) -> float | None:
    if not values:
        return None
    numbers = [value for value in values if fields.is_number(value)]
    return float(numbers[-1]) if numbers else None


def _entity_item(entity: Entity) -> list[Any]:
    item: list[Any] = [entity.start, entity.end - 1, entity.label]
    return item if entity.score is None else [*item, entity.score]


def _relation_item(relation: Relation) -> list[Any]:
    head, tail = relation.head, relation.tail
    item: list[Any] = [head.start, head.end - 1, tail.start, tail.end - 1, relation.label]
    return item if relation.score is None else [*item, relation.score]
