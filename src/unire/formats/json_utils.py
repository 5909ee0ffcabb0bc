"""What the formats ask of parsed JSON: the right kind of thing, or a sentence about what is there instead."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors, open_binary
from unire.formats.base import ReadOptions, at

__all__ = [
    "Json",
    "What",
    "decoded",
    "entities",
    "expect",
    "extras",
    "integer",
    "is_integer",
    "is_number",
    "label",
    "lines",
    "name",
    "numbered",
    "objects",
    "optional",
    "parsed",
    "portions",
    "properties",
    "read_lines",
    "read_list",
    "relations",
    "required",
    "rest",
    "sentences",
    "shown",
    "span",
    "spelt",
    "words",
    "write_lines",
    "write_list",
]

Json = dict[str, Any]
"""A JSON object."""

T = TypeVar("T")

KINDS: dict[type, str] = {list: "a list", dict: "a JSON object", str: "a string"}


def expect(value: object, kind: type[T], what: object) -> T:
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
    found = expect(value, list, what)
    try:
        "".join(found)  # the quickest way to look at every one
    except TypeError:
        for word in found:
            expect(word, str, f"a word of {what}")
    return found


def sentences(item: Json) -> list[list[str]]:
    """The words of each sentence under `sentences`."""
    return [words(value, f'sentence {i} of "sentences"') for i, value in enumerate(required(item, "sentences", list))]


def portions(flat: Sequence[T], lengths: object) -> list[list[T]]:
    """What a document has for every word, sentence by sentence.

    Args:
        flat: As many as there are words.
        lengths: How many words each sentence has.
    """
    sizes = expect(lengths, list, '"sentences"')
    if not all(is_integer(size) and size >= 0 for size in sizes) or sum(sizes) != len(flat):
        raise UnireError(f'"sentences" must say how many of {len(flat)} words each sentence has')
    ends = list(accumulate(sizes))
    return [list(flat[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def span(start: int, end: int, n_words: int, what: object) -> tuple[int, int]:
    """`start` and `end` (exclusive), which must hold at least one word and lie inside the document."""
    if start >= end:
        raise UnireError(f"{what} is reversed or empty")
    if start < 0 or end > n_words:
        raise UnireError(f"{what} lies outside the document, which has {n_words} words")
    return start, end


def entities(item: Json, document: Document, key: str) -> list[Entity]:
    """The entities of an item, objects with `start`, `end`, a label under `key`, maybe a `score` and `attributes`."""
    found = []
    for value in optional(item, "entities"):
        what = What("entity", value)
        expect(value, dict, what)
        start, end = span(integer(value, "start", what), integer(value, "end", what), document.n_words, what)
        found.append(document.entity(start, end, label(value, key, what), *properties(value, what)))
    return found


def relations(item: Json, found: Sequence[Entity], key: str) -> list[Relation]:
    """The relations of an item, objects with `head` and `tail` (positions in `found`) and the rest as entities."""
    linked = []
    for value in optional(item, "relations"):
        what = What("relation", value)
        expect(value, dict, what)
        head, tail = integer(value, "head", what), integer(value, "tail", what)
        for position in (head, tail):
            if not 0 <= position < len(found):
                raise UnireError(f"{what} refers to a missing entity: {position}, of {len(found)} counted from 0")
        linked.append(Relation(found[head], found[tail], label(value, key, what), *properties(value, what)))
    return linked


class What(NamedTuple):
    """What an error message is about, spelt out only when there is one."""

    kind: str
    value: object

    def __str__(self) -> str:
        return f"{self.kind} {shown(self.value)}"


def integer(item: Json, key: str, what: object) -> int:
    value = item.get(key)
    if not is_integer(value):
        raise UnireError(f'"{key}" of {what} must be a whole number')
    return int(item[key])


def label(item: Json, key: str, what: object) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else expect(value, str, f'"{key}" of {what}')


def properties(item: Json, what: object) -> tuple[float | None, Json]:
    """The score and the attributes of an entity or a relation, where it has them."""
    score = item.get("score")
    if score is not None and not is_number(score):
        raise UnireError(f'"score" of {what} must be a number')
    attributes = item.get("attributes")
    if attributes is not None:
        expect(attributes, dict, f'"attributes" of {what}')
    return None if score is None else float(score), attributes or {}


def numbered(linked: Iterable[Relation], found: Sequence[Entity]) -> Iterator[tuple[Relation, int, int]]:
    """Each relation with the positions of its head and its tail in `found`."""
    itself = {id(entity): i for i, entity in enumerate(found)}  # quicker than by value, and it tells equal ones apart

    def place(entity: Entity) -> int:
        position = itself.get(id(entity))
        return found.index(entity) if position is None else position

    for relation in linked:
        try:
            yield relation, place(relation.head), place(relation.tail)
        except ValueError:
            raise UnireError(f"the relation {relation} refers to an entity that the document lacks") from None


def extras(item: Entity | Relation) -> Json:
    """The score and the attributes as a JSON object, without those that are not there."""
    found: Json = {} if item.score is None else {"score": item.score}
    if item.attributes:
        found["attributes"] = dict(item.attributes)
    return found


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a number that a float can hold; NaN and the infinities are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def shown(value: object) -> str:
    """`value` as JSON, shortened for an error message."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
