"""`train_markers`, and the training task that marker models share with the span model of the pipeline study."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from accelerate.utils import set_seed

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.inference.streaming import Prefetcher
from unire.inference.torch_engine import choose_device
from unire.labels import LabelSpace
from unire.models.batch import Tensors, move_tensors, pin_tensors
from unire.models.encoder import load_encoder
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig, marker_config
from unire.training.distributed import require_single_process
from unire.training.markers.classifier import init_classifier, save_classifier, shuffle_into_steps
from unire.training.markers.data import RelationData
from unire.training.optimizer import build_optimizer, build_schedule
from unire.training.resume import check_output_dir, fingerprint
from unire.training.train import encoder_provenance
from unire.training.trainer import Evaluation, Task, Trainer, use_bf16
from unire.windows.collator import bucket_by_length

__all__ = ["MarkerData", "MarkerTask", "TrainedMarkers", "train_markers"]


class MarkerData(Protocol):
    """Training data: items with a length in tokens, and a weight that counts towards the size of a step."""

    lengths: list[int]
    weights: list[int]

    def collate(self, items: Sequence[int], /) -> Tensors: ...


class MarkerTask(Task):
    """Trains a model of entity pairs, or of spans.

    Args:
        model: Has an `encoder`, and a `loss` that is a sum over weights.
        data: Shuffled by the seed and the number of the epoch.
        config: Epochs, learning rates, size of a step.
        evaluate: F1 on dev; without it the last epoch is kept.
        settings: What a resumed training must share.
    """

    prefers_later = True

    def __init__(
        self,
        model: Any,
        data: MarkerData,
        config: TrainingConfig,
        *,
        evaluate: Callable[[], float] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not data.lengths:
            raise UnireError("the training data holds nothing that this model could learn from")
        self.model: Any = model
        self.data = data
        self.config = config
        self.epochs, self.clip = config.epochs, config.clip
        self.device, self.bf16 = model.device, use_bf16(config, model.device)
        self.optimizer = build_optimizer(model, config)
        self.schedule = build_schedule(self.optimizer, config)
        self.loss_sums = torch.zeros(1, device=self.device)
        self.settings = {**asdict(config), **(settings or {})}
        self.default_settings = asdict(TrainingConfig())
        self._f1 = evaluate

    def steps(self, epoch: int, start: int) -> tuple[int, Iterator[tuple[list[Tensors], int]]]:
        """The batches of every step and its weight; the next step is collated while the present one is computed."""
        rng = np.random.default_rng([self.config.seed, epoch])
        steps = shuffle_into_steps(self.data.lengths, self.data.weights, self.config.batch_size, rng)
        return len(steps), Prefetcher(self._collate(step) for step in steps[start:])

    def _collate(self, step: Sequence[int]) -> tuple[list[Tensors], int]:
        """A step that is too large to compute at once has several batches, whose gradients add up."""
        parts = bucket_by_length(step, self.data.lengths.__getitem__, self.config.max_pieces)
        batches = [self.data.collate(part) for part in parts]
        if self.device.type == "cuda":
            batches = [pin_tensors(batch) for batch in batches]
        return batches, sum(self.data.weights[item] for item in step)

    def backward(self, step: tuple[list[Tensors], int], out_of_time: Callable[[], bool]) -> None:
        self.model.train()
        batches, weight = step
        for tensors in batches:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
                loss = self.model.loss(move_tensors(tensors, self.device)) / weight
            loss.backward()
            self.loss_sums += loss.detach()

    def evaluate(self) -> Evaluation | None:
        if self._f1 is None:
            return None
        f1 = self._f1()
        return Evaluation(f1, f1)


@dataclass(frozen=True)
class TrainedMarkers:
    """How a training went."""

    history: Sequence[Mapping[str, float]]
    """The loss of every epoch and, with dev data, Rel F1 between the gold entities of dev."""
    f1: float | None
    """Rel F1 of the epoch that was kept."""
    seconds: float
    notes: Mapping[str, int]
    """What the model could not be trained on, and why."""


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
        out: A new folder for the model. Checkpoints to resume from are written beside it, to `OUT.resume`.
        labels: The label space.
        config: `marker_config()` by default.
        dev: Selects the best epoch; without it the last one is kept.
        approximate: Encode all pairs of a sentence in one pass, which needs an encoder with absolute positions;
            otherwise every pair has a pass of its own.
        again: Replace a model that an earlier run has saved, and write no checkpoints.
        callbacks: Called in the course of the training.
        resume: Continue an unfinished training with the same settings.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.
        device: `cpu` or `cuda`; by default the GPU if there is one.

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
        check_output_dir(out, resume=resume)
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

    task = MarkerTask(classifier.model, data, config, evaluate=f1 if dev else None, settings=settings)
    checkpoints = None if again else out
    trainer = Trainer(task, out=checkpoints, callbacks=callbacks, save_every_minutes=save_every_minutes)
    trainer.run(resume=resume)
    save_classifier(classifier, out, encoder=name, config=config)
    trainer.remove_checkpoints()
    history = trainer.state.history
    best = max((epoch["dev"] for epoch in history), default=None) if dev else None
    return TrainedMarkers(history, best, round(time.monotonic() - began, 1), dict(data.notes))
