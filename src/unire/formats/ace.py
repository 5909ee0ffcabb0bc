"""`ace04` and `ace05`: the corpora as the LDC releases them, folders of `.sgm` and `.apf.xml` files. Read only.

The text is that of the `.sgm` file. Offsets of the `.apf.xml` file count its characters without tags, with line ends as
one character and `&amp;` as the five that it is written with; here they are turned into offsets of the plain text. What
stands in the body is split into sentences and words; a tag at an end of a line ends a sentence.

An entity is the **head** of an entity mention with one of the seven types. A relation is a relation mention with one of
the corpus's six types: `DISC` (ACE04) and `METONYMY` (ACE05) are left out, as everyone does. Sub-type, class, level
(`NAM`, `NOM`, `PRO`), names and the full extent, in words, are attributes. A head that splits a word takes the whole
word. What could not be kept is noted, with the reason, and so are times, values and events, which are not read.

ACE05 has every document once for each stage of its annotation; of these `timex2norm` is taken, failing it `adj`.
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
from unire.files import explain_read_errors
from unire.formats import json_utils
from unire.formats.alignment import WORDLESS, Placer, locate
from unire.formats.base import ReadOptions, at
from unire.formats.json_utils import Json
from unire.labels import LabelSpace
from unire.segmentation import segment

__all__ = ["OUTSIDE", "read"]

STAGES = ("timex2norm", "adj")
"""Of several versions of a document, those in these folders are preferred, in this order."""

TAG = re.compile(r"<[^<>]+>")
REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
BODIES = ("BODY", "TEXT")
"""What is read stands inside the first of these tags that a document has."""

OUTSIDE = "mention outside the body of its document, left out"
MISPLACED = "mention whose text is not that at its offsets, left out"
REPEATED = "mention with the head and the type of another, taken as one"
REPEATED_RELATION = "relation mention like another, taken as one"
ORPHANED = "relation mention one of whose arguments is left out"
EXTENT = "extent of a mention that is not at its offsets or not in the body, left out"
FURTHER = "argument of a relation mention beside its two, a time say, left out"
BESIDES = {
    "timex2_mention": "mention of a time, left out",
    "value_mention": "mention of a value, left out",
    "event_mention": "mention of an event, left out",
}
"""What else the files annotate."""


class Source(NamedTuple):
    """The text of an `.sgm` file."""

    text: str
    """Without tags, and with `&` for `&amp;`."""
    places: list[int]
    """Where each character of the file without its tags, and its end, is in the text."""
    stretches: list[tuple[int, int]]
    """The text of the body, from tag to tag."""


def read(path: Path, how: ReadOptions, corpus: str) -> Iterator[Document]:
    labels = LabelSpace.load(corpus)
    with explain_read_errors(path):
        found: dict[str, Path] = {}
        for file in sorted(path.rglob("*.apf.xml"), key=_stage):
            found.setdefault(file.name.removesuffix(".apf.xml"), file)
    for name, file in sorted(found.items()):
        document = None
        with at(str(file), how.on_error):
            source = file.with_name(f"{name}.sgm")
            if not source.exists():
                raise UnireError(f"there is no {source.name} beside it")
            with explain_read_errors(source):
                text = json_utils.decoded(source.read_bytes())
            document = _document(name, plain_text(text), parse_xml(file.read_bytes()), labels, how.notes)
        if document is not None:
            yield document


def _stage(file: Path) -> tuple[int, Path]:
    stage = file.parent.name
    return STAGES.index(stage) if stage in STAGES else len(STAGES), file


def plain_text(source: str) -> Source:
    """What an `.sgm` file says. A tag at an end of a line ends a stretch of text, one inside a line does not."""
    source = source.replace("\r\n", "\n")
    body = next((name for name in BODIES if f"<{name}>" in source), None)
    text: list[str] = []
    places: list[int] = []
    stretches = []
    length = begin = position = 0
    inside = body is None
    for tag in [*TAG.finditer(source), None]:
        for raw, plain in _characters(source[position : tag.start() if tag else len(source)]):
            places += [length] * len(raw)
            text.append(plain)
            length += len(plain)
        position = tag.end() if tag else position
        turns = tag is None or tag[0] in (f"<{body}>", f"</{body}>")
        if turns or source[position : position + 1] in ("", "\n") or text[-1:] in ([], ["\n"]):
            if inside and begin < length:
                stretches.append((begin, length))
            begin = length
        if turns and tag:
            inside = tag[0] == f"<{body}>"
    return Source("".join(text), [*places, length], stretches)


def _characters(raw: str) -> Iterator[tuple[str, str]]:
    """Each character as it is written, `&amp;` say, and as it is meant."""
    position = 0
    for reference in REFERENCE.finditer(raw):
        plain = html.unescape(reference[0])
        if plain == reference[0]:  # it only looks like one
            continue
        yield from zip(raw[position : reference.start()], raw[position : reference.start()], strict=True)
        yield reference[0], plain
        position = reference.end()
    yield from zip(raw[position:], raw[position:], strict=True)


def parse_xml(raw: bytes) -> Element:
    """The root of some XML, which may refer to a DTD but not define entities: none of the LDC's files does."""
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
    raise UnireError(f"the XML defines or uses an entity of its own, {name!r}, which is not read")


