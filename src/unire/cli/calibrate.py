"""`unire calibrate`: scores that are the chance of being right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from unire import pretrained
from unire.cli import printing
from unire.cli.options import Device, Format, Json, documents_from
from unire.config import ModelConfig
from unire.decoding.decoders import SPAN_SCORERS
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.confidence import Effect, check_found, collect_log_odds, fit_calibration
from unire.evaluation.scorer import score
from unire.evaluation.tuning import tuned
from unire.extractor import Extractor
from unire.files import check_new
from unire.hub.model_dir import ModelDir

__all__ = ["calibrate"]

NAMES = {"dev": "data", "test": "test"}
"""The options behind the parts that a model card names."""


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
    if decoder is not None and (not tune or decoder not in SPAN_SCORERS):
        raise UnireError(f"--decoder is for --tune, and takes {' or '.join(SPAN_SCORERS)}")
    if out is None and (model in pretrained.names() or not Path(model).is_dir()):
        raise UnireError(f"{model!r} is not a folder of yours to change; give a new one with --out")
    if out is not None:
        check_new(out)
    extractor = Extractor.load(model, device=device, decoder=decoder)
    read = {part: documents_from(files, format) for part, files in (("data", data), ("test", test)) if files}
    for documents in read.values():
        extractor.labels.check(documents)
    if tune:
        extractor.config = tuned(extractor, read["data"])
        extractor.config = _with_scores(extractor, {"dev": read["data"], "test": read.get("test", ())})
    found = {part: collect_log_odds(extractor, documents) for part, documents in read.items()}
    check_found(found["data"])
    settings = fit_calibration(extractor.config, found["data"], ["/".join(path.parts[-2:]) for path in data])
    effects = {part: Effect.of(settings.calibration, findings) for part, findings in found.items()}
    ModelDir.open(model).save(settings, out)
    place = str(out or model)
    if json:
        fitted = {"decoder": settings.decoder, "alpha": settings.alpha, "relation_odds": settings.relation_odds}
        reached = {"scores": settings.provenance["scores"]} if tune else {}
        calibration = {part: effect.to_dict() for part, effect in effects.items()}
        printing.print_json({"out": place, **fitted, **reached, **calibration})
        return
    if tune:
        f1 = [
            (NAMES[part], *(f"{100 * scores[kind]['f1']:.1f}" for kind in ("entities", "relations")))
            for part, scores in settings.provenance["scores"].items()
        ]
        printing.table("F1, tuned on data", ("", "entities", "relations"), f1)
    rows = [
        (f"{part}: {name}", found["n"], f"{100 * found['before']:.1f}%", f"{100 * found['after']:.1f}%")
        for part, effect in effects.items()
        for name, found in effect.to_dict().items()
    ]
    printing.table("Expected calibration error", ("", "n", "of the tables", "calibrated"), rows)
    printing.say(f"{settings.decoder}, α = {settings.alpha:g}, relation odds = {settings.relation_odds:g}")
    printing.say("calibrated model in ", (place, "bold"))


def _with_scores(extractor: Extractor, parts: Mapping[str, Sequence[Document]]) -> ModelConfig:
    """The model's settings with the scores that it has now: those it had are of other thresholds."""
    scores = {
        part: score(documents, extractor.annotate([document.bare for document in documents]), extractor.labels)
        for part, documents in parts.items()
        if documents
    }
    now = {part: each.to_dict() for part, each in scores.items()}
    return extractor.config.with_(provenance={**extractor.config.provenance, "scores": now})
