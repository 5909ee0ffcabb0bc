"""`unire markers`: a model that names the relations between given entities, and has a say in lessons."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing, training_options
from unire.cli.options import Device, Format, Json, Labels, Symmetric, label_space
from unire.cli.progress import ProgressMeter
from unire.cli.training_options import changes_from, distributed_errors, option, stopped

__all__ = ["markers", "relabel"]

MODEL = "Model and schedule"


@distributed_errors()
def markers(
    encoder: Annotated[str, option("--encoder", help="Pretrained encoder: Hub name, folder, or a model that has one.")],
    data: training_options.Data,
    out: Annotated[Path, option("--out", help="New folder for the model.")],
    dev: Annotated[list[Path] | None, option("--dev", help="Selects the best epoch. Strongly advised.")] = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    exact: Annotated[
        bool, option("--exact", help="Give every pair a pass of its own: slower, but with any encoder.", panel=MODEL)
    ] = False,
    epochs: Annotated[int | None, option("--epochs", help="How often the data is read; 5.", panel=MODEL)] = None,
    batch_size: Annotated[int | None, option("--batch-size", help="Pairs per step; 64.", panel=MODEL)] = None,
    lr: Annotated[float | None, option("--lr", help="Peak rate of the encoder; 5e-5.", panel=MODEL)] = None,
    head_lr: Annotated[float | None, option("--head-lr", help="Peak rate of the rest; 5e-4.", panel=MODEL)] = None,
    window: Annotated[
        int | None, option("--window", help="Words of a window, the sentence included; 100.", panel=MODEL)
    ] = None,
    seed: Annotated[int | None, option("--seed", help="Same seed, same numbers (on a CPU).", panel=MODEL)] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of TrainingConfig that marker models have, e.g. --set case_marks=true.",
            panel=MODEL,
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Train a model that names the relations between given entities.

    \b
        unire markers --encoder encoders/mine --labels scierc \\
            --data train.jsonl --dev dev.jsonl --out markers/1
        unire relabel --lessons abstracts.lessons --markers markers/1 \\
            --out marked.lessons

    It looks at each pair of entities by itself, between typed markers, and names
    relations better than a table does, but finds no entities. In lessons, where
    teachers have found them, tables can learn from it (`unire relabel`).
    """
    from unire.training.markers.config import marker_config
    from unire.training.markers.train import train_markers

    asked = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "head_lr": head_lr, "window": window, "seed": seed}
    config = marker_config(**changes_from("--set", settings or [], **asked))
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
            tell=lambda line: None if json else printing.say(line),
        )
    except KeyboardInterrupt as interrupt:
        printing.say("interrupted; nothing was kept")
        raise stopped(*interrupt.args) from None
    if json:
        about = {"out": str(out), "dev_rel_f1_between_gold_entities": trained.f1, "seconds": trained.seconds}
        printing.print_json({**about, "notes": {**notes, **trained.notes}, "history": list(trained.history)})
        return
    printing.print_notes(trained.notes)
    reached = "" if trained.f1 is None else f"Rel F1 {100 * trained.f1:.1f} between the entities of dev; "
    printing.say(f"{reached}model in ", (str(out), "bold"), to=printing.out)


@distributed_errors()
def relabel(
    lessons: Annotated[Path, typer.Option("--lessons", help="What `unire teach` wrote.")],
    markers: Annotated[
        list[Path], typer.Option("--markers", help="What `unire markers` has trained. Several are averaged.")
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the lessons.")],
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            help="What they count between entities, up to 1; the teachers count the rest. 0.75 when left out.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Have marker models name the relations of lessons.

    \b
        unire teach --teacher models/mine --corpus abstracts.txt \\
            --out abstracts.lessons
        unire relabel --lessons abstracts.lessons --markers markers/1 \\
            --markers markers/2 --out marked.lessons
        unire distill --lessons marked.lessons --student encoders/mine …

    Entities stay as the teachers have them. Between every two of them the lessons
    then say what marker models make of the pair, in part or (--share 1) alone.
    """
    from unire.training.markers.relabel import relabel as run

    counting = {} if share is None else {"share": share}
    try:
        with ProgressMeter(None) as meter:
            relabelled = run(lessons, markers, out, **counting, device=device, on_progress=meter.count)
    except KeyboardInterrupt as interrupt:
        printing.say("interrupted; nothing was kept")
        raise stopped(*interrupt.args) from None
    if json:
        printing.print_json({"out": str(out), **asdict(relabelled)})
        return
    printing.print_notes(relabelled.notes)
    printing.say(
        f"{relabelled.pairs:,} pairs of {relabelled.sentences:,} sentences in {relabelled.seconds:,.0f} s; lessons in ",
        (str(out), "bold"),
        to=printing.out,
    )
