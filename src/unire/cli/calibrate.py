"""`unire calibrate`: scores that are the chance of being right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing
from unire.cli.options import Device, Format, Json, documents_from
from unire.evaluation.calibrate import calibrate as run

__all__ = ["calibrate"]

NAMES = {"dev": "data", "test": "test"}
"""The options that give the parts named in the model card."""


def calibrate(
    model: Annotated[str, typer.Argument(help="A model: a folder, in the box, or a Hub name.", show_default=False)],
    data: Annotated[
        list[Path],
        typer.Option("--data", help="Annotated file that the model was not trained on; may be given several times."),
    ],
    test: Annotated[
        list[Path] | None,
        typer.Option("--test", help="Another annotated file, to see what it does there.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="New folder for the calibrated model; else MODEL itself is changed.", show_default=False
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="First tune what is found, too: α and the odds that a relation must have.")
    ] = False,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            help="With --tune: decode by `split` or `likely` from now on; as before when left out.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Calibrate a model's scores: of what has a score of 0.8, four in five should be right.

    \b
        unire calibrate models/mine --data dev.jsonl --test test.jsonl
        unire calibrate science --tune --data my-own.jsonl --out models/mine
        unire calibrate models/mine --tune --decoder likely --data dev.jsonl --out models/other

    What is found and how it ranks stay the same unless --tune is given; weights always do.
    `unire train` tunes and calibrates on dev by itself.
    """
    report = run(
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
        printing.print_json({**report.to_dict(), "out": place})
        return
    if report.scores:
        f1 = [
            (NAMES[part], *(f"{100 * scores[kind]['f1']:.1f}" for kind in ("entities", "relations")))
            for part, scores in report.scores.items()
        ]
        printing.table("F1, tuned on data", ("", "entities", "relations"), f1)
    rows = [
        (f"{part}: {name}", found["n"], f"{100 * found['before']:.1f}%", f"{100 * found['after']:.1f}%")
        for part, effect in report.effects.items()
        for name, found in effect.to_dict().items()
    ]
    printing.table("Expected calibration error", ("", "n", "of the tables", "calibrated"), rows)
    config = report.config
    printing.say(f"{config.decoder}, α = {config.alpha:g}, relation odds = {config.relation_odds:g}")
    printing.say("calibrated model in ", (place, "bold"))
