"""Weights in eight bits: each vector of a matrix as whole numbers from -127 to 127, and one scale.

In a file, `NAME_int8` and `NAME_scale` stand for the tensor `NAME`. The matrix of a linear layer is stored as
onnxruntime multiplies by it, `[in, out]`, and called `NAME_int8t`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from unire.exceptions import UnireError

__all__ = ["INT8", "INT8_TRANSPOSED", "SCALE", "Int8", "dequantized"]

INT8, INT8_TRANSPOSED, SCALE = "_int8", "_int8t", "_scale"


class Int8(NamedTuple):
    """A tensor in eight bits."""

    values: Tensor
    """int8, of the tensor's shape."""
    scale: Tensor
    """float32, a number for each vector along the last dimension."""

    @classmethod
    def of(cls, tensor: Tensor) -> Int8:
        scale = tensor.abs().amax(-1) / 127
        scale = torch.where(scale > 0, scale, 1.0)  # of a vector of zeros
        return cls((tensor / scale.unsqueeze(-1)).round().to(torch.int8), scale)

    def tensor(self) -> Tensor:
        return self.values.float() * self.scale.unsqueeze(-1)


def dequantized(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file by their own names, those in eight bits as float32."""
    scales = {name.removesuffix(SCALE) for name in stored if name.endswith(SCALE)}
    tensors = {}
    for name, tensor in stored.items():
        base, mark, kind = name.rpartition("_")
        if mark + kind in (INT8, INT8_TRANSPOSED) and base in scales:
            values, scale = tensor.T if mark + kind == INT8_TRANSPOSED else tensor, stored[base + SCALE]
            if values.shape[:-1] != scale.shape:
                raise UnireError(f"the scales of the tensor {base!r} are not of its shape; the weights are damaged")
            tensors[base] = Int8(values, scale.float()).tensor()
        elif name.removesuffix(SCALE) not in scales:
            tensors[name] = tensor
    return tensors
