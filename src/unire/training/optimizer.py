"""The optimiser of the paper: AdamW with β₂ = 0.9, rates by layer, a linear warm-up and a linear decay."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from unire.training.config import TrainingConfig

__all__ = ["Schedule", "TrainingBudget", "build_optimizer", "rate_at"]

SAVING = 10.0
"""Seconds kept for saving at the end; never more than a twentieth of the time."""


class TrainingBudget:
    """Counts seconds and steps, and says what share of the training they are.

    The time starts with the clock, but the share with the first step: loading and compiling take from the time, not
    from the warm-up of the learning rate.

    Args:
        minutes: All the time that there is; `None` for as long as it takes.
        steps: All the steps that there are; `None` for any number.
    """

    def __init__(self, minutes: float | None = None, steps: int | None = None) -> None:
        self.minutes = minutes
        self.steps = steps
        self.done_before = 0.0
        self._zero = time.monotonic()
        self._start = 0.0
        self._paused = 0.0

    def resume(self, seconds_before: float, done_before: float) -> None:
        """Go on from where an interrupted training stood; what was spent on loading it counts too.

        Args:
            seconds_before: What it had used.
            done_before: The share that it had done.
        """
        self._zero -= seconds_before
        self.done_before = done_before

    @property
    def seconds(self) -> float:
        """Since the training was begun, interruptions left out."""
        return time.monotonic() - self._zero

    @property
    def training_seconds(self) -> float:
        """Since the first step, pauses left out."""
        return self.seconds - self._start - self._paused

    def start(self) -> None:
        """The first step begins."""
        self._start = self.seconds

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time that is not spent in training, but counts."""
        began = self.seconds
        yield
        self._paused += self.seconds - began

    def done(self, steps: int) -> float:
        """The share, from 0 to 1, that is done after `steps` steps: of the time or of the steps, whichever is more."""
        by_steps = steps / self.steps if self.steps else 0.0
        by_time = 0.0
        if self.minutes:
            box = 60 * self.minutes
            left = box - min(SAVING, box / 20) - self._start
            share = (self.seconds - self._start) / left if left > 0 else 1.0
            by_time = self.done_before + (1 - self.done_before) * share
        return min(1.0, max(by_steps, by_time))


_LAYER = re.compile(r"\.(?:layers?|blocks?|h)\.(\d+)\.")


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW over groups of parameters, each with the peak rate of its layer.

    The top layer of the encoder learns at the full rate, every layer below it `layer_decay` times the one above;
    embeddings learn at the full rate too, all that is not in `encoder` at the head's.
    """
    named = dict(_trainable(model))
    depths = [int(match[1]) for name in named if (match := _LAYER.search(name))]
    top = max(depths, default=0)
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in named.items():
        if not name.startswith("encoder."):
            rate = config.lr if config.head_lr is None else config.head_lr
        elif match := _LAYER.search(name):
            rate = config.lr * config.layer_decay ** (top - int(match[1]))
        else:
            rate = config.lr
        groups.setdefault(rate, []).append(parameter)
    return torch.optim.AdamW(
        [{"params": parameters, "lr": rate, "peak": rate} for rate, parameters in groups.items()],
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=all(parameter.device.type == "cuda" for parameter in named.values()),
    )


def rate_at(done: float, warmup: float) -> float:
    """The share of the peak rate when `done` (0 to 1) of a training is behind: up from zero, then down to zero.

    Args:
        done: More than 1 is as 1.
        warmup: The share of the training in which the rate rises.
    """
    return done / warmup if done < warmup else max(0.0, (1 - done) / (1 - warmup))


class Schedule:
    """Sets every group's rate before a step, by `rate_at`.

    Without bias correction, AdamW's own correction is undone: dividing the first moment by 1 − β₁ᵗ and the second by
    1 − β₂ᵗ amounts to a rate and an ε that are larger by known factors, so the factors are taken out again (and put
    back into the weight decay, which AdamW multiplies by the rate).
    """

    def __init__(self, optimizer: Any, config: TrainingConfig) -> None:
        self.optimizer = optimizer
        self.config = config

    def set(self, progress: float, step: int) -> None:
        """Prepare step number `step`, counted from 1."""
        config = self.config
        rate_correction = eps_correction = 1.0
        if not config.bias_correction:
            eps_correction = (1 - config.beta2**step) ** 0.5
            rate_correction = (1 - config.beta1**step) / eps_correction
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * rate_at(progress, config.warmup) * rate_correction
            group["eps"] = config.eps / eps_correction
            group["weight_decay"] = config.weight_decay / rate_correction


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
