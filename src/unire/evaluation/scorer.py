"""The scorer: compare gold and predicted documents as sets of annotations, under a protocol.

Repeated annotations count once. Annotation that no table can represent (overlapping entities, relations across
sentences) counts as gold like everything else, and is missed unless the predictions contain it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unire.documents import CHARACTERS, Document, Entity, Sentence
from unire.errors import UnireError
from unire.evaluation.scores import DEFAULT_PROTOCOL, Counts, Protocol, Scores, TypedCounts
from unire.labels import LabelSpace
from unire.tables import keep_longest

__all__ = [
    "SPLIT_ID",
    "MatchCounts",
    "Matches",
    "align_documents",
    "count_document",
    "count_matches",
    "count_one_way",
    "match_documents",
    "score",
    "sum_scores",
]

SPLIT_ID = LabelSpace.NONE
"""The label id under which split positions are counted. It is that of ⊥, which is never counted itself."""

Place = tuple[int, ...]
"""The location of an entity: start and end of its words, or of each fragment of its characters; then, in strict
relations, its type."""
Key = tuple[int | Place, ...]
"""Annotations are the same if their keys are: the label id, then the place of an entity, or those of head and tail."""


def score(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol = DEFAULT_PROTOCOL
) -> Scores:
    """Compare predictions with gold, document by document; both may be streams.

    >>> score(gold, extractor.annotate(gold), extractor.labels).relations.f1  # doctest: +SKIP
    0.407

    Split positions (span F1) are cuts between two words of a gold sentence. In gold they are the boundaries of the
    entities that a table can represent: the longest ones where entities overlap. In predictions they are the `cuts` of
    the sentence or, if there are none, the boundaries of its entities by the same rule.

    Args:
        gold: The annotated documents.
        predicted: The same documents with predicted annotation. The order may differ if all documents have ids.
        labels: The types to count, and which relations are symmetric. Any other type is an error.
        protocol: What counts as correct.

    Returns:
        Counts, precision, recall and F1 of entities and relations, overall and by type, and of split positions.

    Raises:
        UnireError: The documents differ, or have types that the label space does not have.
    """
    return sum_scores(count_matches(gold, predicted, labels, protocol), labels, protocol)


def sum_scores(counted: Iterable[MatchCounts], labels: LabelSpace, protocol: Protocol = DEFAULT_PROTOCOL) -> Scores:
    """Add up the counts of documents."""
    counts = np.zeros((len(labels), 3), dtype=np.int64)
    dropped = 0
    for document in counted:
        counts += document.counts
        dropped += document.dropped
    rows = [Counts(*row) for row in counts.tolist()]
    return Scores(
        protocol,
        TypedCounts(dict(zip(labels.entity_types, rows[labels.entity_ids], strict=True)), protocol.average),
        TypedCounts(dict(zip(labels.relation_types, rows[labels.relation_ids], strict=True)), protocol.average),
        rows[SPLIT_ID] if protocol.spans == "words" else None,
        dropped,
    )


def count_one_way(predicted: Iterable[Document], labels: LabelSpace) -> int:
    """Count symmetric relations that are predicted in one direction only.

    Under the protocol `doubled`, the other direction counts as missed.
    """
    protocol = Protocol(symmetric="as-annotated", spans="characters")
    symmetric = {labels.relation_id(name) for name in labels.symmetric}
    count = 0
    for document in predicted:
        keys = {key for key in _collect_keys(document, labels, protocol, (), gold=False) if key[0] in symmetric}
        count += sum((label, tail, head) not in keys for label, head, tail in keys)
    return count


class MatchCounts(NamedTuple):
    """The counts of one document."""

    counts: NDArray[np.int64]
    """`[|Y|, 3]`: true positives, predicted and gold of every label id; row `SPLIT_ID` has those of split positions."""
    dropped: int
    """The number of sentences left out."""


class Matches(NamedTuple):
    """A gold document and its predictions, with the key and the score of every annotation."""

    gold: Document
    predicted: Document
    dropped: list[Sentence]
    """The sentences left out."""
    gold_keys: dict[Key, float | None]
    predicted_keys: dict[Key, float | None]


def count_matches(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol = DEFAULT_PROTOCOL
) -> Iterator[MatchCounts]:
    """Count the matches of each document."""
    for matches in match_documents(gold, predicted, labels, protocol):
        yield count_document(matches, labels, protocol)


def count_document(matches: Matches, labels: LabelSpace, protocol: Protocol) -> MatchCounts:
    """Count the matches of one document, by label id."""
    positions: set[int] = set()
    if protocol.spans == "words":
        positions = _interior_positions(matches.gold.sentences) - _interior_positions(matches.dropped)
    gold_cuts, predicted_cuts = _cuts(matches.gold, gold=True), _cuts(matches.predicted, gold=False)
    gold = matches.gold_keys.keys() | {(SPLIT_ID, cut) for cut in gold_cuts & positions}
    predicted = matches.predicted_keys.keys() | {(SPLIT_ID, cut) for cut in predicted_cuts & positions}
    counts = [
        np.bincount(np.fromiter((key[0] for key in keys), np.intp, len(keys)), minlength=len(labels))
        for keys in (gold & predicted, predicted, gold)
    ]
    return MatchCounts(np.stack(counts, axis=-1), len(matches.dropped))


def match_documents(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol
) -> Iterator[Matches]:
    """Pair each document with its predictions, and reduce both to the keys that the protocol compares."""
    for position, (truth, guess) in enumerate(align_documents(gold, predicted)):
        name = f"document {truth.id!r}" if truth.id else f"document number {position + 1}"
        _check_same_text(truth, guess, protocol, name)
        dropped = [s for s in truth.sentences if _overlap(s.entities)] if protocol.drop_overlapping else []
        keys = []
        for side, document in (("gold", truth), ("predictions", guess)):
            try:
                keys.append(_collect_keys(document, labels, protocol, dropped, gold=side == "gold"))
            except UnireError as error:
                raise UnireError(f"{name} of the {side}: {error}") from None
        yield Matches(truth, guess, dropped, *keys)


# Alignment of documents


def align_documents(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[tuple[Document, Document]]:
    """Pair each gold document with its predictions, in the order of gold.

    Both are read as streams, in parallel, up to the first two documents whose ids differ. The rest of both is then read
    into memory and paired by id.

    Raises:
        UnireError: Their numbers or ids show that they are not the same documents.
    """
    truths, guesses = iter(gold), iter(predicted)
    for position, (truth, guess) in enumerate(zip_longest(truths, guesses)):
        if truth is None or guess is None:
            counts = f"{position} in gold, more" if truth is None else f"more in gold, {position}"
            further = (truth or guess).id
            raise UnireError(
                f"the number of documents differs: {counts} in the predictions"
                f"{f' (the next is {further!r})' if further else ''}; use the same documents"
            )
        if truth.id and guess.id and truth.id != guess.id:
            yield from _align_by_id([truth, *truths], [guess, *guesses])
            return
        yield truth, guess


def _align_by_id(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    for side, documents in (("gold", gold), ("predictions", predicted)):
        times = Counter(document.id for document in documents)
        if times[""] or len(times) < len(documents):
            name, count = times.most_common(1)[0]
            fault = "some documents have no id" if times[""] else f"{count} documents have the id {name!r}"
            raise UnireError(
                f"gold and predictions have different document orders (gold has {gold[0].id!r} where the predictions "
                f"have {predicted[0].id!r}), and in the {side} {fault}; use the same order"
            )
    by_id = {document.id: document for document in predicted}
    missing = [document.id for document in gold if document.id not in by_id]
    foreign = by_id.keys() - {document.id for document in gold}
    if missing or foreign:
        faults = ((missing, "not among the predictions"), (sorted(foreign), "predicted but not in the gold"))
        sentences = [f"document {ids[0]!r}{_and_more(ids)} {fault}" for ids, fault in faults if ids]
        raise UnireError(f"{'; '.join(sentences)}; use the same documents")
    for document in gold:
        yield document, by_id[document.id]


def _and_more(ids: Sequence[str]) -> str:
    return f" and {len(ids) - 1:,} more are" if len(ids) > 1 else " is"


def _check_same_text(gold: Document, predicted: Document, protocol: Protocol, name: str) -> None:
    """Refuse predictions for a different text."""
    true: Sequence[str]
    found: Sequence[str]
    if protocol.spans == "words":
        unit, true, found = "word", gold.words, predicted.words
        advice = 'predict on the gold words, or score with spans="characters"'
    else:
        unit, true, found = "character", gold.text, predicted.text
        advice = "predict on the gold text"
    if true != found:
        where = next((i for i, (a, b) in enumerate(zip(true, found, strict=False)) if a != b), None)
        difference = (
            f"{len(true)} {unit}s in the gold but {len(found)} in the predictions"
            if where is None
            else f"{unit} {where} is {true[where]!r} in the gold but {found[where]!r} in the predictions"
        )
        raise UnireError(f"{name}: {difference}; {advice}")


# Keys of annotations


def _collect_keys(
    document: Document, labels: LabelSpace, protocol: Protocol, dropped: Sequence[Sentence], *, gold: bool
) -> dict[Key, float | None]:
    """The keys of the document's entities and relations under the protocol, with their scores."""
    words = protocol.spans == "words"
    outer_span = attrgetter("start", "end") if words else attrgetter("char_start", "char_end")
    span = outer_span if words else partial(_exact_characters, text=document.text)
    entities, relations = document.entities, document.relations
    if dropped:
        holes = [(s.start, s.end) if words else (s.offsets[0][0], s.offsets[-1][1]) for s in dropped]

        def is_kept(entity: Entity) -> bool:
            start, end = outer_span(entity)
            return all(end <= hole_start or hole_end <= start for hole_start, hole_end in holes)

        entities = tuple(entity for entity in entities if is_kept(entity))
        relations = tuple(relation for relation in relations if is_kept(relation.head) and is_kept(relation.tail))

    def argument(entity: Entity) -> Place:
        return (*span(entity), labels.entity_id(entity.label)) if protocol.relations == "strict" else span(entity)

    keys: dict[Key, float | None] = {
        (labels.entity_id(entity.label), span(entity)): entity.score for entity in entities
    }
    for relation in relations:
        label = labels.relation_id(relation.label)
        directions = labels.directions(relation.label, argument(relation.head), argument(relation.tail))
        if protocol.symmetric == "once":
            directions = [min(directions)]
        elif protocol.symmetric == "as-annotated" or not gold:
            directions = directions[:1]
        for head, tail in directions:
            keys[label, head, tail] = relation.score
    return keys


