"""Training in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from unire.analysis.checks import types_of
from unire.documents import Document
from unire.hub.model_dir import ModelDir
from unire.labels import LabelSpace
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig
from unire.training.output_dir import check_output_dir
from unire.training.trainer import Trainer, TrainResult

__all__ = ["train"]


def train(
    encoder: str | Path,
    documents: Sequence[Document],
    *,
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    config: TrainingConfig | None = None,
    data: Sequence[str] = (),
    reporter: Callback | None = None,
    resume: bool = False,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
) -> TrainResult:
    """Train a model and save it. Ctrl-C and SIGTERM end it early, with a state to resume from.

    Args:
        encoder: A pretrained encoder, by Hub name or folder. Of a model its encoder is taken, and with `keep_head` all.
        documents: The training data.
        out: Where the model is written: a new folder. The state to resume from lies beside it, in `OUT.resume`.
        dev: Selects the best epoch and α, and calibrates the scores; without it the last epoch is kept.
        test: Scored once, at the end.
        labels: The label space; learnt from the training and dev data when left out (no relation is symmetric then),
            or with `keep_head` that of the model.
        config: A preset with changes; `best` when left out.
        data: Names of the data files, for the model card.
        reporter: Told what happens.
        resume: Continue where an earlier, unfinished training with the same settings stopped.
        save_every_epochs: Write the state to resume from every so many epochs.
        save_every_minutes: Write it every so many minutes; `None` for never.
    """
    out = Path(out)
    check_output_dir(out, resume=resume)
    config = config or TrainingConfig.from_preset("best")
    labels = labels or (ModelDir.open(encoder).labels if config.keep_head else LabelSpace.learn([*documents, *dev]))
    labels.check([*dev, *test])
    trainer = Trainer.begin(
        encoder,
        documents,
        out=out,
        dev=dev,
        labels=labels,
        config=config,
        data=data,
        reporter=reporter,
        resume=resume,
    )
    if not config.keep_head:  # which may know more types than this data shows
        trainer.data.notes.update(_unseen(documents, dev))
    return trainer.run(test, save_every_epochs, save_every_minutes)


def _unseen(documents: Iterable[Document], dev: Iterable[Document]) -> dict[str, int]:
    """How much of dev is of types that the training data never shows, and which these are."""
    shown = types_of(documents)
    unseen = [
        (label, count)
        for kind, counted in types_of(dev).items()
        for label, count in counted.items()
        if label not in shown[kind]
    ]
    names = ", ".join(sorted({label for label, _ in unseen}))
    what = f"in dev of a type that the training data never shows, and that can never be found: {names}"
    return {what: sum(count for _, count in unseen)} if unseen else {}
