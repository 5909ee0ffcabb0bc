"""`unire score`: any system's predictions against gold, without a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unire import formats
from unire.cli import evaluate as evaluate_module
from unire.cli import printing
from unire.cli.options import Format, Json, Labels, Symmetric, documents_from, input_path, label_space
from unire.errors import UnireError
from unire.evaluation.evaluate import evaluate_predictions
from unire.evaluation.protocol import Protocol
from unire.files import is_stream

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
    predictions_format: Annotated[
        str | None,
        typer.Option(
            "--predictions-format",
            help="Format of the predictions, where --format is that of the annotated file. Guessed when left out; of a "
            "pipe, it is that of --format.",
            show_default=False,
        ),
    ] = None,
    match: evaluate_module.Match = "strict",
    directions: evaluate_module.Directions = "doubled",
    average: evaluate_module.Averaging = "micro",
    spans: evaluate_module.Spans = "words",
    drop_overlapping: evaluate_module.DropOverlapping = False,
    all_protocols: evaluate_module.AllProtocols = False,
    bootstrap: evaluate_module.Bootstrap = 0,
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
    written_in = predictions_format or _format_of_stream(predictions, format)
    predicted = documents_from([predictions], written_in, predicted=True, notes=notes)
    space = label_space(labels, symmetric, [*annotated, *predicted])
    report = evaluate_predictions(
        annotated,
        predicted,
        space,
        Protocol(match, directions, spans, average, drop_overlapping),
        all_protocols=all_protocols,
        bootstrap=bootstrap,
        notes=notes,
    )
    inputs = {"gold": gold.name, "predictions": predictions.name}
    notes = Counter({note.replace('symmetric="once"', "--directions once"): n for note, n in report.notes.items()})
    if json:
        printing.print_json(replace(report, inputs=inputs, notes=notes).to_dict())
        return
    evaluate_module.print_report(report)
    printing.print_notes(notes)


def _format_of_stream(predictions: Path, format: str | None) -> str | None:
    """What a pipe, whose format cannot be guessed, is read as; `None` for anything else."""
    path = input_path(predictions)
    if not is_stream(path):
        return None
    if format is None or formats.FORMATS[format].folder:
        raise UnireError(
            f"{path} can be read but once, so its format is not guessed; name it with --predictions-format"
        )
    return format
