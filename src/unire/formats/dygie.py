"""`dygie`: JSON lines as in SciERC, DyGIE++ and PURE, one document per line.

    {"doc_key": "a", "sentences": [["Ada", "lives", "in", "London"]],
     "ner": [[[0, 0, "Peop"], [3, 3, "Loc"]]], "relations": [[[0, 0, 3, 3, "Live_In"]]]}

Words are counted from the start of the document, and ends are inclusive. `ner` and `relations` hold one list per
sentence, or are missing. `clusters` holds one list of mentions `[start, end]` for each thing that is mentioned several
times. Numbers after the label are scores, of which the reader takes the last (DyGIE++ writes a logit
before its probability). It counts anything else there and leaves it out. Other keys are kept in `Document.meta` and
written back.

Similar formats are read too: `doc_id` or `id` may stand for `doc_key`, and `sentence`, a list of words or words between
spaces, for a document of one sentence. Its `ner` and `relations` may then be flat lists.

A relation names the words of its arguments, not the entities. If two entities cover the same words, it means the first;
the format cannot refer to the second. Nor can it represent the text, the attributes and the cuts of a document. Its
words are read back joined by spaces.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.base import ALL_CAPABILITIES, EXTRA_FIELD, Capability, ReadOptions
from unire.formats.json_utils import Json

__all__ = ["CAPABILITIES", "from_json", "read", "select_predictions", "to_json", "write"]

CAPABILITIES = ALL_CAPABILITIES - {Capability.TEXT, Capability.CUTS, Capability.ATTRIBUTES, Capability.TWINS}
PREDICTED_KEYS = ("predicted_ner", "predicted_relations", "predicted_clusters")
KEYS = ("doc_key", "sentences", "ner", "relations", "clusters", *PREDICTED_KEYS)
ID_KEYS = ("doc_id", "id")
"""Other names of `doc_key`."""
ANNOTATION_KEYS = ("ner", "relations", "predicted_ner", "predicted_relations")


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    def document(item: Json, position: int) -> Document:
        return from_json(select_predictions(item) if options.predicted else item, position, options)

    return json_utils.read_lines(path, options, document)


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_lines(documents, path, on_error, to_json)


def from_json(item: Json, position: int, options: ReadOptions | None = None) -> Document:
    """Read the annotation in `ner`, `relations` and `clusters`, without the predictions."""
    options = options or ReadOptions()
    item = _rename_keys(item)
    document = Document.from_words(
        json_utils.parse_sentences(item),
        id=json_utils.parse_id(item, "doc_key", position),
        meta=json_utils.get_other_keys(item, KEYS),
    )
    entities = _parse_entities(item, document, options)
    clusters = json_utils.parse_clusters(item, "clusters", document.n_words, last_word=1)
    return document.annotated(entities, _parse_relations(item, document, entities, options), clusters=clusters)


def _rename_keys(item: Json) -> Json:
    """Give the keys of similar formats their usual names, and the lists of a single sentence their usual form."""
    if "doc_key" not in item and (name := next((key for key in ID_KEYS if key in item), None)):
        item = {("doc_key" if key == name else key): value for key, value in item.items()}
    if "sentences" in item or "sentence" not in item:
        return item
    words = item["sentence"]
    renamed = {key: value for key, value in item.items() if key != "sentence"}
    renamed["sentences"] = [words.split() if isinstance(words, str) else words]
    for key in ANNOTATION_KEYS:
        values = renamed.get(key)
        if isinstance(values, list) and not (len(values) == 1 and _is_list_of_lists(values[0])):
            renamed[key] = [values]
    return renamed


def _is_list_of_lists(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, list) for each in value)


def select_predictions(item: Json) -> Json:
    """The same item with its predictions, if it has them, as its annotation.

    Predicted relations alone belong to the gold entities. Predicted entities alone have no relations, because the gold
    relations were not predicted. Nor were the gold clusters.
    """
    if any(key in item for key in PREDICTED_KEYS):
        item = {**item, "clusters": item.get("predicted_clusters", [])}
    if "predicted_ner" in item:
        item = {**json_utils.get_other_keys(item, ("relations",)), "ner": item["predicted_ner"]}
    if "predicted_relations" in item:
        item = {**item, "relations": item["predicted_relations"]}
    return item


def to_json(document: Document) -> Iterator[Json]:
    ner = [[_dump_entity(entity) for entity in sentence.entities] for sentence in document.sentences]
    relations = [[_dump_relation(relation) for relation in sentence.relations] for sentence in document.sentences]
    starts = [sentence.start for sentence in document.sentences]
    for entity in document.spanning_entities:  # with the sentence in which it, or its head, begins
        ner[bisect_right(starts, entity.start) - 1].append(_dump_entity(entity))
    for relation in document.spanning_relations:
        relations[bisect_right(starts, relation.head.start) - 1].append(_dump_relation(relation))
    words = [sentence.words for sentence in document.sentences]
    item = {"doc_key": document.id, "sentences": words, "ner": ner, "relations": relations}
    if document.clusters:
        item["clusters"] = [[[start, end - 1] for start, end in cluster] for cluster in document.clusters]
    yield {**item, **document.meta}


def _flatten(item: Json, key: str) -> Iterable[Any]:
    """The items of every sentence's list under `key`."""
    lists = json_utils.get_list(item, key)
    n = len(item["sentences"])
    if key in item and len(lists) != n:
        raise UnireError(f'"{key}" has {len(lists)} lists for {n} sentences; it needs one for each')
    for i, values in enumerate(lists):
        if not isinstance(values, list):
            json_utils.expect(values, list, f'list {i} of "{key}"')
    return chain.from_iterable(lists)


