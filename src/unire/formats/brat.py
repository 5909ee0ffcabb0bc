"""`brat`: a folder of texts (`.txt`) and their annotation (`.ann`), as in the annotation tool brat.

    T1	Peop 0 3	Ada
    T2	Loc 13 19	London
    R1	Live_In Arg1:T1 Arg2:T2
    A1	Certainty T1 high
    #1	AnnotatorNotes T2	the one in England

Spans count characters; `0 3;8 12` is an entity in two parts. Such an entity also covers the words between its parts. An
entity that splits a word covers the whole word. The exact characters are kept and written back. Attributes and notes
become attributes. Those that brat cannot represent are written as a note called `Attributes`. Equivalences and
normalisations are skipped and counted. The document's id is its path in the folder.

    T3	Move 4 11	emigrated
    E1	Move:T3 Who:T1 To:T2

An event becomes relations, in one of two ways. By default, its trigger has a relation to each argument, named by the
role: emigrated –Who→ Ada, emigrated –To→ London. `To2` counts as `To` if the event has that too. With `events="pairs"`,
each two arguments have a relation, in the order of the line, named by the type of the event: Ada –Move→ London. The
trigger stays an entity. The notes count what is read and what the other way would read. An event that is an argument
of a relation, of another event or of an attribute means its trigger.

The format has no words: the reader splits the text by rules or, if asked, at spaces and line ends. The format cannot
represent scores, meta data, cuts, and entities on empty words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from unire.documents import CHARACTERS, Document, Entity, Relation
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors, list_files
from unire.formats import json_utils
from unire.formats.alignment import EntityAligner, split_text
from unire.formats.base import ALL_CAPABILITIES, LOST_ARGUMENT, Capability, ReadOptions, add_location
from unire.formats.json_utils import Json
from unire.limits import read_whole

__all__ = ["CAPABILITIES", "read", "write"]

CAPABILITIES = ALL_CAPABILITIES - {
    Capability.WORDS,
    Capability.SCORES,
    Capability.META,
    Capability.CUTS,
    Capability.CLUSTERS,
    Capability.CHARACTERLESS,
}
NOTE_TYPE, ATTRIBUTES_TYPE = "AnnotatorNotes", "Attributes"
WORD = re.compile(r"\S+")
UNSAFE_CHARACTERS = re.compile(r'[\x00-\x1f\\/:*?"<>|%]|^\.|[. ]$')
SKIPPED_LINES = {"*": "equivalence, left out", "N": "normalisation, left out"}
ROLE, PAIR = "role of an event", "pair of arguments of an event"

# Reading


class Line(NamedTuple):
    """A line of an `.ann` file."""

    id: str
    words: list[str]
    """The words between the first and the second tab."""
    rest: str


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    files = [file for file in list_files(path, options.on_error) if file.suffix in (".txt", ".ann")]
    texts = {file.with_suffix("") for file in files if file.suffix == ".txt"}
    for file in files:
        if file.suffix == ".ann" and file.with_suffix("") not in texts:
            options.on_error(UnireError(f"{file} has no text; add {file.with_suffix('.txt').name}"))
        elif file.suffix == ".txt":
            document = None
            options.skipped.clear()
            location = str(file.with_suffix(".ann"))
            with add_location(location, options.on_error):
                document = _read_document(file, unquote(file.relative_to(path).with_suffix("").as_posix()), options)
            if document is not None:
                options.report_skipped(location)
                yield document


def _read_document(file: Path, name: str, options: ReadOptions) -> Document:
    document = split_text(_read_text(file, options.limits.check_text), options, id=name)
    annotation = file.with_suffix(".ann")
    content = _read_text(annotation, options.limits.check_record).removeprefix("\ufeff") if annotation.is_file() else ""
    lines = [_parse_line(line.removesuffix("\r")) for line in content.split("\n") if line.strip()]
    triggers = {line.id: line.words[0].partition(":")[2] for line in lines if line.id.startswith("E") and line.words}
    attributes = _parse_attributes(lines, triggers, options)
    aligner = EntityAligner(document, options.notes)
    entities: dict[str, Entity | None] = {}
    for line in lines:
        if line.id.startswith("T"):
            try:
                if line.id in entities:
                    raise UnireError(f"{line.id} is defined twice")
                entities[line.id] = None
                entities[line.id] = _parse_entity(line, aligner, attributes.get(line.id, {}))
            except UnireError as error:
                options.skip(error, "entity")
    relations: list[Relation] = []

    def add(names: Sequence[str], label: str, attributes: Json) -> None:
        head, tail = (entities.get(triggers.get(name, name)) for name in names)
        if head is None or tail is None:
            options.notes[LOST_ARGUMENT] += 1
        else:
            relations.append(Relation(head, tail, label, attributes=attributes))

    for line in lines:
        try:
            if line.id.startswith("R"):
                add(_parse_arguments(line, entities, triggers), line.words[0], attributes.get(line.id, {}))
            elif line.id.startswith("E"):
                for head, tail, label in _parse_event(line, entities, triggers, options):
                    add((head, tail), label, {})
        except UnireError as error:
            options.skip(error, "event" if line.id.startswith("E") else "relation")
        if line.id[0] in SKIPPED_LINES:
            options.notes[SKIPPED_LINES[line.id[0]]] += 1
    return document.annotated((entity for entity in entities.values() if entity is not None), relations)


def _parse_event(
    line: Line, entities: Mapping[str, Entity | None], triggers: Mapping[str, str], options: ReadOptions
) -> list[tuple[str, str, str]]:
    """The relations of an event: the ids of head and tail, and the label."""
    (label, _, trigger), *arguments = [word.partition(":") for word in line.words] or [("", "", "")]
    if not label or not all(role and name for role, _, name in arguments):
        raise UnireError(f"{line.id} must have a trigger and arguments, as in `Move:T3 Who:T1 To:T2`")
    _check_targets(line, [trigger, *(name for _, _, name in arguments)], entities, triggers)
    given = {role for role, _, _ in arguments}
    roles = []
    for role, _, name in arguments:
        base = role.rstrip("0123456789")
        roles.append((trigger, name, base if base in given else role))
    pairs = [(a[2], b[2], label) for a, b in combinations(arguments, 2)]
    kept, other = ((roles, ROLE), (pairs, PAIR))[:: -1 if options.events == "pairs" else 1]
    options.notes[f"{kept[1]}, read as a relation"] += len(kept[0])
    options.notes[f"{other[1]}, not read as a relation"] += len(other[0])
    return kept[0]


def _check_targets(
    line: Line, names: Iterable[str], entities: Mapping[str, Entity | None], triggers: Mapping[str, str]
) -> None:
    if missing := [name for name in names if triggers.get(name, name) not in entities]:
        raise UnireError(f"{line.id} refers to {missing[0]!r}, which does not exist")


def _read_text(path: Path, check: Callable[[int, str], None]) -> str:
    with explain_read_errors(path), path.open("rb") as file:
        return json_utils.decode(read_whole(file, str(path), check))


def _parse_line(line: str) -> Line:
    name, _, rest = line.partition("\t")
    words, _, rest = rest.partition("\t")
    if name[:1] not in set("TREAMN#*"):
        raise UnireError(f"{json_utils.shorten_json(line)} is not a line of brat")
    return Line(name, words.split(), rest)


def _parse_entity(line: Line, aligner: EntityAligner, attributes: Json) -> Entity | None:
    label, *numbers = line.words or [""]
    parts = [part.split() for part in " ".join(numbers).split(";")]
    if not label or not all(len(part) == 2 and all(re.fullmatch("[0-9]{1,15}", n) for n in part) for part in parts):
        raise UnireError(f"{line.id} must have a type and pairs of characters, as in `Peop 0 3` or `Peop 0 3;8 12`")
    written = [(int(start), int(end)) for start, end in parts]
    spans = sorted(written)
    if any(start >= end for start, end in spans) or any(a[1] > b[0] for a, b in pairwise(spans)):
        raise UnireError(f"{line.id} has characters that are reversed, empty or in two of its parts")
    text = aligner.document.text
    entity = aligner.align(_merge_lines(spans, text), label, None, attributes)
    texts = (" ".join(text[start:end] for start, end in order).split() for order in (spans, written))
    if line.rest.split() not in texts:
        aligner.notes["entity whose text is not that at its characters"] += 1
    return entity


def _merge_lines(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Merge the parts of an entity that only line ends separate: brat splits entities at line ends."""
    merged = spans[:1]
    for start, end in spans[1:]:
        gap = text[merged[-1][1] : start]
        if "\n" in gap and not gap.strip():
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _parse_arguments(line: Line, entities: dict[str, Entity | None], triggers: dict[str, str]) -> list[str]:
    """The ids of head and tail: `Arg1` and `Arg2`, or the first and the second argument."""
    pairs = [word.partition(":")[::2] for word in line.words[1:]]
    if len(pairs) != 2:
        raise UnireError(f"{line.id} must have a type and two arguments, as in `Live_In Arg1:T1 Arg2:T2`")
    if pairs[0][0] == "Arg2":
        pairs.reverse()
    names = [name for _, name in pairs]
    _check_targets(line, names, entities, triggers)
    return names


