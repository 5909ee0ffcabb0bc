"""What the formats ask of parsed JSON: the right kind of thing, or a sentence about what is there instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from unire.documents import Document, Entity, Relation
from unire.exceptions import UnireError

__all__ = [
    "Json", "entities", "expect", "is_integer", "is_number", "name", "numbered", "optional", "relations", "required",
    "rest", "scored", "sentences", "shown", "span", "words",
]  # fmt: skip

Json = dict[str, Any]
"""A JSON object."""

T = TypeVar("T")

KINDS: dict[type, str] = {list: "a list", dict: "a JSON object", str: "a string"}


def expect(value: object, kind: type[T], what: str) -> T:
    """`value`, which must be a list, a JSON object or a string."""
    if not isinstance(value, kind):
        raise UnireError(f"{what} must be {KINDS[kind]}, but is {shown(value)}")
    return value


def required(item: Json, key: str, kind: type[T]) -> T:
    if key not in item:
        raise UnireError(f'"{key}" is missing')
    return expect(item[key], kind, f'"{key}"')


def optional(item: Json, key: str) -> list[Any]:
    """The list under `key`; an item that lacks it has an empty one."""
    return expect(item.get(key, []), list, f'"{key}"')


def rest(item: Mapping[str, Any], known: Iterable[str]) -> Json:
    """What the item carries beyond the keys that its format knows."""
    return {key: value for key, value in item.items() if key not in known}


def name(item: Json, key: str, position: int) -> str:
    """The document's name under `key`, by default its position in the file."""
    value = item.get(key, position)
    if not isinstance(value, str) and not is_integer(value):
        raise UnireError(f'"{key}" must be a string or a whole number, but is {shown(value)}')
    return str(value)


def words(value: object, what: str) -> list[str]:
    """A list of words, which may be empty."""
    return [expect(word, str, f"a word of {what}") for word in expect(value, list, what)]


def sentences(item: Json) -> list[list[str]]:
    """The words of each sentence under `sentences`."""
    return [words(value, f'sentence {i} of "sentences"') for i, value in enumerate(required(item, "sentences", list))]


def span(start: int, end: int, n_words: int, what: str) -> tuple[int, int]:
    """`start` and `end` (exclusive), which must hold at least one word and lie inside the document."""
    if start >= end:
        raise UnireError(f"{what} is reversed or empty")
    if start < 0 or end > n_words:
        raise UnireError(f"{what} lies outside the document, which has {n_words} words")
    return start, end


def entities(item: Json, document: Document, label: str) -> list[Entity]:
    """The entities of an item, objects with `start`, `end`, a label under the key `label` and maybe a `score`."""
    found = []
    for value in optional(item, "entities"):
        what = f"entity {shown(value)}"
        expect(value, dict, what)
        start, end = span(_integer(value, "start", what), _integer(value, "end", what), document.n_words, what)
        found.append(document.entity(start, end, _label(value, label, what), _score(value, what)))
    return found


def relations(item: Json, found: Sequence[Entity], label: str) -> list[Relation]:
    """The relations of an item, objects with `head` and `tail` (positions in `found`), a label and maybe a `score`."""
    linked = []
    for value in optional(item, "relations"):
        what = f"relation {shown(value)}"
        expect(value, dict, what)
        head, tail = _integer(value, "head", what), _integer(value, "tail", what)
        for position in (head, tail):
            if not 0 <= position < len(found):
                raise UnireError(f"{what} refers to a missing entity: {position}, of {len(found)} counted from 0")
        linked.append(Relation(found[head], found[tail], _label(value, label, what), _score(value, what)))
    return linked


def _integer(item: Json, key: str, what: str) -> int:
    value = item.get(key)
    if not is_integer(value):
        raise UnireError(f'"{key}" of {what} must be a whole number')
    return int(item[key])


def _label(item: Json, key: str, what: str) -> str:
    return expect(item.get(key), str, f'"{key}" of {what}')


def _score(item: Json, what: str) -> float | None:
    value = item.get("score")
    if value is not None and not is_number(value):
        raise UnireError(f'"score" of {what} must be a number')
    return None if value is None else float(value)


def numbered(linked: Iterable[Relation], found: Sequence[Entity]) -> Iterator[tuple[Relation, int, int]]:
    """Each relation with the positions of its head and its tail in `found`."""
    position: dict[Entity, int] = {}
    for i, entity in enumerate(found):
        position.setdefault(entity, i)
    for relation in linked:
        if relation.head not in position or relation.tail not in position:
            raise UnireError(f"the relation {relation} refers to an entity that the document lacks")
        yield relation, position[relation.head], position[relation.tail]


def scored(item: Entity | Relation) -> Json:
    """The score as a JSON object, empty where there is none."""
    return {} if item.score is None else {"score": item.score}


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a number that a float can hold; NaN and the infinities are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def shown(value: object) -> str:
    """`value` as JSON, shortened for an error message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
