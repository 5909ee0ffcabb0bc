"""`spert`: one JSON list of sentences, as SpERT and its copies of CoNLL04 and ADE have it.

    [{"tokens": ["Ada", "lives", "in", "London"], "orig_id": 7,
      "entities": [{"type": "Peop", "start": 0, "end": 1}, {"type": "Loc", "start": 3, "end": 4}],
      "relations": [{"type": "Live_In", "head": 0, "tail": 1}]}]

Ends are exclusive; `head` and `tail` are positions in `entities`. Every item is a document of one sentence, named by
its `orig_id`. Other keys are kept in `Document.meta` and written back; scores and attributes stand under `score` and
`attributes`.

A document of several sentences becomes one item per sentence, named `ID#0`, `ID#1` and so on, without its meta data.
What crosses sentences, the text and the cuts of a document have no place in the format: it is read back with its words
joined by spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from unire.documents import Document
from unire.exceptions import OnError
from unire.formats import fields, json_files
from unire.formats.contents import EVERYTHING, Content
from unire.formats.fields import Json
from unire.formats.format import Reading

__all__ = ["HOLDS", "from_json", "read", "to_json", "write"]

HOLDS = EVERYTHING - {
    Content.NOTHING,
    Content.TEXT,
    Content.CUTS,
    Content.SENTENCES,
    Content.SPANNING_ENTITIES,
    Content.SPANNING_RELATIONS,
}
KEYS = ("tokens", "entities", "relations", "orig_id")


def read(path: Path, how: Reading) -> Iterator[Document]:
    return json_files.read_list(path, how, from_json)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_files.write_list(documents, path, on_error, to_json)


def from_json(item: Json, position: int) -> Document:
    words = fields.words(fields.required(item, "tokens", list), '"tokens"')
    document = Document.from_words([words], id=fields.name(item, "orig_id", position), meta=fields.rest(item, KEYS))
    entities = fields.entities(item, document, "type")
    return document.annotated(entities, fields.relations(item, entities, "type"))


def to_json(document: Document) -> Iterator[Json]:
    entities = [{"type": e.label, "start": e.start, "end": e.end, **fields.extras(e)} for e in document.entities]
    relations = [
        {"type": relation.label, "head": head, "tail": tail, **fields.extras(relation)}
        for relation, head, tail in fields.numbered(document.relations, document.entities)
    ]
    item = {"tokens": list(document.words), "entities": entities, "relations": relations, "orig_id": document.id}
    yield {**item, **document.meta}