def _parse_attributes(lines: Iterable[Line], triggers: Mapping[str, str], options: ReadOptions) -> dict[str, Json]:
    """The attributes of every entity and relation, by its id. Those of an event belong to its trigger."""
    attributes: dict[str, Json] = {}
    for line in lines:
        if line.id[0] not in "AM#":
            continue
        try:
            if len(line.words) < 2:
                raise UnireError(f"{line.id} must have a name and a target, as in `Certainty T1 high`")
            name, target, *value = line.words
            target_attributes = attributes.setdefault(triggers.get(target, target), {})
            if line.id[0] != "#":
                target_attributes[name] = " ".join(value) if value else True
            elif name != ATTRIBUTES_TYPE:
                target_attributes[name] = line.rest
            else:
                written = {"attributes": json_utils.parse_json(line.rest.encode())}
                target_attributes.update(json_utils.parse_properties(written, line.id)[1])
        except UnireError as error:
            options.skip(error, "attribute")
    return attributes


# Writing


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    types: Counter[str] = Counter()
    relation_types: Counter[str] = Counter()
    for document in documents:
        with add_location(f"document {document.id!r} cannot be written", on_error):
            try:
                file = path / _build_file_name(document.id)
                text, annotation = (
                    document.text.encode(),
                    "".join(f"{line}\n" for line in _dump_lines(document)).encode(),
                )
            except (TypeError, ValueError) as error:
                raise UnireError(str(error)) from None
            if file.exists():
                raise UnireError("another document has the same id, and would have the same file")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            file.with_suffix(".ann").write_bytes(annotation)
            types.update(entity.label for entity in document.entities)
            relation_types.update(relation.label for relation in document.relations)
    settings = ["[entities]", *sorted(types), "[relations]"]
    settings += [f"{name}\tArg1:<ENTITY>, Arg2:<ENTITY>" for name in sorted(relation_types)]
    (path / "annotation.conf").write_text("\n".join([*settings, "[events]", "[attributes]", ""]), encoding="utf-8")


