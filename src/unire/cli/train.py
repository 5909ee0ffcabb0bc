"""`unire train`: from annotated data and an encoder to a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unire.cli import printing, training
from unire.cli.options import Format, Json, Labels, Symmetric, label_space
from unire.cli.training import MODEL, config_from, in_company, new_reporter, option, read_parts, report, stopped
from unire.documents import Document
from unire.exceptions import UnireError
from unire.splits import draw_folds, read_folds, split_folds
from unire.training.place import check_folds, check_place

if TYPE_CHECKING:
    from unire.training.reporting import Reporter

__all__ = ["train"]


@in_company()
def train(
    encoder: Annotated[str, option("--encoder", help="Pretrained encoder: Hub name, folder, or a model that has one.")],
    data: training.Data,
    out: Annotated[Path, option("--out", help="New folder for the model.")],
    dev: training.Dev = None,
    test: training.Test = None,
    folds: Annotated[
        str | None,
        option(
            "--folds",
            metavar="N|FILE",
            help="Cross-validate: N random folds, or a JSON list of lists of test document ids. A model per fold.",
        ),
    ] = None,
    fold: Annotated[
        list[int] | None,
        option(
            "--fold",
            help="With --folds: train this one alone, counted from 1; may be given several times. So several processes "
            "share the folds; all of them with --resume, at last, prints the mean.",
        ),
    ] = None,
    dev_fraction: Annotated[
        float | None,
        option(
            "--dev-fraction",
            min=0.0,
            max=0.9,
            help="With --folds: share of each training part that becomes dev; 0.1 when left out.",
        ),
    ] = None,
    labels: Labels = None,
    symmetric: Symmetric = None,
    format: Format = None,
    keep_head: Annotated[
        bool,
        option(
            "--keep-head",
            help="Train all of the model of --encoder further, in its labels, and not its encoder with a new head.",
        ),
    ] = False,
    preset: training.Preset = "best",
    epochs: training.Epochs = None,
    batch_size: training.BatchSize = None,
    lr: training.Lr = None,
    head_lr: training.HeadLr = None,
    beta2: Annotated[
        float | None, option("--beta2", help="AdamW's β₂ (the paper: 0.9, not 0.999).", panel=MODEL)
    ] = None,
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
    """Train a model on annotated data.

    \b
        unire train --encoder bert-base-uncased --labels scierc \\
            --data train.jsonl --dev dev.jsonl --test test.jsonl --out models/mine
        unire train --encoder bert-base-uncased --labels ade \\
            --data all.json --folds 10 --out models/ade

    On several GPUs: `accelerate launch -m unire train …`, with the same result
    as on one. A step that does not fit into memory at once is computed in
    parts, with the same result too (--set max_pieces=…).
    """
    config = config_from(
        preset,
        settings or [],
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
    if folds is None and (fold or dev_fraction is not None):
        raise UnireError("--fold and --dev-fraction are about the folds of --folds; give that too")
    if folds is not None and (dev or test):
        raise UnireError("with --folds, dev and test are taken from the data; leave out --dev and --test")
    if folds is None:
        check_place(out, resume=resume)
    (documents, dev_documents, test_documents), notes = read_parts((data, dev, test), format, json=json)
    kept = config.keep_head and labels is None and symmetric is None
    space = None if kept else label_space(labels, symmetric, [*documents, *dev_documents])
    shared: dict[str, Any] = {
        "labels": space,
        "config": config,
        "data": [str(path) for path in data],
        "resume": resume,
        "save_every_epochs": save_every_epochs,
        "save_every_minutes": save_every_minutes,
    }
    if folds is not None:
        share = 0.1 if dev_fraction is None else dev_fraction
        _train_folds(encoder, documents, out, folds, fold or [], share, shared, tensorboard, notes, json)
        return
    from unire.training import train as run

    trained = run(
        encoder,
        documents,
        dev=dev_documents,
        test=test_documents,
        out=out,
        reporter=new_reporter(json, tensorboard),
        **shared,
    )
    report(trained, out, notes, json)
    if trained.stopped_by is not None:
        raise stopped(trained.stopped_by)


def _train_folds(
    encoder: str,
    documents: list[Document],
    out: Path,
    folds: str,
    only: list[int],
    dev_fraction: float,
    shared: dict[str, Any],
    tensorboard: Path | None,
    notes: Mapping[str, int],
    json: bool,
) -> None:
    """Train a model per fold and print the mean over folds."""
    seed = shared["config"].seed
    ids = draw_folds(documents, int(folds), seed) if folds.isdecimal() else read_folds(Path(folds))
    if beyond := [number for number in only if not 1 <= number <= len(ids)]:
        raise UnireError(f"there is no fold {beyond[0]}: they are counted from 1 to {len(ids)}")
    check_folds(out, only or range(1, len(ids) + 1), resume=shared["resume"])
    from unire.training.folds import cross_validate, over_folds
    from unire.training.processes import is_main

    def reporter_for(number: int) -> Reporter:
        if not json and is_main():
            printing.errors.rule(f"fold {number} of {len(ids)}")
        return new_reporter(json, tensorboard and tensorboard / f"fold-{number:02d}")

    parts = list(split_folds(documents, ids, dev_fraction, seed))
    try:
        results = cross_validate(encoder, parts, out=out, only=only, reporter_for=reporter_for, **shared)
    except KeyboardInterrupt as interrupt:
        raise stopped(*interrupt.args) from None
    if not is_main():
        return
    means = [over_folds(results, average) for average in ("micro", "macro")] if len(results) == len(ids) else []
    if json:
        printing.print_json({"folds": [scores.to_dict() for scores in results], "mean": means, "notes": notes})
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
        printing.table(f"Mean over {len(results)} folds", ("", "P", "R", "F1", "± F1"), rows)
