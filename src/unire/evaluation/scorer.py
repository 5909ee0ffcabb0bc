"""The scorer: gold and predicted documents, compared as sets under a protocol.

Repeating an annotation changes nothing. What no table can hold (overlapping entities, relations across sentences) is
gold like everything else, and missed unless the predictions have it.
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
from unire.evaluation.counts import Counts, Scores, TypedCounts
from unire.evaluation.protocol import HEADLINE, Protocol
from unire.labels import LabelSpace
from unire.tables import longest

__all__ = ["MatchCounts", "Matches", "compared", "one_way", "paired", "score", "tallies", "tally", "total"]


def paired(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[tuple[Document, Document]]:
    """Each gold document with its predictions, in the order of gold.

    Both are read as streams, document beside document, up to the first two whose ids differ. The rest of both is then
    read at once and paired by ids.

    Raises:
        UnireError: They are not the same documents, as far as lengths and ids tell.
    """
    truths, guesses = iter(gold), iter(predicted)
    for position, (truth, guess) in enumerate(zip_longest(truths, guesses)):
        if truth is None or guess is None:
            short, long = ("gold", "predicted") if truth is None else ("predicted", "gold")
            further = (truth or guess).id
            raise UnireError(
                f"the {short} documents end after {position} but the {long} ones go on"
                f"{f' with {further!r}' if further else ''}; both must be the same documents"
            )
        if truth.id and guess.id and truth.id != guess.id:
            yield from _by_id([truth, *truths], [guess, *guesses])
            return
        yield truth, guess


def _by_id(gold: Sequence[Document], predicted: Sequence[Document]) -> Iterator[tuple[Document, Document]]:
    """The same documents in another order."""
    for side, documents in (("gold", gold), ("predictions", predicted)):
        times = Counter(document.id for document in documents)
        if times[""] or len(times) < len(documents):
            name, count = times.most_common(1)[0]
            fault = "some have no id" if times[""] else f"{count} are called {name!r}"
            raise UnireError(
                f"document {gold[0].id!r} of the gold stands against document {predicted[0].id!r} of the predictions, "
                f"and of the {side} {fault}; sort both alike"
            )
    found = {document.id: document for document in predicted}
    missing = [document.id for document in gold if document.id not in found]
    foreign = found.keys() - {document.id for document in gold}
    if missing or foreign:
        faults = ((missing, "not among the predictions"), (sorted(foreign), "predicted but not in the gold"))
        said = [f"document {ids[0]!r}{_more(ids)} {fault}" for ids, fault in faults if ids]
        raise UnireError(f"{'; '.join(said)}: both must be the same documents")
    for document in gold:
        yield document, found[document.id]


def _more(ids: Sequence[str]) -> str:
    return f" and {len(ids) - 1:,} more are" if len(ids) > 1 else " is"


SPLIT = LabelSpace.NONE
"""The id under which split positions are counted: ⊥'s, which is never counted for itself."""

Place = tuple[int, ...]
"""Where an entity lies: start and end of its words, or of each part of its characters; in strict relations its type."""
Key = tuple[int | Place, ...]
"""What makes two annotations the same: a label id, then the place of an entity, or those of head and tail."""


def score(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol = HEADLINE
) -> Scores:
    """Compare predictions with gold, document by document; both may be streams.

    Split positions (span F1) are cuts between two words of a gold sentence. In gold they are the boundaries of the
    entities that a table holds: the longest where entities overlap. In predictions they are the sentence's `cuts` or,
    where none were recorded, the boundaries of its entities by the same rule.

    Args:
        gold: The annotated documents.
        predicted: The same documents with predicted annotation; in another order only where all have ids.
        labels: The types to count, and which relations are symmetric; any other type is an error.
        protocol: What counts as right.
    """
    return total(tallies(gold, predicted, labels, protocol), labels, protocol)


def total(tallied: Iterable[MatchCounts], labels: LabelSpace, protocol: Protocol = HEADLINE) -> Scores:
    """The scores of documents that were counted one by one."""
    counts = np.zeros((len(labels), 3), dtype=np.int64)
    dropped = 0
    for tally in tallied:
        counts += tally.counts
        dropped += tally.dropped
    rows = [Counts(*row) for row in counts.tolist()]
    return Scores(
        protocol,
        TypedCounts(dict(zip(labels.entity_types, rows[labels.entity_ids], strict=True)), protocol.average),
        TypedCounts(dict(zip(labels.relation_types, rows[labels.relation_ids], strict=True)), protocol.average),
        rows[SPLIT] if protocol.spans == "words" else None,
        dropped,
    )


def one_way(predicted: Iterable[Document], labels: LabelSpace) -> int:
    """Symmetric relations that are predicted in one direction alone: `doubled` counts the other one as missed."""
    counted = Protocol(symmetric="as-annotated", spans="characters")
    symmetric = {labels.relation_id(name) for name in labels.symmetric}
    count = 0
    for document in predicted:
        keys = {key for key in _keys(document, labels, counted, (), gold=False) if key[0] in symmetric}
        count += sum((label, tail, head) not in keys for label, head, tail in keys)
    return count


class MatchCounts(NamedTuple):
    """The counts of one document."""

    counts: NDArray[np.int64]
    """`[|Y|, 3]`: true positives, predicted and gold of every label id, and of the split positions in row `SPLIT`."""
    dropped: int
    """Sentences left out."""


