"""`spacy`: spaCy's `DocBin`, a file of `Doc` objects. Needs `unire[spacy]`, but no trained pipeline.

Words, spaces and sentence starts are those of the tokens. `doc.spans["sc"]`, the group that spaCy's span categoriser
reads, holds all entities. `doc.ents` holds those that do not overlap. `doc._.relations` holds relations as
`{"head": 0, "tail": 1, "label": "Live_In"}`, where head and tail are positions in the group. `doc.user_data["unire"]`
holds what a `Doc` cannot represent: names, scores, attributes, meta data, cuts, clusters, and texts with other white
space.

The reader takes the group `sc`, or the only group, or `doc.ents` if there is no group. If the group was written by our
pipeline component, relations and scores come from its `SpanAnnotations`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.formats import json_utils, native
from unire.formats.alignment import WORDLESS
from unire.formats.base import LOST_ARGUMENT, ReadOptions, add_location, import_extra
from unire.formats.json_utils import Json
from unire.limits import ReadLimits

__all__ = [
    "GROUP",
    "RELATIONS_KEY",
    "USER_DATA_KEY",
    "SpanAnnotations",
    "from_doc",
    "get_entity_score",
    "load_annotations",
    "read",
    "store_annotations",
    "to_doc",
    "write",
]

GROUP = "sc"
USER_DATA_KEY = "unire"
RELATIONS_KEY: Any = ("._.", "relations", None, None)
"""The key under which spaCy stores `doc._.relations`."""
ATTRIBUTE = "unire"
"""The key of our record in the `attrs` of a span group. Only our groups have it."""
CHARACTER_KEY = "._."
"""The first part of spaCy's keys for data at a character of the text. The third part is the character's number."""
GROUP_PREFIX = "unire:"
"""The start of the second part of our keys. The name of the span group follows."""

Record = Mapping[str, Any]


# Files


def read(path: Path, options: ReadOptions) -> Iterator[Document]:
    import_extra("spacy", "spacy")
    import spacy
    from spacy.tokens import DocBin

    raw = json_utils.read_file(path, options.limits)
    _check_unpacked(raw, path, options.limits)
    try:
        docs = list(DocBin().from_bytes(raw).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # whatever spaCy raises, the cause is the file
        raise UnireError(f"{path} is not a DocBin that can be read: {error}") from None
    for position, doc in enumerate(docs):
        document = None
        with add_location(f"{path}, document {position} (counted from 0)", options.on_error):
            document = _read_doc(doc, position, options)
        if document is not None:
            yield document


def _check_unpacked(raw: bytes, path: Path, limits: ReadLimits) -> None:
    """Refuse a file that unpacks to more than a record, which spaCy would hold in memory."""
    try:
        unpacked = zlib.decompressobj().decompress(raw, limits.max_record + 1)
    except zlib.error as error:
        raise UnireError(f"{path} is not a DocBin that can be read: {error}") from None
    limits.check_record(len(unpacked), str(path))


def _read_doc(doc: Any, position: int, options: ReadOptions) -> Document:
    try:
        return from_doc(doc, position, options)
    except UnireError:
        raise
    except Exception as error:  # corrupt files fail late and in many ways, for example by a hash without a string
        raise UnireError(f"spaCy cannot read it: {error}") from None


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    import_extra("spacy", "spacy")
    import spacy
    from spacy.tokens import DocBin

    docs = DocBin(store_user_data=True)
    vocab = spacy.blank("xx").vocab
    for document in documents:
        with add_location(f"document {document.id!r} cannot be written", on_error):
            docs.add(to_doc(document, vocab))
    path.write_bytes(docs.to_bytes())


# Document → Doc


def to_doc(document: Document, vocab: Any) -> Any:
    """Build a `Doc` with everything that the document holds."""
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans

    if "" in document.words:
        raise UnireError("spaCy cannot represent empty words")
    gaps = zip(document.offsets, [*document.offsets[1:], (len(document.text), 0)], strict=True)
    starts = {sentence.start for sentence in document.sentences}
    user_data = _build_user_data(document)
    try:
        doc = Doc(
            vocab,
            words=list(document.words),
            spaces=[document.text[end:start] == " " for (_, end), (start, _) in gaps],
            sent_starts=[i in starts for i in range(document.n_words)],
        )
        spans = [Span(doc, *entity.span, label=entity.label) for entity in document.entities]
    except ValueError as error:
        raise UnireError(str(error)) from None
    doc.spans[GROUP] = spans
    doc.ents = filter_spans([span for span in spans if span.label_])
    doc.user_data[RELATIONS_KEY] = [
        {"head": head, "tail": tail, "label": relation.label, **json_utils.dump_properties(relation)}
        for relation, head, tail in json_utils.index_arguments(document.relations, document.entities)
    ]
    if doc.text != document.text:
        user_data |= {"text": document.text, "offsets": document.offsets}
    doc.user_data[USER_DATA_KEY] = json_utils.dump_json(user_data).decode()
    return doc


def _build_user_data(document: Document) -> Json:
    """What a `Doc` cannot represent."""
    user_data: Json = {"id": document.id, "sentences": list(map(len, document.sentences))}
    if any(entity.score is not None or entity.attributes for entity in document.entities):
        user_data["entities"] = [json_utils.dump_properties(entity) for entity in document.entities]
    if any(sentence.cuts is not None for sentence in document.sentences):
        user_data["cuts"] = [sentence.cuts for sentence in document.sentences]
    if document.clusters:
        user_data["clusters"] = document.clusters
    if document.meta:
        user_data["meta"] = dict(document.meta)
    return user_data


# Doc → Document


def from_doc(doc: Any, position: int, options: ReadOptions) -> Document:
    """Read a `Doc` of any origin. Its tokens of white space are left out."""
    user_data: Json = {}
    if isinstance(doc.user_data.get(USER_DATA_KEY), str):
        raw = doc.user_data[USER_DATA_KEY].encode()
        user_data = json_utils.expect(json_utils.parse_json(raw), dict, f'"{USER_DATA_KEY}" of the user data')
    tokens = [token for token in doc if USER_DATA_KEY in doc.user_data or not token.is_space]
    if "sentences" not in user_data and not doc.has_annotation("SENT_START"):
        options.notes["document without sentence boundaries, taken as one sentence"] += 1
    lengths = user_data.get("sentences", [len(tokens)])
    if "sentences" not in user_data and doc.has_annotation("SENT_START"):
        lengths = [sum(not token.is_space for token in sentence) for sentence in doc.sents]
    offsets = user_data.get("offsets", [[token.idx, token.idx + len(token)] for token in tokens])
    spans, annotations = _select_spans(doc, options)
    scores: list[Json] = []
    relations = doc.user_data.get(RELATIONS_KEY, ())
    if annotations:
        scores, relations = _match_annotations(spans, annotations, options)
    entities, linked = _remove_wordless(
        _to_items(spans, user_data.get("entities", scores), tokens, options),
        [dict(relation) for relation in relations],
        options,
    )
    item: Json = {
        "id": user_data.get("id", position),
        "text": user_data.get("text", doc.text),
        "sentences": json_utils.split_by_lengths([token.text for token in tokens], lengths),
        "offsets": json_utils.split_by_lengths(json_utils.expect(offsets, list, '"offsets"'), lengths),
        "entities": entities,
        "relations": linked,
        **{key: user_data[key] for key in ("cuts", "clusters", "meta") if key in user_data},
    }
    return native.from_json(item, position)


def _select_spans(doc: Any, options: ReadOptions) -> tuple[list[Any], SpanAnnotations | None]:
    """The spans to read, and what our pipeline component stored about them."""
    groups, stored = dict(doc.spans), load_annotations(doc)
    names = list(groups) or list(stored)  # a part of a `Doc` has no groups
    name = GROUP if GROUP in names else names[0] if len(names) == 1 else None
    if name is not None and name in groups:
        return list(groups[name]), stored.get(name)
    if name is not None:
        entities = stored[name].entities
        return [doc.char_span(a, b, label=label, alignment_mode="expand") for a, b, label, _ in entities], stored[name]
    if names:
        options.notes[f"document with several groups of spans but no {GROUP}, of which `doc.ents` are taken"] += 1
    return list(doc.ents), None


def _match_annotations(
    spans: list[Any], annotations: SpanAnnotations, options: ReadOptions
) -> tuple[list[Json], list[Json]]:
    """Scores of the spans that our component wrote, and the relations whose two arguments still exist."""
    positions = {(span.start_char, span.end_char, span.label_): i for i, span in enumerate(spans)}
    matches = [positions.get((start, end, label)) for start, end, label, _ in annotations.entities]
    scores: list[Json] = [{} for _ in spans]
    for match, (*_, score) in zip(matches, annotations.entities, strict=True):
        if match is not None and score is not None:
            scores[match]["score"] = score
    relations = [
        {"head": matches[head], "tail": matches[tail], "label": label, "score": score}
        for head, tail, label, score in annotations.relations
        if matches[head] is not None and matches[tail] is not None
    ]
    if len(relations) < len(annotations.relations):
        lost = len(annotations.relations) - len(relations)
        options.notes["relation left out, since an entity of it is no longer there"] += lost
    return scores, relations


def _to_items(spans: list[Any], properties: object, tokens: list[Any], options: ReadOptions) -> list[Json]:
    """Spans as items of the format `unire`. `properties` holds scores and attributes of each, or is empty."""
    properties = json_utils.expect(properties, list, '"entities"') or [{}] * len(spans)
    if len(properties) != len(spans):
        options.notes["document whose scores and attributes are left out, since its spans were changed"] += 1
        properties = [{}] * len(spans)
    token_positions = [token.i for token in tokens]
    return [
        {
            **json_utils.expect(extra, dict, "an entity"),
            "start": bisect_left(token_positions, span.start),
            "end": bisect_left(token_positions, span.end),
            "label": span.label_,
        }
        for span, extra in zip(spans, properties, strict=True)
    ]


def _remove_wordless(
    entities: list[Json], relations: list[Json], options: ReadOptions
) -> tuple[list[Json], list[Json]]:
    """Remove entities on white space, which is no word, and their relations."""
    kept = [i for i, entity in enumerate(entities) if entity["start"] < entity["end"]]
    if len(kept) == len(entities):
        return entities, relations
    removed = set(range(len(entities))).difference(kept)
    linked = [relation for relation in relations if removed.isdisjoint((relation.get("head"), relation.get("tail")))]
    options.notes[WORDLESS] += len(removed)
    if orphaned := len(relations) - len(linked):
        options.notes[LOST_ARGUMENT] += orphaned
    positions = {old: new for new, old in enumerate(kept)}
    for relation in linked:
        relation.update({end: positions[relation[end]] for end in ("head", "tail") if relation.get(end) in positions})
    return [entities[i] for i in kept], linked


# Annotations of our pipeline component


@dataclass
class SpanAnnotations:
    """The entities and relations of one model in one text, stored on its `Doc` as plain data.

    Spans are located by characters, which retokenization does not change. spaCy has no single place that survives
    everything that happens to a `Doc`, so there are two: `doc.user_data`, under a key that spaCy moves when it joins
    texts (`Doc.from_docs`) or cuts one (`span.as_doc(copy_user_data=True)`), and the `attrs` of the span group, which
    a `DocBin` keeps even without user data.
    """

    entities: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    """Start character, end character, label, score. They are in order and do not overlap."""
    relations: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    """Positions of head and tail in `entities`, label, score."""
    unaligned: list[tuple[int, int, str]] = field(default_factory=list)
    """Start character, end character and label of entities whose boundaries are not those of tokens."""

    def add(self, record: Record, shift: int, length: int) -> None:
        """Add a record whose text starts at character `shift` of a text of `length` characters, and may exceed it."""
        positions: dict[int, int] = {}
        for position, (start, end, label, score) in enumerate(record["entities"]):
            if start + shift >= 0 and end + shift <= length:
                positions[position] = len(self.entities)
                self.entities.append((start + shift, end + shift, label, score))
        self.relations += [
            (positions[head], positions[tail], label, score)
            for head, tail, label, score in record["relations"]
            if head in positions and tail in positions
        ]
        self.unaligned += [
            (start + shift, end + shift, label)
            for start, end, label in record["unaligned"]
            if start + shift >= 0 and end + shift <= length
        ]


def store_annotations(doc: Any, group: str, annotations: SpanAnnotations) -> None:
    """Store annotations under the name of the span group that shows them. They replace earlier ones."""
    record = asdict(annotations)
    for key in [key for key, name, _, _ in _iter_stored(doc) if name == group]:
        del doc.user_data[key]
    if annotations.entities:  # when texts are joined, empty records of several texts would share a key
        doc.user_data[(CHARACTER_KEY, GROUP_PREFIX + group, 0, None)] = record
    if group in doc.spans:
        doc.spans[group].attrs[ATTRIBUTE] = record


def load_annotations(doc: Any) -> dict[str, SpanAnnotations]:
    """The annotations that are stored on a `Doc`, by the names of their span groups."""
    annotations: dict[str, SpanAnnotations] = {}
    length = doc[-1].idx + len(doc[-1]) if len(doc) else 0
    for group, shift, record in _list_records(doc):
        annotations.setdefault(group, SpanAnnotations()).add(record, shift, length)
    return annotations


def get_entity_score(doc: Any, start: int, end: int, label: str) -> float | None:
    """The score of the entity with these characters and this label, or `None` if there is none."""
    for _, shift, record in _list_records(doc):
        entities = record["entities"]
        i = bisect_left(entities, start - shift, key=itemgetter(0))
        if i < len(entities) and tuple(entities[i][:3]) == (start - shift, end - shift, label):
            return entities[i][3]  # type: ignore[no-any-return]
    return None


def _list_records(doc: Any) -> list[tuple[str, int, Record]]:
    """Span group, first character of the text, and record of everything that is stored, in the order of the text."""
    stored = [(group, shift, record) for _, group, shift, record in _iter_stored(doc)]
    known = {group for group, _, _ in stored}
    stored += [
        (name, 0, group.attrs[ATTRIBUTE])
        for name, group in doc.spans.items()
        if ATTRIBUTE in group.attrs and name not in known
    ]
    return sorted(stored, key=itemgetter(1))


def _iter_stored(doc: Any) -> Iterator[tuple[Any, str, int, Record]]:
    for key, record in doc.user_data.items():
        if (
            isinstance(key, tuple)
            and len(key) == 4
            and key[0] == CHARACTER_KEY
            and str(key[1]).startswith(GROUP_PREFIX)
        ):
            yield key, key[1][len(GROUP_PREFIX) :], key[2], record
