"""A running mean of the weights: steadier than the weights themselves, and what is evaluated and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """The exponential mean of some parameters over the steps of a training."""

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.decay = decay
        self._parameters = list(parameters)
        self.mean: list[Tensor] = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after step number `step`; the first steps count for more, or the mean would lag."""
        share = max(1 - self.decay, 1 / (step + 1))
        torch._foreach_lerp_(self.mean, [parameter.detach() for parameter in self._parameters], share)

    @torch.no_grad()
    def adopt(self) -> None:
        """Give the parameters their mean for good."""
        for parameter, mean in zip(self._parameters, self.mean, strict=True):
            parameter.copy_(mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the parameters hold their mean."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for parameter, mean in zip(self._parameters, self.mean, strict=True):
            held = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(held)
