"""Why relations are missed, by the error types of `evaluation/error_analysis.py`; on test (Figure 6 of the paper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from unire import formats
from unire.documents import Document
from unire.evaluation.error_analysis import ERROR_KINDS, diagnose
from unire.evaluation.scorer import score
from unire.labels import LabelSpace
from unire.studies import charts as draw
from unire.studies.results import (
    Json,
    ResultTable,
    align_sentences,
    check_result_folder,
    choose_labels,
    count_sentences,
    describe_inputs,
    format_percent,
    predict,
    save_result,
)

__all__ = ["charts", "count_errors", "list_predicted", "study_errors", "tables"]


def study_errors(
    system: str,
    data: Sequence[Path],
    *,
    labels: str | None = None,
    symmetric: str | None = None,
    format: str | None = None,
    device: str | None = None,
    out: Path | None = None,
    notes: Counter[str] | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Json:
    """Count the errors of a system by type.

    Args:
        system: A model, or a file of predictions.
        data: Annotated files.
        labels: Name or file of a label space. Only for files of predictions.
        symmetric: Symmetric relation types, separated by commas. Only for files of predictions.
        format: Format of the data. By default it is detected.
        device: `cpu` or `cuda`. By default a GPU if there is one.
        out: Folder of studies in which the numbers are saved.
        notes: Counts what the readers of the data changed or skipped.
        log: Called with a line if results of another model with the same name are replaced.
    """
    check_result_folder(out, "errors", [system], data)
    gold = formats.read_documents(data, format, notes=notes)
    predicted = predict(system, gold, device=device)
    space = choose_labels([predicted], gold, labels, symmetric)
    result = {**count_errors(gold, predicted.documents, space), **describe_inputs([system], data)}
    save_result(result, out, log)
    return result


def count_errors(gold: Sequence[Document], predicted: Sequence[Document], labels: LabelSpace) -> Json:
    """The number of missed gold relations by error type, and their sentences."""
    scores = score(gold, predicted, labels)  # also checks that the documents are the same
    counts: Counter[str] = Counter()
    cases = []
    for truth, guess in zip(gold, align_sentences(gold, predicted), strict=True):
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
        "sentences": count_sentences(gold),
        "gold": counts.total(),
        "predicted": scores.relations.total.predicted,
        "correct": counts["correct"],
        "errors": {kind: counts[kind] for kind in ERROR_KINDS},
        "cases": cases,
    }


def tables(result: Json) -> list[ResultTable]:
    missed, gold = sum(result["errors"].values()), max(result["gold"], 1)
    rows = [
        (kind, str(count), format_percent(count / max(missed, 1)), format_percent(count / gold))
        for kind, count in result["errors"].items()
    ]
    rows += [
        (name, str(count), "", format_percent(count / gold))
        for name, count in (("all errors", missed), ("correct", result["correct"]))
    ]
    counted = f"{result['gold']:,} gold relations, {result['sentences']:,} sentences"
    title = f"Missed relations: {counted} (Figure 6 of the UniRE paper)"
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
            note=f"{counted}; one model; counts at the bars",
        )
    }


def list_predicted(case: Json) -> list[str]:
    """The predictions in the sentence of a case: entities, or relations if the entities are right."""
    entities_are_right = case["kind"] in ("relation not found", "relation type")
    return list(case["relations"] if entities_are_right and case["relations"] else case["entities"])