def _document(name: str, source: Source, root: Element, labels: LabelSpace, notes: Counter[str]) -> Document:
    sentences: list[tuple[str, ...]] = []
    offsets: list[tuple[int, int]] = []
    for start, end in source.stretches:
        for sentence in segment(source.text[start:end]).sentences:
            sentences.append(sentence.words)
            offsets += [(start + first, start + last) for first, last in sentence.offsets]
    document = Document.from_words(sentences, text=source.text, offsets=offsets, id=name)
    mentions = dict(_mentions(document, source, root, labels, notes))
    relations = list(_relations(root, mentions, labels, notes))
    for element, reason in BESIDES.items():
        notes[reason] += sum(1 for _ in root.iter(element))
    unique: dict[int, Entity] = {id(entity): entity for entity in mentions.values() if entity is not None}
    return document.annotated(sorted(unique.values(), key=lambda e: e.span), relations)


def _mentions(
    document: Document, source: Source, root: Element, labels: LabelSpace, notes: Counter[str]
) -> Iterator[tuple[str, Entity | None]]:
    """The head of every entity mention, by its name; `None` for one that cannot be kept."""
    placer = Placer(document, notes)
    seen: dict[tuple[int, int, str], Entity] = {}
    for entity in root.iter("entity"):
        label = entity.get("TYPE", "")
        for mention in entity.iter("entity_mention"):
            if label not in labels.entity_types:
                notes[f"mention of the type {label!r}, left out"] += 1
                yield mention.get("ID", ""), None
                continue
            found = _head(mention, label, _attributes(entity, mention, document, source), source, placer)
            if found is not None:
                key = (*found.span, label)
                if key in seen:
                    notes[REPEATED] += 1
                found = seen.setdefault(key, found)
                notes[EXTENT] += "extent" not in found.attributes
            yield mention.get("ID", ""), found


def _head(mention: Element, label: str, attributes: Json, source: Source, placer: Placer) -> Entity | None:
    span = _span(mention.find("head"), source)
    if span is None:
        placer.notes[MISPLACED] += 1
        return None
    before = placer.notes[WORDLESS]
    entity = placer.entity([span], label, None, attributes)
    placer.notes[OUTSIDE] += placer.notes[WORDLESS] - before
    placer.notes[WORDLESS] = before
    return entity


def _span(part: Element | None, source: Source) -> tuple[int, int] | None:
    """The characters of the text that a head or an extent names, if they are those that it quotes."""
    charseq = None if part is None else part.find("charseq")
    if charseq is None:
        raise UnireError("a mention has no head or extent, or it has no <charseq>")
    bounds = (charseq.get("START", ""), charseq.get("END", ""))
    if not all(re.fullmatch("[0-9]{1,9}", bound) for bound in bounds):
        raise UnireError(f"START and END of a <charseq> must be whole numbers, but are {bounds}")
    first, last = map(int, bounds)
    if not first <= last < len(source.places) - 1:
        return None
    start, end = source.places[first], source.places[last + 1]
    quoted = "".join(charseq.itertext())
    meant = (quoted, html.unescape(quoted))  # releases quote `&amp;` as the character, and as the five of the source
    return (start, end) if source.text[start:end].split() in [words.split() for words in meant] else None


def _attributes(entity: Element, mention: Element, document: Document, source: Source) -> Json:
    said: Json = {
        "entity": entity.get("ID"),
        "subtype": entity.get("SUBTYPE"),
        "class": entity.get("CLASS"),
        "mention": mention.get("ID"),
        "level": mention.get("TYPE"),
        "role": mention.get("ROLE"),
        "metonymy": mention.get("METONYMY_MENTION", "").upper() == "TRUE" or None,
        "extent": None,
    }
    extent = _span(mention.find("extent"), source)
    words = extent and locate(document.offsets, *extent)
    if words:
        said["extent"] = list(words)
    return {key: value for key, value in said.items() if value}


def _relations(
    root: Element, mentions: dict[str, Entity | None], labels: LabelSpace, notes: Counter[str]
) -> Iterator[Relation]:
    seen: set[Relation] = set()
    for relation in root.iter("relation"):
        label = relation.get("TYPE", "")
        for mention in relation.iter("relation_mention"):
            arguments = dict(_arguments(mention))
            if label not in labels.relation_types:
                notes[f"relation mention of the type {label!r}, left out"] += 1
                continue
            if not {"1", "2"} <= arguments.keys() or not {arguments["1"], arguments["2"]} <= mentions.keys():
                raise UnireError(f"relation mention {mention.get('ID')!r} lacks one of its two arguments")
            notes[FURTHER] += len(arguments) - 2
            head, tail = mentions[arguments["1"]], mentions[arguments["2"]]
            if head is None or tail is None:
                notes[ORPHANED] += 1
                continue
            said = {"relation": relation.get("ID"), "mention": mention.get("ID"), "subtype": relation.get("SUBTYPE")}
            found = Relation(head, tail, label, attributes={key: value for key, value in said.items() if value})
            if found in seen:
                notes[REPEATED_RELATION] += 1
            else:
                seen.add(found)
                yield found


def _arguments(mention: Element) -> Iterator[tuple[str, str]]:
    """The number and the entity mention of every argument, as ACE05 and as ACE04 spell them."""
    for argument in mention.iter("relation_mention_argument"):
        yield argument.get("ROLE", "").removeprefix("Arg-"), argument.get("REFID", "")
    for argument in mention.iter("rel_mention_arg"):
        yield argument.get("ARGNUM", ""), argument.get("ENTITYMENTIONID", argument.get("MENTIONID", ""))
