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
    INPUT,
    MODEL,
    OUTPUT,
    SCORING,
    AllTypes,
    Constraints,
    Decoder,
    Device,
    Format,
    Json,
    Labels,
    Symmetric,
    check_output,
    documents_from,
    flag,
    input_path,
    label_space,
    option,
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
MODELS_OWN = "that of the model"

Match = Annotated[
    RelationMatch,
    option(
        "--relations",
        metavar="NAME",
        help="Entity types must match too (`strict`) or need not (`boundaries`).",
        panel=SCORING,
    ),
]
Directions = Annotated[
    SymmetricGold,
    option(
        "--directions",
        metavar="NAME",
        help="Symmetric relations count `doubled`, `once` or `as-annotated`.",
        panel=SCORING,
    ),
]
Averaging = Annotated[
    Average,
    option(
        "--average",
        metavar="NAME",
        help="Average over all predictions (`micro`) or over types (`macro`).",
        panel=SCORING,
    ),
]
Spans = Annotated[
    SpanUnit,
    option("--spans", metavar="NAME", help="Compare spans by `words` or by `characters`.", panel=SCORING),
]
DropOverlapping = Annotated[
    bool, flag("--drop-overlapping", help="Skip sentences with overlapping gold entities.", panel=SCORING)
]
AllProtocols = Annotated[
    bool, flag("--all-protocols", help="Also print the scores under all protocols.", panel=SCORING)
]
Bootstrap = Annotated[
    int, option("--bootstrap", metavar="N", min=0, help="Add 95% intervals from N resamples.", panel=SCORING)
]


def evaluate(
    *,
    data: Annotated[list[Path], option("--data", metavar="FILE", help="Annotated file. May be repeated.", panel=INPUT)],
    format: Format = None,
    model: Annotated[
        str | None, option("--model", "-m", metavar="NAME", help="Bundled model, folder or Hub name.", panel=MODEL)
    ] = None,
    oracle: Annotated[
        bool, flag("--oracle", help="Decode the gold tables: the upper bound of any model.", panel=MODEL)
    ] = False,
    labels: Labels = None,
    symmetric: Symmetric = None,
    decoder: Decoder = None,
    alpha: Annotated[
        float | None,
        option("--alpha", metavar="X", help="Threshold α of the decoder.", panel=MODEL, default=MODELS_OWN),
    ] = None,
    relation_odds: Annotated[
        float | None,
        option(
            "--odds",
            metavar="X",
            help="Minimum ratio P(relation) / P(no relation).",
            panel=MODEL,
            default=MODELS_OWN,
        ),
    ] = None,
    constraints: Constraints = None,
    device: Device = None,
    match: Match = "strict",
    directions: Directions = "doubled",
    average: Averaging = "micro",
    spans: Spans = "words",
    drop_overlapping: DropOverlapping = False,
    all_protocols: AllProtocols = False,
    bootstrap: Bootstrap = 0,
    reliability: Annotated[
        bool, flag("--reliability", help="Also print the share of correct predictions by score.", panel=SCORING)
    ] = False,
    predictions: Annotated[
        Path | None, option("--predictions", metavar="FILE", help="Write the predictions to FILE.", panel=OUTPUT)
    ] = None,
    all_types: AllTypes = False,
    json: Json = False,
) -> None:
    """Score a model on annotated data.

    Examples:

        unire evaluate --model models/mine --data test.jsonl
        unire evaluate --model models/mine --data dev.jsonl --constraints learnt
        unire evaluate --oracle --labels scierc --data test.jsonl

    By default, a relation is correct if its type and both entities, with their
    types, are correct. `unire score` scores the output of other systems.
    """
    if oracle == (model is not None):
        raise UnireError("give either --model, or --oracle to decode the gold tables")
    if predictions is not None:
        check_output(predictions, data, format)
    protocol = Protocol(match, directions, spans, average, drop_overlapping)
    counting: dict[str, Any] = {"all_protocols": all_protocols, "bootstrap": bootstrap}
    notes: Counter[str] = Counter()
    gold = documents_from(data, format, notes=notes)
    if model is None:
        if reliability or any(option is not None for option in (relation_odds, constraints, device)):
            raise UnireError(
                "--odds, --constraints, --device and --reliability need --model; leave them out with --oracle"
            )
        space = label_space(labels, symmetric, gold)
        report = evaluation.evaluate_oracle(
            gold, space, protocol, decoder=decoder or "split", alpha=alpha, notes=notes, **counting
        )
    else:
        if labels is not None or symmetric is not None:
            raise UnireError("--labels and --symmetric are only for --oracle; a model has its own label space")
        extractor = Extractor.load(
            model, device=device, decoder=decoder, alpha=alpha, relation_odds=relation_odds, constraints=constraints
        )
        report = evaluation.evaluate(extractor, gold, protocol, notes=notes, **counting)
    if predictions is not None:
        formats.write(report.predicted, predictions)
    if json:
        inputs = {"model": model or "oracle", "data": [path.name for path in data]}
        console.print_json(replace(report, inputs=inputs).to_dict())
        return
    console.print_notes(report.notes)
    _print_report(report, bins=reliability, all_types=all_types)


