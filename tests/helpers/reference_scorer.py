"""The scorer as one would first write it, for any protocol."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.scored_documents import LABELS
from unire.documents import Document, Entity
from unire.evaluation.scores import Counts, Protocol, Scores, TypedCounts
from unire.tables import fill_table, read_table


def naive_counts(gold: Sequence[object], predicted: Sequence[object]) -> Counts:
    gold = [g for i, g in enumerate(gold) if g not in gold[:i]]
    predicted = [p for i, p in enumerate(predicted) if p not in predicted[:i]]
    return Counts(sum(any(p == g for g in gold) for p in predicted), len(predicted), len(gold))


def naive_score(gold: Document, predicted: Document, protocol: Protocol) -> Scores:
    out_words: list[int] = []
    dropped = 0
    for sentence in gold.sentences:
        if protocol.drop_overlapping and any(
            a.start < b.end and b.start < a.end and (a.span, a.label) != (b.span, b.label)
            for a in sentence.entities
            for b in sentence.entities
        ):
            out_words += range(sentence.start, sentence.end)
            dropped += 1

    def kept(entity: Entity) -> bool:
        return not any(word in out_words for word in range(entity.start, entity.end))

    def place(entity: Entity) -> list[tuple[int, int]]:
        return [entity.span] if protocol.spans == "words" else entity.fragments

    def entities(document: Document, label: str) -> list[object]:
        return [place(e) for e in document.entities if kept(e) and e.label == label]

    def relations(document: Document, label: str, both: bool) -> list[object]:
        items: list[object] = []
        for r in document.relations:
            if r.label == label and kept(r.head) and kept(r.tail):
                ends = [(place(e), e.label if protocol.relations == "strict" else "") for e in (r.head, r.tail)]
                items += [ends, ends[::-1]] if both else [ends]
        return items

    def relation_counts(label: str) -> Counts:
        symmetric = label in LABELS.symmetric
        if symmetric and protocol.symmetric == "once":
            # Both directions of everything, then halved; a pair of one entity with itself has but one direction.
            both = [relations(document, label, True) for document in (gold, predicted)]
            loops = [[r for r in side if r[0] == r[1]] for side in both]  # type: ignore[index]
            doubled, reflexive = naive_counts(*both), naive_counts(*loops)
            return Counts(*((d + r) // 2 for d, r in zip(doubled.row, reflexive.row, strict=True)))
        return naive_counts(
            relations(gold, label, symmetric and protocol.symmetric == "doubled"), relations(predicted, label, False)
        )

    def cuts(document: Document, use_cuts: bool) -> list[int]:
        found: list[int] = []
        for sentence in document.sentences:
            if use_cuts and sentence.cuts is not None:
                found += sentence.cuts
            else:
                table = fill_table(sentence.entities, (), LABELS, sentence.start, sentence.end).labels
                found += [
                    sentence.start + edge for start, end, _ in read_table(table, LABELS)[0] for edge in (start, end)
                ]
        inside = [i for s in document.sentences for i in range(s.start + 1, s.end) if i not in out_words]
        return [i for i in found if i in inside]

    return Scores(
        protocol,
        TypedCounts(
            {t: naive_counts(entities(gold, t), entities(predicted, t)) for t in LABELS.entity_types}, protocol.average
        ),
        TypedCounts({t: relation_counts(t) for t in LABELS.relation_types}, protocol.average),
        naive_counts(cuts(gold, False), cuts(predicted, True)) if protocol.spans == "words" else None,
        dropped,
    )
