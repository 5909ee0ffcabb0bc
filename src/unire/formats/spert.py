"""`spert`: one JSON list of sentences, as SpERT and its copies of CoNLL04 and ADE have it.

    [{"tokens": ["Ada", "lives", "in", "London"], "orig_id": 7,
      "entities": [{"type": "Peop", "start": 0, "end": 1}, {"type": "Loc", "start": 3, "end": 4}],
      "relations": [{"type": "Live_In", "head": 0, "tail": 1}]}]

Ends are exclusive; `head` and `tail` are positions in `entities`. Every item is a document of one sentence, named by
its `orig_id`. Other keys are kept in `Document.meta` and written back; a score stands under `score`.

A document of several sentences is written as one item per sentence, named `ID#0`, `ID#1` and so on, without its meta,
which is the document's and not a sentence's. What crosses sentences cannot be written and is refused. The text and the
cuts of a document have no place in the format: it is read back with its words joined by spaces.
"""

from __future__ import annotations

from collections.abc import Iterator

from unire.documents import Document, Sentence
from unire.exceptions import UnireError
from unire.formats import fields
from unire.formats.fields import Json

__all__ = ["from_json", "to_json"]

KEYS = ("tokens", "entities", "relations", "orig_id")


def from_json(item: Json, position: int) -> Document:
    words = fields.words(fields.required(item, "tokens", list), '"tokens"')
    document = Document.from_words([words], id=fields.name(item, "orig_id", position), meta=fields.rest(item, KEYS))
    entities = fields.entities(item, document, "type")
    return document.annotated(entities, fields.relations(item, entities, "type"))


def to_json(document: Document) -> Iterator[Json]:
    if document.spanning_entities or document.spanning_relations:
        entities, relations = len(document.spanning_entities), len(document.spanning_relations)
        raise UnireError(
            f"{entities} entities and {relations} relations cross sentences, and the format spert holds one sentence "
            "at a time; write unire or dygie"
        )
    if len(document.sentences) > 1:
        for i, sentence in enumerate(document.sentences):
            yield _item(sentence, f"{document.id}#{i}")
    else:
        sentence = document.sentences[0] if document.sentences else Sentence(0, (), ())
        yield {**_item(sentence, document.id), **fields.rest(document.meta, KEYS)}


def _item(sentence: Sentence, id: str) -> Json:
    entities = [
        {"type": e.label, "start": e.start - sentence.start, "end": e.end - sentence.start, **fields.scored(e)}
        for e in sentence.entities
    ]
    relations = [
        {"type": relation.label, "head": head, "tail": tail, **fields.scored(relation)}
        for relation, head, tail in fields.numbered(sentence.relations, sentence.entities)
    ]
    return {"tokens": list(sentence.words), "entities": entities, "relations": relations, "orig_id": id}
