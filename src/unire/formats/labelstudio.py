"""`labelstudio`: one JSON list of tasks, as Label Studio imports and exports it (its format "JSON").

    [{"data": {"text": "Ada lives in London.", "id": "a"},
      "annotations": [{"result": [
        {"id": "1", "type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["Peop"]}},
        {"id": "2", "type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": 13, "end": 19, "text": "London", "labels": ["Loc"]}},
        {"type": "relation", "from_id": "1", "to_id": "2", "direction": "right", "labels": ["Live_In"]}]}]}]

Regions count characters. A region with several labels becomes one entity per label. A relation with the direction `bi`
becomes two relations. The reader takes the first annotation that was not skipped. A task without one becomes a document
without annotation; if it has `predictions`, as from `unire annotate suggest`, it is left out. All cases are counted.
Other answers about a region (choices, ratings) become attributes. The document's id is the `id` in `data`, or else that
of the task. Other keys of `data` are its meta data.

unire adds `sentences` and `offsets` to `data`: the words and their characters, as in the format `unire`. Without them
the text is split. `score` and `meta` of a region or a relation hold its score and attributes. The format cannot
represent the cuts of a document and entities on empty words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils, native
from unire.formats.alignment import EntityAligner, split_text
from unire.formats.base import ALL_CAPABILITIES, LOST_ARGUMENT, Capability, ReadOptions
from unire.formats.json_utils import Json

__all__ = ["CAPABILITIES", "read", "to_json", "write"]

CAPABILITIES = ALL_CAPABILITIES - {Capability.CUTS, Capability.CLUSTERS, Capability.CHARACTERLESS}
KEYS = ("id", "text", "sentences", "offsets")
REGION_TYPES = ("labels", "hypertextlabels")


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    return json_utils.read_list(path, options, lambda item, position: _parse_document(item, position, options))


def write(documents: Iterable[Document], path: Path, on_error: OnError, *, predicted_by: str | None = None) -> None:
    """Write tasks.

    Args:
        documents: The documents.
        path: The file.
        on_error: Called for documents that cannot be written.
        predicted_by: The model that has annotated the documents. Its annotation is written as predictions, which an
            annotator corrects and submits.
    """
    json_utils.write_list(documents, path, on_error, partial(to_json, predicted_by=predicted_by))


def to_json(document: Document, predicted_by: str | None = None) -> Iterator[Json]:
    regions = [
        {
            "id": str(i),
            "type": "labels",
            "from_name": "label",
            "to_name": "text",
            "value": {"start": e.char_start, "end": e.char_end, "text": e.text, "labels": [e.label]},
            **_dump_properties(e),
        }
        for i, e in enumerate(document.entities, start=1)
    ]
    relations = [
        {
            "type": "relation",
            "from_id": str(head + 1),
            "to_id": str(tail + 1),
            "direction": "right",
            "labels": [relation.label],
            **_dump_properties(relation),
        }
        for relation, head, tail in json_utils.index_arguments(document.relations, document.entities)
    ]
    data = {"id": document.id, **native.dump_layout(document)}
    result: Json = {"result": [*regions, *relations]}
    key = "annotations"
    if predicted_by is not None:
        key, result = "predictions", {"model_version": predicted_by, **result}
    yield {"data": {**data, **document.meta}, key: [result]}


def _dump_properties(item: Entity | Relation) -> Json:
    properties = json_utils.dump_properties(item)
    return {"meta" if name == "attributes" else name: value for name, value in properties.items()}


def _parse_document(item: Json, position: int, options: ReadOptions) -> Document | None:
    key = "predictions" if options.predicted and item.get("predictions") else "annotations"
    annotations = [json_utils.expect(each, dict, "an annotation") for each in json_utils.get_list(item, key)]
    usable = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    if not usable and item.get("predictions"):
        options.notes["task with predictions that nobody has annotated, left out"] += 1
        return None
    data = json_utils.require(item, "data", dict)
    name = json_utils.parse_id(data if "id" in data else item, "id", position)
    meta = json_utils.get_other_keys(data, KEYS)
    if "sentences" in data:
        document = native.parse_layout(data, name, meta)
    else:
        document = split_text(json_utils.require(data, "text", str), options, id=name, meta=meta)
    result = _select_result(usable, options)
    regions = _parse_regions(result, document, options)
    relations: list[Relation] = []
    for value in result:
        try:
            relations += _parse_relations(value, regions, options)
        except UnireError as error:
            options.skip(error, "relation")
    return document.annotated((entity for entities in regions.values() for entity in entities), relations)


def _select_result(usable: Sequence[Json], options: ReadOptions) -> list[Json]:
    """The regions and relations of the first annotation that was not skipped."""
    if not usable:
        options.notes["text that is not annotated"] += 1
        return []
    options.notes["annotation beside another one of the same text, left out"] += len(usable) - 1
    return [
        json_utils.expect(value, dict, "a region or relation") for value in json_utils.get_list(usable[0], "result")
    ]


def _parse_regions(result: list[Json], document: Document, options: ReadOptions) -> dict[str, list[Entity]]:
    """The entities of every region, by its id."""
    answers = _collect_answers(result)
    aligner = EntityAligner(document, options.notes)
    regions: dict[str, list[Entity]] = {}
    for value in result:
        if value.get("type") not in REGION_TYPES:
            continue
        what = json_utils.ErrorSubject("region", value)
        name = str(value.get("id"))
        if name in regions:
            raise UnireError(f"{what} has the same id as another one")
        try:
            region = json_utils.require(value, "value", dict)
            part = (json_utils.parse_integer(region, "start", what), json_utils.parse_integer(region, "end", what))
            score, attributes = _parse_properties(value, what)
            entities = [
                aligner.align([part], label, score, {**answers[name], **attributes})
                for label in json_utils.parse_words(region.get(value["type"]), f"the labels of {what}")
            ]
        except UnireError as error:
            options.skip(error, "entity")
            entities = []
        regions[name] = [entity for entity in entities if entity is not None]
    return regions


def _collect_answers(result: list[Json]) -> dict[str, Json]:
    """The answers about each region, other than its labels, by region id and name of the question."""
    answers: dict[str, Json] = defaultdict(dict)
    for value in result:
        kind = value.get("type")
        question = str(value.get("from_name"))
        if kind in REGION_TYPES or kind == "relation" or question == CHARACTERS:
            continue
        if isinstance(value.get("value"), dict):
            answers[str(value.get("id"))][question] = value["value"].get(kind)
    return answers


def _parse_relations(value: Json, regions: dict[str, list[Entity]], options: ReadOptions) -> Iterator[Relation]:
    if value.get("type") != "relation":
        return
    what = json_utils.ErrorSubject("relation", value)
    if missing := [key for key in ("from_id", "to_id") if key not in value or str(value[key]) not in regions]:
        raise UnireError(f'{what} refers to a missing region by its "{missing[0]}"')
    ends = [entity for key in ("from_id", "to_id") for entity in regions[str(value[key])][:1]]
    if len(ends) < 2:
        options.notes[LOST_ARGUMENT] += 1
        return
    labels = json_utils.parse_words(value.get("labels", []), f"the labels of {what}")
    if not labels:
        raise UnireError(f"{what} has no label; add one, or remove it")
    direction = value.get("direction", "right")
    pairs = {"right": [ends], "left": [ends[::-1]], "bi": [ends, ends[::-1]]}.get(str(direction))
    if pairs is None:
        raise UnireError(f'the direction of {what} must be "right", "left" or "bi"')
    for label in labels:
        for head, tail in pairs:
            yield Relation(head, tail, label, *_parse_properties(value, what))


def _parse_properties(value: Json, what: object) -> tuple[float | None, Json]:
    return json_utils.parse_properties({"score": value.get("score"), "attributes": value.get("meta")}, what)
