"""`unire evaluate`: a model against gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from unire.config import checked_alpha
from unire.decoding.oracle import oracle as read_off_gold
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.bootstrap import bootstrap
from unire.evaluation.calibration_error import Confidence, outcomes
from unire.evaluation.protocol import Average, Protocol, RelationMatch, SpanUnit, SymmetricGold
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.labels import LabelSpace

__all__ = [
    "AllProtocols",
    "Averaging",
    "Bootstrap",
    "Directions",
    "DropOverlapping",
    "Match",
    "Spans",
    "evaluate",
    "report",
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


def report(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    labels: LabelSpace,
    protocol: Protocol,
    *,
    all_protocols: bool,
    resamples: int,
    json: bool,
    facts: Mapping[str, Any],
) -> None:
    """Score and print, for people or as JSON with `facts` in it."""
    scores = score(gold, predicted, labels, protocol)
    intervals = bootstrap(gold, predicted, labels, protocol, samples=resamples) if resamples else None
    others = [
        score(gold, predicted, labels, other)
        for other in Protocol.all(
            spans=protocol.spans, average=protocol.average, drop_overlapping=protocol.drop_overlapping
        )
        if all_protocols
    ]
    if json:
        printing.print_json(
            {
                **facts,
                "scores": scores.to_dict(),
                **({"protocols": [other.to_dict() for other in others]} if others else {}),
                **({"intervals": intervals.to_dict()} if intervals else {}),
            }
        )
        return
    printing.print_scores(scores)
    if others:
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
                for other in others
            ],
        )
    if intervals:
        printing.print_intervals(intervals)


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
    notes: Counter[str] = Counter()
    gold = documents_from(data, format, notes=notes)
    if model is None:
        if reliability or any(option is not None for option in (odds, constraints, device)):
            raise UnireError(
                "gold tables need no odds, constraints or device and have no scores to doubt; give a --model"
            )
        space = label_space(labels, symmetric, gold)
        threshold = None if alpha is None else checked_alpha(alpha)
        predicted = list(read_off_gold(gold, space, decoder=decoder or "split", alpha=threshold))
    else:
        if labels is not None or symmetric is not None:
            raise UnireError("a model has its own label space; leave out --labels and --symmetric")
        extractor = Extractor.load(
            model, device=device, decoder=decoder, alpha=alpha, relation_odds=odds, constraints=constraints
        )
        space = extractor.labels
        space.check(gold)
        predicted = list(extractor.annotate(gold, notes=notes))
    if predictions is not None:
        formats.write(predicted, predictions)
    if not json:
        printing.print_notes(notes)
    facts: dict[str, Any] = {
        "model": model or "oracle",
        "data": [path.name for path in data],
        "notes": dict(+notes),
    }
    confidence = None if model is None else Confidence.of(outcomes(gold, predicted, space))
    report(
        gold,
        predicted,
        space,
        Protocol(match, directions, spans, average, drop_overlapping),
        all_protocols=all_protocols,
        resamples=bootstrap,
        json=json,
        facts=facts if confidence is None else {**facts, "confidence": confidence.to_dict()},
    )
    if confidence is not None and not json:
        printing.print_confidence(confidence, bins=reliability)
