"""Score models on the regression set: 60 sentences, of which 20 have entities that merely occur together.

    python benchmarks/regression.py science news
    python benchmarks/regression.py models/mine --min-score 0.5
    python benchmarks/regression.py science news --record      # update tests/fixtures/regression/scores.json

Each model is scored on the file whose types it has. `tests/fixtures/regression/README.md` has the rules of annotation
and of scoring. Prints a Markdown table:

- **Found** is recall: the share of required entities or relations that are found.
- **Right** is precision: the share of predictions that are accepted.
- **Unrelated** is the share of predicted relations whose entities merely occur together.
- **Claimed** is the share of the sentences without relations in which the model claims at least one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from unire import Extractor, LabelSpace, formats
from unire.documents import Document, Entity, Relation
from unire.errors import UnireError
from unire.result_filter import MinScore

SENTENCES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "regression"
RECORD = SENTENCES / "scores.json"
COLUMNS = (
    "Model, File, Min. score, Entities found, Entities right, Relations found, Relations right, Unrelated, Claimed"
)


@dataclass(frozen=True)
class Tally:
    """What is counted in documents. Optional annotation counts nowhere."""

    entities: int = 0
    """Required entities."""
    entities_found: int = 0
    entities_right: int = 0
    """Predictions that are accepted."""
    entities_wrong: int = 0
    relations: int = 0
    """Required relations."""
    relations_found: int = 0
    relations_right: int = 0
    mislabelled: int = 0
    """Predicted relations of another type or direction than annotated, or with other types of entities."""
    unrelated: int = 0
    """Predicted relations between entities that merely occur together."""
    invented: int = 0
    """Predicted relations in documents without relations; they are unrelated, too."""
    without: int = 0
    """Documents without relations."""
    claimed: int = 0
    """Documents without relations in which a relation is predicted."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def compare(gold: Document, predicted: Document, labels: LabelSpace) -> Tally:
    """Count what is found and what is right in a document."""
    required_entities = [entity for entity in gold.entities if not is_optional(entity)]
    required_relations = [relation for relation in gold.relations if not is_optional(relation)]
    relations = list_once(predicted.relations, labels)
    right_entities = [e for e in predicted.entities if any(accepts_entity(g, e) for g in required_entities)]
    wrong_entities = [e for e in predicted.entities if not any(accepts_entity(g, e) for g in gold.entities)]
    right_relations = [r for r in relations if any(accepts_relation(g, r, labels) for g in required_relations)]
    wrong_relations = [r for r in relations if not any(accepts_relation(g, r, labels) for g in gold.relations)]
    unrelated = [r for r in wrong_relations if not any(joins_same(g, r) for g in gold.relations)]
    return Tally(
        entities=len(required_entities),
        entities_found=sum(any(accepts_entity(g, e) for e in predicted.entities) for g in required_entities),
        entities_right=len(right_entities),
        entities_wrong=len(wrong_entities),
        relations=len(required_relations),
        relations_found=sum(any(accepts_relation(g, r, labels) for r in relations) for g in required_relations),
        relations_right=len(right_relations),
        mislabelled=len(wrong_relations) - len(unrelated),
        unrelated=len(unrelated),
        invented=0 if gold.relations else len(unrelated),
        without=not gold.relations,
        claimed=bool(unrelated and not gold.relations),
    )


def is_optional(item: Entity | Relation) -> bool:
    return bool(item.attributes.get("optional"))


def accepted_labels(item: Entity | Relation) -> tuple[str, ...]:
    """The types that are accepted for an annotated entity or relation."""
    return (item.label, *item.attributes.get("also", ()))


def overlap(gold: Entity, predicted: Entity) -> bool:
    return any(start < predicted.char_end and predicted.char_start < end for start, end in gold.fragments)


def accepts_entity(gold: Entity, predicted: Entity) -> bool:
    return predicted.label in accepted_labels(gold) and overlap(gold, predicted)


def accepts_relation(gold: Relation, predicted: Relation, labels: LabelSpace) -> bool:
    return predicted.label in accepted_labels(gold) and any(
        accepts_entity(gold.head, head) and accepts_entity(gold.tail, tail)
        for head, tail in labels.directions(predicted.label, predicted.head, predicted.tail)
    )


def joins_same(gold: Relation, predicted: Relation) -> bool:
    """Whether both relations are between the same spans, in any direction."""
    head, tail = predicted.head, predicted.tail
    return any(overlap(gold.head, a) and overlap(gold.tail, b) for a, b in ((head, tail), (tail, head)))


def list_once(relations: Sequence[Relation], labels: LabelSpace) -> list[Relation]:
    """The relations without the second direction of symmetric ones."""
    once = {
        (relation.label, frozenset(labels.directions(relation.label, relation.head, relation.tail))): relation
        for relation in relations
    }
    return list(once.values())


def find_file(labels: LabelSpace) -> Path:
    """The file of the regression set in the label space of a model."""
    for path in sorted(SENTENCES.glob("*.jsonl")):
        try:
            labels.check(formats.read(path))
        except UnireError:
            continue
        return path
    raise UnireError("the model has none of the label spaces of the regression set")


def score(extractor: Extractor, path: Path, min_score: MinScore = 0.0) -> Tally:
    """Extract from the texts of a file of the regression set, and compare."""
    gold = list(formats.read(path))
    predicted = extractor.extract([document.text for document in gold], min_score=min_score)
    return sum((compare(*pair, extractor.labels) for pair in zip(gold, predicted, strict=True)), Tally())


def row(model: str, path: Path, min_score: MinScore, tally: Tally) -> str:
    entities = tally.entities_right + tally.entities_wrong
    relations = tally.relations_right + tally.mislabelled + tally.unrelated
    cells = (
        model,
        path.stem,
        f"{min_score}" if min_score == "auto" else f"{min_score:g}",
        share(tally.entities_found, tally.entities),
        share(tally.entities_right, entities),
        share(tally.relations_found, tally.relations),
        share(tally.relations_right, relations),
        share(tally.unrelated, relations),
        share(tally.claimed, tally.without),
    )
    return f"| {' | '.join(cells)} |"


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} ({part}/{whole})" if whole else "–"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="A bundled model, a folder, or a Hub name.")
    parser.add_argument(
        "--min-score",
        type=lambda text: text if text == "auto" else float(text),
        default=0.0,
        help="Lowest score of a prediction, or `auto`. [default: 0]",
    )
    parser.add_argument("--engine", choices=("onnx", "torch"), help="[default: as in extraction]")
    parser.add_argument("--record", action="store_true", help=f"Update the counts in {RECORD.name}.")
    options = parser.parse_args(words)
    record = {}
    print(f"| {COLUMNS.replace(', ', ' | ')} |\n|{'---|' * len(COLUMNS.split(','))}")
    try:
        for model in options.models:
            extractor = Extractor.load(model, engine=options.engine)
            path = find_file(extractor.labels)
            tally = score(extractor, path, options.min_score)
            record[model] = asdict(tally)
            print(row(model, path, options.min_score, tally))
    except UnireError as error:
        sys.exit(str(error))
    if options.record:
        others = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        RECORD.write_text(f"{json.dumps(others | record, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
