"""`train_markers`: train a marker model on annotated documents, and save it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerate.utils import set_seed

from unire.documents import Document
from unire.evaluation.scorer import score
from unire.inference.torch_engine import choose_device
from unire.labels import LabelSpace
from unire.models.encoder import load_encoder
from unire.output_files import locks_output
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig, marker_config
from unire.training.distributed import require_single_process
from unire.training.markers.classifier import init_classifier, save_classifier
from unire.training.markers.data import RelationData
from unire.training.resume import check_training_folder, fingerprint
from unire.training.tasks import ItemTask
from unire.training.train import encoder_provenance
from unire.training.trainer import Trainer

__all__ = ["TrainedMarkers", "train_markers"]


@dataclass(frozen=True)
class TrainedMarkers:
    """How the training of a marker model went."""

    history: Sequence[Mapping[str, float]]
    """The loss of every epoch and, with dev data, Rel F1 between the gold entities of dev."""
    f1: float | None
    """Rel F1 of the epoch that was kept."""
    seconds: float
    """Time of the whole run."""
    notes: Mapping[str, int]
    """What the model could not be trained on, and why."""


@locks_output
def train_markers(
    encoder: str | Path,
    documents: Sequence[Document],
    out: str | Path,
    *,
    labels: LabelSpace,
    config: TrainingConfig | None = None,
    dev: Sequence[Document] = (),
    approximate: bool = True,
    again: bool = False,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    save_every_minutes: float | None = 10.0,
    device: str | None = None,
) -> TrainedMarkers:
    """Train a model that classifies the relations between given entities, and save it.

    >>> train_markers("bert-base-uncased", documents, "markers/1", labels=labels, dev=dev)  # doctest: +SKIP

    Args:
        encoder: Hub name, folder, or a unire model, whose encoder is used.
        documents: Annotated documents.
        out: A new folder for the model. Checkpoints to resume from are written next to it, to `OUT.resume`.
        labels: The label space.
        config: The settings, from `marker_config`. [default: `marker_config()`]
        dev: Selects the best epoch. Without it the last one is kept.
        approximate: Encode all pairs of a sentence in one pass, which needs an encoder with absolute positions;
            otherwise every pair needs a separate pass.
        again: Replace a model that an earlier run has saved, and write no checkpoints.
        callbacks: Called in the course of the training.
        resume: Continue an unfinished training with the same settings.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.
        device: `cpu` or `cuda`. [default: a GPU if there is one]

    Returns:
        The loss and dev score of every epoch, and the score of the epoch that was kept.

    Raises:
        UnireError: `out` is not empty, or the documents have unknown labels.
        KeyboardInterrupt: Ctrl-C or SIGTERM. A checkpoint was written if there was a step.
    """
    require_single_process("the training of a marker model")
    began = time.monotonic()
    out, config = Path(out), config or marker_config()
    if not again:
        check_training_folder(out, resume=resume)
    torch_device = choose_device(device)
    labels.check([*documents, *dev])
    set_seed(config.seed)
    loaded, name = load_encoder(encoder, case_marks=config.case_marks), encoder_provenance(str(encoder))["encoder"]
    classifier = init_classifier(*loaded, labels, config, approximate=approximate, device=torch_device)
    data = RelationData(documents, classifier.model, classifier.reader, labels)
    settings = {
        "encoder": name,
        "approximate": approximate,
        "labels": labels.to_dict(),
        "training data": fingerprint(documents, dev),
    }

    def f1() -> float:
        return score(dev, classifier.predict(dev), labels).relations.f1

    task = ItemTask(classifier.model, data, config, evaluate=f1 if dev else None, settings=settings)
    checkpoints = None if again else out
    trainer = Trainer(task, out=checkpoints, callbacks=callbacks, save_every_minutes=save_every_minutes)
    trainer.run(resume=resume)
    save_classifier(classifier, out, encoder=name, config=config)
    trainer.remove_checkpoints()
    history = trainer.state.history
    best = max((epoch["dev"] for epoch in history), default=None) if dev else None
    return TrainedMarkers(history, best, round(time.monotonic() - began, 1), dict(data.notes))
