"""JSON utilities: reading, writing and validating the JSON of all formats, with one-sentence errors."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors, open_binary
from unire.formats.base import EXTRA_FIELD, LOST_ARGUMENT, ReadOptions, add_location, explain_not_lines
from unire.limits import DEFAULT_LIMITS, ReadLimits, read_whole
from unire.limits import iter_lines as iter_limited_lines

__all__ = [
    "ENTITY_KEYS",
    "RELATION_KEYS",
    "ErrorSubject",
    "Json",
    "check_span",
    "count_extra",
    "decode",
    "dump_json",
    "dump_properties",
    "expect",
    "get_list",
    "get_other_keys",
    "index_arguments",
    "is_integer",
    "is_number",
    "iter_lines",
    "iter_objects",
    "parse_clusters",
    "parse_entities",
    "parse_id",
    "parse_integer",
    "parse_json",
    "parse_label",
    "parse_properties",
    "parse_relations",
    "parse_sentences",
    "parse_words",
    "read_file",
    "read_lines",
    "read_list",
    "require",
    "shorten_json",
    "split_by_lengths",
    "write_lines",
    "write_list",
]

Json = dict[str, Any]
"""A JSON object."""

T = TypeVar("T")

KINDS: dict[type, str] = {list: "a list", dict: "a JSON object", str: "a string"}


def expect(value: object, kind: type[T], what: object) -> T:
    """Check that `value` is a list, a JSON object or a string, and return it. Errors call it `what`."""
    if not isinstance(value, kind):
        raise UnireError(f"{what} must be {KINDS[kind]}, but is {shorten_json(value)}")
    return value


def require(item: Json, key: str, kind: type[T]) -> T:
    if key not in item:
        raise UnireError(f'"{key}" is missing')
    return expect(item[key], kind, f'"{key}"')


def get_list(item: Json, key: str) -> list[Any]:
    """The list under `key`, or an empty one."""
    return expect(item.get(key, []), list, f'"{key}"')


def get_other_keys(item: Mapping[str, Any], known: Iterable[str]) -> Json:
    """The values under all keys that the format does not define."""
    return {key: value for key, value in item.items() if key not in known}


def parse_id(item: Json, key: str, position: int) -> str:
    """The document's id under `key`; by default its position in the file."""
    value = item.get(key, position)
    if not isinstance(value, str) and not is_integer(value):
        raise UnireError(f'"{key}" must be a string or a whole number, but is {shorten_json(value)}')
    return str(value)


def parse_words(value: object, what: str) -> list[str]:
    """Check that `value` is a list of strings, and return it."""
    words = expect(value, list, what)
    try:
        "".join(words)  # the fastest check of all elements
    except TypeError:
        for word in words:
            expect(word, str, f"a word of {what}")
    return words


def parse_sentences(item: Json) -> list[list[str]]:
    """The words of each sentence under `sentences`."""
    return [
        parse_words(value, f'sentence {i} of "sentences"') for i, value in enumerate(require(item, "sentences", list))
    ]


