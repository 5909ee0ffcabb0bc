"""`unire distill`: a student that learns from trained models, on text that nobody has annotated."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unire.cli import printing, training_options
from unire.cli.options import Device, Format, Json
from unire.cli.progress import ProgressMeter
from unire.cli.training_options import (
    MODEL,
    config_from,
    distributed_errors,
    new_callbacks,
    option,
    read_parts,
    report,
    stopped,
)

__all__ = ["distill", "teach"]


@distributed_errors()
def teach(
    teacher: Annotated[
        list[str], typer.Option("--teacher", help="Trained model: folder or Hub name. Several are averaged.")
    ],
    corpus: Annotated[
        list[Path],
        typer.Option(
            "--corpus",
            help="Unlabelled text: a document per line (may be .gz, .xz or .bz2), or documents in one of our formats "
            "(.json, .jsonl). May be given several times.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for the lessons.")],
    documents: Annotated[
        int | None,
        typer.Option(
            "--documents", min=1, help="Take so many documents of the corpus, from its start.", show_default=False
        ),
    ] = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Ask trained models about a text once, for any number of students.

    \b
        unire teach --teacher models/seed-1 --teacher models/seed-2 \\
            --corpus abstracts.txt --out abstracts.lessons
        unire distill --lessons abstracts.lessons --student encoder …

    Lessons are the mean of the teachers' tables, a byte for every label of every
    cell: with SciERC's labels some 80 kB for an abstract of 190 words. Text of
    dev and test may be among it; `distill` leaves it out.
    """
    from unire.training.distillation.teach import teach as run

    try:
        with ProgressMeter(None) as meter:
            taught = run(teacher, corpus, out, documents=documents, device=device, on_progress=meter.count)
    except KeyboardInterrupt as interrupt:
        printing.say("interrupted; nothing was kept")
        raise stopped(*interrupt.args) from None
    if json:
        printing.print_json({"out": str(out), **asdict(taught)})
        return
    printing.print_notes(taught.notes)
    printing.say(
        f"{taught.tables:,} tables of {taught.documents:,} documents in {taught.seconds:,.0f} s; "
        f"lessons of {taught.bytes / 1e6:,.1f} MB in ",
        (str(out), "bold"),
        to=printing.out,
    )


_SOFT = "Teachers and unlabelled text"


@distributed_errors()
def distill(
    student: Annotated[
        str, option("--student", help="Pretrained encoder of the student: Hub name, folder, or a model that has one.")
    ],
    data: training_options.Data,
    out: Annotated[Path, option("--out", help="New folder for the student.")],
    teacher: Annotated[
        list[str] | None,
        option("--teacher", help="Trained model: folder or Hub name. Several are averaged.", panel=_SOFT),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        option(
            "--corpus",
            help="Unlabelled text: a document per line (may be .gz, .xz or .bz2), or documents in one of our formats "
            "(.json, .jsonl). May be given several times.",
            panel=_SOFT,
        ),
    ] = None,
    lessons: Annotated[
        Path | None,
        option("--lessons", help="What `unire teach` wrote, in place of teachers and corpus.", panel=_SOFT),
    ] = None,
    dev: training_options.Dev = None,
    test: training_options.Test = None,
    format: Format = None,
    soft_batch: Annotated[
        int, option("--soft-batch", help="Unlabelled sentences per step.", panel=_SOFT, show_default=True)
    ] = 128,
    soft_weight: Annotated[
        float,
        option("--soft-weight", help="What their loss counts, against 1 for gold.", panel=_SOFT, show_default=True),
    ] = 1.0,
    n_documents: Annotated[
        int | None, option("--documents", help="Take so many documents of the corpus, from its start.", panel=_SOFT)
    ] = None,
    workers: Annotated[
        int | None, option("--workers", min=0, help="Processes that read and lay out the corpus.", panel=_SOFT)
    ] = None,
    preset: training_options.Preset = "best",
    epochs: training_options.Epochs = None,
    minutes: Annotated[
        float | None, option("--minutes", help="End with the epoch in which this time does.", panel=MODEL)
    ] = None,
    batch_size: training_options.BatchSize = None,
    lr: training_options.Lr = None,
    head_lr: training_options.HeadLr = None,
    layout: training_options.Layouts = None,
    window: training_options.Window = None,
    patience: training_options.Patience = None,
    seed: training_options.Seed = None,
    settings: training_options.Set = None,
    resume: training_options.Resume = False,
    save_every_epochs: training_options.SaveEveryEpochs = None,
    save_every_minutes: training_options.SaveEveryMinutes = 10.0,
    tensorboard: training_options.Tensorboard = None,
    json: Json = False,
) -> None:
    """Train a small model, or a better one, from trained ones and unlabelled text.

    \b
        unire distill --teacher models/large --student small-encoder \\
            --corpus abstracts.txt --data train.jsonl --dev dev.jsonl \\
            --out models/small
        unire distill --teacher models/seed-1 --teacher models/seed-2 …
        unire distill --lessons abstracts.lessons --student small-encoder …

    Each step learns from gold sentences as `train` does, and from unlabelled
    ones to fill tables as the teachers do. Text of dev and test is left out of
    the corpus. Where several students learn from the same teachers, or one reads
    the corpus more than once, `unire teach` asks them once for all.
    """
    from unire.training.distillation.distill import DistillConfig
    from unire.training.distillation.distill import distill as run

    config = config_from(
        preset,
        settings or [],
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        head_lr=head_lr,
        layout=layout,
        window=window,
        patience=patience,
        seed=seed,
    )
    distillation = DistillConfig(soft_batch, soft_weight, n_documents, minutes)
    (documents, dev_documents, test_documents), notes = read_parts((data, dev, test), format, json=json)
    trained = run(
        student,
        documents,
        teachers=teacher or (),
        corpus=corpus or (),
        lessons=lessons,
        dev=dev_documents,
        test=test_documents,
        out=out,
        config=config,
        distillation=distillation,
        data=[str(path) for path in data],
        reporter=new_callbacks(json, tensorboard),
        resume=resume,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
        workers=workers,
    )
    report(trained, out, notes, json)
    if not json and trained.main:
        printing.print_notes(trained.notes)
    if trained.stopped_by is not None:
        raise stopped(trained.stopped_by)
