"""`ace04` and `ace05`: the corpora as released by the LDC, folders of `.sgm` and `.apf.xml` files. Read only.

The text is that of the `.sgm` file. Offsets in the `.apf.xml` file count its characters without tags, with one
character per line end, and with the five characters of `&amp;`. The reader maps them to offsets of the plain text. It
splits the body of the document into sentences and words. A tag at the start or the end of a line ends a sentence.

An entity is the **head** of an entity mention with one of the seven types. A relation is a relation mention with one of
the corpus's six types. `DISC` (ACE04) and `METONYMY` (ACE05) are skipped, as in all published work. Sub-type, class,
level (`NAM`, `NOM`, `PRO`), ids and the full extent, in words, become attributes. A head that splits a word covers the
whole word. Skipped mentions are counted with the reason, and so are times, values and events.

ACE05 has every document once per stage of its annotation. The reader takes `timex2norm`, or else `adj`.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.files import list_files
from unire.formats import json_utils
from unire.formats.alignment import WORDLESS, EntityAligner, find_words
from unire.formats.base import ReadOptions, add_location
from unire.formats.json_utils import Json
from unire.labels import LabelSpace
from unire.segmentation import segment

__all__ = ["OUTSIDE", "read"]

STAGES = ("timex2norm", "adj")
"""Folders of the versions of a document, the preferred first."""

TAG = re.compile(r"<[^<>]+>")
REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
BODIES = ("BODY", "TEXT")
"""The text to read is inside the first of these tags that a document has."""

OUTSIDE = "mention outside the body of its document, left out"
MISPLACED = "mention whose text is not that at its offsets, left out"
REPEATED = "mention with the head and the type of another, taken as one"
REPEATED_RELATION = "relation mention like another, taken as one"
ORPHANED = "relation mention one of whose arguments is left out"
LOST_EXTENT = "extent of a mention that is not at its offsets or not in the body, left out"
OTHER_ARGUMENT = "third argument of a relation mention (for example a time), skipped"
SKIPPED_ELEMENTS = {
    "timex2_mention": "mention of a time, left out",
    "value_mention": "mention of a value, left out",
    "event_mention": "mention of an event, left out",
}
"""Other annotation in the files."""


class SgmText(NamedTuple):
    """The plain text of an `.sgm` file."""

    text: str
    """Without tags, and with `&` for `&amp;`."""
    positions: list[int]
    """The position in `text` of each character of the file without its tags, and of its end."""
    blocks: list[tuple[int, int]]
    """Start and end of each part of the body between tags."""


def read(path: Path, options: ReadOptions, corpus: str) -> Iterator[Document]:
    labels = LabelSpace.load(corpus)
    files: dict[str, Path] = {}
    annotations = [file for file in list_files(path, options.on_error) if file.name.endswith(".apf.xml")]
    for file in sorted(annotations, key=_rank_stage):
        files.setdefault(file.name.removesuffix(".apf.xml"), file)
    for name, file in sorted(files.items()):
        document = None
        with add_location(str(file), options.on_error):
            source = file.with_name(f"{name}.sgm")
            if not source.exists():
                raise UnireError(f"{source.name} is missing in the same folder")
            text = json_utils.decode(json_utils.read_file(source, options.limits))
            options.limits.check_document(len(text), source.name)
            root = parse_xml(json_utils.read_file(file, options.limits))
            document = _build_document(name, parse_sgm(text), root, labels, options.notes)
        if document is not None:
            yield document


def _rank_stage(file: Path) -> tuple[int, Path]:
    stage = file.parent.name
    return STAGES.index(stage) if stage in STAGES else len(STAGES), file


def parse_sgm(source: str) -> SgmText:
    """Remove tags and resolve references. A tag at the start or the end of a line ends a block; others do not."""
    source = source.replace("\r\n", "\n")
    body = next((name for name in BODIES if f"<{name}>" in source), None)
    text: list[str] = []
    positions: list[int] = []
    blocks = []
    length = begin = position = 0
    inside = body is None
    for tag in [*TAG.finditer(source), None]:
        for raw, plain in _iter_characters(source[position : tag.start() if tag else len(source)]):
            positions += [length] * len(raw)
            text.append(plain)
            length += len(plain)
        position = tag.end() if tag else position
        is_body_tag = tag is None or tag[0] in (f"<{body}>", f"</{body}>")
        if is_body_tag or source[position : position + 1] in ("", "\n") or text[-1:] in ([], ["\n"]):
            if inside and begin < length:
                blocks.append((begin, length))
            begin = length
        if is_body_tag and tag:
            inside = tag[0] == f"<{body}>"
    return SgmText("".join(text), [*positions, length], blocks)


def _iter_characters(raw: str) -> Iterator[tuple[str, str]]:
    """Each character as written (for example `&amp;`) and as plain text."""
    position = 0
    for reference in REFERENCE.finditer(raw):
        plain = html.unescape(reference[0])
        if plain == reference[0]:  # not a reference
            continue
        yield from zip(raw[position : reference.start()], raw[position : reference.start()], strict=True)
        yield reference[0], plain
        position = reference.end()
    yield from zip(raw[position:], raw[position:], strict=True)


def parse_xml(raw: bytes) -> Element:
    """Parse XML. It may refer to a DTD but not define entities, which no file of the LDC does."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = _refuse_entities
    try:
        parser.Parse(raw, True)
        root = builder.close()
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise UnireError(f"not valid XML: {error}") from None
    return root


def _refuse_entities(name: str, *_: object) -> None:
    raise UnireError(f"the XML defines or uses the entity {name!r}, which is not supported")


