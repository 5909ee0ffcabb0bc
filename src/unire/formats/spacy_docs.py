"""`spacy`: spaCy's `DocBin`, a file of `Doc` objects. Needs `unire[spacy]`; blank pipelines are all it uses.

Words, spaces and sentence starts are the tokens' own. All entities stand in `doc.spans["sc"]`, the group that spaCy's
span categoriser reads; those that do not overlap also in `doc.ents`. Relations stand in `doc._.relations`, as
`{"head": 0, "tail": 1, "label": "Live_In"}`, head and tail being positions in the group. What a `Doc` has no place for
(names, scores, attributes, meta data, cuts, a text with other white space) lies beside them, in
`doc.user_data["unire"]`.

Read are the group `sc`, or the only group that there is, or `doc.ents` where there is none. Where our component of
spaCy pipelines wrote the group, its relations and scores are those that `spacy_findings` keeps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.files import explain_read_errors
from unire.formats import json_utils, native
from unire.formats.alignment import WORDLESS
from unire.formats.base import ReadOptions, at, needed
from unire.formats.capabilities import ARGUMENT
from unire.formats.json_utils import Json
from unire.formats.spacy_attributes import Findings, kept

__all__ = ["from_doc", "read", "to_doc", "write"]

GROUP = "sc"
OURS = "unire"
RELATIONS: Any = ("._.", "relations", None, None)
"""Where spaCy keeps `doc._.relations`."""


def read(path: Path, how: ReadOptions) -> Iterator[Document]:
    needed("spacy", "spacy")
    import spacy
    from spacy.tokens import DocBin

    with explain_read_errors(path):
        raw = path.read_bytes()
    try:
        docs = list(DocBin().from_bytes(raw).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # whatever spaCy stumbles over, it is the file that cannot be read
        raise UnireError(f"{path} is not a DocBin that can be read: {error}") from None
    for position, doc in enumerate(docs):
        document = None
        with at(f"{path}, document {position} (counted from 0)", how.on_error):
            document = _checked(doc, position, how)
        if document is not None:
            yield document


def _checked(doc: Any, position: int, how: ReadOptions) -> Document:
    try:
        return from_doc(doc, position, how)
    except UnireError:
        raise
    except Exception as error:  # a hash without a string, say: broken files fail late and in many ways
        raise UnireError(f"spaCy cannot read it: {error}") from None


def write(documents: Iterable[Document], path: Path, on_error: OnError) -> None:
    needed("spacy", "spacy")
    import spacy
    from spacy.tokens import DocBin

    docs = DocBin(store_user_data=True)
    vocab = spacy.blank("xx").vocab
    for document in documents:
        with at(f"document {document.id!r} cannot be written", on_error):
            docs.add(to_doc(document, vocab))
    path.write_bytes(docs.to_bytes())


def to_doc(document: Document, vocab: Any) -> Any:
    """A `Doc` with everything that the document holds."""
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans

    if "" in document.words:
        raise UnireError("spaCy has no empty words")
    gaps = zip(document.offsets, [*document.offsets[1:], (len(document.text), 0)], strict=True)
    starts = {sentence.start for sentence in document.sentences}
    aside = _aside(document)
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
    doc.user_data[RELATIONS] = [
        {"head": head, "tail": tail, "label": relation.label, **json_utils.extras(relation)}
        for relation, head, tail in json_utils.numbered(document.relations, document.entities)
    ]
    if doc.text != document.text:
        aside |= {"text": document.text, "offsets": document.offsets}
    doc.user_data[OURS] = json_utils.spelt(aside).decode()
    return doc


def _aside(document: Document) -> Json:
    """What a `Doc` has no place for."""
    aside: Json = {"id": document.id, "sentences": list(map(len, document.sentences))}
    if any(entity.score is not None or entity.attributes for entity in document.entities):
        aside["entities"] = [json_utils.extras(entity) for entity in document.entities]
    if any(sentence.cuts is not None for sentence in document.sentences):
        aside["cuts"] = [sentence.cuts for sentence in document.sentences]
    if document.meta:
        aside["meta"] = dict(document.meta)
    return aside


def from_doc(doc: Any, position: int, how: ReadOptions) -> Document:
    """The document of a `Doc`, whoever made it; white space among its tokens is left out."""
    aside: Json = {}
    if isinstance(doc.user_data.get(OURS), str):
        aside = json_utils.expect(json_utils.parsed(doc.user_data[OURS].encode()), dict, f'"{OURS}" of the user data')
    tokens = [token for token in doc if OURS in doc.user_data or not token.is_space]
    if "sentences" not in aside and not doc.has_annotation("SENT_START"):
        how.notes["document without sentence boundaries, taken as one sentence"] += 1
    lengths = aside.get("sentences", [len(tokens)])
    if "sentences" not in aside and doc.has_annotation("SENT_START"):
        lengths = [sum(not token.is_space for token in sentence) for sentence in doc.sents]
    offsets = aside.get("offsets", [[token.idx, token.idx + len(token)] for token in tokens])
    spans, findings = _group(doc, how)
    scores, relations = _found(spans, findings, how) if findings else ([], doc.user_data.get(RELATIONS, ()))
    entities, linked = _on_words(
        _entities(spans, aside.get("entities", scores), tokens, how), [dict(relation) for relation in relations], how
    )
    item: Json = {
        "id": aside.get("id", position),
        "text": aside.get("text", doc.text),
        "sentences": json_utils.portions([token.text for token in tokens], lengths),
        "offsets": json_utils.portions(json_utils.expect(offsets, list, '"offsets"'), lengths),
        "entities": entities,
        "relations": linked,
        **{key: aside[key] for key in ("cuts", "meta") if key in aside},
    }
    return native.from_json(item, position)


def _group(doc: Any, how: ReadOptions) -> tuple[list[Any], Findings | None]:
    """The spans that are read, and what our component says of them."""
    groups, found = dict(doc.spans), kept(doc)
    names = list(groups) or list(found)  # a part of a `Doc` has no groups
    name = GROUP if GROUP in names else names[0] if len(names) == 1 else None
    if name is not None and name in groups:
        return list(groups[name]), found.get(name)
    if name is not None:
        entities = found[name].entities
        return [doc.char_span(a, b, label=label, alignment_mode="expand") for a, b, label, _ in entities], found[name]
    if names:
        how.notes[f"document with several groups of spans but no {GROUP}, of which `doc.ents` are taken"] += 1
    return list(doc.ents), None


def _found(spans: list[Any], findings: Findings, how: ReadOptions) -> tuple[list[Json], list[Json]]:
    """Scores of the spans that our component found, and the relations of which both arguments are still there."""
    places = {(span.start_char, span.end_char, span.label_): place for place, span in enumerate(spans)}
    homes = [places.get((start, end, label)) for start, end, label, _ in findings.entities]
    scores: list[Json] = [{} for _ in spans]
    for home, (*_, score) in zip(homes, findings.entities, strict=True):
        if home is not None and score is not None:
            scores[home]["score"] = score
    relations = [
        {"head": homes[head], "tail": homes[tail], "label": label, "score": score}
        for head, tail, label, score in findings.relations
        if homes[head] is not None and homes[tail] is not None
    ]
    if len(relations) < len(findings.relations):
        lost = len(findings.relations) - len(relations)
        how.notes["relation left out, since an entity of it is no longer there"] += lost
    return scores, relations


def _entities(spans: list[Any], extras: object, tokens: list[Any], how: ReadOptions) -> list[Json]:
    """Spans as items of the format `unire`; `extras` is what else is known of each, or empty."""
    extras = json_utils.expect(extras, list, '"entities"') or [{}] * len(spans)
    if len(extras) != len(spans):
        how.notes["document whose scores and attributes are left out, since its spans were changed"] += 1
        extras = [{}] * len(spans)
    places = [token.i for token in tokens]
    return [
        {
            **json_utils.expect(extra, dict, "an entity"),
            "start": bisect_left(places, span.start),
            "end": bisect_left(places, span.end),
            "label": span.label_,
        }
        for span, extra in zip(spans, extras, strict=True)
    ]


def _on_words(entities: list[Json], relations: list[Json], how: ReadOptions) -> tuple[list[Json], list[Json]]:
    """Entities without those on white space, which is no word, and relations without those of them."""
    kept = [i for i, entity in enumerate(entities) if entity["start"] < entity["end"]]
    if len(kept) == len(entities):
        return entities, relations
    gone = set(range(len(entities))).difference(kept)
    linked = [relation for relation in relations if gone.isdisjoint((relation.get("head"), relation.get("tail")))]
    how.notes[WORDLESS] += len(gone)
    if orphaned := len(relations) - len(linked):
        how.notes[ARGUMENT] += orphaned
    places = {old: new for new, old in enumerate(kept)}
    for relation in linked:
        relation.update({end: places[relation[end]] for end in ("head", "tail") if relation.get(end) in places})
    return [entities[i] for i in kept], linked
