"""Self-training: a model labels the user's unlabelled text, and a second one learns from it and the annotated data."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.evaluation.scores import Scores
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.models.unire import UniRE
from unire.output_files import locks_output
from unire.training.config import TrainingConfig
from unire.training.distillation.distill import DistillConfig, distill
from unire.training.encoder_choice import choose_encoder
from unire.training.resume import check_training_folder, has_checkpoint, is_finished
from unire.training.train import TrainResult, train

__all__ = ["self_train", "teacher_folder"]

SOFT_SENTENCES = 2
"""Unlabelled sentences in a step of the second training, for each annotated one."""
FIRST_SHARE = 0.4
"""Share of the time for the first training. The second one has more to compute in each step."""


def teacher_folder(out: Path) -> Path:
    """The folder of the first model, while the second is trained."""
    return out.with_name(f"{out.name}.teacher")


@locks_output
def self_train(
    encoder: str | Path | None,
    documents: Sequence[Document],
    *,
    unlabelled: Sequence[str | Path],
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    config: TrainingConfig | None = None,
    minutes: float | None = None,
    resume: bool = False,
    **options: Any,
) -> TrainResult:
    """Train a model twice: on annotated documents, and then also on the soft labels of the first for unlabelled text.

    The second model starts from the encoder, like the first. With dev, the better one is kept.

    >>> self_train("science", documents, unlabelled=["texts.txt"], dev=dev, out="models/mine")  # doctest: +SKIP

    Args:
        encoder: As in `train`.
        documents: The annotated training data.
        unlabelled: Files of plain text with a document per line, or of documents in one of our formats.
        out: A new folder for the model. While the second training runs, the first model is in `OUT.teacher`.
        dev: As in `train`; also decides which model is kept.
        test: Scored at the end.
        labels: The label space. [default: learnt from all the data]
        config: The settings of both trainings. [default: preset `best`, or `cpu` without a GPU]
        minutes: Time limit of both trainings together.
        resume: Continue an unfinished training with the same settings.
        options: Other arguments of `train`, but `label_map`, which only the first training has.

    Returns:
        The kept model and its scores, and the history of the second training.

    Raises:
        UnireError: See `train` and `distill`.
    """
    began = time.monotonic()
    out = Path(out)
    check_training_folder(out, resume=resume)
    config, teacher = config or TrainingConfig.from_preset(), teacher_folder(out)
    if config.keep_head:
        raise UnireError("self-training starts a new head twice; train without unlabelled text to keep a head")
    if encoder is None:
        encoder = choose_encoder(documents, dev).name
    labels = labels or LabelSpace.learn([*documents, *dev, *test])
    shared: dict[str, Any] = {"dev": dev, "labels": labels, "config": config}
    label_map = options.pop("label_map", None)
    if not (resume and is_finished(teacher) and not has_checkpoint(teacher)):
        first = train(
            encoder,
            documents,
            out=teacher,
            minutes=minutes and FIRST_SHARE * minutes,
            resume=resume and has_checkpoint(teacher),
            label_map=label_map,
            **shared,
            **options,
        )
        if first.interrupted:
            return first
    left = None if minutes is None else max(0.1 * minutes, minutes - (time.monotonic() - began) / 60)
    second = distill(
        encoder,
        documents,
        out=out,
        teachers=[teacher],
        corpus=unlabelled,
        test=test,
        distillation=DistillConfig(soft_batch=SOFT_SENTENCES * config.batch_size, minutes=left),
        resume=resume and has_checkpoint(out),
        **shared,
        **options,
    )
    if second.interrupted:
        return second
    before = _score(teacher, dev)
    if before is not None and second.dev is not None and before > second.dev:
        UniRE.from_pretrained(teacher).save_pretrained(out)
        second = replace(second, model=UniRE.from_pretrained(out), dev=before, test=_score(out, test))
    shutil.rmtree(teacher)
    return second


def _score(folder: Path, documents: Sequence[Document]) -> Scores | None:
    """The scores of a saved model; `None` without documents."""
    if not documents:
        return None
    extractor = Extractor.load(folder)
    return score(documents, extractor.annotate(documents), extractor.labels)
