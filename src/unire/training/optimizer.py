"""Optimiser, learning-rate schedule and time budget: AdamW, rates by layer, linear warm-up and decay."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from unire.training.config import TrainingConfig

__all__ = ["Schedule", "TrainingBudget", "build_optimizer", "build_schedule", "rate_at"]

SAVE_SECONDS = 10.0
"""Time reserved for saving at the end; never more than a twentieth of the budget."""


class TrainingBudget:
    """Measures which fraction of a training is done, by time, steps or epochs.

    Seconds count from the creation of the budget, but the fraction counts from the first step: loading and compiling
    take from the time, not from the warm-up of the learning rate.

    Args:
        minutes: Time for all of it; `None` for no limit.
        steps: Optimiser steps; `None` for no limit.
        epochs: Passes over the data; `None` for no limit.
    """

    def __init__(self, minutes: float | None = None, *, steps: int | None = None, epochs: int | None = None) -> None:
        self.minutes = minutes
        self.steps = steps
        self.epochs = epochs
        self._fraction_before = 0.0
        self._zero = time.monotonic()
        self._start: float | None = None
        self._paused = 0.0

    def resume(self, seconds: float, fraction: float) -> None:
        """Continue an interrupted training. The time since the creation of this budget, for loading, counts too.

        Args:
            seconds: Time that the interrupted training had used.
            fraction: What it had done.
        """
        self._zero -= seconds
        self._fraction_before = fraction

    @property
    def seconds(self) -> float:
        """Time since the training began, without the time between interruption and resume."""
        return time.monotonic() - self._zero

    @property
    def training_seconds(self) -> float:
        """Time since the first step of this run, without pauses."""
        return self.seconds - (self._start or 0.0) - self._paused

    def start(self) -> None:
        """Mark the first step; later calls do nothing."""
        if self._start is None:
            self._start = self.seconds

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time that counts, but is not spent on training."""
        began = self.seconds
        yield
        self._paused += self.seconds - began

    def fraction(self, steps: int, epochs: float = 0.0) -> float:
        """The fraction, from 0 to 1, that is done after `steps` steps and `epochs` epochs: the largest of the three."""
        by_steps = steps / self.steps if self.steps else 0.0
        by_epochs = epochs / self.epochs if self.epochs else 0.0
        by_time = 0.0
        if self.minutes:
            total, start = 60 * self.minutes, self._start or 0.0
            left = total - min(SAVE_SECONDS, total / 20) - start
            share = (self.seconds - start) / left if left > 0 else 1.0
            by_time = self._fraction_before + (1 - self._fraction_before) * share
        return min(1.0, max(by_steps, by_epochs, by_time))


_LAYER = re.compile(r"\.(?:layers?|blocks?|h)\.(\d+)\.")


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW over groups of parameters, each with the peak learning rate of its layer.

    The top layer of the encoder and the embeddings have the full rate; every other layer has `layer_decay` times the
    rate of the layer above it. Everything outside `encoder` has the rate of the head.
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
        fused=all(parameter.device.type in ("cuda", "cpu") for parameter in named.values()),
    )


def rate_at(fraction: float, warmup: float) -> float:
    """Linear warm-up and decay: the learning rate as a share of its peak.

    Args:
        fraction: The completed fraction of the training, at most 1.
        warmup: The fraction of the training in which the rate rises from zero to its peak.
    """
    return fraction / warmup if fraction < warmup else max(0.0, (1 - fraction) / (1 - warmup))


class Schedule:
    """Sets the learning rate of every parameter group before a step, from its `peak`."""

    def __init__(self, optimizer: Any, warmup: float) -> None:
        self.optimizer = optimizer
        self.warmup = warmup

    def set(self, fraction: float, step: int) -> None:
        """Prepare step number `step`, counted from 1, after `fraction` of the training."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * rate_at(fraction, self.warmup)


class UncorrectedSchedule(Schedule):
    """The same for AdamW without bias correction, as in the released code: AdamW's own correction is undone.

    AdamW divides the first moment by 1 − β₁ᵗ and the second by 1 − β₂ᵗ. That amounts to a rate and an ε that are larger
    by known factors, which are divided out here (and multiplied into the weight decay, which AdamW multiplies by the
    rate).
    """

    def __init__(self, optimizer: Any, config: TrainingConfig) -> None:
        super().__init__(optimizer, config.warmup)
        self.config = config

    def set(self, fraction: float, step: int) -> None:
        super().set(fraction, step)
        eps_correction = (1 - self.config.beta2**step) ** 0.5
        rate_correction = (1 - self.config.beta1**step) / eps_correction
        for group in self.optimizer.param_groups:
            group["lr"] *= rate_correction
            group["eps"] = self.config.eps / eps_correction
            group["weight_decay"] = self.config.weight_decay / rate_correction


def build_schedule(optimizer: Any, config: TrainingConfig) -> Schedule:
    """Linear warm-up and decay, with or without bias correction."""
    return Schedule(optimizer, config.warmup) if config.bias_correction else UncorrectedSchedule(optimizer, config)


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