def _build_file_name(name: str) -> str:
    """A path inside the folder. Characters that lead out of it, or that some system forbids, are escaped as `%2F`."""
    parts = name.split("/")
    if not all(parts):  # a slash at the end, or two in a row, does not separate folders
        parts = [name]
    if not name:
        raise UnireError("it has no id, and therefore no file name")
    return "/".join(UNSAFE_CHARACTERS.sub(lambda match: f"%{ord(match[0]):02X}", part) for part in parts) + ".txt"


def _dump_lines(document: Document) -> Iterator[str]:
    items: list[tuple[str, Entity | Relation]] = []
    for i, entity in enumerate(document.entities, start=1):
        parts = [part for span in entity.fragments for part in _split_lines(*span, document.text)]
        parts = parts or [*_split_lines(entity.char_start, entity.char_end, document.text)]  # fragments may be empty
        spans = ";".join(f"{start} {end}" for start, end in parts)
        text = " ".join(" ".join(document.text[start:end] for start, end in parts).split())
        yield f"T{i}\t{_check_label(entity.label)} {spans}\t{text}"
        items.append((f"T{i}", entity))
    for i, (relation, head, tail) in enumerate(
        json_utils.index_arguments(document.relations, document.entities), start=1
    ):
        yield f"R{i}\t{_check_label(relation.label)} Arg1:T{head + 1} Arg2:T{tail + 1}\t"
        items.append((f"R{i}", relation))
    attributes = [line for name, item in items for line in _dump_attributes(name, item)]
    for i, (kind, line) in enumerate(attributes, start=1):
        yield f"{kind}{i}\t{line}"


def _split_lines(start: int, end: int, text: str) -> Iterator[tuple[int, int]]:
    """The parts of a span between line ends, which brat does not allow in spans."""
    for match in re.finditer(r"[^\n]+", text[start:end]):
        yield start + match.start(), start + match.end()


def _dump_attributes(name: str, item: Entity | Relation) -> Iterator[tuple[str, str]]:
    """The attributes of an entity or relation as lines, with the letters that their ids start with."""
    rest: Json = {}
    for key, value in item.attributes.items():
        if key == NOTE_TYPE and isinstance(value, str) and value.isprintable():
            yield "#", f"{key} {name}\t{value}"
        elif WORD.fullmatch(key) and (value is True or (isinstance(value, str) and WORD.fullmatch(value))):
            yield "A", f"{key} {name}" if value is True else f"{key} {name} {value}"
        elif key != CHARACTERS:
            rest[key] = value
    if rest:
        yield "#", f"{ATTRIBUTES_TYPE} {name}\t{json_utils.dump_json(rest).decode()}"


def _check_label(label: str) -> str:
    if not WORD.fullmatch(label):
        raise UnireError(f"brat does not support spaces in names of types, such as {label!r}; rename the type")
    return label
