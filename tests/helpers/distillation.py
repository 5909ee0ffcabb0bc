"""Small distillations, on the twenty sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helpers.paths import TWENTY
from unire.documents import Document
from unire.training.config import TrainingConfig
from unire.training.distillation.batches import DistillationBatch, DistillationBatches
from unire.training.distillation.distill import DistillConfig, distill
from unire.training.train import TrainResult

GOLD = [Document.from_words([["Nothing", "is", "found", "here", "."]])]
"""Gold that says nothing of what the teachers know."""


def quick(**changes) -> TrainingConfig:
    still = {"mlp_dropout": 0.0, "logit_dropout": 0.0}
    return TrainingConfig(**{"lr": 1e-3, "head_lr": 3e-3, "epochs": 3, "window": 40, **still, **changes})


def taught(teachers: Sequence[Path], student: Path, out: Path, corpus: Path = TWENTY, **options) -> TrainResult:
    options = {"documents": GOLD, "config": quick(), "workers": 0, **options}
    options.setdefault("distillation", DistillConfig(soft_batch=10))
    if "soft_labels" not in options:
        options |= {"teachers": teachers, "corpus": [corpus]}
    return distill(student, out=out, **options)


def steps_of(data: DistillationBatches, count: int, **options) -> list[DistillationBatch]:
    stream = data.steps(**{"chunk": 0, "position": 0, "process": 0, "n_processes": 1, "workers": 0, **options})
    return [step for (step, _, _), _ in zip(stream, range(count), strict=False)]
