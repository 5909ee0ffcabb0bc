"""What does it cost to start from raw text? SciERC's abstracts, restored to ordinary text and segmented again.

    python benchmarks/segmentation.py test.json [--model MODEL] [--json FILE]

Prints how many words and sentences are found as they were given, which gold entities and relations are out of reach
(an entity whose characters are not whole words, or are in two sentences; a relation between two sentences), and how
fast segmentation is. With a model: Ent and Rel F1 by character spans from the given words and from raw text.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

from unire import formats
from unire.documents import Document, Entity
from unire.segmentation import detokenize, segment


def boundary_f1(
    gold: Sequence[Document], found: Sequence[Document], spans: Callable[[Document], Iterable[Hashable]]
) -> dict[str, Any]:
    right = n_gold = n_found = 0
    for truth, guess in zip(gold, found, strict=True):
        true, predicted = set(spans(truth)), set(spans(guess))
        right, n_gold, n_found = right + len(true & predicted), n_gold + len(true), n_found + len(predicted)
    return {"f1": 2 * right / (n_gold + n_found), "right": right, "found": n_found, "gold": n_gold}


def sentence_ends(document: Document) -> set[int]:
    return {sentence.offsets[-1][1] for sentence in document.sentences if sentence.words}


def out_of_reach(gold: Document, found: Document) -> tuple[int, int]:
    """Entities and relations of `gold` that no table over the words of `found` can hold."""
    starts = {start: i for i, s in enumerate(found.sentences) for start, _ in s.offsets}
    ends = {end: i for i, s in enumerate(found.sentences) for _, end in s.offsets}

    def home(entity: Entity) -> int | None:
        first, last = starts.get(entity.char_start), ends.get(entity.char_end)
        return first if first == last else None

    entities = sum(home(entity) is None for entity in gold.entities)
    relations = sum(home(r.head) is None or home(r.head) != home(r.tail) for r in gold.relations)
    return entities, relations


def compare(gold: Sequence[Document], found: Sequence[Document], model: str, device: str | None) -> dict[str, Any]:
    from unire.evaluation.scorer import score
    from unire.evaluation.scores import Protocol
    from unire.extractor import Extractor

    extractor = Extractor.load(model, device=device)
    protocol = Protocol(spans="characters")
    results: dict[str, Any] = {}
    for name, documents in (("given words", gold), ("raw text", found)):
        scores = score(gold, extractor.annotate(documents), extractor.labels, protocol)
        results[name] = {"ent": 100 * scores.entities.f1, "rel": 100 * scores.relations.f1}
        print(f"  {name:<12} Ent {results[name]['ent']:.2f}  Rel {results[name]['rel']:.2f}")
    cost = {key: results["given words"][key] - results["raw text"][key] for key in ("ent", "rel")}
    print(f"  {'cost':<12} Ent {cost['ent']:.2f}  Rel {cost['rel']:.2f}")
    return {**results, "cost": cost, "protocol": protocol.name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="SciERC's files")
    parser.add_argument("--model", help="score this model's extractions, from the given words and from raw text")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    arguments = parser.parse_args()

    gold = [detokenize(document) for path in arguments.data for document in formats.read(path)]
    began = time.perf_counter()
    found = [segment(document.text, id=document.id) for document in gold]
    seconds = time.perf_counter() - began

    words = boundary_f1(gold, found, lambda document: document.offsets)
    sentences = boundary_f1(gold, found, sentence_ends)
    lost = [out_of_reach(truth, guess) for truth, guess in zip(gold, found, strict=True)]
    results: dict[str, Any] = {
        "words": words,
        "sentences": sentences,
        "entities": {"gold": sum(len(d.entities) for d in gold), "out of reach": sum(e for e, _ in lost)},
        "relations": {"gold": sum(len(d.relations) for d in gold), "out of reach": sum(r for _, r in lost)},
        "sentences per second": sentences["found"] / seconds,
    }
    print(f"{len(gold)} documents restored to text and segmented, {results['sentences per second']:,.0f} sentences/s")
    for name, found_ in (("words", words), ("sentences", sentences)):
        print(
            f"  {name:<12} F1 {100 * found_['f1']:.2f} ({found_['right']} of {found_['gold']}, {found_['found']} found)"
        )
    for name in ("entities", "relations"):
        print(f"  {name:<12} {results[name]['out of reach']} of {results[name]['gold']} out of reach")
    if arguments.model:
        results["model"] = compare(gold, found, arguments.model, arguments.device)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
