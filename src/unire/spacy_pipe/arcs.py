"""Relations as displaCy draws them."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc, Span

from unire.spacy_pipe.annotation import SpanRelation, relations_of

__all__ = ["arcs"]


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
