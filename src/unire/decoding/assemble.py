"""Scatter decoded spans and pairs into the documents they come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.decoding.backend import Array
from unire.decoding.coreference import CoreferenceScorer, mean_vectors
from unire.decoding.kernels import Decoded
from unire.documents import Document, Entity, Relation, Sentence
from unire.labels import LabelSpace
from unire.tables import TableSpan

__all__ = ["DocumentAssembler", "StreamAssembler"]

PUNCTUATION = frozenset(".,;:'\"`-–—/“”‘’«»…") | {"``", "''", "--"}
"""Words that no entity begins or ends with. `Yahoo!` and `C++` end with others."""
PARTNERS = dict(zip("()[]{}", ")(][}{", strict=True))
"""The other bracket of each bracket."""

_Part = tuple[int, tuple[Entity, ...], tuple[Relation, ...], tuple[int, ...]]
"""Annotation of a part of a long sentence, which had its own table: first word, entities, relations, cuts."""


_Mention = tuple[tuple[int, int], int, NDArray[np.float32]]
"""The words of an entity, its type, and its projected vectors."""


class StreamAssembler:
    """Assembles a stream of documents, chunk by chunk. A chunk may be expected before earlier ones are complete.

    Args:
        labels: Names the label indices.
        coreference: Finds the clusters of complete documents. [default: they have none]
    """

    def __init__(self, labels: LabelSpace, coreference: CoreferenceScorer | None = None) -> None:
        self._labels = labels
        self._coreference = coreference
        self._chunks: deque[DocumentAssembler] = deque()
        self._n_documents = 0

    def expect(self, documents: Sequence[Document]) -> int:
        """Append the next chunk; return the position in the stream of its first document."""
        first_index = self._n_documents
        self._chunks.append(DocumentAssembler(documents, self._labels, first_index, self._coreference))
        self._n_documents += len(documents)
        return first_index

    def add(self, spans: Sequence[TableSpan], decoded: Decoded, vectors: Array = None) -> None:
        """Add a batch, whose tables are of one chunk; `spans[k].document` is a position in the stream."""
        next(chunk for chunk in self._chunks if spans[0].document < chunk.end_index).add(spans, decoded, vectors)

    def pop_complete(self) -> Iterator[Document]:
        """Yield and drop the documents of the complete chunks at the front."""
        while self._chunks and self._chunks[0].is_complete:
            yield from self._chunks.popleft().documents()


class DocumentAssembler:
    """Collects what was decoded from the tables of some documents, batch by batch in any order.

    Ignores the annotation that the documents have.

    Args:
        documents: The documents.
        labels: Names the label indices.
        first_index: `TableSpan.document` of the first document.
        coreference: Finds the clusters of complete documents. [default: they have none]
    """

    def __init__(
        self,
        documents: Sequence[Document],
        labels: LabelSpace,
        first_index: int = 0,
        coreference: CoreferenceScorer | None = None,
    ) -> None:
        self._documents = documents
        self._first_type = labels.entity_ids.start
        self._coreference = coreference
        self._mentions: list[list[_Mention]] = [[] for _ in documents]
        self._names = labels.names
        self._first_index = first_index
        self.end_index = first_index + len(documents)
        """One past `TableSpan.document` of the last document."""
        self._n_words_left = sum([document.n_words for document in documents])
        self._whole: list[list[Sentence | None]] = [[None] * len(document.sentences) for document in documents]
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        """Of sentences with several tables, by document and sentence."""

    @property
    def is_complete(self) -> bool:
        """Whether the tables of all words have been added. Every word is in exactly one table."""
        return self._n_words_left == 0

    def add(self, spans: Sequence[TableSpan], decoded: Decoded, vectors: Array = None) -> None:
        """Add a batch.

        Args:
            spans: `spans[k].document` is the position of a document, counted from `first_index`.
            decoded: What was decoded from the tables of these spans.
            vectors: [T, N, n_hidden], the vectors of the words of the tables, for coreference.
        """
        starts = np.array([span.start for span in spans])
        table = decoded.entities[:, 0]
        entities = self._build_entities(spans, starts, decoded)
        relations = self._build_relations(entities, decoded)
        if self._coreference is not None and vectors is not None:
            self._add_mentions(self._coreference, spans, entities, decoded, vectors)
        cuts = (decoded.cuts[:, 1] + starts[decoded.cuts[:, 0]]).tolist()
        annotations = zip(
            _group_by_table(entities, table, len(spans)),
            _group_by_table(relations, table[decoded.relations[:, 0]], len(spans)),
            _group_by_table(cuts, decoded.cuts[:, 0], len(spans)),
            strict=True,
        )
        documents, first_index, whole = self._documents, self._first_index, self._whole
        added = 0
        for span, annotation in zip(spans, annotations, strict=True):
            index, position = span.document - first_index, span.sentence
            sentence = documents[index].sentences[position]
            words = sentence.words
            n_words = span.end - span.start
            added += n_words
            if n_words == len(words):
                whole[index][position] = Sentence(sentence.start, words, sentence.offsets, *annotation)
            else:
                self._parts.setdefault((index, position), []).append((span.start, *annotation))
        self._n_words_left -= added

    def _add_mentions(
        self,
        coreference: CoreferenceScorer,
        spans: Sequence[TableSpan],
        entities: Sequence[Entity],
        decoded: Decoded,
        vectors: Array,
    ) -> None:
        types = decoded.entities[:, 3] - self._first_type
        projected = coreference.project(mean_vectors(vectors, decoded.entities), types)
        for entity, table, type_, row in zip(
            entities, decoded.entities[:, 0].tolist(), types.tolist(), projected, strict=True
        ):
            self._mentions[spans[table].document - self._first_index].append((entity.span, type_, row))

    def update(self, other: DocumentAssembler) -> set[int]:
        """Overwrite with all tables that another assembler of the same documents has; return the changed positions."""
        changed = set()
        for index, (mine, theirs) in enumerate(zip(self._whole, other._whole, strict=True)):
            for position, sentence in enumerate(theirs):
                if sentence is not None:
                    mine[position] = sentence
                    changed.add(index)
        for key, parts in other._parts.items():
            by_start = {part[0]: part for part in (*self._parts.get(key, ()), *parts)}
            self._parts[key] = list(by_start.values())
            changed.add(key[0])
        return changed

    def documents(self) -> list[Document]:
        """Return the annotated documents, in order."""
        return [self.document(index) for index in range(len(self._documents))]

    def document(self, index: int) -> Document:
        """Return one annotated document."""
        document, whole, mentions = self._documents[index], self._whole[index], self._mentions[index]
        clusters: tuple[tuple[tuple[int, int], ...], ...] = ()
        if self._coreference is not None and len(mentions) > 1:
            places, types, projected = zip(*mentions, strict=True)
            clusters = self._coreference.find_clusters(document, places, types, np.array(projected))
        return document.with_sentences(
            tuple(
                [
                    _join_parts(bare, self._parts.get((index, position), ())) if annotated is None else annotated
                    for position, (bare, annotated) in enumerate(zip(document.sentences, whole, strict=True))
                ]
            ),
            clusters=clusters,
        )

    def _build_entities(self, spans: Sequence[TableSpan], starts: NDArray[np.int64], decoded: Decoded) -> list[Entity]:
        """Build the entities of a batch, unchecked, because decoded spans are inside their tables."""
        names = self._names
        documents = [self._documents[span.document - self._first_index] for span in spans]
        texts = [document.text for document in documents]
        offsets = [document.offsets for document in documents]
        table, begins, ends, labels = decoded.entities.T
        bounds = [
            _trim(texts[t], offsets[t], start, end)
            for t, start, end in zip(
                table.tolist(), (begins + starts[table]).tolist(), (ends + starts[table]).tolist(), strict=True
            )
        ]
        return [
            Entity(
                start,
                end,
                names[label],
                first := offsets[t][start][0],
                last := offsets[t][end - 1][1],
                texts[t][first:last],
                score,
            )
            for t, (start, end), label, score in zip(
                table.tolist(), bounds, labels.tolist(), decoded.entity_scores.tolist(), strict=True
            )
        ]

    def _build_relations(self, entities: Sequence[Entity], decoded: Decoded) -> list[Relation]:
        names = self._names
        return [
            Relation(entities[head], entities[tail], names[label], score)
            for (head, tail, label), score in zip(
                decoded.relations.tolist(), decoded.relation_scores.tolist(), strict=True
            )
        ]


def _trim(text: str, offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Leave out punctuation at the ends of an entity that is attached to a word, as in `Acme,`.

    Punctuation between spaces is kept: a data set that has it in its entities has chosen it. So are the full stop of
    an abbreviation, which is a part of its word, and a bracket whose partner is inside the entity.
    """
    while end - start > 1:
        (first, after), (before, last) = offsets[start], offsets[end - 1]
        if text[first].isalnum() and text[last - 1].isalnum():
            break
        entity = text[first:last]
        if _is_loose(text[before:last], entity) and _is_attached(text, before, last):
            end -= 1
        elif _is_loose(text[first:after], entity) and _is_attached(text, first, after):
            start += 1
        else:
            break
    return start, end


