"""Complete the annotation of a corpus that lacks some types by the predictions of a model.

    python recipes/fill_labels.py MODEL DATA.jsonl MIN_SCORE OUT.jsonl

Without this, training on several corpora teaches that the types which a corpus lacks do not occur in its sentences. All
annotation of DATA stays. Of the predictions with at least MIN_SCORE, two kinds are added: entities that overlap no
annotated one, and relations of types that DATA nowhere has, between entities that have no relation.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from script import parse_number, run

from unire import Extractor, formats
from unire.documents import Document, Relation


def fill(document: Document, predicted: Document, complete: Container[str]) -> Document:
    """Add predictions to an annotated document.

    Args:
        document: The annotated document.
        predicted: The same words with predictions.
        complete: The relation types that the corpus has. Predictions of these types are not added.
    """
    covered = {word for entity in document.entities for word in range(*entity.span)}
    entities = [
        *document.entities,
        *(replace(e, score=None) for e in predicted.entities if covered.isdisjoint(range(*e.span))),
    ]
    found = {(entity.span, entity.label): entity for entity in entities}
    related = {frozenset((relation.head.span, relation.tail.span)) for relation in document.relations}
    added = []
    for relation in predicted.relations:
        head, tail = (found.get((entity.span, entity.label)) for entity in (relation.head, relation.tail))
        is_new = relation.label not in complete and frozenset((relation.head.span, relation.tail.span)) not in related
        if head and tail and is_new:
            added.append(Relation(head, tail, relation.label))
    return document.annotated(entities, [*document.relations, *added])


def main(model: str, data: str, min_score: str, out: str) -> None:
    threshold = parse_number(float, "MIN_SCORE", min_score)
    documents = list(formats.read(data))
    complete = {relation.label for document in documents for relation in document.relations}
    extractor = Extractor.load(model)
    extractor.labels.check(documents)
    predicted = extractor.annotate([document.bare for document in documents])
    filled = [
        fill(document, found.confident(threshold), complete)
        for document, found in zip(documents, predicted, strict=True)
    ]
    formats.write(filled, out)
    added = [
        sum(len(getattr(new, kind)) - len(getattr(old, kind)) for new, old in zip(filled, documents, strict=True))
        for kind in ("entities", "relations")
    ]
    print(f"added {added[0]:,} entities and {added[1]:,} relations to {len(documents):,} documents")


if __name__ == "__main__":
    run(main, __doc__)