"""A value that holds itself is refused all the same, once it is too deep."""

FromJson = Callable[[Json, int], Document]
"""A document from its JSON object and its position in the file."""
ToJson = Callable[[Document], Iterable[Json]]
"""The JSON objects that a document becomes."""


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file without their ends, and their numbers, counted from 1 as editors do."""
    with explain_read_errors(path), open_binary(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, line.rstrip(b"\r\n")


def decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnireError("not UTF-8; convert the file first") from None


def parsed(raw: bytes) -> Any:
    """The value of some JSON, which must be UTF-8."""
    text = decoded(raw)
    try:
        value = json.loads(text)
        if "\\u" in text:  # half a surrogate pair is no text, and only an escape can smuggle one in
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise UnireError(f"not valid JSON: {error.msg} ({place})") from None
    except (ValueError, RecursionError) as error:
        raise UnireError(f"cannot be read as JSON: {error}") from None
    return value


def objects(path: Path, on_error: OnError) -> Iterator[tuple[str, Json]]:
    """The JSON objects of a file of lines, each with its place."""
    name = str(path)
    for number, line in lines(path):
        if not line or line.isspace():
            continue
        place = f"{name}, line {number}"
        try:
            item = expect(parsed(line), dict, "a document")
        except UnireError as error:
            on_error(UnireError(f"{place}: {error}"))
            continue
        yield place, item


def read_lines(path: Path, how: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    """The documents of a file with an object a line."""
    return _documents(objects(path, how.on_error), how, from_json)


def read_list(path: Path, how: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    """The documents of a file that is one list of objects."""
    return _documents(_items(path, how.on_error), how, from_json)


def _items(path: Path, on_error: OnError) -> Iterator[tuple[str, Json]]:
    with explain_read_errors(path), open_binary(path) as file:
        raw = file.read()
    try:
        values = expect(parsed(raw.removeprefix(codecs.BOM_UTF8)), list, "the file")
    except UnireError as error:
        raise UnireError(f"{path}: {error}") from None
    for i, value in enumerate(values):
        place = f"{path}, item {i} (counted from 0)"
        item = None
        with at(place, on_error):
            item = expect(value, dict, "a document")
        if item is not None:
            yield place, item


def _documents(items: Iterable[tuple[str, Json]], how: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    for position, (place, item) in enumerate(items):
        try:
            document = from_json(item, position)
        except UnireError as error:
            how.on_error(UnireError(f"{place}: {error}"))
            continue
        yield document


def write_lines(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        for texts in _encoded(documents, on_error, to_json):
            for text in texts:
                file.write(text + b"\n")


def write_list(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        file.write(b"[")
        _write_separated(file, (text for texts in _encoded(documents, on_error, to_json) for text in texts))
        file.write(b"]\n")


def _write_separated(file: BinaryIO, texts: Iterable[bytes]) -> None:
    for i, text in enumerate(texts):
        file.write(b",\n" + text if i else text)


def spelt(value: Any) -> bytes:
    """A value as JSON, if it can be one."""
    try:
        return ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UnireError(str(error)) from None


def _encoded(documents: Iterable[Document], on_error: OnError, to_json: ToJson) -> Iterator[list[bytes]]:
    """The JSON objects of each document as text."""
    for document in documents:
        try:
            texts = [spelt(item) for item in to_json(document)]
        except UnireError as error:
            on_error(UnireError(f"document {document.id!r} cannot be written: {error}"))
            continue
        yield texts
