"""Several processes that train one model: started by `accelerate launch` or `torchrun`, in step with each other."""

from __future__ import annotations

import gc
import os

import torch
from accelerate import Accelerator

from unire.errors import UnireError

__all__ = ["all_agree", "is_main", "n_started", "new_accelerator", "require_single_process", "shutdown"]


EVERY = 8
"""Steps between two agreements of several processes: each waits for all that a GPU has to do."""


def new_accelerator(precision: str) -> Accelerator:
    """Accelerate's hold on this process and those that were started with it.

    Where there is no GPU it must be told so, or processes that `torchrun` has started know nothing of each other.
    """
    n = n_started()
    accelerator = Accelerator(cpu=n > 1 and not torch.cuda.is_available(), mixed_precision=precision)
    if accelerator.num_processes != n:
        raise UnireError(
            f"{n} processes were started, and they do not know of each other; start them by `accelerate launch` or "
            "`torchrun`, with a GPU for each or with ACCELERATE_USE_CPU=true"
        )
    return accelerator


def all_agree(accelerator: Accelerator, *flags: bool, step: int = 0) -> tuple[bool, ...]:
    """Flags as any process has them: their clocks differ, and so does the step at which each hears Ctrl-C.

    Where there are several processes, no flag is raised but every few steps.
    """
    if accelerator.num_processes == 1:
        return flags
    if step % EVERY:
        return (False,) * len(flags)
    raised = torch.tensor(flags, device=accelerator.device, dtype=torch.float32)
    return tuple((accelerator.reduce(raised, "sum") > 0).tolist())


def shutdown() -> None:
    """Part with the other processes.

    A thread that has sent tensors to them may still let go of one when Python ends, which would crash it. Threads end
    with the group, and the group with the last that holds it: a training that nobody needs, but that holds itself.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        gc.collect()


def is_main() -> bool:
    """Whether this process speaks for all, as the launcher has it."""
    return int(os.environ.get("RANK", "0")) == 0


def require_single_process(what: str, remedy: str = "start it without a launcher") -> None:
    """Say that something runs in one process, where a launcher has started several."""
    if (n := n_started()) > 1:
        raise UnireError(f"{what} runs in one process, but {n} were started; {remedy}")


def n_started() -> int:
    """Processes that the launcher has started, one without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))
