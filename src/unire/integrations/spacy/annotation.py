"""What is found, as it stands on a spaCy `Doc`: spans, relations and scores that are saved wherever the `Doc` is.

Entities are a group of spans, with their `scores` in its `attrs`, as spaCy's own span categoriser has them. What spaCy
has no place for is kept as plain data, by `unire.formats.spacy`; `doc._.relations`, `doc._.unaligned` and
`span._.score` read that.
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
    "LEFT_OUT",
    "WIDENED",
    "SpanRelation",
    "annotate",
    "arcs",
    "register_extensions",
    "relations_of",
    "unaligned_of",
]

WIDENED = "entity widened to whole tokens"
LEFT_OUT = "entity left out, since another has its token"
UNLINKED = "relation left out with its entity"


class SpanRelation(NamedTuple):
    """A labelled, ordered pair of spans."""

    head: Span
    tail: Span
    label: str
    score: float | None
    """The chance that it is right, arguments and all."""


def annotate(doc: Doc, document: Document, *, spans_key: str | None, overwrite_ents: bool) -> Counter[str]:
    """Write what was found in a text onto its `Doc`; what does not fit spaCy's tokens is counted.

    Args:
        doc: Gets the entities and relations, in place of those of an earlier call with the same `spans_key`.
        document: The same text, with findings.
        spans_key: The group of spans that holds all of them; there is none when it is left out.
        overwrite_ents: Whether of two overlapping entities the new one stays in `doc.ents`, or the one that was there.
    """
    notes: Counter[str] = Counter()
    findings = SpanAnnotations()
    placed: dict[Entity, int] = {}
    spans: list[Span] = []
    for entity in document.entities:
        span = doc.char_span(entity.char_start, entity.char_end, label=entity.label, alignment_mode="expand")
        is_free = not spans or spans[-1].end <= span.start  # entities come in order
        if not is_free or (span.start_char, span.end_char) != (entity.char_start, entity.char_end):
            findings.unaligned.append((entity.char_start, entity.char_end, entity.label))
            notes[WIDENED if is_free else LEFT_OUT] += 1
        if is_free:
            placed[entity] = len(spans)
            spans.append(span)
            findings.entities.append((span.start_char, span.end_char, entity.label, entity.score))
    findings.relations = [
        (placed[relation.head], placed[relation.tail], relation.label, relation.score)
        for relation in document.relations
        if relation.head in placed and relation.tail in placed
    ]
    notes[UNLINKED] += len(document.relations) - len(findings.relations)
    _set_ents(doc, spans, _others(doc, spans_key or ""), overwrite_ents)
    if spans_key:
        scores = [entity.score for entity in placed]
        doc.spans[spans_key] = SpanGroup(doc, name=spans_key, spans=spans, attrs={"scores": scores})
    store_annotations(doc, spans_key or "", findings)
    return +notes


def _others(doc: Doc, spans_key: str) -> list[Span]:
    """The entities of a `Doc` but for those that an earlier call put there."""
    earlier = load_annotations(doc).get(spans_key)
    ours = set(map(_place, _spans(doc, earlier))) if earlier else ()
    return [span for span in doc.ents if _place(span) not in ours]


def _place(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label_


def _set_ents(doc: Doc, spans: list[Span], others: list[Span], overwrite: bool) -> None:
    winners, losers = (spans, others) if overwrite else (others, spans)
    taken = {place for span in winners for place in range(span.start, span.end)}
    doc.ents = [*winners, *(span for span in losers if taken.isdisjoint(range(span.start, span.end)))]


def _spans(doc: Doc, findings: SpanAnnotations) -> list[Span]:
    """Entities on the tokens that there are now."""
    return [
        doc.char_span(start, end, label=label, alignment_mode="expand") for start, end, label, _ in findings.entities
    ]


def relations_of(doc: Doc) -> list[SpanRelation]:
    """The relations of all models, whatever became of the tokens since."""
    found = load_annotations(doc).values()
    if not found and USER_DATA_KEY in doc.user_data:  # a `Doc` of the format `spacy`
        group: Any = doc.spans[GROUP]
        items = doc.user_data.get(RELATIONS_KEY, ())
        return [SpanRelation(group[i["head"]], group[i["tail"]], i["label"], i.get("score")) for i in items]
    return [
        SpanRelation(spans[head], spans[tail], label, score)
        for findings in found
        for spans in (_spans(doc, findings),)
        for head, tail, label, score in findings.relations
    ]


def unaligned_of(doc: Doc) -> list[tuple[int, int, str]]:
    """First character, end and label of the entities that do not begin and end where tokens do."""
    return [place for findings in load_annotations(doc).values() for place in findings.unaligned]


def score_of(span: Span) -> float | None:
    """The chance that an entity is right; nothing for spans that are none of ours."""
    return get_entity_score(span.doc, span.start_char, span.end_char, span.label_)


EXTENSIONS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (Doc, "relations", relations_of),
    (Doc, "unaligned", unaligned_of),
    (Span, "score", score_of),
)


def register_extensions(prefix: str = "") -> None:
    """Make spaCy know `doc._.relations`, `doc._.unaligned` and `span._.score`, unless a name is somebody else's.

    Args:
        prefix: Put before each of the three names.
    """
    for cls, name, getter in EXTENSIONS:
        if not cls.has_extension(prefix + name):
            cls.set_extension(prefix + name, getter=getter)
        elif getattr(cls.get_extension(prefix + name)[2], "__module__", None) != __name__:
            raise UnireError(
                f"`{cls.__name__.lower()}._.{prefix}{name}` is there already, and not unire's; "
                f'let the names of unire begin otherwise, as in nlp.add_pipe("unire", config={{"prefix": "unire_"}})'
            )


def arcs(doc: Doc) -> list[dict[str, Any]]:
    """Sentences with relations, for `displacy.render(arcs(doc), style="dep", manual=True)`.

    An entity is one word, with its label below it; an arc leads from the head of a relation to its tail. Sentences
    that a relation joins, since they were split anew, are one picture.
    """
    pictures: list[tuple[Span, list[SpanRelation]]] = []
    relations = relations_of(doc)
    for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        inside = [r for r in relations if sentence.start <= min(r.head.start, r.tail.start) < sentence.end]
        if pictures and any(max(r.head.start, r.tail.start) >= sentence.start for r in pictures[-1][1]):
            earlier, others = pictures.pop()
            sentence, inside = doc[earlier.start : sentence.end], others + inside
        pictures.append((sentence, inside))
    return [_drawn(stretch, inside) for stretch, inside in pictures if inside]


def _drawn(sentence: Span, relations: list[SpanRelation]) -> dict[str, Any]:
    entities = {span.start: span for relation in relations for span in (relation.head, relation.tail)}
    entities |= {span.start: span for span in sentence.ents if span.start not in entities}
    words: list[dict[str, str]] = []
    places: dict[int, int] = {}
    """Which word a token has become; those of an entity, the same one."""
    for token in sentence:
        if token.i in places or token.is_space:
            continue
        span = entities.get(token.i)
        places |= dict.fromkeys(range(span.start, span.end) if span is not None else (token.i,), len(words))
        words.append({"text": span.text if span else token.text, "tag": span.label_ if span else ""})
    drawn = []
    for relation in relations:
        head, tail = places[relation.head.start], places[relation.tail.start]
        if head == tail:  # tokens were merged since, and displaCy draws no loops
            continue
        direction = "right" if head < tail else "left"
        drawn.append({"start": min(head, tail), "end": max(head, tail), "label": relation.label, "dir": direction})
    return {"words": words, "arcs": drawn, "settings": {"lang": sentence.doc.lang_}}
