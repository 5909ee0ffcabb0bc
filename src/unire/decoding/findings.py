"""Decoded tables put back into their documents."""

from __future__ import annotations

from collections.abc import Sequence

from unire.decoding.decoded import Decoded
from unire.documents import Document, Entity, Relation
from unire.labels import LabelSpace
from unire.windows import Stretch

__all__ = ["Findings"]


class Findings:
    """Gathers what was decoded from the tables of some documents, batch by batch and in any order."""

    def __init__(self, documents: Sequence[Document], labels: LabelSpace) -> None:
        self._bare = documents
        self._names = labels.names
        self._entities: list[list[Entity]] = [[] for _ in documents]
        self._relations: list[list[Relation]] = [[] for _ in documents]
        self._cuts: list[list[set[int]]] = [[set() for _ in document.sentences] for document in documents]

    def add(self, tables: Sequence[Stretch], decoded: Decoded) -> None:
        """Take in a batch: `tables[k].document` is a position in the documents."""
        entities = []
        for (table, start, end, label), score in zip(
            decoded.entities.tolist(), decoded.entity_scores.tolist(), strict=True
        ):
            place = tables[table]
            document = self._bare[place.document]
            entity = document.entity(place.start + start, place.start + end, self._names[label], score)
            entities.append((place.document, entity))
            self._entities[place.document].append(entity)
        for (head, tail, label), score in zip(
            decoded.relations.tolist(), decoded.relation_scores.tolist(), strict=True
        ):
            at, first = entities[head]
            self._relations[at].append(Relation(first, entities[tail][1], self._names[label], score))
        for table, position in decoded.cuts.tolist():
            place = tables[table]
            self._cuts[place.document][place.sentence].add(place.start + position)
        for place in tables:  # a sentence that was split is cut where its parts meet
            sentence = self._bare[place.document].sentences[place.sentence]
            if place.start > sentence.start:
                self._cuts[place.document][place.sentence].add(place.start)

    def documents(self) -> list[Document]:
        """The documents with what was found, in their order."""
        return [
            document.annotated(
                sorted(entities, key=lambda e: e.span),
                sorted(relations, key=lambda r: (r.head.span, r.tail.span)),
                [tuple(sorted(cuts)) for cuts in sentence_cuts],
            )
            for document, entities, relations, sentence_cuts in zip(
                self._bare, self._entities, self._relations, self._cuts, strict=True
            )
        ]
