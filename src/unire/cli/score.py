"""`unire score`: any system's predictions against gold, without a model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing, protocols
from unire.cli.options import Format, Json, Labels, Symmetric, documents_from, label_space
from unire.scoring import Protocol, one_way

__all__ = ["score"]

ONE_WAY = (
    "symmetric relation predicted one way only: `doubled` counts the other way as missed; "
    "--directions once compares systems that predict a pair once"
)


def score(
    gold: Annotated[Path, typer.Argument(help="The annotated file.", show_default=False)],
    predictions: Annotated[
        Path,
        typer.Argument(help="The same documents with predicted annotation, in any known format.", show_default=False),
    ],
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    predictions_format: Annotated[
        str | None,
        typer.Option(
            "--predictions-format",
            help="Format of the predictions, where --format is that of the annotated file. Guessed when left out.",
            show_default=False,
        ),
    ] = None,
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
        unire score ace/ predictions.jsonl --format ace05

    A prediction file in DyGIE's form may keep its findings in `predicted_ner` and `predicted_relations`.
    """
    notes: Counter[str] = Counter()
    annotated = documents_from([gold], format, notes=notes)
    predicted = documents_from([predictions], predictions_format, predicted=True, notes=notes)
    space = label_space(labels, symmetric, [*annotated, *predicted])
    notes[ONE_WAY] = one_way(predicted, space) if directions == "doubled" else 0
    protocols.report(
        annotated,
        predicted,
        space,
        Protocol(match, directions, spans, average, drop_overlapping),
        all_protocols=all_protocols,
        resamples=bootstrap,
        json=json,
        facts={"gold": gold.name, "predictions": predictions.name, "notes": +notes},
    )
    if not json:
        printing.print_notes(notes)
