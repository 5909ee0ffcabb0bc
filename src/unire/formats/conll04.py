"""`conll04`: the columns of Roth and Yih's corpus, one sentence after the other.

    7   Peop   0   O   NNP/NNP   Ada/Lovelace   O   O   O
    7   O      1   O   VBD       lived          O   O   O
    7   O      2   O   IN        in             O   O   O
    7   Loc    3   O   NNP       London         O   O   O

    0   3   Live_In

Columns are separated by tabs. A row is an element: an entity, or a word outside of one. Its columns are the sentence's
number, the entity type or `O`, the element's number, its tags and its words, both joined by slashes. An empty line
separates the rows from the relations, which name two elements each. Another one separates sentences. Every sentence is
a document, and its number is the id. A comma is written `COMMA`, and a slash inside a word `\\/`, as in the Penn
Treebank.

The reader skips and counts tags. The writer writes `,` for commas and `X` for other words. The format cannot represent
overlapping entities, annotation across sentences, scores, attributes, meta data, the text and the cuts of a document. A
document of several sentences becomes one document per sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from unire.documents import Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.formats import json_utils
from unire.formats.base import Capability, ReadOptions, add_location

__all__ = ["CAPABILITIES", "read", "write"]

CAPABILITIES = frozenset({Capability.WORDS, Capability.TWINS, Capability.CHARACTERLESS})
NO_ENTITY = "O"
LABEL, NUMBER, TAGS, WORDS = 1, 2, 4, 5
"""Numbers of the columns that are read."""
COMMA = ("COMMA", ",")
NO_TAG = "X"
"""The tag that the writer writes."""
SLASH = re.compile(r"(?<!\\)(?:\\\\)*/")
ESCAPED = re.compile(r"\\([\\/])")

Block = list[tuple[int, list[str]]]
"""The lines of a sentence: line number and columns."""


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    for block in _iter_blocks(path, options):
        document = None
        with add_location(f"{path}, line {block[0][0]} and on", options.on_error):
            document = _parse_block(block, options)
        if document is not None:
            yield document


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    with path.open("wb") as file:
        for document in documents:
            text = None
            with add_location(f"document {document.id!r} cannot be written", on_error):
                try:
                    text = "\n".join(_dump_rows(document)).encode()
                except UnicodeEncodeError as error:
                    raise UnireError(str(error)) from None
            if text is not None:
                file.write(text + b"\n\n")


def _iter_blocks(path: Path, options: ReadOptions) -> Iterator[Block]:
    """The lines of each sentence. A row after a line that is not a row starts a new sentence."""
    block: Block = []
    in_rows = False
    size = 0
    for number, raw in json_utils.iter_lines(path, options.limits, options.on_error):
        columns = None
        with add_location(f"{path}, line {number}", options.on_error):
            columns = json_utils.decode(raw).split("\t")
        if columns is None:
            continue
        row = len(columns) > WORDS
        if row and not in_rows and block:
            yield block
            block, size = [], 0
        size += len(raw)
        options.limits.check_record(size, f"{path}, line {block[0][0] if block else number} and on")
        if raw:
            block.append((number, columns))
        in_rows = row
    if block:
        yield block


def _parse_block(block: Block, options: ReadOptions) -> Document:
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    labels: list[str] = []
    relations = []
    tagged = False
    for number, columns in block:
        if len(columns) > WORDS:
            if columns[NUMBER] != str(len(spans)):
                raise UnireError(f"line {number} should be element {len(spans)}, but is element {columns[NUMBER]!r}")
            tags = columns[TAGS].split("/")
            tagged = tagged or not {NO_TAG, COMMA[1]}.issuperset(tags)
            element = _parse_words(columns[WORDS], tags)
            spans.append((len(words), len(words) + len(element)))
            words += element
            labels.append(columns[LABEL])
        elif len(columns) == 3 and all(re.fullmatch("[0-9]{1,9}", part) for part in columns[:2]):
            relations.append((number, int(columns[0]), int(columns[1]), columns[2]))
        else:
            raise UnireError(f"line {number} is neither an element of nine columns nor a relation of three")
    if not spans:
        raise UnireError("there are relations, but no sentence before them")
    options.notes["sentence whose part-of-speech tags are left out"] += tagged
    document = Document.from_words([words], id=block[0][1][0])
    entities = {
        i: document.entity(*span, label)
        for i, (span, label) in enumerate(zip(spans, labels, strict=True))
        if label != NO_ENTITY
    }
    for number, head, tail, _ in relations:
        if missing := [argument for argument in (head, tail) if argument not in entities]:
            raise UnireError(f"line {number}: element {missing[0]} of a relation is not an entity")
    linked = [Relation(entities[head], entities[tail], label) for _, head, tail, label in relations]
    return document.annotated(entities.values(), linked)


def _parse_words(cell: str, tags: list[str]) -> list[str]:
    """The words of an element. An element with one tag is one word, even if it contains slashes."""
    parts = [cell] if len(tags) == 1 else _split_cell(cell)
    if len(parts) != len(tags):
        tags = [""] * len(parts)
    return [
        COMMA[1] if (part, tag) == COMMA else ESCAPED.sub(r"\1", part) for part, tag in zip(parts, tags, strict=True)
    ]


def _split_cell(cell: str) -> list[str]:
    """Split at slashes that are not escaped by a backslash."""
    ends = [match.end() - 1 for match in SLASH.finditer(cell)]
    return [cell[start + 1 : end] for start, end in zip([-1, *ends], [*ends, len(cell)], strict=True)]


def _dump_rows(document: Document) -> Iterator[str]:
    starts = {entity.start: entity for entity in document.entities}
    numbers: dict[Entity, int] = {}
    number = start = 0
    while start < document.n_words:
        entity = starts.get(start)
        end, label = (entity.end, entity.label) if entity else (start + 1, NO_ENTITY)
        if entity:
            if label == NO_ENTITY:
                raise UnireError(
                    f"the format conll04 cannot represent an entity type {NO_ENTITY!r}, which means no entity"
                )
            numbers[entity] = number
        words = document.words[start:end]
        tags = "/".join(COMMA[1] if word == COMMA[1] else NO_TAG for word in words)
        cell = "/".join(map(_escape_word, words))
        yield "\t".join((_check_cell(document.id), _check_cell(label), str(number), "O", tags, cell, "O", "O", "O"))
        number, start = number + 1, end
    yield ""
    for relation in document.relations:
        yield f"{numbers[relation.head]}\t{numbers[relation.tail]}\t{_check_cell(relation.label)}"


def _escape_word(word: str) -> str:
    if not word:
        raise UnireError("the format conll04 cannot represent empty words")
    return COMMA[0] if word == COMMA[1] else _check_cell(word).replace("\\", "\\\\").replace("/", "\\/")


def _check_cell(text: str) -> str:
    if any(character in text for character in "\t\n\r"):
        raise UnireError(f"{text!r} has a tab or a line end, which the format conll04 cannot represent")
    return text
