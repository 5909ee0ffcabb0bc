"""The accelerator of tests that build a task themselves."""

from __future__ import annotations

from accelerate import Accelerator
from accelerate.state import AcceleratorState


def cpu_accelerator() -> Accelerator:
    """One process on the CPU, in full precision.

    Accelerate keeps its precision for the whole process, so that of an earlier training is forgotten first.
    """
    AcceleratorState._reset_state()
    return Accelerator(cpu=True, mixed_precision="no")