def _exact_characters(entity: Entity, text: str) -> Place:
    """The exact characters of an entity, fragment by fragment, without surrounding white space."""
    if CHARACTERS not in entity.attributes:
        return entity.char_start, entity.char_end
    place: list[int] = []
    for start, end in entity.fragments:
        fragment = text[start:end]
        if stripped := fragment.strip():
            start += len(fragment) - len(fragment.lstrip())
            place += (start, start + len(stripped))
    return tuple(place)


# Split positions


def _cuts(document: Document, *, gold: bool) -> set[int]:
    """Where the tables of a document are cut; the ends of sentences may be among these positions."""
    cuts: set[int] = set()
    for sentence in document.sentences:
        if sentence.cuts is not None and not gold:
            cuts.update(sentence.cuts)
            continue
        for entity in keep_longest(sentence.entities):
            cuts.update(entity.span)
    return cuts


def _interior_positions(sentences: Iterable[Sentence]) -> set[int]:
    """Every position between two words of the same sentence."""
    return {position for sentence in sentences for position in range(sentence.start + 1, sentence.end)}


def _overlap(entities: Iterable[Entity]) -> bool:
    """Whether two different entities share a word. If they do, then so do some neighbours in order of start."""
    spans = sorted({(entity.start, entity.end, entity.label) for entity in entities})
    return any(left[1] > right[0] for left, right in pairwise(spans))
