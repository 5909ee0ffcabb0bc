"""The settings of an adaptation."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from unire.errors import COUNT, FRACTION, POSITIVE, Range, UnireError, check_kinds, check_ranges

__all__ = ["AdaptationConfig"]

BATCHES = {"cuda": 65_536, "cpu": 4_096}
"""Tokens of one optimiser step by default: on a CPU few, for it is to take more than one step in the time."""


@dataclass(frozen=True)
class AdaptationConfig:
    """How an encoder is adapted; it ends when the time or the steps are used up, whichever is first."""

    minutes: float | None = None
    """Time for all of it, from loading to saving."""
    max_steps: int | None = None
    """Optimiser steps; unlike with `minutes` alone, the outcome is then the same every time."""
    length: int = 256
    """Tokens of a row, special ones included."""
    batch_tokens: int | None = None
    """Tokens of one optimiser step; `None` for as many as suit the device: 65,536 on a GPU, 4,096 on a CPU."""
    lr: float = 1e-4
    """Peak rate of the encoder."""
    warmup: float = 0.06
    """Share of the training in which the rate rises; then it falls to zero in a straight line."""
    mask_rate: float = 0.2
    """Share of the tokens that is hidden."""
    case_marks: bool = False
    """Whether an encoder that knows no capitals is told of them, for trainings that do so too."""
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
        usual = BATCHES["cuda" if device.type == "cuda" else "cpu"]
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
