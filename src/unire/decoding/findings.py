"""Decoded tables put back into their documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding.decoded import Decoded
from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace
from unire.windows import Stretch

__all__ = ["Findings"]

_Part = tuple[int, tuple[Entity, ...], tuple[Relation, ...], tuple[int, ...]]
"""What was found in one table, in a sentence or in a part of a long one: its first word, and what is in it."""


class Findings:
    """Gathers what was decoded from the tables of some documents, batch by batch and in any order."""

    def __init__(self, documents: Sequence[Document], labels: LabelSpace) -> None:
        self._bare = documents
        self._names = labels.names
        self._parts: list[dict[int, list[_Part]]] = [{} for _ in documents]

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
        parts: Iterable[_Part] = zip(
            starts.tolist(),
            _by_table(entities, where, len(tables)),
            _by_table(relations, where[decoded.relations[:, 0]], len(tables)),
            _by_table(cuts, decoded.cuts[:, 0], len(tables)),
            strict=True,
        )
        for place, part in zip(tables, parts, strict=True):
            self._parts[place.document].setdefault(place.sentence, []).append(part)

    def documents(self) -> list[Document]:
        """The documents with what was found, in their order."""
        return [
            document.with_sentences(
                tuple([_annotated(sentence, parts.get(i, ())) for i, sentence in enumerate(document.sentences)])
            )
            for document, parts in zip(self._bare, self._parts, strict=True)
        ]


def _by_table(found: Sequence[Any], where: NDArray[np.int64], n_tables: int) -> list[tuple[Any, ...]]:
    """What was found in each table; `where` has the table of each, in order."""
    bounds = np.searchsorted(where, np.arange(n_tables + 1)).tolist()
    everything = tuple(found)
    return [everything[start:end] for start, end in pairwise(bounds)]


def _annotated(sentence: Sentence, parts: Sequence[_Part]) -> Sentence:
    """A sentence with what was found in its parts, which is in the order of its words within each of them."""
    start, words, offsets = sentence.start, sentence.words, sentence.offsets
    if len(parts) == 1:
        return Sentence(start, words, offsets, *parts[0][1:])
    parts = sorted(parts, key=itemgetter(0))
    begins, entities, relations, cuts = zip(*parts, strict=True) if parts else ((), (), (), ())
    # a sentence that was split is cut where its parts meet
    met = [(begin, *within) if begin > start else within for begin, within in zip(begins, cuts, strict=True)]
    return Sentence(start, words, offsets, *(tuple(chain(*found)) for found in (entities, relations, met)))
