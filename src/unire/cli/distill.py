"""`unire distill`: a student that learns from trained models, on text that nobody has annotated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unire.cli import printing, training
from unire.cli.options import Format, Json
from unire.cli.training import MODEL, config_from, in_company, new_reporter, option, read_parts, report, stopped

__all__ = ["distill"]

_SOFT = "Teachers and unlabelled text"


@in_company()
def distill(
    student: Annotated[
        str, option("--student", help="Pretrained encoder of the student: Hub name, folder, or a model that has one.")
    ],
    data: training.Data,
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
    dev: training.Dev = None,
    test: training.Test = None,
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
    preset: training.Preset = "best",
    epochs: training.Epochs = None,
    minutes: Annotated[
        float | None, option("--minutes", help="End with the epoch in which this time does.", panel=MODEL)
    ] = None,
    batch_size: training.BatchSize = None,
    lr: training.Lr = None,
    head_lr: training.HeadLr = None,
    layout: training.Layouts = None,
    window: training.Window = None,
    patience: training.Patience = None,
    seed: training.Seed = None,
    settings: training.Set = None,
    resume: training.Resume = False,
    save_every_epochs: training.SaveEveryEpochs = None,
    save_every_minutes: training.SaveEveryMinutes = 10.0,
    tensorboard: training.Tensorboard = None,
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
    from unire.training.distill import DistillConfig
    from unire.training.distill import distill as run

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
        reporter=new_reporter(json, tensorboard),
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
