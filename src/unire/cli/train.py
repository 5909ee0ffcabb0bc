"""`unire train`: train a model, or cross-validate, on annotated data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unire.analysis.splits import draw_folds, read_folds, split_folds
from unire.cli import console, training_options
from unire.cli.options import INPUT, MODEL, OUTPUT, Format, Json, Labels, Symmetric, flag, label_space, option
from unire.cli.training_options import (
    ENCODER,
    TRAINING,
    config_from,
    distributed_errors,
    new_callbacks,
    read_parts,
    report,
    stopped,
)
from unire.documents import Document
from unire.errors import UnireError
from unire.training.resume import check_folds, check_training_folder

if TYPE_CHECKING:
    from unire.training.callbacks import Callback

__all__ = ["train"]

FOLDS = "Cross-validation"
"""Panel of `--help`."""


@distributed_errors()
def train(
    *,
    data: training_options.Data,
    dev: training_options.Dev = None,
    test: training_options.Test = None,
    format: Format = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    encoder: Annotated[
        str | None,
        option("--encoder", metavar="NAME", help=ENCODER, panel=MODEL, default="chosen by the data"),
    ] = None,
    keep_head: Annotated[
        bool, flag("--keep-head", help="Keep the head and labels of the model given by --encoder.", panel=MODEL)
    ] = False,
    label_map: Annotated[
        list[str] | None,
        option(
            "--map",
            metavar="NEW=KNOWN",
            help="Start a label from a label of the model given by --encoder. May be repeated.",
            panel=MODEL,
        ),
    ] = None,
    unlabelled: Annotated[
        list[Path] | None,
        option(
            "--unlabelled",
            metavar="FILE",
            help="Train a second time, also on the first model's soft labels of this text. May be repeated.",
            panel=INPUT,
        ),
    ] = None,
    preset: training_options.Preset = None,
    epochs: training_options.Epochs = None,
    minutes: training_options.Minutes = None,
    batch_size: training_options.BatchSize = None,
    lr: training_options.Lr = None,
    head_lr: training_options.HeadLr = None,
    beta2: Annotated[
        float | None,
        option(
            "--beta2",
            metavar="X",
            help="Second moment decay β₂ of AdamW.",
            panel=TRAINING,
            default=f"{training_options.BEST.beta2} in best",
        ),
    ] = None,
    layout: training_options.Layouts = None,
    window: training_options.Window = None,
    patience: training_options.Patience = None,
    seed: training_options.Seed = None,
    settings: training_options.Set = None,
    folds: Annotated[
        str | None,
        option(
            "--folds",
            metavar="N|FILE",
            help="One model per fold: N random folds, or JSON lists of test document ids.",
            panel=FOLDS,
        ),
    ] = None,
    fold: Annotated[
        list[int] | None,
        option("--fold", metavar="K", help="Train only fold K, counted from 1. May be repeated.", panel=FOLDS),
    ] = None,
    dev_fraction: Annotated[
        float | None,
        option(
            "--dev-fraction",
            metavar="X",
            min=0.0,
            max=0.9,
            help="Fraction of each training part that becomes dev.",
            panel=FOLDS,
            default="0.1",
        ),
    ] = None,
    out: Annotated[Path, option("--out", "-o", metavar="FOLDER", help="New folder for the model.", panel=OUTPUT)],
    resume: training_options.Resume = False,
    save_every_epochs: training_options.SaveEveryEpochs = None,
    save_every_minutes: training_options.SaveEveryMinutes = 10.0,
    tensorboard: training_options.Tensorboard = None,
    json: Json = False,
) -> None:
    """Train a model on annotated data.

    Examples:

        unire train --encoder bert-base-uncased \\
            --data train.jsonl --dev dev.jsonl --out models/mine
        unire train --encoder bert-base-uncased --labels scierc --preset paper \\
            --data train.json --dev dev.json --test test.json -o models/paper
        unire train --encoder bert-base-uncased --labels ade \\
            --data all.json --folds 10 --out models/ade

    On several GPUs, run `accelerate launch -m unire train …`. Steps that do not
    fit into memory are split into smaller batches (--set max_pieces=…). Both give
    the same result.

    Several processes can share the folds with --fold. Afterwards, run all folds
    with --resume to print the mean.
    """
    configure = partial(
        config_from,
        settings=settings or [],
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        head_lr=head_lr,
        beta2=beta2,
        layout=layout,
        window=window,
        patience=patience,
        seed=seed,
        further=encoder if keep_head else None,
    )
    config = configure(preset or "best")  # to check it: whether `best` is the default, only torch knows
    if encoder is None and (keep_head or label_map):
        raise UnireError("--keep-head and --map need the model that they are about; give --encoder")
    if unlabelled and (keep_head or folds is not None):
        raise UnireError("--unlabelled cannot be combined with --keep-head or --folds")
    if folds is None and (fold or dev_fraction is not None):
        raise UnireError("--fold and --dev-fraction need --folds")
    if folds is not None and (dev or test):
        raise UnireError("with --folds, dev and test come from the data; leave out --dev and --test")
    if folds is None:
        check_training_folder(out, resume=resume)
    (documents, dev_documents, test_documents), notes = read_parts((data, dev, test), format, json=json)
    ids: list[list[str]] = []
    if folds is not None:
        ids = draw_folds(documents, int(folds), config.seed) if folds.isdecimal() else read_folds(Path(folds))
        check_folds(out, len(ids), fold or [], resume=resume)
    kept = config.keep_head and labels is None and symmetric is None
    space = None if kept else label_space(labels, symmetric, [*documents, *dev_documents, *test_documents])
    shared: dict[str, Any] = {
        "labels": space,
        "label_map": _read_map(label_map or []),
        "config": configure(preset),
        "data": [str(path) for path in data],
        "resume": resume,
        "minutes": minutes,
        "save_every_epochs": save_every_epochs,
        "save_every_minutes": save_every_minutes,
    }
    if folds is not None:
        share = 0.1 if dev_fraction is None else dev_fraction
        _train_folds(encoder, documents, out, ids, fold or [], share, shared, tensorboard, notes, json)
        return
    if unlabelled:
        from unire.training.self_training import self_train

        run: Any = partial(self_train, unlabelled=unlabelled)
    else:
        from unire.training.train import train as run
    trained = run(
        encoder,
        documents,
        dev=dev_documents,
        test=test_documents,
        out=out,
        callbacks=new_callbacks(json, tensorboard),
        **shared,
    )
    report(trained, out, notes, json)
    if trained.stopped_by is not None:
        raise stopped(trained.stopped_by)


def _read_map(pairs: Sequence[str]) -> dict[str, str]:
    """NEW=KNOWN of `--map` as a dictionary."""
    label_map: dict[str, str] = {}
    for pair in pairs:
        new, equals, known = pair.partition("=")
        if not (new and equals and known):
            raise UnireError(f"--map takes NEW=KNOWN, not {pair!r}")
        if label_map.setdefault(new, known) != known:
            raise UnireError(f"--map gives {new!r} two labels: {label_map[new]} and {known}")
    return label_map


def _train_folds(
    encoder: str | None,
    documents: list[Document],
    out: Path,
    ids: list[list[str]],
    only: list[int],
    dev_fraction: float,
    shared: dict[str, Any],
    tensorboard: Path | None,
    notes: Mapping[str, int],
    json: bool,
) -> None:
    """Train a model per fold and print the mean over folds."""
    from unire.training.cross_validation import cross_validate, over_folds
    from unire.training.distributed import is_main

    def callbacks_for(number: int) -> list[Callback]:
        if not json and is_main():
            console.errors.rule(f"fold {number} of {len(ids)}")
        return new_callbacks(json, tensorboard and tensorboard / f"fold-{number:02d}")

    parts = list(split_folds(documents, ids, dev_fraction, shared["config"].seed))
    try:
        results = cross_validate(encoder, parts, out=out, only=only, callbacks_for=callbacks_for, **shared)
    except KeyboardInterrupt as interrupt:
        raise stopped(*interrupt.args) from None
    if not is_main():
        return
    means = [over_folds(results, average) for average in ("micro", "macro")] if len(results) == len(ids) else []
    if json:
        console.print_json({"folds": [scores.to_dict() for scores in results], "mean": means, "notes": notes})
        return
    rows = [
        (
            f"{part}, {row['average']}",
            *(f"{100 * row[part][rate]:.1f}" for rate in ("precision", "recall", "f1", "deviation")),
        )
        for row in means
        for part in ("entities", "relations")
    ]
    if rows:
        console.table(f"Mean over {len(results)} folds", ("", "P", "R", "F1", "± F1"), rows)
