"""`spert`: one JSON list of sentences, as in SpERT and its copies of CoNLL04 and ADE.

    [{"tokens": ["Ada", "lives", "in", "London"], "orig_id": 7,
      "entities": [{"type": "Peop", "start": 0, "end": 1}, {"type": "Loc", "start": 3, "end": 4}],
      "relations": [{"type": "Live_In", "head": 0, "tail": 1}]}]

Ends are exclusive. `head` and `tail` are positions in `entities`. Every item is a document of one sentence, whose id is
`orig_id`. Other keys are kept in `Document.meta` and written back. unire adds `score` and `attributes`.

A document of several sentences becomes one item per sentence, with the ids `ID#0`, `ID#1` and so on, without its meta
data. The format cannot represent annotation across sentences, the text or the cuts of a document. Its words are read
back joined by spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from unire.documents import Document
from unire.errors import OnError
from unire.formats import json_utils
from unire.formats.base import ALL_CAPABILITIES, Capability, ReadOptions
from unire.formats.json_utils import Json

__all__ = ["CAPABILITIES", "from_json", "read", "to_json", "write"]

CAPABILITIES = ALL_CAPABILITIES - {
    Capability.NOTHING,
    Capability.TEXT,
    Capability.CUTS,
    Capability.CLUSTERS,
    Capability.SENTENCES,
    Capability.SPANNING_ENTITIES,
    Capability.SPANNING_RELATIONS,
}
KEYS = ("tokens", "entities", "relations", "orig_id")


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    return json_utils.read_list(path, options, partial(from_json, options=options))


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_list(documents, path, on_error, to_json)


def from_json(item: Json, position: int, options: ReadOptions | None = None) -> Document:
    options = options or ReadOptions()
    words = json_utils.parse_words(json_utils.require(item, "tokens", list), '"tokens"')
    document = Document.from_words(
        [words], id=json_utils.parse_id(item, "orig_id", position), meta=json_utils.get_other_keys(item, KEYS)
    )
    entities = json_utils.parse_entities(item, document, "type", options)
    return document.annotated(filter(None, entities), json_utils.parse_relations(item, entities, "type", options))


def to_json(document: Document) -> Iterator[Json]:
    entities = [
        {"type": e.label, "start": e.start, "end": e.end, **json_utils.dump_properties(e)} for e in document.entities
    ]
    relations = [
        {"type": relation.label, "head": head, "tail": tail, **json_utils.dump_properties(relation)}
        for relation, head, tail in json_utils.index_arguments(document.relations, document.entities)
    ]
    item = {"tokens": list(document.words), "entities": entities, "relations": relations, "orig_id": document.id}
    yield {**item, **document.meta}