def _is_attached(text: str, start: int, end: int) -> bool:
    """Whether there is no space before or after some characters."""
    return any(not character.isspace() for character in text[max(0, start - 1) : start] + text[end : end + 1])


def _is_loose(word: str, entity: str) -> bool:
    """Whether a word at an end of an entity is no part of it."""
    if partner := PARTNERS.get(word):
        is_around = {entity[0], entity[-1]} == {word, partner}
        return partner not in entity or (is_around and entity.count(word) == 1)
    return word in PUNCTUATION


def _group_by_table(items: Sequence[Any], table: NDArray[np.int64], n_tables: int) -> list[tuple[Any, ...]]:
    """Group items by table; `table` is the table of each item, ascending."""
    bounds = np.searchsorted(table, np.arange(n_tables + 1)).tolist()
    everything = tuple(items)
    return [everything[start:end] for start, end in pairwise(bounds)]


def _join_parts(sentence: Sentence, parts: Sequence[_Part]) -> Sentence:
    """Return a sentence with the annotation of its parts, in the order of its words."""
    parts = sorted(parts, key=itemgetter(0))
    starts, entities, relations, cuts = zip(*parts, strict=True) if parts else ((), (), (), ())
    # a sentence that was split is cut where its parts meet
    all_cuts = [(start, *inner) if start > sentence.start else inner for start, inner in zip(starts, cuts, strict=True)]
    annotation = (tuple(chain(*groups)) for groups in (entities, relations, all_cuts))
    return Sentence(sentence.start, sentence.words, sentence.offsets, *annotation)
