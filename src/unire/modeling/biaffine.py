"""The head of the paper, section 3.1: two MLPs and a biaffine classifier over every pair of words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MLP", "Biaffine"]


class MLP(nn.Module):
    """Linear → GELU → LayerNorm → dropout, from the encoder's size to d."""

    def __init__(self, n_in: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(self.norm(F.gelu(self.linear(x))))
        return hidden


class Biaffine(nn.Module):
    """g_ij = h_iᵀ U₁ h_j + U₂ (h_i ⊕ h_j) + b.

    U₁, U₂ and b are blocks of one U of (|Y|, d + 1, d + 1), which multiplies both vectors with a 1 appended. It starts
    at zero, so that every label is equally likely before training.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.U = nn.Parameter(torch.zeros(n_out, n_in + 1, n_in + 1))

    def forward(self, head: Tensor, tail: Tensor) -> Tensor:
        """Score all pairs: `[T, N, d]` and `[T, N, d]` give `[T, N, N, |Y|]`."""
        head, tail = (F.pad(x, (0, 1), value=1.0) for x in (head, tail))  # [T, N, d + 1]
        return self.products(head, tail)

    def products(self, head: Tensor, tail: Tensor) -> Tensor:
        """h_iᵀ U h_j of all pairs."""
        T, N, _ = head.shape
        left = torch.einsum("tnx,yxz->tnyz", head, self.U)  # [T, N, Y, d + 1]
        scores = left.flatten(1, 2) @ tail.transpose(1, 2)  # [T, N * Y, N]
        return scores.view(T, N, -1, N).transpose(2, 3)
