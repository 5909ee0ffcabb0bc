"""Cross-validation: folds that are given or drawn, and a training for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from unire.documents import Document
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.scoring import Scores, score
from unire.scoring.protocol import Average
from unire.training.config import TrainingConfig
from unire.training.loop import origin, train
from unire.training.reporting import Reporter
from unire.training.state import fingerprint

__all__ = ["Fold", "cross_validate", "draw_folds", "over_folds", "read_folds", "split_folds"]


@dataclass(frozen=True)
class Fold:
    """The data of one training in a cross-validation."""

    train: list[Document]
    dev: list[Document]
    test: list[Document]


def read_folds(path: Path) -> list[list[str]]:
    """The ids of every fold's test documents, from a JSON list of lists (or an object with just one)."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnireError(f"folds {str(path)!r} cannot be read: {error}") from None
    if isinstance(data, dict) and len(data) == 1:
        data = next(iter(data.values()))
    if not isinstance(data, list) or len(data) < 2 or not all(isinstance(fold, list) and fold for fold in data):
        raise UnireError(f"folds {str(path)!r} must be a JSON list with one list of test document ids per fold")
    return [[str(name) for name in fold] for fold in data]


def draw_folds(documents: Sequence[Document], n_folds: int, seed: int = 0) -> list[list[str]]:
    """The documents dealt into folds of equal size, at random but the same for the same seed."""
    if not 2 <= n_folds <= len(documents):
        raise UnireError(f"{len(documents)} documents cannot be dealt into {n_folds} folds; give 2 to {len(documents)}")
    order = np.random.default_rng(seed).permutation(len(documents))
    return [[documents[i].id for i in order[fold::n_folds]] for fold in range(n_folds)]


def split_folds(
    documents: Sequence[Document], folds: Sequence[Sequence[str]], dev_fraction: float = 0.1, seed: int = 0
) -> Iterator[Fold]:
    """Each fold's data: its documents are the test set, a seeded sample of the others is dev, the rest trains."""
    by_id = {document.id: document for document in documents}
    if len(by_id) < len(documents):
        raise UnireError("folds need documents with different ids, but some share one")
    for number, ids in enumerate(folds, start=1):
        if missing := [name for name in ids if name not in by_id]:
            raise UnireError(f"fold {number} names the document {missing[0]!r}, which the data does not have")
        held_out = set(ids)
        rest = [document for document in documents if document.id not in held_out]
        order = np.random.default_rng([seed, number]).permutation(len(rest))
        n_dev = round(dev_fraction * len(rest))
        dev = set(order[:n_dev].tolist())
        yield Fold(
            train=[document for i, document in enumerate(rest) if i not in dev],
            dev=[rest[i] for i in sorted(dev)],
            test=[by_id[name] for name in ids],
        )


def cross_validate(
    encoder: str | Path,
    folds: Sequence[Fold],
    *,
    out: Path,
    config: TrainingConfig,
    reporter_for: Callable[[int], Reporter] = lambda number: Reporter(),
    resume: bool = False,
    **options: Any,
) -> list[Scores]:
    """Train a model per fold, in `out/fold-01` and so on, and score each on its fold's test documents.

    Args:
        encoder: A pretrained encoder, by Hub name or folder.
        folds: What to train and test on.
        out: The folder for the models.
        config: How each is trained.
        reporter_for: Makes the reporter of a fold, given its number from 1.
        resume: Leave finished folds alone, and continue the one that was stopped.
        options: Passed on to `train`.

    Raises:
        KeyboardInterrupt: A fold was interrupted; `resume` continues it.
    """
    results = []
    for number, fold in enumerate(folds, start=1):
        folder = out / f"fold-{number:02d}"
        unfinished = folder.with_name(folder.name + ".resume").exists()
        if resume and folder.exists() and not unfinished:
            results.append(_score_again(folder, fold, encoder, config))
            continue
        trained = train(
            encoder,
            fold.train,
            dev=fold.dev,
            test=fold.test,
            out=folder,
            reporter=reporter_for(number),
            resume=resume and unfinished,
            config=config,
            **options,
        )
        if trained.test is None:
            raise KeyboardInterrupt
        results.append(trained.test)
    return results


def over_folds(results: Sequence[Scores], average: Average) -> dict[str, Any]:
    """Mean precision, recall and F1 over folds, and the deviation of F1, as plain JSON values."""
    row: dict[str, Any] = {"average": average}
    for part in ("entities", "relations"):
        folds = [replace(getattr(scores, part), average=average) for scores in results]
        row[part] = {rate: mean(getattr(fold, rate) for fold in folds) for rate in ("precision", "recall", "f1")}
        row[part]["deviation"] = stdev(fold.f1 for fold in folds)
    return row


def _score_again(folder: Path, fold: Fold, encoder: str | Path, config: TrainingConfig) -> Scores:
    """The scores of a fold that an earlier run has finished, if it was the same run."""
    extractor = Extractor.load(folder)
    made = extractor.settings.provenance
    same = {
        "config": made.get("config") == asdict(config),
        "encoder": made.get("encoder") == origin(str(encoder))["encoder"],
        "data": made.get("fingerprint") == fingerprint(fold.train, fold.dev),
    }
    if other := [what for what, equal in same.items() if not equal]:
        raise UnireError(
            f"the model in {str(folder)!r} was trained with another {other[0]}; resume with the same settings, "
            "or give a new folder"
        )
    return score(fold.test, extractor.annotate(fold.test), extractor.labels)
