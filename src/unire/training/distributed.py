"""Distributed data-parallel training: processes started by `accelerate launch` or `torchrun`."""

from __future__ import annotations

import gc
import os
from typing import ClassVar

import torch
from accelerate import Accelerator

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


AGREE_EVERY_STEPS = 8
"""Steps between two agreements of several processes: each one waits for its GPU."""


class SingleProcess:
    """Stands in for `Accelerator` where a training runs in one process, on a device of its own choice."""

    num_processes: ClassVar[int] = 1
    process_index: ClassVar[int] = 0
    is_main_process: ClassVar[bool] = True

    def wait_for_everyone(self) -> None:
        """There is nobody else."""


SINGLE_PROCESS = SingleProcess()


def new_accelerator(precision: str) -> Accelerator:
    """Accelerate's handle on this process and those that were started with it.

    Without a GPU it must be told so, or processes that `torchrun` has started do not know of each other.
    """
    n = n_started()
    accelerator = Accelerator(cpu=n > 1 and not torch.cuda.is_available(), mixed_precision=precision)
    if accelerator.num_processes != n:
        raise UnireError(
            f"{n} processes were started, and they do not know of each other; start them by `accelerate launch` or "
            "`torchrun`, with a GPU for each or with ACCELERATE_USE_CPU=true"
        )
    return accelerator


def all_agree(processes: Accelerator | SingleProcess, *flags: bool, step: int = 0) -> tuple[bool, ...]:
    """Flags as any process has them: their clocks differ, and so does the step at which each receives a signal.

    Several processes exchange them every few steps only; at other steps all flags are false.
    """
    if isinstance(processes, SingleProcess) or processes.num_processes == 1:
        return flags
    if step % AGREE_EVERY_STEPS:
        return (False,) * len(flags)
    raised = torch.tensor(flags, device=processes.device, dtype=torch.float32)
    return tuple((processes.reduce(raised, "sum") > 0).tolist())


def shutdown() -> None:
    """Leave the group of processes.

    A thread that has sent tensors to other processes may release one when Python ends, which would crash it. Threads
    end with the group, and the group with its last reference: a finished training that only refers to itself.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        gc.collect()


def is_main() -> bool:
    """Whether this is the main process, as the launcher numbers them."""
    return int(os.environ.get("RANK", "0")) == 0


def require_single_process(what: str, remedy: str = "start it without a launcher") -> None:
    """Refuse several processes where something runs in one."""
    if (n := n_started()) > 1:
        raise UnireError(f"{what} runs in one process, but {n} were started; {remedy}")


def n_started() -> int:
    """Processes that the launcher has started; one without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))