def score(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Annotated file.", show_default=False)],
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="The same documents with predicted annotation, in any format.",
            show_default=False,
        ),
    ],
    format: Format = None,
    predictions_format: Annotated[
        str | None,
        option(
            "--predictions-format",
            metavar="NAME",
            help="Format of the predictions.",
            panel=INPUT,
            default="guessed; for a pipe, that of --format",
        ),
    ] = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    match: Match = "strict",
    directions: Directions = "doubled",
    average: Averaging = "micro",
    spans: Spans = "words",
    drop_overlapping: DropOverlapping = False,
    all_protocols: AllProtocols = False,
    bootstrap: Bootstrap = 0,
    all_types: AllTypes = False,
    json: Json = False,
) -> None:
    """Score the predictions of any system, without a model.

    Examples:

        unire score gold.jsonl predictions.jsonl --labels scierc
        unire score gold.json predictions.json --all-protocols --bootstrap 1000
        unire score ace/ predictions.jsonl --format ace05

    In DyGIE's format, predictions may be in `predicted_ner` and
    `predicted_relations`.
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
    _print_report(report, all_types=all_types)
    console.print_notes(notes)


def calibrate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder, bundled model or Hub name.", show_default=False)
    ],
    *,
    data: Annotated[
        list[Path],
        option(
            "--data",
            metavar="FILE",
            help="Annotated file that the model was not trained on. May be repeated.",
            panel=INPUT,
        ),
    ],
    test: Annotated[
        list[Path] | None,
        option("--test", metavar="FILE", help="Another annotated file, to measure the effect.", panel=INPUT),
    ] = None,
    format: Format = None,
    tune: Annotated[bool, flag("--tune", help="First tune α and the relation odds.", panel=MODEL)] = False,
    decoder: Annotated[
        str | None,
        option(
            "--decoder",
            metavar="NAME",
            help="Decoder to tune, with --tune: `split` or `likely`.",
            panel=MODEL,
            default=MODELS_OWN,
        ),
    ] = None,
    device: Device = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="New folder for the calibrated model.",
            panel=OUTPUT,
            default="MODEL is changed",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Calibrate the scores of a model on annotated data.

    Examples:

        unire calibrate models/mine --data dev.jsonl --test test.jsonl
        unire calibrate science --tune --data my-own.jsonl --out models/mine
        unire calibrate models/mine --tune --decoder likely \\
            --data dev.jsonl --out models/other

    After calibration, about 80% of the predictions with a score of 0.8 are
    correct. The weights do not change. Without --tune, the predictions and their
    ranking do not change either. `unire train` tunes and calibrates on dev.
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
    console.table("Expected calibration error", ("", "n", "before", "after"), rows)
    config = report.config
    console.say(f"{config.decoder}, α = {config.alpha:g}, relation odds = {config.relation_odds:g}")
    console.say("calibrated model in ", (place, "bold"))


def _print_report(report: Report, *, bins: bool = False, all_types: bool = False) -> None:
    """Print a report for people.

    Args:
        report: The scores.
        bins: Also print how many predictions of each score are correct.
        all_types: Print all types, not only the most frequent ones.
    """
    console.print_scores(report.scores, all_types=all_types)
    if report.coreference:
        rows = [
            (name, *(f"{100 * rate:.1f}" for rate in (metric.precision, metric.recall, metric.f1)))
            for name, metric in report.coreference.rows.items()
        ]
        console.table(
            "Coreference", ("", "P", "R", "F1"), [*rows, ("mean", "", "", f"{100 * report.coreference.f1:.1f}")]
        )
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
