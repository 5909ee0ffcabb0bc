"""Cross-validation: folds that are given or drawn, and a training for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unire.documents import Document
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.scoring import Scores, score
from unire.training.loop import train
from unire.training.reporting import Reporter

__all__ = ["Fold", "cross_validate", "draw_folds", "read_folds", "split_folds"]


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
    reporter_for: Callable[[int], Reporter] = lambda number: Reporter(),
    resume: bool = False,
    **options: Any,
) -> list[Scores]:
    """Train a model per fold, in `out/fold-01` and so on, and score each on its fold's test documents.

    Args:
        encoder: A pretrained encoder, by Hub name or folder.
        folds: What to train and test on.
        out: The folder for the models.
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
            extractor = Extractor.load(folder)
            results.append(score(fold.test, extractor.annotate(fold.test), extractor.labels))
            continue
        trained = train(
            encoder,
            fold.train,
            dev=fold.dev,
            test=fold.test,
            out=folder,
            reporter=reporter_for(number),
            resume=resume and unfinished,
            **options,
        )
        if trained.test is None:
            raise KeyboardInterrupt
        results.append(trained.test)
    return results
