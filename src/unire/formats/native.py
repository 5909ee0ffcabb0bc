"""`unire`: the project's own JSON lines, one document per line.

    {"id": "a", "text": "Ada lives in London.",
     "sentences": [["Ada", "lives", "in", "London", "."]], "offsets": [[[0, 3], [4, 9], [10, 12], [13, 19], [19, 20]]],
     "entities": [
       {"start": 0, "end": 1, "label": "Peop", "char_start": 0, "char_end": 3, "text": "Ada", "score": 0.98},
       {"start": 3, "end": 4, "label": "Loc", "char_start": 13, "char_end": 19, "text": "London", "score": 0.95}],
     "relations": [{"head": 0, "tail": 1, "label": "Live_In", "score": 0.91}]}

`start` and `end` count words of the document, `char_start` and `char_end` characters of its text; ends are exclusive.
`offsets` holds the characters of every word in `sentences`. It is omitted if the text is the words joined by spaces and
the sentences joined by line ends. `head` and `tail` are positions in `entities`. Gold annotation has no `score`. `cuts`
holds one list (or null) per sentence if a decoder recorded its cuts. `clusters` holds one list for each thing that is
mentioned several times, with the `[start, end]` of its mentions. `meta`, and `attributes` of an entity or a relation,
hold data of other formats. A document is read back exactly as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Sentence
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.base import ReadOptions
from unire.formats.json_utils import Json

__all__ = ["dump_layout", "from_json", "parse_layout", "read", "to_json", "write"]


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    return json_utils.read_lines(path, options, partial(from_json, options=options))


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_lines(documents, path, on_error, to_json)


def from_json(item: Json, position: int, options: ReadOptions | None = None) -> Document:
    options = options or ReadOptions()
    meta = json_utils.expect(item.get("meta", {}), dict, '"meta"')
    document = parse_layout(item, json_utils.parse_id(item, "id", position), meta)
    entities = json_utils.parse_entities(item, document, "label", options, _check_characters)
    cuts = _parse_cuts(item, document.sentences) if "cuts" in item else None
    relations = json_utils.parse_relations(item, entities, "label", options)
    clusters = json_utils.parse_clusters(item, "clusters", document.n_words)
    return document.annotated(filter(None, entities), relations, cuts, clusters)


def to_json(document: Document) -> Iterator[Json]:
    item: Json = {"id": document.id, **dump_layout(document), "entities": [], "relations": []}
    for entity in document.entities:
        entry: Json = {
            "start": entity.start,
            "end": entity.end,
            "label": entity.label,
            "char_start": entity.char_start,
            "char_end": entity.char_end,
            "text": entity.text,
        }
        item["entities"].append(entry)
        if entity.score is not None or entity.attributes:
            entry.update(json_utils.dump_properties(entity))
    for relation, head, tail in json_utils.index_arguments(document.relations, document.entities):
        entry = {"head": head, "tail": tail, "label": relation.label}
        item["relations"].append(entry)
        if relation.score is not None or relation.attributes:
            entry.update(json_utils.dump_properties(relation))
    if any(sentence.cuts is not None for sentence in document.sentences):
        item["cuts"] = [None if sentence.cuts is None else list(sentence.cuts) for sentence in document.sentences]
    if document.clusters:
        item["clusters"] = document.clusters
    if document.meta:
        item["meta"] = dict(document.meta)
    yield item


def dump_layout(document: Document) -> Json:
    """The text and its words as JSON."""
    layout: Json = {"text": document.text, "sentences": [sentence.words for sentence in document.sentences]}
    if not document.is_joined:
        layout["offsets"] = [sentence.offsets for sentence in document.sentences]
    return layout


def parse_layout(item: Json, name: str, meta: Json) -> Document:
    """Read the text and its words as a document without annotation."""
    sentences, text = json_utils.parse_sentences(item), json_utils.require(item, "text", str)
    if "offsets" in item:
        return Document.from_words(sentences, text=text, offsets=_parse_offsets(item, sentences), id=name, meta=meta)
    document = Document.from_words(sentences, id=name, meta=meta)
    if document.text != text:
        raise UnireError('"offsets" is missing, and "text" is not the words of "sentences" joined by spaces')
    return document


def _parse_offsets(item: Json, sentences: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    lists = json_utils.require(item, "offsets", list)
    if [len(json_utils.expect(spans, list, 'a sentence of "offsets"')) for spans in lists] != [
        len(s) for s in sentences
    ]:
        raise UnireError('"offsets" must have one [start, end] for every word of "sentences"')
    flat = [span for spans in lists for span in spans]
    for span in flat:
        if not (isinstance(span, list) and len(span) == 2 and type(span[0]) is type(span[1]) is int):
            raise UnireError(f"offset {json_utils.shorten_json(span)} is not [start, end]")
    return [(start, end) for start, end in flat]


def _check_characters(entity: Entity, value: Json) -> None:
    """Check that the characters agree with the words, which define the entity. Edits by hand may have broken this."""
    expected = {"char_start": entity.char_start, "char_end": entity.char_end, "text": entity.text}
    for key, expected_value in expected.items():
        if value.get(key, expected_value) != expected_value:
            raise UnireError(
                f'"{key}" of entity {json_utils.shorten_json(value)} differs from that of its words, {expected_value!r}'
            )


def _parse_cuts(item: Json, sentences: Sequence[Sentence]) -> list[tuple[int, ...] | None]:
    lists = json_utils.get_list(item, "cuts")
    if len(lists) != len(sentences):
        raise UnireError(f'"cuts" has {len(lists)} lists for {len(sentences)} sentences; it needs one for each')
    for cuts, sentence in zip(lists, sentences, strict=True):
        if cuts is not None and not (
            _is_integer_list(cuts) and all(sentence.start <= cut <= sentence.end for cut in cuts)
        ):
            raise UnireError(
                f"cuts {json_utils.shorten_json(cuts)} are not positions in a sentence of words "
                f"{sentence.start} to {sentence.end}"
            )
    return [None if cuts is None else tuple(cuts) for cuts in lists]


def _is_integer_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(json_utils.is_integer, value))
