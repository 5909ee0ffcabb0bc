"""Decoded tables put back into their documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding.kernels import Decoded
from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace
from unire.windows.spans import TableSpan

__all__ = ["DocumentAssembler"]

_Part = tuple[int, tuple[Entity, ...], tuple[Relation, ...], tuple[int, ...]]
"""What was found in a part of a long sentence, which had a table of its own: its first word, and what is in it."""


class DocumentAssembler:
    """Gathers what was decoded from the tables of some documents, batch by batch and in any order.

    Annotation that the documents have is not looked at.
    """

    def __init__(self, documents: Sequence[Document], labels: LabelSpace) -> None:
        self._given = documents
        self._names = labels.names
        self._whole: list[list[Sentence | None]] = [[None] * len(document.sentences) for document in documents]
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        """Of sentences that have several tables, by document and sentence."""

    def add(self, tables: Sequence[TableSpan], decoded: Decoded) -> None:
        """Take in a batch: `tables[k].document` is a position in the documents."""
        starts = np.array([place.start for place in tables])
        where = decoded.entities[:, 0]
        entities = self._entities(tables, starts, decoded)
        relations = self._relations(entities, decoded)
        cuts = (decoded.cuts[:, 1] + starts[decoded.cuts[:, 0]]).tolist()
        found = zip(
            _by_table(entities, where, len(tables)),
            _by_table(relations, where[decoded.relations[:, 0]], len(tables)),
            _by_table(cuts, decoded.cuts[:, 0], len(tables)),
            strict=True,
        )
        new, given, whole = Sentence.__new__, self._given, self._whole
        for place, within in zip(tables, found, strict=True):
            document, position = place.document, place.sentence
            sentence = given[document].sentences[position]
            words = sentence.words
            if place.end - place.start == len(words):
                whole[document][position] = new(Sentence, sentence.start, words, sentence.offsets, *within)
            else:
                self._parts.setdefault((document, position), []).append((place.start, *within))

    def update(self, others: DocumentAssembler) -> set[int]:
        """Take over all that others have of the same documents, table by table; the places of these documents."""
        touched = set()
        for place, (mine, theirs) in enumerate(zip(self._whole, others._whole, strict=True)):
            for position, sentence in enumerate(theirs):
                if sentence is not None:
                    mine[position] = sentence
                    touched.add(place)
        for where, parts in others._parts.items():
            known = {part[0]: part for part in (*self._parts.get(where, ()), *parts)}
            self._parts[where] = list(known.values())
            touched.add(where[0])
        return touched

    def documents(self) -> list[Document]:
        """The documents with what was found, in their order."""
        return [self.document(place) for place in range(len(self._given))]

    def document(self, place: int) -> Document:
        """One of them."""
        document, whole = self._given[place], self._whole[place]
        return document.with_sentences(
            tuple(
                [
                    _joined(given, self._parts.get((place, position), ())) if made is None else made
                    for position, (given, made) in enumerate(zip(document.sentences, whole, strict=True))
                ]
            )
        )

    def _entities(self, tables: Sequence[TableSpan], starts: NDArray[np.int64], decoded: Decoded) -> list[Entity]:
        """Those of a batch. A decoder knows where a table ends, so they are not checked as `Document.entity` does."""
        new, names = Entity.__new__, self._names
        documents = [self._given[place.document] for place in tables]
        texts = [document.text for document in documents]
        offsets = [document.offsets for document in documents]
        where, begins, ends, labels = decoded.entities.T
        return [
            new(
                Entity,
                start,
                end,
                names[label],
                first := offsets[table][start][0],
                last := offsets[table][end - 1][1],
                texts[table][first:last],
                score,
            )
            for table, start, end, label, score in zip(
                where.tolist(),
                (begins + starts[where]).tolist(),
                (ends + starts[where]).tolist(),
                labels.tolist(),
                decoded.entity_scores.tolist(),
                strict=True,
            )
        ]

    def _relations(self, entities: Sequence[Entity], decoded: Decoded) -> list[Relation]:
        new, names = Relation.__new__, self._names
        return [
            new(Relation, entities[head], entities[tail], names[label], score)
            for (head, tail, label), score in zip(
                decoded.relations.tolist(), decoded.relation_scores.tolist(), strict=True
            )
        ]


def _by_table(found: Sequence[Any], where: NDArray[np.int64], n_tables: int) -> list[tuple[Any, ...]]:
    """What was found in each table; `where` has the table of each, in order."""
    bounds = np.searchsorted(where, np.arange(n_tables + 1)).tolist()
    everything = tuple(found)
    return [everything[start:end] for start, end in pairwise(bounds)]


def _joined(sentence: Sentence, parts: Sequence[_Part]) -> Sentence:
    """A sentence with what was found in its parts, which is in the order of its words within each of them."""
    parts = sorted(parts, key=itemgetter(0))
    begins, entities, relations, cuts = zip(*parts, strict=True) if parts else ((), (), (), ())
    # a sentence that was split is cut where its parts meet
    met = [(begin, *within) if begin > sentence.start else within for begin, within in zip(begins, cuts, strict=True)]
    found = (tuple(chain(*some)) for some in (entities, relations, met))
    return Sentence(sentence.start, sentence.words, sentence.offsets, *found)
