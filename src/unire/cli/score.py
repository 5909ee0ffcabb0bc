"""`unire score`: any system's predictions against gold, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unire.cli import protocols
from unire.cli.options import Format, Json, Labels, Symmetric, documents_from, label_space
from unire.scoring import Protocol

__all__ = ["score"]


def score(
    gold: Annotated[Path, typer.Argument(help="The annotated file.", show_default=False)],
    predictions: Annotated[
        Path,
        typer.Argument(help="The same documents with predicted annotation, in any known format.", show_default=False),
    ],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    match: protocols.Match = "strict",
    directions: protocols.Directions = "doubled",
    average: protocols.Averaging = "micro",
    spans: protocols.Spans = "words",
    drop_overlapping: protocols.DropOverlapping = False,
    all_protocols: protocols.AllProtocols = False,
    bootstrap: protocols.Bootstrap = 0,
    json: Json = False,
) -> None:
    """Score any system's predictions: no model needed.

    \b
        unire score gold.jsonl predictions.jsonl --labels scierc
        unire score gold.json predictions.json --all-protocols --bootstrap 1000

    A prediction file in DyGIE's form may keep its findings in `predicted_ner` and `predicted_relations`.
    """
    annotated = documents_from([gold], format)
    predicted = documents_from([predictions], format, predicted=True)
    protocols.report(
        annotated,
        predicted,
        label_space(labels, symmetric, [*annotated, *predicted]),
        Protocol(match, directions, spans, average, drop_overlapping),
        all_protocols=all_protocols,
        resamples=bootstrap,
        json=json,
        facts={"gold": gold.name, "predictions": predictions.name},
    )
