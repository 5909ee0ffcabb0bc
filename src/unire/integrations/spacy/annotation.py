"""Entities, relations and scores on a spaCy `Doc`, which are saved with it.

Entities are a span group with their `scores` in its `attrs`, as in spaCy's span categorizer. spaCy has no attributes
for the rest: `unire.formats.spacy` stores it in `doc.user_data`. The extensions `doc._.relations`, `doc._.unaligned`
and `span._.score` read it from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

from unire.documents import Document, Entity
from unire.errors import UnireError
from unire.formats.spacy import (
    GROUP,
    RELATIONS_KEY,
    USER_DATA_KEY,
    SpanAnnotations,
    get_entity_score,
    load_annotations,
    store_annotations,
)

__all__ = [
    "DROPPED_ENTITY",
    "WIDENED_ENTITY",
    "SpanRelation",
    "annotate",
    "arcs",
    "get_relations",
    "get_unaligned",
    "register_extensions",
]

WIDENED_ENTITY = "entity widened to whole tokens"
DROPPED_ENTITY = "entity left out, since another has its token"
DROPPED_RELATION = "relation left out with its entity"


class SpanRelation(NamedTuple):
    """A labelled, ordered pair of spans."""

    head: Span
    tail: Span
    label: str
    score: float | None
    """Calibrated probability that label and both spans are correct."""


def annotate(doc: Doc, document: Document, *, spans_key: str | None, overwrite_ents: bool) -> Counter[str]:
    """Set the entities and relations of a `Doc`; return counts of those that do not align with its tokens.

    Args:
        doc: The spaCy document. Annotations of an earlier call with the same `spans_key` are replaced.
        document: The same text with entities and relations.
        spans_key: Span group for all entities, or `None` for no group.
        overwrite_ents: Whether new entities replace overlapping ones in `doc.ents`, or the other way round.
    """
    notes: Counter[str] = Counter()
    annotations = SpanAnnotations()
    span_index: dict[Entity, int] = {}
    spans: list[Span] = []
    for entity in document.entities:
        span = doc.char_span(entity.char_start, entity.char_end, label=entity.label, alignment_mode="expand")
        is_free = not spans or spans[-1].end <= span.start  # entities come in order
        if not is_free or (span.start_char, span.end_char) != (entity.char_start, entity.char_end):
            annotations.unaligned.append((entity.char_start, entity.char_end, entity.label))
            notes[WIDENED_ENTITY if is_free else DROPPED_ENTITY] += 1
        if is_free:
            span_index[entity] = len(spans)
            spans.append(span)
            annotations.entities.append((span.start_char, span.end_char, entity.label, entity.score))
    annotations.relations = [
        (span_index[relation.head], span_index[relation.tail], relation.label, relation.score)
        for relation in document.relations
        if relation.head in span_index and relation.tail in span_index
    ]
    notes[DROPPED_RELATION] += len(document.relations) - len(annotations.relations)
    _set_ents(doc, spans, _other_ents(doc, spans_key or ""), overwrite_ents)
    if spans_key:
        scores = [entity.score for entity in span_index]
        doc.spans[spans_key] = SpanGroup(doc, name=spans_key, spans=spans, attrs={"scores": scores})
    store_annotations(doc, spans_key or "", annotations)
    return +notes


def _other_ents(doc: Doc, spans_key: str) -> list[Span]:
    """Return the entities in `doc.ents` that no earlier call has set."""
    earlier = load_annotations(doc).get(spans_key)
    ours = set(map(_key, _build_spans(doc, earlier))) if earlier else ()
    return [span for span in doc.ents if _key(span) not in ours]


def _key(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label_


def _set_ents(doc: Doc, spans: list[Span], others: list[Span], overwrite: bool) -> None:
    """Set `doc.ents`, which may not overlap."""
    winners, losers = (spans, others) if overwrite else (others, spans)
    occupied = {i for span in winners for i in range(span.start, span.end)}
    doc.ents = [*winners, *(span for span in losers if occupied.isdisjoint(range(span.start, span.end)))]


def _build_spans(doc: Doc, annotations: SpanAnnotations) -> list[Span]:
    """Build the spans of entities from their character offsets, because tokens may have been merged or split."""
    return [
        doc.char_span(start, end, label=label, alignment_mode="expand") for start, end, label, _ in annotations.entities
    ]


def get_relations(doc: Doc) -> list[SpanRelation]:
    """Return the relations of all models, on the present tokens."""
    stored = load_annotations(doc).values()
    if not stored and USER_DATA_KEY in doc.user_data:  # a `Doc` of the format `spacy`
        group: Any = doc.spans[GROUP]
        items = doc.user_data.get(RELATIONS_KEY, ())
        return [SpanRelation(group[i["head"]], group[i["tail"]], i["label"], i.get("score")) for i in items]
    return [
        SpanRelation(spans[head], spans[tail], label, score)
        for annotations in stored
        for spans in (_build_spans(doc, annotations),)
        for head, tail, label, score in annotations.relations
    ]


def get_unaligned(doc: Doc) -> list[tuple[int, int, str]]:
    """Return start character, end character and label of the entities that do not align with tokens."""
    return [entity for annotations in load_annotations(doc).values() for entity in annotations.unaligned]


def get_score(span: Span) -> float | None:
    """Return the calibrated probability of an entity, or `None` for spans that no model of unire has set."""
    return get_entity_score(span.doc, span.start_char, span.end_char, span.label_)


EXTENSIONS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (Doc, "relations", get_relations),
    (Doc, "unaligned", get_unaligned),
    (Span, "score", get_score),
)


def register_extensions(prefix: str = "") -> None:
    """Register the extensions `doc._.relations`, `doc._.unaligned` and `span._.score`.

    Args:
        prefix: Prefix of the three names.

    Raises:
        UnireError: If another package has registered one of the names.
    """
    for cls, name, getter in EXTENSIONS:
        if not cls.has_extension(prefix + name):
            cls.set_extension(prefix + name, getter=getter)
        elif getattr(cls.get_extension(prefix + name)[2], "__module__", None) != __name__:
            raise UnireError(
                f"`{cls.__name__.lower()}._.{prefix}{name}` already exists and is not from unire; "
                f'choose a prefix, as in nlp.add_pipe("unire", config={{"prefix": "unire_"}})'
            )


def arcs(doc: Doc) -> list[dict[str, Any]]:
    """Return sentences with relations for `displacy.render(arcs(doc), style="dep", manual=True)`.

    An entity is one word with its label below it. An arc leads from the head of a relation to its tail. If a relation
    crosses a sentence boundary, because sentences were split again, both sentences are one picture.
    """
    pictures: list[tuple[Span, list[SpanRelation]]] = []
    relations = get_relations(doc)
    for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        inside = [r for r in relations if sentence.start <= min(r.head.start, r.tail.start) < sentence.end]
        if pictures and any(max(r.head.start, r.tail.start) >= sentence.start for r in pictures[-1][1]):
            earlier, others = pictures.pop()
            sentence, inside = doc[earlier.start : sentence.end], others + inside
        pictures.append((sentence, inside))
    return [_build_picture(sentence, inside) for sentence, inside in pictures if inside]


def _build_picture(sentence: Span, relations: list[SpanRelation]) -> dict[str, Any]:
    """Build the words and arcs of a sentence in displaCy's format."""
    entities = {span.start: span for relation in relations for span in (relation.head, relation.tail)}
    entities |= {span.start: span for span in sentence.ents if span.start not in entities}
    words: list[dict[str, str]] = []
    word_of_token: dict[int, int] = {}
    """All tokens of an entity have the same word."""
    for token in sentence:
        if token.i in word_of_token or token.is_space:
            continue
        span = entities.get(token.i)
        word_of_token |= dict.fromkeys(range(span.start, span.end) if span is not None else (token.i,), len(words))
        words.append({"text": span.text if span else token.text, "tag": span.label_ if span else ""})
    arcs = []
    for relation in relations:
        head, tail = word_of_token[relation.head.start], word_of_token[relation.tail.start]
        if head == tail:  # tokens were merged, and displaCy draws no loops
            continue
        direction = "right" if head < tail else "left"
        arcs.append({"start": min(head, tail), "end": max(head, tail), "label": relation.label, "dir": direction})
    return {"words": words, "arcs": arcs, "settings": {"lang": sentence.doc.lang_}}
