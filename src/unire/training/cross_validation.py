"""Cross-validation: a model per fold, and the mean of their scores."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from unire.analysis.splits import Fold
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.scores import Average, Scores
from unire.extractor import Extractor
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig
from unire.training.encoder_choice import choose_encoder
from unire.training.resume import check_folds, fingerprint, fold_folder, has_checkpoint, is_finished
from unire.training.train import encoder_provenance, train

__all__ = ["cross_validate", "over_folds"]


def cross_validate(
    encoder: str | Path | None,
    folds: Sequence[Fold],
    *,
    out: Path,
    config: TrainingConfig,
    only: Collection[int] = (),
    callbacks_for: Callable[[int], Sequence[Callback]] = lambda number: (),
    resume: bool = False,
    **options: Any,
) -> list[Scores]:
    """Train a model per fold, in `out/fold-01` and so on, and score each on its fold's test documents.

    >>> folds = list(split_folds(documents, draw_folds(documents, 10)))  # doctest: +SKIP
    >>> scores = cross_validate("bert-base-uncased", folds, out=Path("models"), config=config)  # doctest: +SKIP

    Args:
        encoder: A pretrained encoder, by Hub name or folder; `None` for that of the bundled model that suits the
            training data of the first fold best.
        folds: Training, dev and test documents of each.
        out: The folder for the models; it may hold those of other folds.
        config: How each model is trained.
        only: Numbers of the folds to train, from 1. [default: all]
        callbacks_for: Makes the callbacks of a fold, given its number from 1.
        resume: Keep finished folds, and continue the one that was interrupted.
        options: Passed on to `train`.

    Returns:
        The scores of each fold on its test documents.

    Raises:
        UnireError: There is no fold of a number in `only`, or the folder of a fold is not empty.
        KeyboardInterrupt: A fold was interrupted; `resume` continues it.
    """
    check_folds(out, len(folds), only, resume=resume)  # before the first is trained
    if encoder is None:
        encoder = choose_encoder(folds[0].train).name
    chosen = [
        (number, fold, fold_folder(out, number))
        for number, fold in enumerate(folds, start=1)
        if not only or number in only
    ]
    results = []
    for number, fold, folder in chosen:
        unfinished = has_checkpoint(folder)
        if resume and is_finished(folder) and not unfinished:
            results.append(_score_again(folder, fold, encoder, config))
            continue
        trained = train(
            encoder,
            fold.train,
            dev=fold.dev,
            test=fold.test,
            out=folder,
            callbacks=callbacks_for(number),
            resume=resume and unfinished,
            config=config,
            **options,
        )
        if trained.test is None:
            raise KeyboardInterrupt(trained.stopped_by or signal.SIGINT)
        results.append(trained.test)
    return results


def over_folds(results: Sequence[Scores], average: Average) -> dict[str, Any]:
    """Mean precision, recall and F1 over folds, and the standard deviation of F1, as plain JSON values."""
    row: dict[str, Any] = {"average": average}
    for part in ("entities", "relations"):
        folds = [replace(getattr(scores, part), average=average) for scores in results]
        row[part] = {rate: mean(getattr(fold, rate) for fold in folds) for rate in ("precision", "recall", "f1")}
        row[part]["deviation"] = stdev(fold.f1 for fold in folds)
    return row


def _score_again(folder: Path, fold: Fold, encoder: str | Path, config: TrainingConfig) -> Scores:
    """The scores of a fold that an earlier run with the same settings has finished."""
    extractor = Extractor.load(folder)
    provenance = extractor.config.provenance
    same = {
        "config": provenance.get("config") == asdict(config),
        "encoder": provenance.get("encoder") == encoder_provenance(str(encoder))["encoder"],
        "data": provenance.get("fingerprint") == fingerprint(fold.train, fold.dev),
    }
    if other := [what for what, equal in same.items() if not equal]:
        raise UnireError(
            f"the model in {str(folder)!r} was trained with another {other[0]}; resume with the same settings, "
            "or give a new folder"
        )
    return score(fold.test, extractor.annotate(fold.test), extractor.labels)
