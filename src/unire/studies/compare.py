"""Several systems on the same gold: every protocol, whether they differ by more than chance, and where they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from unire.documents import Document, Entity, Relation, Sentence
from unire.errors import UnireError
from unire.evaluation.bootstrap import paired_bootstrap
from unire.evaluation.protocol import DEFAULT_PROTOCOL, Protocol
from unire.evaluation.scorer import score
from unire.labels import LabelSpace
from unire.studies import charts as draw
from unire.studies.results import Json, ResultTable, n_sentences, percent
from unire.studies.systems import System, in_sentences_of

__all__ = ["charts", "compare", "tables"]

KINDS = ("entities", "relations")


def compare(gold: Sequence[Document], systems: Sequence[System], labels: LabelSpace, *, samples: int = 1000) -> Json:
    """Scores of all systems, and each against the first.

    Args:
        gold: The annotated documents, at least two.
        systems: At least two, by different names.
        labels: The types to count.
        samples: Resamples of the documents, for each pair and protocol.
    """
    names = [system.name for system in systems]
    if len(names) < 2:
        raise UnireError("a comparison needs at least two systems; name another model or file of predictions")
    if twice := [first for first, second in pairwise(sorted(names)) if first == second]:
        raise UnireError(f"two of the systems are called {twice[0]}; rename one of the files or folders")
    protocols = list(Protocol.all())
    first, *others = systems
    scores = [  # this also checks that they are the same documents
        [score(gold, system.documents, labels, protocol).to_dict() for protocol in protocols] for system in systems
    ]
    cases = list(_cases(gold, systems, labels))
    return {
        "study": "compare",
        "sentences": n_sentences(gold),
        "documents": len(gold),
        "samples": samples,
        "systems": [{"name": name, "scores": of_system} for name, of_system in zip(names, scores, strict=True)],
        "differences": [
            {
                "first": first.name,
                "second": other.name,
                "protocols": [
                    paired_bootstrap(
                        gold, first.documents, other.documents, labels, protocol, samples=samples
                    ).to_dict()
                    for protocol in protocols
                ],
            }
            for other in others
        ],
        "differing": len(cases),
        "only": {
            system.name: Counter(
                "right" if item["right"] else "wrong" for case in cases for item in case["found"][system.name]
            )
            for system in systems
        },
        "cases": cases,
    }


def tables(result: Json) -> list[ResultTable]:
    counted = f"{result['documents']:,} documents, {result['sentences']:,} sentences"
    rows = [
        (
            f"{system['name']}: {_protocol(scores)}",
            *(percent(scores[kind][rate]) for kind in KINDS for rate in ("precision", "recall", "f1")),
        )
        for system in result["systems"]
        for scores in system["scores"]
    ]
    columns = ("", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1")
    differences = [
        (
            f"{pair['second']} − {pair['first']}: {_protocol(protocol)}",
            *(text for kind in KINDS for text in _difference(protocol[kind])),
        )
        for pair in result["differences"]
        for protocol in pair["protocols"]
    ]
    resampled = f"Differences in F1, 95% intervals from {result['samples']:,} resamples of the documents"
    return [
        ResultTable(f"Every protocol: {counted}", columns, rows),
        ResultTable(resampled, ("", "Ent", "p", "Rel", "p"), differences),
        ResultTable(
            f"Sentences in which they differ: {result['differing']:,} of {result['sentences']:,}",
            ("", "found by it and not by all", "of which right"),
            [(name, f"{sum(only.values()):,}", f"{only.get('right', 0):,}") for name, only in result["only"].items()],
        ),
    ]


def charts(result: Json) -> dict[str, str]:
    names = [system["name"] for system in result["systems"]]
    headline = {
        title: [
            [
                100 * scores[kind]["f1"]
                for scores in system["scores"]
                if scores["protocol"] == DEFAULT_PROTOCOL.to_dict()
            ]
            for system in result["systems"]
        ]
        for title, kind in (("Ent", "entities"), ("Rel", "relations"))
    }
    note = f"n = {result['sentences']:,} sentences; {DEFAULT_PROTOCOL}"
    return {"compare": draw.dots(names, headline, unit="F1, %", note=note)}


def _protocol(scores: Json) -> str:
    return f"{scores['protocol']['relations']}, {scores['protocol']['symmetric']}"


def _difference(difference: Json) -> tuple[str, str]:
    f1 = difference["f1"]
    interval = f"{100 * f1['value']:+.1f} [{100 * f1['low']:+.1f}, {100 * f1['high']:+.1f}]"
    return interval, f"{difference['p_value']:.3f}"


def _cases(gold: Sequence[Document], systems: Sequence[System], labels: LabelSpace) -> Iterator[Json]:
    """The sentences in which not all systems found the same, with what each found that not all did."""
    documents = zip(gold, *(in_sentences_of(gold, system.documents) for system in systems), strict=True)
    for truth, *guesses in documents:
        for position, sentence in enumerate(truth.sentences):
            found = [_items(guess.sentences[position]) for guess in guesses]
            shared = set(found[0]).intersection(*found[1:])
            if all(len(items) == len(shared) for items in found):
                continue
            right = _items(sentence, labels)
            yield {
                "document": truth.id,
                "sentence": position,
                "text": " ".join(sentence.words),
                "gold": [str(item) for item in right.values()],
                "found": {
                    system.name: [
                        {"item": str(item), "right": key in right} for key, item in items.items() if key not in shared
                    ]
                    for system, items in zip(systems, found, strict=True)
                },
            }


def _items(sentence: Sentence, symmetric_in: LabelSpace | None = None) -> dict[object, Entity | Relation]:
    """Entities and strict relations by what tells them apart; of gold, symmetric relations in both directions."""
    items: dict[object, Entity | Relation] = {_key(entity): entity for entity in sentence.entities}
    for relation in sentence.relations:
        ends = (relation.head, relation.tail)
        for head, tail in [ends] if symmetric_in is None else symmetric_in.directions(relation.label, *ends):
            way = relation if head is relation.head else Relation(head, tail, relation.label)
            items[_key(head), _key(tail), relation.label] = way
    return items


def _key(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
