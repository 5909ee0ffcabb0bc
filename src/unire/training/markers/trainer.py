"""Training a model of spans or of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from unire.errors import UnireError
from unire.inference.streaming import Prefetcher
from unire.models.batch import Tensors
from unire.training.callbacks import Interrupt
from unire.training.config import TrainingConfig
from unire.training.markers.inference import batch_by_length, pin_tensors, shuffle_into_steps, tensors_to_device
from unire.training.optimizer import Schedule, build_optimizer
from unire.training.trainer import use_bf16

__all__ = ["Data", "fit"]


class Data(Protocol):
    """What is learnt from: items with a length in tokens and a weight, which a step is measured by."""

    lengths: list[int]
    weights: list[int]

    def collate(self, items: Sequence[int], /) -> Tensors: ...


def fit(
    model: Any,
    data: Data,
    config: TrainingConfig,
    *,
    evaluate: Callable[[], float] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, float]]:
    """Train `model`, and leave it with the weights of its best epoch on dev; what each epoch gave.

    Args:
        model: Has an `encoder`, and a `loss` that is a sum over what weighs.
        data: Shuffled by the seed and the number of the epoch.
        config: Epochs, rates, size of a step.
        evaluate: F1 on dev; without it the last epoch is kept.
        tell: Told of every epoch.
    """
    if not data.lengths:
        raise UnireError("the training data holds nothing that this model could learn from")
    device, bf16 = model.device, use_bf16(config, model.device)
    optimizer = build_optimizer(model, config)
    schedule = Schedule(optimizer, config)
    parameters = [group_parameter for group in optimizer.param_groups for group_parameter in group["params"]]
    history: list[dict[str, float]] = []
    best, weights = -1.0, None
    taken = 0
    with Interrupt() as interrupt:
        for epoch in range(config.epochs):
            rng = np.random.default_rng([config.seed, epoch])
            steps = shuffle_into_steps(data.lengths, data.weights, config.batch_size, rng)
            model.train()
            total = torch.zeros((), device=device)
            for position, batches in enumerate(Prefetcher(_collated(steps, data, config, device))):
                taken += 1
                schedule.set((epoch + (position + 0.5) / len(steps)) / config.epochs, taken)
                weight = sum(data.weights[item] for item in steps[position])
                for tensors in batches:
                    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
                        loss = model.loss(tensors_to_device(tensors, device)) / weight
                    loss.backward()
                    total += loss.detach()
                torch.nn.utils.clip_grad_norm_(parameters, config.clip)
                optimizer.step()
                optimizer.zero_grad()
                interrupt.check()
            record = {"epoch": epoch + 1, "loss": total.item() / len(steps)}
            if not math.isfinite(record["loss"]):
                raise UnireError(f"the loss of epoch {epoch + 1} is not a number; lower the rates")
            if evaluate is not None:
                record["dev"] = evaluate()
                if record["dev"] >= best:  # of equals the one that has learnt longer
                    best = record["dev"]
                    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            history.append(record)
            tell(", ".join(f"{name} {value:.4g}" for name, value in record.items()))
    if weights is not None:
        model.load_state_dict(weights)
    return history


def _collated(
    steps: Sequence[Sequence[int]], data: Data, config: TrainingConfig, device: torch.device
) -> Iterator[list[Tensors]]:
    """The batches of every step: one, or where that were too much at once several whose gradients add up."""
    for step in steps:
        yield [
            pin_tensors(data.collate(batch), device) for batch in batch_by_length(step, data.lengths, config.max_pieces)
        ]
