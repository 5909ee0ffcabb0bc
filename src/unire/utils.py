"""Small helpers: concatenated ranges, CPU cores and memory, copies to a GPU."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["concat_ranges", "copy_to_device", "cpu_count", "has_bf16", "memory_bytes", "pin_memory"]

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


def has_bf16() -> bool:
    """Whether there is a GPU that computes in bf16, in hardware."""
    import torch

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
