"""`brat`: a folder of texts (`.txt`) and their annotation (`.ann`), as brat has them.

    T1	Peop 0 3	Ada
    T2	Loc 13 19	London
    R1	Live_In Arg1:T1 Arg2:T2
    A1	Certainty T1 high
    #1	AnnotatorNotes T2	the one in England

Spans count characters; `0 3;8 12` is an entity in two parts. Such an entity takes the words between its parts along,
and one that splits a word the whole word; its exact characters are kept and written back. Attributes and notes become
attributes, those that brat cannot spell a note called `Attributes`. Events, equivalences and normalisations are left
out, and noted; a relation of an event is one of its trigger. A document is named by its path in the folder.

The format has no words: the text is split when it is read, by rules or, if asked, at its spaces and line ends. Scores,
meta data and cuts have no place, nor have entities on empty words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.formats import json_utils
from unire.formats.alignment import Placer, split
from unire.formats.base import ReadOptions, at
from unire.formats.capabilities import ARGUMENT, EVERYTHING, Capability
from unire.formats.json_utils import Json

__all__ = ["HOLDS", "read", "write"]

HOLDS = EVERYTHING - {
    Capability.WORDS,
    Capability.SCORES,
    Capability.META,
    Capability.CUTS,
    Capability.CHARACTERLESS,
}
NOTE, OURS = "AnnotatorNotes", "Attributes"
WORD = re.compile(r"\S+")
UNSAFE = re.compile(r'[\x00-\x1f\\/:*?"<>|%]|^\.|[. ]$')
LEFT_OUT = {"E": "event, left out", "*": "equivalence, left out", "N": "normalisation, left out"}

# Reading


class Line(NamedTuple):
    """A line of an `.ann` file."""

    id: str
    words: list[str]
    """What stands between its first and its second tab."""
    rest: str


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    with explain_read_errors(path):
        files = sorted(file for file in path.rglob("*") if file.suffix in (".txt", ".ann") and file.is_file())
    texts = {file.with_suffix("") for file in files if file.suffix == ".txt"}
    for file in files:
        if file.suffix == ".ann" and file.with_suffix("") not in texts:
            how.on_error(UnireError(f"{file} has no text beside it; add {file.with_suffix('.txt').name}"))
        elif file.suffix == ".txt":
            document = None
            with at(str(file.with_suffix(".ann")), how.on_error):
                document = _document(file, unquote(file.relative_to(path).with_suffix("").as_posix()), how)
            if document is not None:
                yield document


def _document(file: Path, name: str, how: ReadOptions) -> Document:
    document = split(_text(file), spaces=how.spaces, id=name)
    annotation = file.with_suffix(".ann")
    said = _text(annotation).removeprefix("\ufeff") if annotation.is_file() else ""
    lines = [_line(line.removesuffix("\r")) for line in said.split("\n") if line.strip()]
    attributes = _attributes(lines)
    placer = Placer(document, how.notes)
    entities: dict[str, Entity | None] = {}
    for line in lines:
        if line.id.startswith("T"):
            if line.id in entities:
                raise UnireError(f"{line.id} stands there twice")
            entities[line.id] = _entity(line, placer, attributes.get(line.id, {}))
    triggers = {line.id: line.words[0].partition(":")[2] for line in lines if line.id.startswith("E") and line.words}
    relations = []
    for line in lines:
        if line.id.startswith("R"):
            head, tail = (entities.get(triggers.get(name, name)) for name in _arguments(line, entities, triggers))
            if head is None or tail is None:
                how.notes[ARGUMENT] += 1
            else:
                relations.append(Relation(head, tail, line.words[0], attributes=attributes.get(line.id, {})))
        elif line.id[0] in LEFT_OUT:
            how.notes[LEFT_OUT[line.id[0]]] += 1
    return document.annotated((entity for entity in entities.values() if entity is not None), relations)


def _text(file: Path) -> str:
    with explain_read_errors(file):
        return json_utils.decoded(file.read_bytes())


def _line(line: str) -> Line:
    name, _, rest = line.partition("\t")
    said, _, rest = rest.partition("\t")
    if name[:1] not in set("TREAMN#*"):
        raise UnireError(f"{json_utils.shown(line)} is not a line that brat writes")
    return Line(name, said.split(), rest)


def _entity(line: Line, placer: Placer, attributes: Json) -> Entity | None:
    label, *numbers = line.words or [""]
    parts = [part.split() for part in " ".join(numbers).split(";")]
    if not label or not all(len(part) == 2 and all(re.fullmatch("[0-9]{1,15}", n) for n in part) for part in parts):
        raise UnireError(f"{line.id} must have a type and pairs of characters, as in `Peop 0 3` or `Peop 0 3;8 12`")
    spans = [(int(start), int(end)) for start, end in parts]
    if any(start >= end for start, end in spans) or any(a[1] > b[0] for a, b in pairwise(spans)):
        raise UnireError(f"{line.id} has characters that are reversed, empty or out of order")
    text = placer.document.text
    entity = placer.entity(_merged(spans, text), label, None, attributes)
    if line.rest.split() != " ".join(text[start:end] for start, end in spans).split():
        placer.notes["entity whose text is not that at its characters"] += 1
    return entity


def _merged(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """The parts of an entity that something other than a line end parts; brat splits entities at line ends."""
    merged = spans[:1]
    for start, end in spans[1:]:
        gap = text[merged[-1][1] : start]
        if "\n" in gap and not gap.strip():
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _arguments(line: Line, entities: dict[str, Entity | None], triggers: dict[str, str]) -> list[str]:
    """The names of head and tail: `Arg1` and `Arg2`, or whatever comes first and second."""
    pairs = [word.partition(":")[::2] for word in line.words[1:]]
    if len(pairs) != 2:
        raise UnireError(f"{line.id} must have a type and two arguments, as in `Live_In Arg1:T1 Arg2:T2`")
    if pairs[0][0] == "Arg2":
        pairs.reverse()
    names = [name for _, name in pairs]
    if missing := [name for name in names if triggers.get(name, name) not in entities]:
        raise UnireError(f"{line.id} refers to {missing[0]!r}, which is not there")
    return names


def _attributes(lines: Iterable[Line]) -> dict[str, Json]:
    """What is said of every entity and relation, by its name."""
    said: dict[str, Json] = {}
    for line in lines:
        if line.id[0] not in "AM#":
            continue
        if len(line.words) < 2:
            raise UnireError(f"{line.id} must have a name and what it is about, as in `Certainty T1 high`")
        name, target, *value = line.words
        about = said.setdefault(target, {})
        if line.id[0] != "#":
            about[name] = " ".join(value) if value else True
        elif name != OURS:
            about[name] = line.rest
        else:
            about.update(json_utils.properties({"attributes": json_utils.parsed(line.rest.encode())}, line.id)[1])
    return said


# Writing


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    types: Counter[str] = Counter()
    relation_types: Counter[str] = Counter()
    for document in documents:
        with at(f"document {document.id!r} cannot be written", on_error):
            try:
                file = path / _file_name(document.id)
                text, annotation = document.text.encode(), "".join(f"{line}\n" for line in _lines(document)).encode()
            except (TypeError, ValueError) as error:
                raise UnireError(str(error)) from None
            if file.exists():
                raise UnireError("another one has the same name, and so would have the same file")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            file.with_suffix(".ann").write_bytes(annotation)
            types.update(entity.label for entity in document.entities)
            relation_types.update(relation.label for relation in document.relations)
    settings = ["[entities]", *sorted(types), "[relations]"]
    settings += [f"{name}\tArg1:<ENTITY>, Arg2:<ENTITY>" for name in sorted(relation_types)]
    (path / "annotation.conf").write_text("\n".join([*settings, "[events]", "[attributes]", ""]), encoding="utf-8")


def _file_name(name: str) -> str:
    """A path inside the folder; what would lead out of it, or is no name on some system, is spelt `%2F` and so on."""
    parts = name.split("/")
    if not all(parts):  # a slash at an end, or two in a row, parts no folders
        parts = [name]
    if not name:
        raise UnireError("it has no name, and so no file")
    return "/".join(UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", part) for part in parts) + ".txt"


def _lines(document: Document) -> Iterator[str]:
    about: list[tuple[str, Entity | Relation]] = []
    for i, entity in enumerate(document.entities, start=1):
        parts = [part for span in entity.fragments for part in _unbroken(*span, document.text)]
        parts = parts or [*_unbroken(entity.char_start, entity.char_end, document.text)]  # where those are none
        spans = ";".join(f"{start} {end}" for start, end in parts)
        text = " ".join(" ".join(document.text[start:end] for start, end in parts).split())
        yield f"T{i}\t{_word(entity.label)} {spans}\t{text}"
        about.append((f"T{i}", entity))
    for i, (relation, head, tail) in enumerate(json_utils.numbered(document.relations, document.entities), start=1):
        yield f"R{i}\t{_word(relation.label)} Arg1:T{head + 1} Arg2:T{tail + 1}\t"
        about.append((f"R{i}", relation))
    said = [line for name, item in about for line in _said(name, item)]
    for i, (kind, line) in enumerate(said, start=1):
        yield f"{kind}{i}\t{line}"


def _unbroken(start: int, end: int, text: str) -> Iterator[tuple[int, int]]:
    """The parts of some characters between line ends, which no span of brat may hold."""
    for match in re.finditer(r"[^\n]+", text[start:end]):
        yield start + match.start(), start + match.end()


def _said(name: str, item: Entity | Relation) -> Iterator[tuple[str, str]]:
    """The attributes of an entity or relation as lines, and the letters that they begin with."""
    rest: Json = {}
    for key, value in item.attributes.items():
        if key == NOTE and isinstance(value, str) and value.isprintable():
            yield "#", f"{key} {name}\t{value}"
        elif WORD.fullmatch(key) and (value is True or (isinstance(value, str) and WORD.fullmatch(value))):
            yield "A", f"{key} {name}" if value is True else f"{key} {name} {value}"
        elif key != CHARACTERS:
            rest[key] = value
    if rest:
        yield "#", f"{OURS} {name}\t{json_utils.spelt(rest).decode()}"


def _word(label: str) -> str:
    if not WORD.fullmatch(label):
        raise UnireError(f"brat has no types with spaces in their names, such as {label!r}; rename it")
    return label