class Matches(NamedTuple):
    """Both sides of one document: what makes each annotation the same as another, and the score that it has."""

    gold: Document
    predicted: Document
    dropped: list[Sentence]
    """Sentences left out."""
    true: dict[Key, float | None]
    found: dict[Key, float | None]


def tallies(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol = HEADLINE
) -> Iterator[MatchCounts]:
    """Count the matches of each document."""
    for matches in compared(gold, predicted, labels, protocol):
        yield tally(matches, labels, protocol)


def tally(matches: Matches, labels: LabelSpace, protocol: Protocol) -> MatchCounts:
    """Count the matches of one document, by label id."""
    truth, guess, dropped, true_keys, found_keys = matches
    splittable = _interior(truth.sentences) - _interior(dropped) if protocol.spans == "words" else set()
    true = true_keys.keys() | {(SPLIT, cut) for cut in _cuts(truth, gold=True) & splittable}
    found = found_keys.keys() | {(SPLIT, cut) for cut in _cuts(guess, gold=False) & splittable}
    counts = [
        np.bincount(np.fromiter((key[0] for key in keys), np.intp, len(keys)), minlength=len(labels))
        for keys in (true & found, found, true)
    ]
    return MatchCounts(np.stack(counts, axis=-1), len(dropped))


def compared(
    gold: Iterable[Document], predicted: Iterable[Document], labels: LabelSpace, protocol: Protocol
) -> Iterator[Matches]:
    """Each document with its predictions, and what the protocol sees in both."""
    for position, (truth, guess) in enumerate(paired(gold, predicted)):
        name = f"document {truth.id!r}" if truth.id else f"document number {position + 1}"
        _require_same(truth, guess, protocol, name)
        dropped = [s for s in truth.sentences if _overlap(s.entities)] if protocol.drop_overlapping else []
        sides = []
        for side, document in (("gold", truth), ("predictions", guess)):
            try:
                sides.append(_keys(document, labels, protocol, dropped, gold=side == "gold"))
            except UnireError as error:
                raise UnireError(f"{name} of the {side}: {error}") from None
        yield Matches(truth, guess, dropped, *sides)


def _keys(
    document: Document, labels: LabelSpace, protocol: Protocol, dropped: Sequence[Sentence], *, gold: bool
) -> dict[Key, float | None]:
    """The document's entities and relations as the protocol tells them apart, with their scores."""
    words = protocol.spans == "words"
    whole = attrgetter("start", "end") if words else attrgetter("char_start", "char_end")
    span = whole if words else partial(_characters, text=document.text)
    entities, relations = document.entities, document.relations
    if dropped:
        holes = [(s.start, s.end) if words else (s.offsets[0][0], s.offsets[-1][1]) for s in dropped]

        def kept(entity: Entity) -> bool:
            start, end = whole(entity)
            return all(end <= hole_start or hole_end <= start for hole_start, hole_end in holes)

        entities = tuple(entity for entity in entities if kept(entity))
        relations = tuple(relation for relation in relations if kept(relation.head) and kept(relation.tail))

    def argument(entity: Entity) -> Place:
        return (*span(entity), labels.entity_id(entity.label)) if protocol.relations == "strict" else span(entity)

    keys: dict[Key, float | None] = {
        (labels.entity_id(entity.label), span(entity)): entity.score for entity in entities
    }
    for relation in relations:
        label = labels.relation_id(relation.label)
        ways = labels.ways(relation.label, argument(relation.head), argument(relation.tail))
        if protocol.symmetric == "once":
            ways = [min(ways)]
        elif protocol.symmetric == "as-annotated" or not gold:
            ways = ways[:1]
        for head, tail in ways:
            keys[label, head, tail] = relation.score
    return keys


def _characters(entity: Entity, text: str) -> Place:
    """The exact characters of an entity, part by part, without white space at their ends, of which words have none."""
    if CHARACTERS not in entity.attributes:
        return entity.char_start, entity.char_end
    place: list[int] = []
    for start, end in entity.fragments:
        part = text[start:end]
        if bare := part.strip():
            start += len(part) - len(part.lstrip())
            place += (start, start + len(bare))
    return tuple(place)


def _cuts(document: Document, *, gold: bool) -> set[int]:
    """Where the tables of `document` are cut; ends of sentences may be among them."""
    cuts: set[int] = set()
    for sentence in document.sentences:
        if sentence.cuts is not None and not gold:
            cuts.update(sentence.cuts)
            continue
        for entity in longest(sentence.entities):
            cuts.update(entity.span)
    return cuts


def _interior(sentences: Iterable[Sentence]) -> set[int]:
    """Every position between two words of one sentence."""
    return {position for sentence in sentences for position in range(sentence.start + 1, sentence.end)}


def _overlap(entities: Iterable[Entity]) -> bool:
    """Whether two different entities share a word; in order of their starts, some neighbours then do."""
    spans = sorted({(entity.start, entity.end, entity.label) for entity in entities})
    return any(left[1] > right[0] for left, right in pairwise(spans))


def _require_same(gold: Document, predicted: Document, protocol: Protocol, name: str) -> None:
    """Refuse predictions for another text."""
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