def _parse_entities(item: Json, document: Document, options: ReadOptions) -> list[Entity]:
    entities = []
    n_words = document.n_words
    for value in _flatten(item, "ner"):
        try:
            if not (
                type(value) is list
                and len(value) > 2
                and type(start := value[0]) is type(last := value[1]) is int
                and type(label := value[2]) is str
            ):
                raise UnireError(f"entity {json_utils.shorten_json(value)} is not [start, end, label]")
            if not 0 <= start <= last < n_words:
                json_utils.check_span(start, last + 1, n_words, json_utils.ErrorSubject("entity", value))
        except UnireError as error:
            options.skip(error, "entity")
            continue
        score = _parse_score(value[3:], options) if len(value) > 3 else None
        entities.append(document.entity(start, last + 1, label, score))
    return entities


def _parse_relations(item: Json, document: Document, entities: list[Entity], options: ReadOptions) -> list[Relation]:
    relations = []
    first = {(entity.start, entity.end - 1): entity for entity in reversed(entities)}  # of equal spans, the first wins
    for value in _flatten(item, "relations"):
        try:
            if not (
                type(value) is list
                and len(value) > 4
                and type(a := value[0]) is type(b := value[1]) is type(c := value[2]) is type(d := value[3]) is int
                and type(label := value[4]) is str
            ):
                what = "[head start, head end, tail start, tail end, label]"
                raise UnireError(f"relation {json_utils.shorten_json(value)} is not {what}")
            head, tail = first.get((a, b)), first.get((c, d))
            if head is None or tail is None:
                start, last = (a, b) if head is None else (c, d)
                json_utils.check_span(start, last + 1, document.n_words, json_utils.ErrorSubject("relation", value))
                what = f"relation {json_utils.shorten_json(value)} refers to a missing entity"
                raise UnireError(f"{what}: none covers the words {start} to {last}")
        except UnireError as error:
            options.skip(error, "relation")
            continue
        score = _parse_score(value[5:], options) if len(value) > 5 else None
        relations.append(Relation(head, tail, label, score))
    return relations


def _parse_score(values: list[Any], options: ReadOptions) -> float | None:
    """The last number after the label. Anything else there is counted."""
    numbers = [value for value in values if json_utils.is_number(value)]
    if len(numbers) < len(values):
        options.notes[EXTRA_FIELD] += len(values) - len(numbers)
    return float(numbers[-1]) if numbers else None


def _dump_entity(entity: Entity) -> list[Any]:
    item: list[Any] = [entity.start, entity.end - 1, entity.label]
    return item if entity.score is None else [*item, entity.score]


def _dump_relation(relation: Relation) -> list[Any]:
    head, tail = relation.head, relation.tail
    item: list[Any] = [head.start, head.end - 1, tail.start, tail.end - 1, relation.label]
    return item if relation.score is None else [*item, relation.score]
