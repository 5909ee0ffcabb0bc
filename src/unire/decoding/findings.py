"""Decoded tables put back into their documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.decoding.decoded import Decoded
from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace
from unire.windows import Stretch

__all__ = ["Findings"]


class _Part(NamedTuple):
    """What was found in one table: in a sentence, or in a part of a long one."""

    start: int
    entities: list[Entity]
    relations: list[Relation]
    cuts: list[int]


class Findings:
    """Gathers what was decoded from the tables of some documents, batch by batch and in any order."""

    def __init__(self, documents: Sequence[Document], labels: LabelSpace) -> None:
        self._bare = documents
        self._names = labels.names
        self._parts: list[list[list[_Part]]] = [[[] for _ in document.sentences] for document in documents]

    def add(self, tables: Sequence[Stretch], decoded: Decoded) -> None:
        """Take in a batch: `tables[k].document` is a position in the documents."""
        names = self._names
        documents = [self._bare[place.document] for place in tables]
        starts = np.array([place.start for place in tables])
        where, begins, ends, labels = decoded.entities.T
        entities = [
            documents[table].entity(start, end, names[label], score)
            for table, start, end, label, score in zip(
                where.tolist(),
                (begins + starts[where]).tolist(),
                (ends + starts[where]).tolist(),
                labels.tolist(),
                decoded.entity_scores.tolist(),
                strict=True,
            )
        ]
        relations = [
            Relation(entities[head], entities[tail], names[label], score)
            for (head, tail, label), score in zip(
                decoded.relations.tolist(), decoded.relation_scores.tolist(), strict=True
            )
        ]
        cuts = (decoded.cuts[:, 1] + starts[decoded.cuts[:, 0]]).tolist()
        for place, *found in zip(
            tables,
            _by_table(entities, where, len(tables)),
            _by_table(relations, where[decoded.relations[:, 0]], len(tables)),
            _by_table(cuts, decoded.cuts[:, 0], len(tables)),
            strict=True,
        ):
            self._parts[place.document][place.sentence].append(_Part(place.start, *found))

    def documents(self) -> list[Document]:
        """The documents with what was found, in their order."""
        return [
            replace(document, sentences=tuple(map(_annotated, document.sentences, parts)))
            for document, parts in zip(self._bare, self._parts, strict=True)
        ]


def _by_table(found: list[Any], where: NDArray[np.int64], n_tables: int) -> list[list[Any]]:
    """What was found in each table; `where` has the table of each, in order."""
    bounds = np.searchsorted(where, np.arange(n_tables + 1)).tolist()
    return [found[start:end] for start, end in pairwise(bounds)]


def _annotated(sentence: Sentence, parts: list[_Part]) -> Sentence:
    """A sentence with what was found in its parts, which is in the order of its words within each of them."""
    if len(parts) > 1:
        parts.sort(key=lambda part: part.start)
        for part in parts[1:]:  # a sentence that was split is cut where its parts meet
            part.cuts.insert(0, part.start)
    _, entities, relations, cuts = zip(*parts, strict=True) if parts else ((), (), (), ())
    return Sentence(
        sentence.start,
        sentence.words,
        sentence.offsets,
        tuple(chain.from_iterable(entities)),
        tuple(chain.from_iterable(relations)),
        tuple(chain.from_iterable(cuts)),
    )
