"""`labelstudio`: one JSON list of tasks, as Label Studio imports and exports it (its format "JSON").

    [{"data": {"text": "Ada lives in London.", "id": "a"},
      "annotations": [{"result": [
        {"id": "1", "type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["Peop"]}},
        {"id": "2", "type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": 13, "end": 19, "text": "London", "labels": ["Loc"]}},
        {"type": "relation", "from_id": "1", "to_id": "2", "direction": "right", "labels": ["Live_In"]}]}]}]

Regions count characters. A region with several labels is as many entities, and a relation that points both ways two
relations. Where several people annotated a text the first annotation that was not skipped is taken; a task without one
is a document without annotation; both are noted. What else is said of a region (choices, ratings) becomes attributes.
`id` in `data`, failing it that of the task, names the document, and other keys of `data` are its meta data.

`sentences` and `offsets` in `data`, the words and their characters as in the format `unire`, are ours; without them the
text is split. Scores stand under `score`, attributes under `meta` of a region or a relation. The cuts of a document
have no place in the format, nor have entities on empty words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils, native
from unire.formats.alignment import Placer, split
from unire.formats.base import ReadOptions
from unire.formats.capabilities import ARGUMENT, EVERYTHING, Capability
from unire.formats.json_utils import Json

__all__ = ["HOLDS", "read", "to_json", "write"]

HOLDS = EVERYTHING - {Capability.CUTS, Capability.CHARACTERLESS}
KEYS = ("id", "text", "sentences", "offsets")
REGIONS = ("labels", "hypertextlabels")


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    return json_utils.read_list(path, how, lambda item, position: _document(item, position, how))


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    json_utils.write_list(documents, path, on_error, to_json)


def to_json(document: Document) -> Iterator[Json]:
    regions = [
        {
            "id": str(i),
            "type": "labels",
            "from_name": "label",
            "to_name": "text",
            "value": {"start": e.char_start, "end": e.char_end, "text": e.text, "labels": [e.label]},
            **_extras(e),
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
            **_extras(relation),
        }
        for relation, head, tail in json_utils.numbered(document.relations, document.entities)
    ]
    data = {"id": document.id, **native.layout(document)}
    yield {"data": {**data, **document.meta}, "annotations": [{"result": [*regions, *relations]}]}


def _extras(item: Entity | Relation) -> Json:
    found = json_utils.extras(item)
    return {"meta" if name == "attributes" else name: value for name, value in found.items()}


def _document(item: Json, position: int, how: ReadOptions) -> Document:
    data = json_utils.required(item, "data", dict)
    name = json_utils.name(data if "id" in data else item, "id", position)
    meta = json_utils.rest(data, KEYS)
    if "sentences" in data:
        document = native.from_layout(data, name, meta)
    else:
        document = split(json_utils.required(data, "text", str), spaces=how.spaces, id=name, meta=meta)
    result = _result(item, how)
    regions = _regions(result, document, how)
    relations = [relation for value in result for relation in _relations(value, regions, how)]
    return document.annotated((entity for found in regions.values() for entity in found), relations)


def _result(item: Json, how: ReadOptions) -> list[Json]:
    """The regions and relations of the first annotation that was not skipped."""
    annotations = [
        json_utils.expect(annotation, dict, "an annotation") for annotation in json_utils.optional(item, "annotations")
    ]
    usable = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    if not usable:
        how.notes["text that is not annotated"] += 1
        return []
    how.notes["annotation beside another one of the same text, left out"] += len(usable) - 1
    return [
        json_utils.expect(value, dict, "a region or relation") for value in json_utils.optional(usable[0], "result")
    ]


def _regions(result: list[Json], document: Document, how: ReadOptions) -> dict[str, list[Entity]]:
    """The entities of every region, by its name."""
    said = _said(result)
    placer = Placer(document, how.notes)
    found: dict[str, list[Entity]] = {}
    for value in result:
        if value.get("type") not in REGIONS:
            continue
        what = json_utils.What("region", value)
        name = str(value.get("id"))
        if name in found:
            raise UnireError(f"{what} has the name of another one")
        region = json_utils.required(value, "value", dict)
        part = (json_utils.integer(region, "start", what), json_utils.integer(region, "end", what))
        score, attributes = _properties(value, what)
        entities = [
            placer.entity([part], label, score, {**said[name], **attributes})
            for label in json_utils.words(region.get(value["type"]), f"the labels of {what}")
        ]
        found[name] = [entity for entity in entities if entity is not None]
    return found


def _said(result: list[Json]) -> dict[str, Json]:
    """What is said of each region beside its labels, by the name of the question."""
    said: dict[str, Json] = defaultdict(dict)
    for value in result:
        kind = value.get("type")
        question = str(value.get("from_name"))
        if kind in REGIONS or kind == "relation" or question == CHARACTERS:
            continue
        if isinstance(value.get("value"), dict):
            said[str(value.get("id"))][question] = value["value"].get(kind)
    return said


def _relations(value: Json, regions: dict[str, list[Entity]], how: ReadOptions) -> Iterator[Relation]:
    if value.get("type") != "relation":
        return
    what = json_utils.What("relation", value)
    if missing := [key for key in ("from_id", "to_id") if str(value.get(key)) not in regions]:
        raise UnireError(f'{what} refers to a missing region by its "{missing[0]}"')
    ends = [entity for key in ("from_id", "to_id") for entity in regions[str(value[key])][:1]]
    if len(ends) < 2:
        how.notes[ARGUMENT] += 1
        return
    labels = json_utils.words(value.get("labels", []), f"the labels of {what}")
    if not labels:
        raise UnireError(f"{what} has no label; give it one, or take it out")
    direction = value.get("direction", "right")
    pairs = {"right": [ends], "left": [ends[::-1]], "bi": [ends, ends[::-1]]}.get(str(direction))
    if pairs is None:
        raise UnireError(f'the direction of {what} is none of "right", "left" and "bi"')
    for label in labels:
        for head, tail in pairs:
            yield Relation(head, tail, label, *_properties(value, what))


def _properties(value: Json, what: object) -> tuple[float | None, Json]:
    return json_utils.properties({"score": value.get("score"), "attributes": value.get("meta")}, what)
