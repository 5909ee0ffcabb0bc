"""`unire evaluate`: a model against gold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from unire import formats
from unire.cli import printing, protocols
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
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.oracle import oracle as read_off_gold
from unire.scoring import Confidence, Protocol, outcomes
from unire.settings import checked_alpha

__all__ = ["evaluate"]


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
    match: protocols.Match = "strict",
    directions: protocols.Directions = "doubled",
    average: protocols.Averaging = "micro",
    spans: protocols.Spans = "words",
    drop_overlapping: protocols.DropOverlapping = False,
    all_protocols: protocols.AllProtocols = False,
    bootstrap: protocols.Bootstrap = 0,
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
    protocols.report(
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
