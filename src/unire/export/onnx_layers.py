"""Layers that compute as onnxruntime does it fastest, in place of a model's own while its graph is drawn.

Their names for parameters and buffers are those of the file that the graph points into.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.onnx import ops
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from unire.models.checkpoint import INT8_SUFFIX, INT8_TRANSPOSED_SUFFIX, SCALE_SUFFIX, Int8Tensor
from unire.models.unire import Biaffine

__all__ = ["export_attention", "replace_layers"]

MICROSOFT = "com.microsoft::"
"""The operators that onnxruntime adds to those of ONNX."""
SMALLEST = 1024
"""Numbers of the smallest matrix that is worth eight bits."""
MASKED = -1e4
"""Added to a score that must not count. An infinity would make padding, and all that it is scaled with, no number."""


def replace_layers(module: nn.Module, *, int8: bool) -> None:
    """Put stand-ins for all layers of `module` that are worth it."""
    for name, child in module.named_children():
        if isinstance(child, MPNetEncoder):
            child.__class__ = MPNetEncoder  # our faster way to lay out its position bias cannot be drawn
        small = getattr(child, "weight", torch.empty(0)).numel() < SMALLEST
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child) if int8 and not small else FloatLinear(child))
        elif isinstance(child, nn.Embedding) and int8 and not small:
            setattr(module, name, Int8Embedding(child))
        elif isinstance(child, Biaffine):
            setattr(module, name, Int8Biaffine(child) if int8 else FloatBiaffine(child))
        else:
            replace_layers(child, int8=int8)


class Int8Linear(nn.Module):
    """Weights and activations in eight bits.

    Each vector of activations is rounded by its own largest number. ONNX has an operator that rounds all of them by the
    largest of all, which is about a quarter faster, but rounds five times as much away: few tokens have large numbers,
    and then all others suffer. It would also let a sentence feel what else is in the batch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        values, scale = Int8Tensor.quantize(linear.weight.detach())
        self.register_buffer("weight" + INT8_TRANSPOSED_SUFFIX, values.T.contiguous())
        self.register_buffer("weight" + SCALE_SUFFIX, scale)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        product = _rounded_product(
            x, getattr(self, "weight" + INT8_TRANSPOSED_SUFFIX), getattr(self, "weight" + SCALE_SUFFIX)
        )
        return product if self.bias is None else product + self.bias

    @property
    def weight(self) -> Tensor:
        """For encoders that look into their layers."""
        return Int8Tensor(
            getattr(self, "weight" + INT8_TRANSPOSED_SUFFIX).T, getattr(self, "weight" + SCALE_SUFFIX)
        ).dequantize()


class FloatLinear(nn.Module):
    """A product by the weights as they lie in the file."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        product = _times_transposed(x, self.weight)
        return product if self.bias is None else product + self.bias


class Int8Embedding(nn.Module):
    """Rows in eight bits; those that are looked up become float32."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        values, scale = Int8Tensor.quantize(embedding.weight.detach())
        self.register_buffer("weight" + INT8_SUFFIX, values)
        self.register_buffer("weight" + SCALE_SUFFIX, scale.unsqueeze(-1))
        self.padding_idx = embedding.padding_idx

    def forward(self, ids: Tensor) -> Tensor:
        rows = F.embedding(ids, getattr(self, "weight" + INT8_SUFFIX)).float()
        return rows * F.embedding(ids, getattr(self, "weight" + SCALE_SUFFIX))

    @property
    def weight(self) -> Tensor:
        """For encoders that look into their layers."""
        weight: Tensor = getattr(self, "weight" + INT8_SUFFIX).float() * getattr(self, "weight" + SCALE_SUFFIX)
        return weight


class FloatBiaffine(Biaffine):
    """U is multiplied with the tails first, for which it is a matrix as it lies in the file."""

    def __init__(self, biaffine: Biaffine) -> None:
        nn.Module.__init__(self)
        self.register_buffer("U", biaffine.U.detach().flatten(0, 1))

    def products(self, head: Tensor, tail: Tensor) -> Tensor:
        T, N, d = tail.shape
        right = self._times_u(tail).view(T, -1, d)  # [T, N * Y, d]
        scores = right @ head.transpose(1, 2)  # [T, N * Y, N]
        return scores.view(T, N, -1, N).permute(0, 3, 1, 2)

    def _times_u(self, tail: Tensor) -> Tensor:
        """`[T, N, |Y| · d]`"""
        return _times_transposed(tail, self.U)


class Int8Biaffine(FloatBiaffine):
    """The product by U in eight bits; that of both vectors, from which the scores come, in float32."""

    def __init__(self, biaffine: Biaffine) -> None:
        nn.Module.__init__(self)
        values, scale = Int8Tensor.quantize(biaffine.U.detach())
        self.register_buffer("U" + INT8_SUFFIX, values.flatten(0, 1))
        self.register_buffer("U" + SCALE_SUFFIX, scale.flatten())

    def _times_u(self, tail: Tensor) -> Tensor:
        # PyTorch would write a matrix into the graph that is transposed as it lies in the file.
        transposed = getattr(self, "U" + INT8_SUFFIX).int().T.to(torch.int8)
        return _rounded_product(tail, transposed, getattr(self, "U" + SCALE_SUFFIX))


@contextmanager
def export_attention() -> Iterator[None]:
    """Have fused attention drawn as onnxruntime's one operator for it."""
    own = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = _attention  # type: ignore[assignment]
    try:
        yield
    finally:
        F.scaled_dot_product_attention = own


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale: float | None = None, **_: Any
) -> Tensor:
    """`[B, H, L, d]`, as in PyTorch; there is neither dropout nor a causal mask in an encoder that is not trained."""
    B, H, L, d = query.shape
    bias = attn_mask
    if bias is not None:
        bias = torch.where(bias, 0.0, MASKED) if bias.dtype == torch.bool else bias.clamp(min=MASKED)
        bias = bias.expand(-1, -1, L, -1)
    q, k, v = (x.transpose(1, 2).flatten(2) for x in (query, key, value))
    attributes: dict[str, int | float] = {"num_heads": H}
    if scale is not None:
        attributes["scale"] = scale
    mixed = _operator("MultiHeadAttention", (q, k, v, None, None, bias), (B, L, H * d), attributes)
    return mixed.view(B, L, H, d).transpose(1, 2)


def _rounded_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """x W of int8 `[in, out]` and a scale for each column; each vector of x is rounded by its own largest number."""
    rows = x.flatten(0, -2)
    step = rows.abs().amax(-1) * (1 / 127)  # 0 for a vector of zeros: rounded to anything, it is multiplied by 0 again
    zero = torch.full((), 128, dtype=torch.uint8)
    rounded = ops.symbolic(
        "QuantizeLinear", (rows, step, zero.expand(step.shape)), {"axis": 0}, dtype=torch.uint8, shape=rows.shape
    )
    shape = (rows.shape[0], weight.shape[1])
    product = _operator("MatMulIntegerToFloat", (rounded, weight, torch.ones(()), scale, zero), shape)
    return (step.unsqueeze(-1) * product).view(*x.shape[:-1], weight.shape[1])


def _times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ"""
    return _operator("FusedMatMul", (x, weight), (*x.shape[:-1], weight.shape[0]), {"transB": 1})


def _operator(
    name: str, inputs: tuple[Tensor | None, ...], shape: tuple[Any, ...], attributes: dict[str, Any] | None = None
) -> Tensor:
    """One of onnxruntime's own operators, whose result is of float32."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    return ops.symbolic(MICROSOFT + name, inputs, attributes or {}, dtype=torch.float32, shape=shape, version=1)
