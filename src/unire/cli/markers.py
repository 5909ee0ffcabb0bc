"""`unire markers` and `unire relabel`: relation classifiers for entity pairs, and soft labels that they improve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unire.cli import console, training_options
from unire.cli.options import Device, Format, Json, Labels, Symmetric, label_space
from unire.cli.progress import ProgressMeter
from unire.cli.training_options import changes_from, distributed_errors, option, stopped
from unire.errors import UnireError
from unire.training.callbacks import Callback

__all__ = ["markers", "relabel"]

MODEL = "Model and schedule"


@distributed_errors()
def markers(
    encoder: Annotated[str, option("--encoder", help="Pretrained encoder: Hub name, folder, or a trained model.")],
    data: training_options.Data,
    out: Annotated[Path, option("--out", help="New folder for the model.")],
    dev: Annotated[list[Path] | None, option("--dev", help="Selects the best epoch. Strongly recommended.")] = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    exact: Annotated[
        bool,
        option("--exact", help="Run the encoder once per entity pair: slower, but for any encoder.", panel=MODEL),
    ] = False,
    epochs: Annotated[
        int | None, option("--epochs", help="Passes over the data.", panel=MODEL, show_default="5")
    ] = None,
    batch_size: Annotated[
        int | None, option("--batch-size", help="Entity pairs per step.", panel=MODEL, show_default="64")
    ] = None,
    lr: Annotated[
        float | None, option("--lr", help="Peak learning rate of the encoder.", panel=MODEL, show_default="5e-5")
    ] = None,
    head_lr: Annotated[
        float | None, option("--head-lr", help="Peak learning rate of the head.", panel=MODEL, show_default="5e-4")
    ] = None,
    window: Annotated[
        int | None,
        option("--window", help="Words of a window with the sentence.", panel=MODEL, show_default="100"),
    ] = None,
    seed: Annotated[int | None, option("--seed", help="Seed of the training.", panel=MODEL, show_default="0")] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other TrainingConfig field that marker models use, e.g. --set case_marks=true.",
            panel=MODEL,
        ),
    ] = None,
    resume: training_options.Resume = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Train a marker model, which classifies relations between given entities.

    \b
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
        console.say("interrupted; --resume continues" if has_checkpoint(out) else "interrupted; nothing was kept")
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
    soft_labels: Annotated[Path, typer.Option("--soft-labels", help="Folder that `unire teach` wrote.")],
    markers: Annotated[
        list[Path], typer.Option("--markers", help="Folder that `unire markers` wrote. Repeat it to average several.")
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the relabelled soft labels.")],
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            help="Weight of the marker models when averaging with the teachers' relation probabilities (0 to 1).",
            show_default="0.75",
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Relabel the relations of soft labels with marker models.

    \b
        unire teach --teacher models/mine --corpus abstracts.txt \\
            --out abstracts.soft
        unire relabel --soft-labels abstracts.soft --markers markers/1 \\
            --markers markers/2 --out relabelled.soft
        unire distill --soft-labels relabelled.soft --student encoders/mine …

    Entities stay as the teachers predict them. The relation probabilities of every
    entity pair become a weighted mean of marker models and teachers. `--share 1`
    uses the marker models alone.
    """
    from unire.training.markers.relabel import MARKER_WEIGHT
    from unire.training.markers.relabel import relabel as run

    weight = MARKER_WEIGHT if share is None else share
    try:
        with ProgressMeter(None) as meter:
            written = run(soft_labels, markers, out, share=weight, device=device, on_progress=meter.count)
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; nothing was kept")
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
