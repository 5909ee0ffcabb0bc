"""`unire evaluate`: a model against gold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unire import formats
from unire.cli import printing
from unire.cli.options import (
    Constraints,
    Device,
    Format,
    Json,
    Labels,
    Symmetric,
    check_output,
    documents_from,
    label_space,
)
from unire.errors import UnireError
from unire.evaluation.evaluate import Report, evaluate_oracle
from unire.evaluation.evaluate import evaluate as run
from unire.evaluation.protocol import Average, Protocol, RelationMatch, SpanUnit, SymmetricGold
from unire.extractor import Extractor

__all__ = [
    "AllProtocols",
    "Averaging",
    "Bootstrap",
    "Directions",
    "DropOverlapping",
    "Match",
    "Spans",
    "evaluate",
    "print_report",
]

Match = Annotated[
    RelationMatch,
    typer.Option(
        "--relations", help="A relation is right by type, spans and entity types, or whatever the entity types."
    ),
]
Directions = Annotated[
    SymmetricGold,
    typer.Option(
        "--directions", help="How symmetric relations count: in both directions, as one pair, or as annotated."
    ),
]
Averaging = Annotated[Average, typer.Option("--average", help="Over all counts, or over types.")]
Spans = Annotated[SpanUnit, typer.Option("--spans", help="Compare spans by words, or by characters of the text.")]
DropOverlapping = Annotated[
    bool,
    typer.Option(
        "--drop-overlapping", help="Leave out sentences with overlapping gold entities, as the released code does."
    ),
]
AllProtocols = Annotated[bool, typer.Option("--all-protocols", help="Print every way of counting relations.")]
Bootstrap = Annotated[
    int, typer.Option("--bootstrap", metavar="N", min=0, help="Add 95% confidence intervals from N resamples.")
]


def print_report(report: Report, *, bins: bool = False) -> None:
    """Print a report for people.

    Args:
        report: The scores.
        bins: Also print how many predictions of each score are correct.
    """
    printing.print_scores(report.scores)
    if report.protocols:
        printing.table(
            "Every protocol",
            ("", "Ent P", "Ent R", "Ent F1", "Rel P", "Rel R", "Rel F1"),
            [
                (
                    str(other.protocol),
                    *(
                        f"{100 * getattr(part, rate):.1f}"
                        for part in (other.entities, other.relations)
                        for rate in ("precision", "recall", "f1")
                    ),
                )
                for other in report.protocols
            ],
        )
    if report.intervals:
        printing.print_intervals(report.intervals)
    if report.confidence:
        printing.print_confidence(report.confidence, bins=bins)


def evaluate(
    data: Annotated[list[Path], typer.Option("--data", help="Annotated file; may be given several times.")],
    model: Annotated[
        str | None, typer.Option("--model", help="A model: in the box, a folder, or a Hub name.", show_default=False)
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="No model: decode the gold tables, to see what decoding alone can miss.")
    ] = False,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder", help="`split`, `likely` or `hard`; the model's own when left out.", show_default=False
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="α; the model's own when left out.", show_default=False)
    ] = None,
    odds: Annotated[
        float | None,
        typer.Option(
            "--odds",
            help="How many times as probable as ⊥ a relation must be; the model's own when left out.",
            show_default=False,
        ),
    ] = None,
    constraints: Constraints = None,
    device: Device = None,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", help="Also write what was predicted to this file.", show_default=False),
    ] = None,
    match: Match = "strict",
    directions: Directions = "doubled",
    average: Averaging = "micro",
    spans: Spans = "words",
    drop_overlapping: DropOverlapping = False,
    all_protocols: AllProtocols = False,
    bootstrap: Bootstrap = 0,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Show how many findings of each score are right.")
    ] = False,
    json: Json = False,
) -> None:
    """Score a model on annotated data.

    \b
        unire evaluate --model models/mine --data test.jsonl
        unire evaluate --model models/mine --data dev.jsonl --constraints learnt
        unire evaluate --oracle --labels scierc --data test.jsonl
    """
    if oracle == (model is not None):
        raise UnireError("give a --model to evaluate, or --oracle to decode the gold tables")
    if predictions is not None:
        check_output(predictions, data, format)
    protocol = Protocol(match, directions, spans, average, drop_overlapping)
    counting: dict[str, Any] = {"all_protocols": all_protocols, "bootstrap": bootstrap}
    notes: Counter[str] = Counter()
    gold = documents_from(data, format, notes=notes)
    if model is None:
        if reliability or any(option is not None for option in (odds, constraints, device)):
            raise UnireError(
                "gold tables need no odds, constraints or device and have no scores to doubt; give a --model"
            )
        space = label_space(labels, symmetric, gold)
        report = evaluate_oracle(
            gold, space, protocol, decoder=decoder or "split", alpha=alpha, notes=notes, **counting
        )
    else:
        if labels is not None or symmetric is not None:
            raise UnireError("a model has its own label space; leave out --labels and --symmetric")
        extractor = Extractor.load(
            model, device=device, decoder=decoder, alpha=alpha, relation_odds=odds, constraints=constraints
        )
        report = run(extractor, gold, protocol, notes=notes, **counting)
    if predictions is not None:
        formats.write(report.predicted, predictions)
    if json:
        inputs = {"model": model or "oracle", "data": [path.name for path in data]}
        printing.print_json(replace(report, inputs=inputs).to_dict())
        return
    printing.print_notes(report.notes)
    print_report(report, bins=reliability)
