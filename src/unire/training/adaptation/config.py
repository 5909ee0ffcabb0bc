"""The settings of an adaptation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from unire.errors import COUNT, FRACTION, POSITIVE, Range, UnireError, check_kinds, check_ranges

__all__ = ["AdaptationConfig"]

BATCH_TOKENS = {"cuda": 65_536, "cpu": 4_096}
"""Tokens of one optimiser step by default. A CPU gets few, so that it takes more than one step in the time."""


@dataclass(frozen=True)
class AdaptationConfig:
    """Settings of an adaptation, which ends when the time or the steps are used up."""

    minutes: float | None = None
    """Time limit for the whole run, from loading to saving."""
    max_steps: int | None = None
    """Number of optimiser steps; with a limit of steps alone, results are reproducible on a CPU."""
    length: int = 256
    """Tokens per row, including special tokens."""
    batch_tokens: int | None = None
    """Tokens per optimiser step; by default 65,536 on a GPU and 4,096 on a CPU."""
    lr: float = 1e-4
    """Peak learning rate of the encoder."""
    warmup: float = 0.06
    """Fraction of the training in which the learning rate rises; then it decays linearly to zero."""
    mask_rate: float = 0.2
    """Fraction of tokens to mask."""
    case_marks: bool = False
    """Whether an uncased encoder gets tokens that mark capitals, for trainings with the same setting."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.minutes is None and self.max_steps is None:
            raise UnireError("adaptation needs an end: give the minutes or the steps that it may take")
        check_kinds(type(self), vars(self), "adaptation setting")
        check_ranges(vars(self), RANGES, "adaptation setting")
        if self.batch_tokens is not None and self.batch_tokens < self.length:
            raise UnireError(
                f"adaptation setting batch_tokens = {self.batch_tokens} is less than a row, of length = {self.length}"
            )
        if round(self.mask_rate * self.length) < 1:
            raise UnireError(
                f"adaptation setting mask_rate = {self.mask_rate} hides nothing of a row, of length = {self.length}"
            )

    def on(self, device: torch.device) -> AdaptationConfig:
        """The same, with a batch that suits the device where none is given."""
        usual = BATCH_TOKENS["cuda" if device.type == "cuda" else "cpu"]
        return replace(self, batch_tokens=self.batch_tokens or max(usual, self.length))

    @property
    def lasting(self) -> dict[str, Any]:
        """The settings that a resumed adaptation must have too: all but time and steps."""
        return {name: value for name, value in asdict(self).items() if name not in ("minutes", "max_steps")}

    @property
    def rows(self) -> int:
        """Rows of one optimiser step: `batch_tokens`, rounded down; none before it is said on which device."""
        return (self.batch_tokens or 0) // self.length


RANGES = {
    **dict.fromkeys(("minutes", "lr"), POSITIVE),
    "max_steps": COUNT,
    "length": Range(8),
    "warmup": FRACTION,
    "mask_rate": Range(0, 0.5, with_low=False, with_high=True),
    "seed": Range(0, 2**32),
}
