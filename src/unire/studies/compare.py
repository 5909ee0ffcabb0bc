"""Compares systems on the same gold: scores by every protocol, paired bootstrap, and sentences that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from unire import formats
from unire.documents import Document, Entity, Relation, Sentence
from unire.errors import UnireError
from unire.evaluation.bootstrap import paired_bootstrap
from unire.evaluation.scorer import score
from unire.evaluation.scores import DEFAULT_PROTOCOL, Protocol
from unire.labels import LabelSpace
from unire.studies import charts as draw
from unire.studies.results import (
    Json,
    ResultTable,
    System,
    align_sentences,
    check_result_folder,
    choose_labels,
    count_sentences,
    describe_inputs,
    format_percent,
    predict,
    save_result,
)

__all__ = ["charts", "compare", "study_systems", "tables"]

KINDS = ("entities", "relations")


def study_systems(
    systems: Sequence[str],
    data: Sequence[Path],
    *,
    labels: str | None = None,
    symmetric: str | None = None,
    format: str | None = None,
    device: str | None = None,
    samples: int = 1000,
    out: Path | None = None,
    notes: Counter[str] | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Json:
    """Compare models and files of predictions with the first of them.

    Args:
        systems: At least two.
        data: Annotated files.
        labels: Name or file of a label space. Only if all systems are files of predictions.
        symmetric: Symmetric relation types, separated by commas, for the same case.
        format: Format of the data. By default it is detected.
        device: `cpu` or `cuda`. By default a GPU if there is one.
        samples: Bootstrap samples of the documents, for each pair and protocol.
        out: Folder of studies in which the numbers are saved.
        notes: Counts what the readers of the data changed or skipped.
        log: Called with a line if results of another model with the same name are replaced.
    """
    check_result_folder(out, "compare", systems, data)
    gold = formats.read_documents(data, format, notes=notes)
    predicted = [predict(system, gold, device=device) for system in systems]
    space = choose_labels(predicted, gold, labels, symmetric)
    result = {**compare(gold, predicted, space, samples=samples), **describe_inputs(systems, data)}
    save_result(result, out, log)
    return result


def compare(gold: Sequence[Document], systems: Sequence[System], labels: LabelSpace, *, samples: int = 1000) -> Json:
    """Scores of all systems, and the difference of each from the first.

    Args:
        gold: The annotated documents, at least two.
        systems: At least two, with different names.
        labels: The types to count.
        samples: Bootstrap samples of the documents, for each pair and protocol.
    """
    names = [system.name for system in systems]
    if len(names) < 2:
        raise UnireError("a comparison needs at least two systems; name another model or file of predictions")
    if twice := [first for first, second in pairwise(sorted(names)) if first == second]:
        raise UnireError(f"two systems have the name {twice[0]}; rename one of the files or folders")
    protocols = list(Protocol.all())
    first, *others = systems
    scores = [  # also checks that the documents are the same
        [score(gold, system.documents, labels, protocol).to_dict() for protocol in protocols] for system in systems
    ]
    cases = list(_cases(gold, systems, labels))
    return {
        "study": "compare",
        "sentences": count_sentences(gold),
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
            *(format_percent(scores[kind][rate]) for kind in KINDS for rate in ("precision", "recall", "f1")),
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
            ("", "found by it, but not by all", "of which right"),
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
    note = f"n = {result['sentences']:,} sentences; {DEFAULT_PROTOCOL}; one run of each system"
    return {"compare": draw.dots(names, headline, unit="F1, %", note=note)}


def _protocol(scores: Json) -> str:
    return f"{scores['protocol']['relations']}, {scores['protocol']['symmetric']}"


def _difference(difference: Json) -> tuple[str, str]:
    f1 = difference["f1"]
    interval = f"{100 * f1['value']:+.1f} [{100 * f1['low']:+.1f}, {100 * f1['high']:+.1f}]"
    return interval, f"{difference['p_value']:.3f}"


def _cases(gold: Sequence[Document], systems: Sequence[System], labels: LabelSpace) -> Iterator[Json]:
    """Sentences with different predictions, and the predictions that not all systems share."""
    documents = zip(gold, *(align_sentences(gold, system.documents) for system in systems), strict=True)
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
    """Entities and strict relations by key. With `symmetric_in`, symmetric relations in both directions."""
    items: dict[object, Entity | Relation] = {_key(entity): entity for entity in sentence.entities}
    for relation in sentence.relations:
        ends = (relation.head, relation.tail)
        for head, tail in [ends] if symmetric_in is None else symmetric_in.directions(relation.label, *ends):
            way = relation if head is relation.head else Relation(head, tail, relation.label)
            items[_key(head), _key(tail), relation.label] = way
    return items


def _key(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
