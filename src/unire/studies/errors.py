"""Figure 6: why relations are missed, on test; the kinds are those of `scoring/diagnosis.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unire.documents import Document
from unire.evaluation.errors import ERROR_KINDS, diagnose
from unire.evaluation.scorer import score
from unire.labels import LabelSpace
from unire.studies import charts as draw
from unire.studies.results import Json, ResultTable, n_sentences, percent
from unire.studies.systems import in_sentences_of

__all__ = ["charts", "errors", "found", "tables"]


def errors(gold: Sequence[Document], predicted: Sequence[Document], labels: LabelSpace) -> Json:
    """How many gold relations are missed in which way, and in which sentences."""
    scores = score(gold, predicted, labels)  # also checks that they are the same documents
    counts: Counter[str] = Counter()
    cases = []
    for truth, guess in zip(gold, in_sentences_of(gold, predicted), strict=True):
        for found in diagnose(truth, guess, labels):
            counts[found.kind] += 1
            if found.kind == "correct":
                continue
            place = guess if found.sentence is None else guess.sentences[found.sentence]
            cases.append(
                {
                    "kind": found.kind,
                    "document": truth.id,
                    "sentence": found.sentence,
                    "text": " ".join(place.words),
                    "gold": str(found.relation),
                    "entities": [str(entity) for entity in place.entities],
                    "relations": [str(relation) for relation in place.relations],
                }
            )
    return {
        "study": "errors",
        "sentences": n_sentences(gold),
        "gold": counts.total(),
        "predicted": scores.relations.total.predicted,
        "correct": counts["correct"],
        "errors": {kind: counts[kind] for kind in ERROR_KINDS},
        "cases": cases,
    }


def tables(result: Json) -> list[ResultTable]:
    missed, gold = sum(result["errors"].values()), max(result["gold"], 1)
    rows = [
        (kind, str(count), percent(count / max(missed, 1)), percent(count / gold))
        for kind, count in result["errors"].items()
    ]
    rows += [
        (name, str(count), "", percent(count / gold))
        for name, count in (("all errors", missed), ("correct", result["correct"]))
    ]
    title = f"Missed relations (Figure 6): {result['gold']:,} gold relations, {result['sentences']:,} sentences"
    return [ResultTable(title, ("", "relations", "% of errors", "% of gold"), rows)]


def charts(result: Json) -> dict[str, str]:
    missed = sum(result["errors"].values())
    shares = [100 * count / max(missed, 1) for count in result["errors"].values()]
    counted = f"n = {missed:,} missed of {result['gold']:,} gold relations in {result['sentences']:,} sentences"
    return {
        "errors": draw.bars(
            list(result["errors"]),
            shares,
            [str(count) for count in result["errors"].values()],
            x="share of the errors, %",
            note=f"{counted}; counts at the bars",
        )
    }


def found(case: Json) -> list[str]:
    """What the sentence of a case has instead: entities, or where these are right its relations, if it has any."""
    of_relation = case["kind"] in ("relation not found", "relation type")
    return list(case["relations"] if of_relation and case["relations"] else case["entities"])