def _build_document(name: str, source: SgmText, root: Element, labels: LabelSpace, notes: Counter[str]) -> Document:
    sentences: list[tuple[str, ...]] = []
    offsets: list[tuple[int, int]] = []
    for start, end in source.blocks:
        for sentence in segment(source.text[start:end], line_breaks=False).sentences:
            sentences.append(sentence.words)
            offsets += [(start + first, start + last) for first, last in sentence.offsets]
    document = Document.from_words(sentences, text=source.text, offsets=offsets, id=name)
    mentions = dict(_iter_mentions(document, source, root, labels, notes))
    relations = list(_iter_relations(root, mentions, labels, notes))
    for element, reason in SKIPPED_ELEMENTS.items():
        notes[reason] += sum(1 for _ in root.iter(element))
    unique: dict[int, Entity] = {id(entity): entity for entity in mentions.values() if entity is not None}
    return document.annotated(sorted(unique.values(), key=lambda e: e.span), relations)


def _iter_mentions(
    document: Document, source: SgmText, root: Element, labels: LabelSpace, notes: Counter[str]
) -> Iterator[tuple[str, Entity | None]]:
    """Id and head of every entity mention, or `None` for a head that cannot be kept."""
    aligner = EntityAligner(document, notes)
    seen: dict[tuple[int, int, str], Entity] = {}
    for entity in root.iter("entity"):
        label = entity.get("TYPE", "")
        for mention in entity.iter("entity_mention"):
            if label not in labels.entity_types:
                notes[f"mention of the type {label!r}, left out"] += 1
                yield mention.get("ID", ""), None
                continue
            head = _align_head(mention, label, _build_attributes(entity, mention, document, source), source, aligner)
            if head is not None:
                key = (*head.span, label)
                if key in seen:
                    notes[REPEATED] += 1
                head = seen.setdefault(key, head)
                notes[LOST_EXTENT] += "extent" not in head.attributes
            yield mention.get("ID", ""), head


def _align_head(
    mention: Element, label: str, attributes: Json, source: SgmText, aligner: EntityAligner
) -> Entity | None:
    span = _find_span(mention.find("head"), source)
    if span is None:
        aligner.notes[MISPLACED] += 1
        return None
    before = aligner.notes[WORDLESS]
    entity = aligner.align([span], label, None, attributes)
    aligner.notes[OUTSIDE] += aligner.notes[WORDLESS] - before
    aligner.notes[WORDLESS] = before
    return entity


def _find_span(part: Element | None, source: SgmText) -> tuple[int, int] | None:
    """The characters of a head or an extent, or `None` if the text there is not the quoted one."""
    charseq = None if part is None else part.find("charseq")
    if charseq is None:
        raise UnireError("a mention has no head or extent, or it has no <charseq>")
    bounds = (charseq.get("START", ""), charseq.get("END", ""))
    if not all(re.fullmatch("[0-9]{1,9}", bound) for bound in bounds):
        raise UnireError(f"START and END of a <charseq> must be whole numbers, but are {bounds}")
    first, last = map(int, bounds)
    if not first <= last < len(source.positions) - 1:
        return None
    start, end = source.positions[first], source.positions[last + 1]
    quoted = "".join(charseq.itertext())
    variants = (quoted, html.unescape(quoted))  # some releases quote `&amp;` as one character, some as five
    return (start, end) if source.text[start:end].split() in [words.split() for words in variants] else None


def _build_attributes(entity: Element, mention: Element, document: Document, source: SgmText) -> Json:
    attributes: Json = {
        "entity": entity.get("ID"),
        "subtype": entity.get("SUBTYPE"),
        "class": entity.get("CLASS"),
        "mention": mention.get("ID"),
        "level": mention.get("TYPE"),
        "role": mention.get("ROLE"),
        "metonymy": mention.get("METONYMY_MENTION", "").upper() == "TRUE" or None,
        "extent": None,
    }
    extent = _find_span(mention.find("extent"), source)
    words = extent and find_words(document.offsets, *extent)
    if words:
        attributes["extent"] = list(words)
    return {key: value for key, value in attributes.items() if value}


def _iter_relations(
    root: Element, mentions: dict[str, Entity | None], labels: LabelSpace, notes: Counter[str]
) -> Iterator[Relation]:
    seen: set[Relation] = set()
    for relation in root.iter("relation"):
        label = relation.get("TYPE", "")
        for mention in relation.iter("relation_mention"):
            arguments = dict(_iter_arguments(mention))
            if label not in labels.relation_types:
                notes[f"relation mention of the type {label!r}, left out"] += 1
                continue
            if not {"1", "2"} <= arguments.keys() or not {arguments["1"], arguments["2"]} <= mentions.keys():
                raise UnireError(f"relation mention {mention.get('ID')!r} must have two arguments")
            notes[OTHER_ARGUMENT] += len(arguments) - 2
            head, tail = mentions[arguments["1"]], mentions[arguments["2"]]
            if head is None or tail is None:
                notes[ORPHANED] += 1
                continue
            names = {"relation": relation.get("ID"), "mention": mention.get("ID"), "subtype": relation.get("SUBTYPE")}
            kept = Relation(head, tail, label, attributes={key: value for key, value in names.items() if value})
            if kept in seen:
                notes[REPEATED_RELATION] += 1
            else:
                seen.add(kept)
                yield kept


def _iter_arguments(mention: Element) -> Iterator[tuple[str, str]]:
    """Number and entity mention of every argument, in the XML of ACE05 and of ACE04."""
    for argument in mention.iter("relation_mention_argument"):
        yield argument.get("ROLE", "").removeprefix("Arg-"), argument.get("REFID", "")
    for argument in mention.iter("rel_mention_arg"):
        yield argument.get("ARGNUM", ""), argument.get("ENTITYMENTIONID", argument.get("MENTIONID", ""))
