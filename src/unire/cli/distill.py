"""`unire teach` and `unire distill`: soft labels of teachers, and students that are trained on them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from unire.cli import console, training_options
from unire.cli.console import ProgressMeter
from unire.cli.options import INPUT, MODEL, OUTPUT, Device, Format, Json, option
from unire.cli.training_options import (
    ENCODER,
    config_from,
    distributed_errors,
    new_callbacks,
    read_parts,
    report,
    stopped,
)

__all__ = ["distill", "teach"]

TEACHER = "Trained model: folder or Hub name. Repeat it to average several."
CORPUS = "Unlabelled text: a document per line, or JSON documents. May be repeated."
DOCUMENTS = "Use only the first N documents of the corpus."


@distributed_errors()
def teach(
    *,
    corpus: Annotated[list[Path], option("--corpus", metavar="FILE", help=CORPUS, panel=INPUT)],
    documents: Annotated[
        int | None, option("--documents", metavar="N", min=1, help=DOCUMENTS, panel=INPUT, default="all")
    ] = None,
    teacher: Annotated[list[str], option("--teacher", metavar="NAME", help=TEACHER, panel=MODEL)],
    device: Device = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the soft labels.", panel=OUTPUT)],
    json: Json = False,
) -> None:
    """Run teachers on unlabelled text once and store their soft labels.

    Examples:

        unire teach --teacher models/seed-1 --teacher models/seed-2 \\
            --corpus abstracts.txt --out abstracts.soft
        unire distill --soft-labels abstracts.soft --student encoder …

    Soft labels are the mean of the teachers' tables, one byte per label and cell:
    about 80 kB for an abstract of 190 words with SciERC's labels. The corpus may
    contain text of dev and test; `distill` skips it. Text files may be compressed
    (.gz, .xz, .bz2).
    """
    from unire.training.distillation.teach import teach as run

    try:
        with ProgressMeter(None) as meter:
            written = run(teacher, corpus, out, documents=documents, device=device, callbacks=[meter])
    except KeyboardInterrupt as interrupt:
        console.say("interrupted; nothing was saved")
        raise stopped(*interrupt.args) from None
    if json:
        console.print_json({"out": str(out), **asdict(written)})
        return
    console.print_notes(written.notes)
    console.say(
        f"{written.tables:,} tables of {written.documents:,} documents in {written.seconds:,.0f} s; "
        f"soft labels of {written.bytes / 1e6:,.1f} MB in ",
        (str(out), "bold"),
        to=console.out,
    )


SOFT_LABELS = "Soft labels"
"""Panel of `--help`."""


@distributed_errors()
def distill(
    *,
    data: training_options.Data,
    dev: training_options.Dev = None,
    test: training_options.Test = None,
    format: Format = None,
    student: Annotated[str, option("--student", metavar="NAME", help=ENCODER, panel=MODEL)],
    teacher: Annotated[list[str] | None, option("--teacher", metavar="NAME", help=TEACHER, panel=SOFT_LABELS)] = None,
    corpus: Annotated[list[Path] | None, option("--corpus", metavar="FILE", help=CORPUS, panel=SOFT_LABELS)] = None,
    soft_labels: Annotated[
        Path | None,
        option(
            "--soft-labels",
            metavar="FOLDER",
            help="Output of `unire teach` or `unire relabel`. Replaces --teacher and --corpus.",
            panel=SOFT_LABELS,
        ),
    ] = None,
    n_documents: Annotated[
        int | None, option("--documents", metavar="N", help=DOCUMENTS, panel=SOFT_LABELS, default="all")
    ] = None,
    soft_batch: Annotated[
        int, option("--soft-batch", metavar="N", help="Unlabelled sentences per step.", panel=SOFT_LABELS)
    ] = 128,
    soft_weight: Annotated[
        float, option("--soft-weight", metavar="X", help="Weight of the loss on unlabelled text.", panel=SOFT_LABELS)
    ] = 1.0,
    workers: Annotated[
        int | None,
        option(
            "--workers",
            metavar="N",
            min=0,
            help="Processes that prepare the corpus.",
            panel=SOFT_LABELS,
            default="CPU cores − 1, at most 12",
        ),
    ] = None,
    preset: training_options.Preset = None,
    epochs: training_options.Epochs = None,
    minutes: training_options.Minutes = None,
    batch_size: training_options.BatchSize = None,
    lr: training_options.Lr = None,
    head_lr: training_options.HeadLr = None,
    layout: training_options.Layouts = None,
    window: training_options.Window = None,
    patience: training_options.Patience = None,
    seed: training_options.Seed = None,
    settings: training_options.Set = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the student.", panel=OUTPUT)],
    resume: training_options.Resume = False,
    save_every_epochs: training_options.SaveEveryEpochs = None,
    save_every_minutes: training_options.SaveEveryMinutes = 10.0,
    tensorboard: training_options.Tensorboard = None,
    json: Json = False,
) -> None:
    """Train a student on annotated data and soft labels of teachers.

    Examples:

        unire distill --teacher models/large --student small-encoder \\
            --corpus abstracts.txt --data train.jsonl --dev dev.jsonl \\
            --out models/small
        unire distill --teacher models/seed-1 --teacher models/seed-2 …
        unire distill --soft-labels abstracts.soft --student small-encoder …

    Each step trains on gold sentences, as `train` does, and on unlabelled
    sentences with the teachers' mean tables as targets. Text of dev and test is
    skipped. To train several students, or one for several passes over the corpus,
    run the teachers once with `unire teach`.
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
        soft_labels=soft_labels,
        dev=dev_documents,
        test=test_documents,
        out=out,
        config=config,
        distillation=distillation,
        data=[str(path) for path in data],
        callbacks=new_callbacks(json, tensorboard),
        resume=resume,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
        workers=workers,
    )
    report(trained, out, notes, json)
    if not json and trained.main:
        console.print_notes(trained.notes)
    if trained.stopped_by is not None:
        raise stopped(trained.stopped_by)
