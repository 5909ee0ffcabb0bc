"""A task of the trainer for models that learn from items, each with a length and a weight, and have no tables.

Marker models and the span model of the pipeline study are trained by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import torch

from unire.errors import UnireError
from unire.inference.streaming import Prefetcher
from unire.models.batch import Tensors, move_tensors, pin_tensors
from unire.training.config import TrainingConfig
from unire.training.optimizer import build_optimizer, build_schedule
from unire.training.trainer import Evaluation, Task, use_bf16
from unire.windows.collator import bucket_items

__all__ = ["ItemData", "ItemTask", "shuffle_into_steps"]

POOL_ITEMS = 2048
"""Items that are sorted by length together. The order between pools and between steps is random."""


class ItemData(Protocol):
    """Training data: items with a length in tokens, and a weight that counts towards the size of a step."""

    lengths: list[int]
    """Tokens of each item: items of similar length are batched together."""
    weights: list[int]
    """What each item counts in the mean loss and towards `batch_size`."""

    def collate(self, items: Sequence[int], /) -> Tensors:
        """Turn the items at these positions into the tensors of a batch."""


class ItemTask(Task):
    """Trains a model on items with a loss that is a sum over them, such as entity pairs or spans.

    Args:
        model: Has a `device`, an `encoder` with a learning rate of its own, and a method `loss` from the tensors of
            `data.collate` to the sum of the losses of their items.
        data: Shuffled by the seed and the number of the epoch.
        config: Epochs, learning rates, size of a step.
        evaluate: F1 on dev; without it the last epoch is kept.
        settings: What a resumed training must share.
    """

    prefers_later = True

    def __init__(
        self,
        model: Any,
        data: ItemData,
        config: TrainingConfig,
        *,
        evaluate: Callable[[], float] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not data.lengths:
            raise UnireError("the training data has no examples for this model")
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
        parts = bucket_items(step, self.data.lengths.__getitem__, self.config.max_pieces)
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


def shuffle_into_steps(
    lengths: Sequence[int], weights: Sequence[int], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Distribute the items of an epoch to steps. A step is filled until its weight is `size` or more."""
    order = rng.permutation(len(lengths)).tolist()
    steps: list[list[int]] = []
    for start in range(0, len(order), POOL_ITEMS):
        weight = size
        for item in sorted(order[start : start + POOL_ITEMS], key=lengths.__getitem__):
            if weight >= size:
                steps.append([])
                weight = 0
            steps[-1].append(item)
            weight += weights[item]
    return [steps[place] for place in rng.permutation(len(steps))]
