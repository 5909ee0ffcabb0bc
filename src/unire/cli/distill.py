"""`unire distill`: a student that learns from trained models, on text that nobody has annotated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unire.cli import printing
from unire.cli.options import Format, Json, documents_from
from unire.cli.training import config_from, in_company, new_reporter, report, stopped
from unire.windows import Layout

__all__ = ["distill"]

_SOFT = "Teachers and unlabelled text"
_MODEL = "Model and schedule (a preset's own when left out)"
_RUN = "Run"


def _option(*names: str, help: str, panel: str | None = None, show_default: bool = False, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=show_default, **more)


@in_company()
def distill(
    student: Annotated[
        str,
        _option(
            "--student",
            help="Pretrained encoder of the student: Hub name, folder, or a model that has one.",
        ),
    ],
    data: Annotated[list[Path], _option("--data", help="Annotated file; may be given several times.")],
    out: Annotated[Path, _option("--out", help="New folder for the student.")],
    teacher: Annotated[
        list[str] | None,
        _option("--teacher", help="Trained model: folder or Hub name. Several are averaged.", panel=_SOFT),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        _option(
            "--corpus",
            help="Unlabelled text: a document per line (may be .gz, .xz or .bz2), or documents in one of our formats "
            "(.json, .jsonl). May be given several times.",
            panel=_SOFT,
        ),
    ] = None,
    lessons: Annotated[
        Path | None,
        _option("--lessons", help="What `unire teach` wrote, in place of teachers and corpus.", panel=_SOFT),
    ] = None,
    dev: Annotated[list[Path] | None, _option("--dev", help="Selects the best epoch and α. Strongly advised.")] = None,
    test: Annotated[list[Path] | None, _option("--test", help="Scored once, at the end.")] = None,
    format: Format = None,
    soft_batch: Annotated[
        int, _option("--soft-batch", help="Unlabelled sentences per step.", panel=_SOFT, show_default=True)
    ] = 128,
    soft_weight: Annotated[
        float,
        _option("--soft-weight", help="What their loss counts, against 1 for gold.", panel=_SOFT, show_default=True),
    ] = 1.0,
    n_documents: Annotated[
        int | None, _option("--documents", help="Take so many documents of the corpus, from its start.", panel=_SOFT)
    ] = None,
    workers: Annotated[
        int | None, _option("--workers", min=0, help="Processes that read and lay out the corpus.", panel=_SOFT)
    ] = None,
    preset: Annotated[
        str, _option("--preset", help="`best`, `paper` or `released`, as in training.", panel=_MODEL, show_default=True)
    ] = "best",
    epochs: Annotated[int | None, _option("--epochs", help="How often the gold is read.", panel=_MODEL)] = None,
    minutes: Annotated[
        float | None, _option("--minutes", help="End with the epoch in which this time does.", panel=_MODEL)
    ] = None,
    batch_size: Annotated[int | None, _option("--batch-size", help="Gold sentences per step.", panel=_MODEL)] = None,
    lr: Annotated[float | None, _option("--lr", help="Peak rate of the encoder.", panel=_MODEL)] = None,
    head_lr: Annotated[float | None, _option("--head-lr", help="Peak rate of MLPs and biaffine.", panel=_MODEL)] = None,
    layout: Annotated[
        Layout | None, _option("--layout", help="How sentence and context become an encoder input.", panel=_MODEL)
    ] = None,
    window: Annotated[
        int | None, _option("--window", help="W: words of a window; 0 for no context.", panel=_MODEL)
    ] = None,
    patience: Annotated[
        int | None, _option("--patience", help="Epochs without gain on dev before it stops.", panel=_MODEL)
    ] = None,
    seed: Annotated[int | None, _option("--seed", help="Same seed, same numbers (on a CPU).", panel=_MODEL)] = None,
    settings: Annotated[
        list[str] | None,
        _option("--set", metavar="NAME=VALUE", help="Any other setting of TrainingConfig.", panel=_MODEL),
    ] = None,
    resume: Annotated[bool, _option("--resume", help="Go on where it was stopped.", panel=_RUN)] = False,
    save_every_epochs: Annotated[
        int | None,
        _option("--save-every-epochs", min=1, help="Keep a state to resume from, every N epochs.", panel=_RUN),
    ] = None,
    save_every_minutes: Annotated[
        float | None,
        _option("--save-every-minutes", min=0.0, help="… every M minutes.", panel=_RUN, show_default=True),
    ] = 10.0,
    tensorboard: Annotated[
        Path | None, _option("--tensorboard", help="Write TensorBoard event files to this folder.", panel=_RUN)
    ] = None,
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
    documents, dev_documents, test_documents = (documents_from(files or [], format) for files in (data, dev, test))
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
    report(trained, out, json)
    if not json and trained.main:
        printing.print_notes(trained.notes)
    if trained.stopped_by is not None:
        raise stopped(trained.stopped_by)
