"""What is found, as it stands on a spaCy `Doc`: spans, relations and scores that are saved wherever the `Doc` is.

Entities are a group of spans. What spaCy has no place for is in the group's `attrs`, as plain data, so that it goes
wherever the group goes (`DocBin`, `to_bytes`, `copy`): `scores`, one for each span, as spaCy's own span categoriser has
them; `relations`, whose head and tail are positions in the group, in the form of our format `spacy`; and `unaligned`.
`doc._.relations`, `doc._.unaligned` and `span._.score` read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

from unire.documents import Document, Entity
from unire.formats.spacy_docs import GROUP, RELATIONS

__all__ = ["LEFT_OUT", "WIDENED", "SpanRelation", "annotate", "register_extensions"]

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


def annotate(doc: Doc, document: Document, *, spans_key: str, overwrite_ents: bool) -> Counter[str]:
    """Write what was found in a text onto its `Doc`; what does not fit spaCy's tokens is counted.

    Args:
        doc: Gets the entities and relations, in place of those of an earlier call.
        document: The same text, with findings.
        spans_key: The group of spans that holds all of them.
        overwrite_ents: Whether of two overlapping entities the new one stays in `doc.ents`, or the one that was there.
    """
    notes: Counter[str] = Counter()
    placed: dict[Entity, int] = {}
    spans: list[Span] = []
    unaligned: list[tuple[int, int, str]] = []
    for entity in document.entities:
        span = doc.char_span(entity.char_start, entity.char_end, label=entity.label, alignment_mode="expand")
        is_free = not spans or spans[-1].end <= span.start  # entities come in order
        if not is_free or (span.start_char, span.end_char) != (entity.char_start, entity.char_end):
            unaligned.append((entity.char_start, entity.char_end, entity.label))
            notes[WIDENED if is_free else LEFT_OUT] += 1
        if is_free:
            placed[entity] = len(spans)
            spans.append(span)
    linked = [relation for relation in document.relations if relation.head in placed and relation.tail in placed]
    notes[UNLINKED] += len(document.relations) - len(linked)
    doc.spans[spans_key] = SpanGroup(
        doc,
        name=spans_key,
        spans=spans,
        attrs={
            "scores": [entity.score for entity in placed],
            "relations": [
                {
                    "head": placed[relation.head],
                    "tail": placed[relation.tail],
                    "label": relation.label,
                    "score": relation.score,
                }
                for relation in linked
            ],
            "unaligned": unaligned,
        },
    )
    _set_ents(doc, spans, overwrite_ents)
    return +notes


def _set_ents(doc: Doc, spans: list[Span], overwrite: bool) -> None:
    winners, others = (spans, doc.ents) if overwrite else (doc.ents, spans)
    taken = {place for span in winners for place in range(span.start, span.end)}
    doc.ents = [*winners, *(span for span in others if taken.isdisjoint(range(span.start, span.end)))]


def register_extensions() -> None:
    """Make spaCy know `doc._.relations`, `doc._.unaligned` and `span._.score`."""
    for cls, name, getter in (
        (Doc, "relations", _relations),
        (Doc, "unaligned", _unaligned),
        (Span, "score", _score),
    ):
        cls.set_extension(name, getter=getter, force=True)


def _ours(doc: Doc) -> Iterator[SpanGroup]:
    """The groups that this component wrote: one for each model in the pipeline."""
    return (group for group in doc.spans.values() if "relations" in group.attrs)


def _relations(doc: Doc) -> list[SpanRelation]:
    found: list[tuple[Any, Any]] = [(group, group.attrs["relations"]) for group in _ours(doc)]
    if not found and GROUP in doc.spans:  # a `Doc` of our format, which keeps them where spaCy keeps `doc._` itself
        found = [(doc.spans[GROUP], doc.user_data.get(RELATIONS, ()))]
    return [
        SpanRelation(group[item["head"]], group[item["tail"]], item["label"], item.get("score"))
        for group, items in found
        for item in items
    ]


def _unaligned(doc: Doc) -> list[tuple[int, int, str]]:
    """First character, end and label of the entities that do not begin and end where tokens do."""
    return [tuple(item) for group in _ours(doc) for item in group.attrs["unaligned"]]


def _score(span: Span) -> float | None:
    """The chance that an entity is right; nothing for spans that are none of ours."""
    for group in _ours(span.doc):
        for other, score in zip(group, group.attrs["scores"], strict=False):
            if other == span:
                return float(score)
    return None
