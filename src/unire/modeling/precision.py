"""What the hardware computes in."""

from __future__ import annotations

import torch

__all__ = ["has_bf16"]


def has_bf16() -> bool:
    """Whether there is a GPU that computes in bf16, and does not just pretend to."""
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
