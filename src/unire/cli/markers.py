"""`unire markers` and `unire relabel`: relation classifiers for entity pairs, and soft labels that they improve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from unire.cli import console, training_options
from unire.cli.console import ProgressMeter
from unire.cli.options import INPUT, MODEL, OUTPUT, Device, Format, Json, Labels, Symmetric, flag, label_space, option
from unire.cli.training_options import Encoder, changes_from, distributed_errors, stopped
from unire.errors import UnireError
from unire.training.callbacks import Callback

__all__ = ["markers", "relabel"]

TRAINING = "Training"
"""Panel of `--help`."""


@distributed_errors()
def markers(
    *,
    data: training_options.Data,
    dev: Annotated[
        list[Path] | None,
        option("--dev", metavar="FILE", help="Annotated dev file: selects the best epoch.", panel=INPUT),
    ] = None,
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    encoder: Encoder,
    exact: Annotated[
        bool, flag("--exact", help="Run the encoder once per entity pair: slower, but for any encoder.", panel=MODEL)
    ] = False,
    device: Device = None,
    epochs: Annotated[
        int | None, option("--epochs", metavar="N", help="Passes over the data.", panel=TRAINING, default="5")
    ] = None,
    batch_size: Annotated[
        int | None, option("--batch-size", metavar="N", help="Entity pairs per step.", panel=TRAINING, default="64")
    ] = None,
    lr: Annotated[
        float | None,
        option("--lr", metavar="X", help="Peak learning rate of the encoder.", panel=TRAINING, default="5e-5"),
    ] = None,
    head_lr: Annotated[
        float | None,
        option("--head-lr", metavar="X", help="Peak learning rate of the head.", panel=TRAINING, default="5e-4"),
    ] = None,
    window: Annotated[
        int | None, option("--window", metavar="N", help="Words of a window.", panel=TRAINING, default="100")
    ] = None,
    seed: Annotated[int | None, option("--seed", metavar="N", help="Random seed.", panel=TRAINING, default="0")] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="Another TrainingConfig field of marker models, e.g. --set case_marks=true.",
            panel=TRAINING,
        ),
    ] = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the model.", panel=OUTPUT)],
    resume: training_options.Resume = False,
    json: Json = False,
) -> None:
    """Train a marker model, a classifier of given entity pairs.

    Examples:

        unire markers --encoder encoders/mine --labels scierc \\
            --data train.jsonl --dev dev.jsonl --out markers/1
        unire relabel --soft-labels abstracts.soft --markers markers/1 \\
            --out relabelled.soft

    A marker model reads one entity pair at a time, between typed markers. It is
    more accurate on relations than a table, but it is slow and does not find
    entities. Use it to relabel soft labels for distillation (`unire relabel`).
    """
    from unire.training.config import marker_config
    from unire.training.markers.model import NoPositionsError
    from unire.training.markers.train import train_markers
    from unire.training.resume import has_checkpoint

    options = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "head_lr": head_lr, "window": window, "seed": seed}
    config = marker_config(**changes_from("--set", settings or [], **options))
    (documents, dev_documents), notes = training_options.read_parts((data, dev), format, json=json)
    space = label_space(labels, symmetric, [*documents, *dev_documents])
    try:
        trained = train_markers(
            encoder,
            documents,
            out,
            labels=space,
            config=config,
            dev=dev_documents,
            approximate=not exact,
            device=device,
            callbacks=[] if json else [_EpochLines()],
            resume=resume,
        )
    except NoPositionsError as error:
        raise UnireError(f"{error} (--exact)") from None
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; continue with --resume" if has_checkpoint(out) else "interrupted; nothing was saved")
        raise stopped(*interrupt.args) from None
    if json:
        result = {"out": str(out), "dev_rel_f1_between_gold_entities": trained.f1, "seconds": trained.seconds}
        console.print_json({**result, "notes": {**notes, **trained.notes}, "history": list(trained.history)})
        return
    console.print_notes(trained.notes)
    score = "" if trained.f1 is None else f"Rel F1 {100 * trained.f1:.1f} between the gold entities of dev; "
    console.say(f"{score}model in ", (str(out), "bold"), to=console.out)


class _EpochLines(Callback):
    """A line per epoch."""

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        console.say(", ".join(f"{name} {value:.4g}" for name, value in record.items()))


@distributed_errors()
def relabel(
    *,
    soft_labels: Annotated[
        Path, option("--soft-labels", metavar="FOLDER", help="Output of `unire teach`.", panel=INPUT)
    ],
    markers: Annotated[
        list[Path],
        option(
            "--markers", metavar="FOLDER", help="Output of `unire markers`. Repeat it to average several.", panel=MODEL
        ),
    ],
    share: Annotated[
        float | None,
        option(
            "--share",
            metavar="X",
            help="Weight of the marker models in the average with the teachers (0 to 1).",
            panel=MODEL,
            default="0.75",
        ),
    ] = None,
    device: Device = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the soft labels.", panel=OUTPUT)],
    json: Json = False,
) -> None:
    """Relabel the relations of soft labels with marker models.

    Examples:

        unire teach --teacher models/mine --corpus abstracts.txt \\
            --out abstracts.soft
        unire relabel --soft-labels abstracts.soft --markers markers/1 \\
            --markers markers/2 --out relabelled.soft
        unire distill --soft-labels relabelled.soft --student encoders/mine …

    Entities do not change. The relation probabilities of every entity pair become
    a weighted mean of marker models and teachers. `--share 1` uses the marker
    models alone.
    """
    from unire.training.markers.relabel import MARKER_WEIGHT
    from unire.training.markers.relabel import relabel as run

    weight = MARKER_WEIGHT if share is None else share
    try:
        with ProgressMeter(None) as meter:
            written = run(soft_labels, markers, out, share=weight, device=device, callbacks=[meter])
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; nothing was saved")
        raise stopped(*interrupt.args) from None
    if json:
        console.print_json({"out": str(out), **asdict(written)})
        return
    console.print_notes(written.notes)
    console.say(
        f"{written.pairs:,} pairs of {written.sentences:,} sentences in {written.seconds:,.0f} s; soft labels in ",
        (str(out), "bold"),
        to=console.out,
    )
