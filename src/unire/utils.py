"""Small helpers: concatenated ranges, CPU cores and memory, copies to a GPU, visible control characters."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = [
    "concat_ranges",
    "copy_to_device",
    "cpu_count",
    "escape_controls",
    "escape_json_controls",
    "has_bf16",
    "memory_bytes",
    "pin_memory",
]

UNKNOWN_MEMORY_BYTES = 2**33
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def concat_ranges(start: NDArray[np.int64], size: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """Concatenate the ranges of `size[k]` numbers from `start[k]` on, `step` apart, for every k."""
    before = size.cumsum() - size
    numbers: NDArray[np.int64] = np.repeat(start - step * before, size) + step * np.arange(size.sum())
    return numbers


def cpu_count() -> int:
    """Count the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """The memory of this machine, or of its container."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return UNKNOWN_MEMORY_BYTES
    with suppress(OSError, ValueError):  # a container without a limit says "max"
        return min(physical, int(CONTAINER_LIMIT.read_text()))
    return physical


def has_bf16(device: str = "cuda") -> bool:
    """Whether a device of this type computes in bf16, in hardware."""
    import torch

    if device == "cpu":
        return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def pin_memory(tensor: Tensor) -> Tensor:
    """Copy a tensor of the host into pinned memory, from which a GPU copies asynchronously.

    numpy makes the copy, in this thread. `Tensor.pin_memory` would split a large tensor over the threads of all cores,
    and would sometimes wait for a thread that has no core to run on.
    """
    import torch

    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    np.copyto(pinned.numpy(), tensor.numpy())
    return pinned


def copy_to_device(data: NDArray[Any] | Tensor, device: torch.device | str) -> Tensor:
    """Copy an array or a tensor of the host to a device; to a GPU through pinned memory, asynchronously."""
    import torch

    tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
    device = torch.device(device)
    return (pin_memory(tensor) if device.type == "cuda" else tensor).to(device, non_blocking=True)


CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""Control characters except tab and line feed, marks of the writing direction, and halves of surrogate pairs."""


def escape_controls(text: str) -> str:
    """Replace every control character by a visible symbol or its code: `␛[31m`, `‹U+202E›`."""
    return CONTROL_CHARACTERS.sub(_to_symbol, text) if CONTROL_CHARACTERS.search(text) else text


def escape_json_controls(text: str) -> str:
    """Escape the control characters of JSON text, whose meaning stays the same."""
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _to_symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"
