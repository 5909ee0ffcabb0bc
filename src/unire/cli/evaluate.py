"""`unire evaluate`, `unire score` and `unire calibrate`: compare predictions with annotated data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unire import formats
from unire.cli import console
from unire.cli.options import (
    Constraints,
    Device,
    Format,
    Json,
    Labels,
    Symmetric,
    check_output,
    documents_from,
    input_path,
    label_space,
)
from unire.errors import UnireError
from unire.evaluation import evaluate as evaluation
from unire.evaluation import tuning
from unire.evaluation.evaluate import Report
from unire.evaluation.scores import Average, Protocol, RelationMatch, SpanUnit, SymmetricGold
from unire.extractor import Extractor
from unire.files import is_stream

__all__ = ["calibrate", "evaluate", "score"]

PARTS = {"dev": "data", "test": "test"}
"""The options that give the documents of each part of a model card."""

Match = Annotated[
    RelationMatch,
    typer.Option(
        "--relations", help="A relation is correct by type, spans and entity types, or regardless of entity types."
    ),
]
Directions = Annotated[
    SymmetricGold,
    typer.Option("--directions", help="Count symmetric relations in both directions, once per pair, or as annotated."),
]
Averaging = Annotated[Average, typer.Option("--average", help="Average over all counts (micro) or over types (macro).")]
Spans = Annotated[SpanUnit, typer.Option("--spans", help="Compare spans by words, or by characters of the text.")]
DropOverlapping = Annotated[
    bool,
    typer.Option(
        "--drop-overlapping", help="Leave out sentences with overlapping gold entities, as the released code does."
    ),
]
AllProtocols = Annotated[bool, typer.Option("--all-protocols", help="Print the scores under every protocol.")]
Bootstrap = Annotated[
    int, typer.Option("--bootstrap", metavar="N", min=0, help="Add 95% confidence intervals from N resamples.")
]


def evaluate(
    data: Annotated[list[Path], typer.Option("--data", help="Annotated file; may be given several times.")],
    model: Annotated[
        str | None, typer.Option("--model", help="A bundled model, a folder, or a Hub name.", show_default=False)
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Decode the gold tables instead: what decoding alone misses.")
    ] = False,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    decoder: Annotated[
        str | None,
        typer.Option("--decoder", help="`split`, `likely` or `hard`.", show_default="the model's own"),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="α of the decoder.", show_default="the model's own")
    ] = None,
    odds: Annotated[
        float | None,
        typer.Option(
            "--odds",
            help="A relation must be this many times as probable as ⊥.",
            show_default="the model's own",
        ),
    ] = None,
    constraints: Constraints = None,
    device: Device = None,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", help="Also write the predictions to this file.", show_default=False),
    ] = None,
    match: Match = "strict",
    directions: Directions = "doubled",
    average: Averaging = "micro",
    spans: Spans = "words",
    drop_overlapping: DropOverlapping = False,
    all_protocols: AllProtocols = False,
    bootstrap: Bootstrap = 0,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Show how many predictions of each score are correct.")
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
        report = evaluation.evaluate_oracle(
            gold, space, protocol, decoder=decoder or "split", alpha=alpha, notes=notes, **counting
        )
    else:
        if labels is not None or symmetric is not None:
            raise UnireError("a model has its own label space; leave out --labels and --symmetric")
        extractor = Extractor.load(
            model, device=device, decoder=decoder, alpha=alpha, relation_odds=odds, constraints=constraints
        )
        report = evaluation.evaluate(extractor, gold, protocol, notes=notes, **counting)
    if predictions is not None:
        formats.write(report.predicted, predictions)
    if json:
        inputs = {"model": model or "oracle", "data": [path.name for path in data]}
        console.print_json(replace(report, inputs=inputs).to_dict())
        return
    console.print_notes(report.notes)
    _print_report(report, bins=reliability)


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
            help="Format of the predictions.",
            show_default="guessed; for a pipe, that of --format",
        ),
    ] = None,
    match: Match = "strict",
    directions: Directions = "doubled",
    average: Averaging = "micro",
    spans: Spans = "words",
    drop_overlapping: DropOverlapping = False,
    all_protocols: AllProtocols = False,
    bootstrap: Bootstrap = 0,
    json: Json = False,
) -> None:
    """Score the predictions of any system, without a model.

    \b
        unire score gold.jsonl predictions.jsonl --labels scierc
        unire score gold.json predictions.json --all-protocols --bootstrap 1000
        unire score ace/ predictions.jsonl --format ace05

    A prediction file in DyGIE's format may hold its predictions in `predicted_ner` and `predicted_relations`.
    """
    notes: Counter[str] = Counter()
    annotated = documents_from([gold], format, notes=notes)
    predictions_format = predictions_format or _format_of_stream(predictions, format)
    predicted = documents_from([predictions], predictions_format, predicted=True, notes=notes)
    space = label_space(labels, symmetric, [*annotated, *predicted])
    report = evaluation.evaluate_predictions(
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
        console.print_json(replace(report, inputs=inputs, notes=notes).to_dict())
        return
    _print_report(report)
    console.print_notes(notes)


def calibrate(
    model: Annotated[str, typer.Argument(help="A folder, a bundled model, or a Hub name.", show_default=False)],
    data: Annotated[
        list[Path],
        typer.Option("--data", help="Annotated file that the model was not trained on; may be given several times."),
    ],
    test: Annotated[
        list[Path] | None,
        typer.Option("--test", help="Another annotated file, to measure the effect on.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="New folder for the calibrated model.", show_default="change MODEL itself"),
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="First tune α and the relation odds.")] = False,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            help="With --tune: the decoder to use from now on, `split` or `likely`.",
            show_default="the model's own",
        ),
    ] = None,
    format: Format = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Calibrate a model's scores: 80% of the predictions with a score of 0.8 should be correct.

    \b
        unire calibrate models/mine --data dev.jsonl --test test.jsonl
        unire calibrate science --tune --data my-own.jsonl --out models/mine
        unire calibrate models/mine --tune --decoder likely --data dev.jsonl --out models/other

    The weights stay the same. Without --tune, the predictions and their ranking do too.
    `unire train` tunes and calibrates on dev by itself.
    """
    report = tuning.calibrate(
        model,
        documents_from(data, format),
        test=documents_from(test or [], format),
        out=out,
        tune=tune,
        decoder=decoder,
        device=device,
        data_names=["/".join(path.parts[-2:]) for path in data],
    )
    place = str(out or model)
    if json:
        console.print_json({**report.to_dict(), "out": place})
        return
    if report.scores:
        f1 = [
            (PARTS[part], *(f"{100 * scores[kind]['f1']:.1f}" for kind in ("entities", "relations")))
            for part, scores in report.scores.items()
        ]
        console.table("F1, tuned on data", ("", "entities", "relations"), f1)
    rows = [
        (f"{part}: {name}", found["n"], f"{100 * found['before']:.1f}%", f"{100 * found['after']:.1f}%")
        for part, effect in report.effects.items()
        for name, found in effect.to_dict().items()
    ]
    console.table("Expected calibration error", ("", "n", "of the tables", "calibrated"), rows)
    config = report.config
    console.say(f"{config.decoder}, α = {config.alpha:g}, relation odds = {config.relation_odds:g}")
    console.say("calibrated model in ", (place, "bold"))


def _print_report(report: Report, *, bins: bool = False) -> None:
    """Print a report for people.

    Args:
        report: The scores.
        bins: Also print how many predictions of each score are correct.
    """
    console.print_scores(report.scores)
    if report.protocols:
        console.table(
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
        console.print_intervals(report.intervals)
    if report.confidence:
        console.print_confidence(report.confidence, bins=bins)


def _format_of_stream(predictions: Path, format: str | None) -> str | None:
    """Return the format of a pipe, which cannot be guessed; `None` for a file or a folder."""
    path = input_path(predictions)
    if not is_stream(path):
        return None
    if format is None or formats.FORMATS[format].folder:
        raise UnireError(
            f"{path} can be read only once, so its format cannot be guessed; name it with --predictions-format"
        )
    return format
