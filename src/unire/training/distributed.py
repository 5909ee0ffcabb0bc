"""Distributed data-parallel training: processes started by `accelerate launch` or `torchrun`."""

from __future__ import annotations

import gc
import os
import time
from typing import ClassVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from unire.errors import UnireError

__all__ = [
    "SINGLE_PROCESS",
    "SingleProcess",
    "all_agree",
    "is_main",
    "n_started",
    "new_accelerator",
    "require_single_process",
    "shutdown",
]


RELEASE_SECONDS = 0.5
"""Time in which threads release their tensors before the group of processes is deleted."""

AGREE_EVERY_STEPS = 8
"""Steps between two calls of `all_agree` that communicate. Each of them waits for the GPU."""


class SingleProcess:
    """Replaces `Accelerator` in a training that always has one process and chooses its own device."""

    num_processes: ClassVar[int] = 1
    process_index: ClassVar[int] = 0
    is_main_process: ClassVar[bool] = True

    def wait_for_everyone(self) -> None:
        """Return at once."""


SINGLE_PROCESS = SingleProcess()


def new_accelerator(precision: str) -> Accelerator:
    """Connect this process with those that were started with it.

    Without a GPU, `cpu=True` is needed. Otherwise Accelerate does not connect the processes of `torchrun`.
    """
    n = n_started()
    if AcceleratorState._shared_state.get("_mixed_precision", precision) != precision:
        AcceleratorState._reset_state()  # an earlier training of this process had another precision
    accelerator = Accelerator(cpu=n > 1 and not torch.cuda.is_available(), mixed_precision=precision)
    if accelerator.num_processes != n:
        raise UnireError(
            f"{n} processes were started, but they are not connected; start them with `accelerate launch` or "
            "`torchrun`, with a GPU for each or with ACCELERATE_USE_CPU=true"
        )
    return accelerator


def all_agree(processes: Accelerator | SingleProcess, *flags: bool, step: int = 0) -> tuple[bool, ...]:
    """Combine the flags of all processes by logical or. Clocks and the arrival of signals differ between processes.

    Several processes communicate only every `AGREE_EVERY_STEPS` steps. At other steps all flags are false.
    """
    if isinstance(processes, SingleProcess) or processes.num_processes == 1:
        return flags
    if step % AGREE_EVERY_STEPS:
        return (False,) * len(flags)
    raised = torch.tensor(flags, device=processes.device, dtype=torch.float32)
    return tuple((processes.reduce(raised, "sum") > 0).tolist())


def shutdown() -> None:
    """Leave the group of processes.

    A thread that has sent tensors to other processes may release one at exit, which would crash Python. These threads
    end when the group is deleted. The last reference to it may be in a reference cycle, which `gc.collect` frees.
    It holds the interpreter's lock while it waits for the threads. A thread that needs the lock to release a tensor
    would then never end, so the threads get some time without it first.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(RELEASE_SECONDS)
        gc.collect()


def is_main() -> bool:
    """Whether this is the main process, as the launcher numbers them."""
    return int(os.environ.get("RANK", "0")) == 0


def require_single_process(what: str, remedy: str = "start it without a launcher") -> None:
    """Raise an error if a launcher has started several processes."""
    if (n := n_started()) > 1:
        raise UnireError(f"{what} runs in one process, but {n} were started; {remedy}")


def n_started() -> int:
    """Processes that the launcher has started; one without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))