def split_by_lengths(flat: Sequence[T], lengths: object) -> list[list[T]]:
    """Split a list with one element per word into one list per sentence.

    Args:
        flat: One element per word.
        lengths: The number of words of each sentence.
    """
    sizes = expect(lengths, list, '"sentences"')
    if not all(is_integer(size) and size >= 0 for size in sizes) or sum(sizes) != len(flat):
        raise UnireError(f'"sentences" must be the number of words of each sentence, {len(flat)} in total')
    ends = list(accumulate(sizes))
    return [list(flat[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def check_span(start: int, end: int, n_words: int, what: object) -> tuple[int, int]:
    """Check that the words `[start, end)` are at least one and inside the document."""
    if start >= end:
        raise UnireError(f"{what} is reversed or empty")
    if start < 0 or end > n_words:
        raise UnireError(f"{what} is outside the document, which has {n_words} words")
    return start, end


def parse_entities(
    item: Json,
    document: Document,
    key: str,
    options: ReadOptions,
    check: Callable[[Entity, Json], None] = lambda entity, value: None,
) -> list[Entity | None]:
    """Entities: objects with `start`, `end`, a label under `key`, and optionally `score` and `attributes`.

    Args:
        item: The document.
        document: Its words.
        key: The key of the label.
        options: Decide what happens to an entity that cannot be read: it becomes `None`, or is an error.
        check: Checks further keys of an entity.
    """
    entities: list[Entity | None] = []
    known = (*ENTITY_KEYS, key)
    for value in get_list(item, "entities"):
        try:
            what = ErrorSubject("entity", value)
            expect(value, dict, what)
            start, end = check_span(
                parse_integer(value, "start", what), parse_integer(value, "end", what), document.n_words, what
            )
            entity = document.entity(start, end, parse_label(value, key, what), *parse_properties(value, what))
            check(entity, value)
        except UnireError as error:
            options.skip(error, "entity")
            entities.append(None)
            continue
        entities.append(entity)
        count_extra(value, known, options)
    return entities


def parse_relations(item: Json, entities: Sequence[Entity | None], key: str, options: ReadOptions) -> list[Relation]:
    """Relations: objects with `head` and `tail` (positions in `entities`), otherwise like entities."""
    relations = []
    known = (*RELATION_KEYS, key)
    for value in get_list(item, "relations"):
        try:
            what = ErrorSubject("relation", value)
            expect(value, dict, what)
            positions = parse_integer(value, "head", what), parse_integer(value, "tail", what)
            for position in positions:
                if not 0 <= position < len(entities):
                    raise UnireError(
                        f"{what} refers to entity {position}, but there are {len(entities)}, counted from 0"
                    )
            label, properties = parse_label(value, key, what), parse_properties(value, what)
        except UnireError as error:
            options.skip(error, "relation")
            continue
        head, tail = (entities[position] for position in positions)
        if head is None or tail is None:
            options.notes[LOST_ARGUMENT] += 1
            continue
        relations.append(Relation(head, tail, label, *properties))
        count_extra(value, known, options)
    return relations


ENTITY_KEYS = ("start", "end", "char_start", "char_end", "text", "score", "attributes")
RELATION_KEYS = ("head", "tail", "score", "attributes")


def count_extra(value: Json, known: Collection[str], options: ReadOptions) -> None:
    """Count the fields of an entity or a relation that are not read."""
    if extra := len(value.keys() - set(known)):
        options.notes[EXTRA_FIELD] += extra


def parse_clusters(item: Json, key: str, n_words: int, last_word: int = 0) -> list[list[tuple[int, int]]]:
    """Coreference clusters: lists of mentions `[start, end]`. Anything after the two numbers is ignored.

    Args:
        item: The document.
        key: The key of its clusters, which may be missing.
        n_words: Its number of words.
        last_word: 1 if `end` is the last word of a mention, 0 if it is the word after it.
    """
    clusters = []
    for cluster in get_list(item, key):
        mentions = []
        for value in expect(cluster, list, f'a cluster of "{key}"'):
            what = ErrorSubject("mention", value)
            if not (isinstance(value, list) and len(value) > 1 and all(map(is_integer, value[:2]))):
                raise UnireError(f"{what} of a cluster is not [start, end]")
            mentions.append(check_span(value[0], value[1] + last_word, n_words, what))
        clusters.append(mentions)
    return clusters


class ErrorSubject(NamedTuple):
    """The subject of an error message. It is formatted only if there is an error, because that is slow."""

    kind: str
    value: object

    def __str__(self) -> str:
        return f"{self.kind} {shorten_json(self.value)}"


def parse_integer(item: Json, key: str, what: object) -> int:
    value = item.get(key)
    if not is_integer(value):
        raise UnireError(f'"{key}" of {what} must be a whole number')
    return int(item[key])


def parse_label(item: Json, key: str, what: object) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else expect(value, str, f'"{key}" of {what}')


def parse_properties(item: Json, what: object) -> tuple[float | None, Json]:
    """The score and the attributes of an entity or a relation, if it has them."""
    score = item.get("score")
    if score is not None and not is_number(score):
        raise UnireError(f'"score" of {what} must be a number')
    attributes = item.get("attributes")
    if attributes is not None:
        expect(attributes, dict, f'"attributes" of {what}')
    return None if score is None else float(score), attributes or {}


def index_arguments(relations: Iterable[Relation], entities: Sequence[Entity]) -> Iterator[tuple[Relation, int, int]]:
    """Every relation with the positions of its head and its tail in `entities`."""
    positions = {id(entity): i for i, entity in enumerate(entities)}  # faster than by value, and equal ones differ

    def find(entity: Entity) -> int:
        position = positions.get(id(entity))
        return entities.index(entity) if position is None else position

    for relation in relations:
        try:
            yield relation, find(relation.head), find(relation.tail)
        except ValueError:
            raise UnireError(f"the relation {relation} refers to an entity that is not in the document") from None


def dump_properties(item: Entity | Relation) -> Json:
    """The score and the attributes as a JSON object, as far as the item has them."""
    properties: Json = {} if item.score is None else {"score": item.score}
    if item.attributes:
        properties["attributes"] = dict(item.attributes)
    return properties


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a number that a float can hold. NaN and infinities are not numbers here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def shorten_json(value: object) -> str:
    """`value` as JSON, shortened for an error message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except RecursionError:  # writing needs more depth than reading
        text = "…"
    return text if len(text) <= 80 else f"{text[:77]}..."


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
"""Without a check for cycles: they raise a `RecursionError` anyway."""

FromJson = Callable[[Json, int], Document | None]
"""A document from its JSON object and its position in the file; `None` if it is left out."""
ToJson = Callable[[Document], Iterable[Json]]
"""The JSON objects that a document becomes."""


def iter_lines(
    path: Path, limits: ReadLimits = DEFAULT_LIMITS, on_error: OnError | None = None
) -> Iterator[tuple[int, bytes]]:
    """The lines of a file without line ends, with their numbers from 1. A line that is too long is skipped."""
    with explain_read_errors(path), open_binary(path, limits) as file:
        for number, raw, _ in iter_limited_lines(file, str(path), limits, on_error):
            yield number, raw.rstrip(b"\r\n")


def read_file(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> bytes:
    """The content of a file that is parsed as a whole."""
    with explain_read_errors(path), open_binary(path, limits) as file:
        return read_whole(file, str(path), limits.check_record)


def decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnireError("not UTF-8; convert the file first") from None


def parse_json(raw: bytes) -> Any:
    """Parse JSON in UTF-8."""
    text = decode(raw)
    try:
        value = json.loads(text)
        if "\\u" in text:  # only an escape can bring in half a surrogate pair, which is not valid text
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        location = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise UnireError(f"not valid JSON: {error.msg} ({location})") from None
    except UnicodeEncodeError as error:
        raise UnireError(f"cannot be read as JSON: {error}") from None
    except RecursionError:
        raise UnireError("cannot be read as JSON: brackets are nested too deeply") from None
    except ValueError:
        raise UnireError("cannot be read as JSON: a number has too many digits") from None
    return value


def iter_objects(path: Path, options: ReadOptions) -> Iterator[tuple[str, Json]]:
    """The JSON objects of a file in JSON lines, each with its location."""
    name, on_error = str(path), options.on_error
    started = False
    for number, line in iter_lines(path, options.limits, on_error):
        if not line or line.isspace():
            continue
        location = f"{name}, line {number}"
        try:
            item = expect(parse_json(line), dict, "a document")
        except UnireError as error:
            if not started and (remedy := explain_not_lines(line, path)):
                raise UnireError(f"{name}: {remedy}") from None
            on_error(UnireError(f"{location}: {error}"))
            continue
        finally:
            started = True
        yield location, item


def read_lines(path: Path, options: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    """Read a file with one JSON object per line."""
    return _read_documents(iter_objects(path, options), options, from_json)


def read_list(path: Path, options: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    """Read a file that is one JSON list of objects."""
    return _read_documents(_iter_items(path, options), options, from_json)


def _iter_items(path: Path, options: ReadOptions) -> Iterator[tuple[str, Json]]:
    raw = read_file(path, options.limits)
    try:
        values = expect(parse_json(raw.removeprefix(codecs.BOM_UTF8)), list, "the file")
    except UnireError as error:
        raise UnireError(f"{path}: {error}") from None
    for i, value in enumerate(values):
        location = f"{path}, item {i} (counted from 0)"
        item = None
        with add_location(location, options.on_error):
            item = expect(value, dict, "a document")
        if item is not None:
            yield location, item


def _read_documents(items: Iterable[tuple[str, Json]], options: ReadOptions, from_json: FromJson) -> Iterator[Document]:
    for position, (location, item) in enumerate(items):
        options.skipped.clear()
        try:
            document = from_json(item, position)
        except UnireError as error:
            options.on_error(UnireError(f"{location}: {error}"))
            continue
        options.report_skipped(location)
        if document is not None:
            yield document


def write_lines(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        for texts in _encode_documents(documents, on_error, to_json):
            for text in texts:
                file.write(text + b"\n")


def write_list(documents: Iterable[Document], path: Path, on_error: OnError, to_json: ToJson) -> None:
    with path.open("wb") as file:
        file.write(b"[")
        _write_separated(file, (text for texts in _encode_documents(documents, on_error, to_json) for text in texts))
        file.write(b"]\n")


def _write_separated(file: BinaryIO, texts: Iterable[bytes]) -> None:
    for i, text in enumerate(texts):
        file.write(b",\n" + text if i else text)


def dump_json(value: Any) -> bytes:
    """Encode a value as JSON."""
    try:
        return ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UnireError(str(error)) from None


def _encode_documents(documents: Iterable[Document], on_error: OnError, to_json: ToJson) -> Iterator[list[bytes]]:
    """The encoded JSON objects of every document."""
    for document in documents:
        try:
            texts = [dump_json(item) for item in to_json(document)]
        except UnireError as error:
            on_error(UnireError(f"document {document.id!r} cannot be written: {error}"))
            continue
        yield texts
