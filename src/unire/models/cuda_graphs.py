"""A computation recorded once per shape as a CUDA graph, and then replayed without the host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unire.decoding.backend import pinned

__all__ = ["GraphPool", "GraphRunner", "Tensors"]

log = logging.getLogger(__name__)

Tensors = Mapping[str, Tensor]

WARMUP_CALLS = 2
"""How often a shape is met before it is recorded: recording costs as much as a few steps."""
RESULT = ""
"""The name under which results have their place beside the inputs."""


@dataclass
class GraphPool:
    """What recordings may share that never run at the same time: a result is used before any of them runs again."""

    pool: Any = None


@dataclass(frozen=True)
class _Recording:
    inputs: Tensors
    result: Tensor
    graph: torch.cuda.CUDAGraph


class GraphRunner:
    """Computes a function of tensors on a GPU.

    A step of a base-size encoder on a few sentences is thousands of small kernels, and a GPU runs them faster than
    Python can ask for them. A CUDA graph asks once for all of them; it holds for one shape of the inputs, whose
    values are copied to where they lay when it was recorded. Random numbers go on as they would have.

    Args:
        function: Takes tensors by name. What it does beside its result (gradients are added up) must be done to tensors
            that stay where they are. It must not look at values on the host.
        device: Where the inputs are copied to.
        record: Whether to record at all; if not, the function is just called.
        beside: Another recorder, whose memory is shared. Once that one cannot record, this one does not either: its
            inputs have other shapes then, and gradients another place.
    """

    def __init__(
        self,
        function: Callable[[Tensors], Tensor],
        device: torch.device,
        *,
        record: bool,
        beside: GraphRunner | None = None,
    ) -> None:
        self.function = function
        self.device = device
        self.beside = beside
        self.memory: GraphPool = beside.memory if beside else GraphPool()
        self._able = record
        self._rooms: dict[str, Tensor] = {}
        self._sightings: dict[tuple[tuple[str, torch.Size], ...], int] = {}
        self._recordings: dict[tuple[tuple[str, torch.Size], ...], _Recording] = {}

    @property
    def records(self) -> bool:
        """Whether shapes are recorded and replayed: none is any more once one could not be."""
        return self._able and (self.beside is None or self.beside.records)

    def pinned(self, inputs: Tensors) -> Tensors:
        """Inputs from where a copy does not wait for what the GPU has to do before."""
        if not self.records:
            return inputs
        return {name: tensor if tensor.is_cuda else pinned(tensor) for name, tensor in inputs.items()}

    def __call__(self, inputs: Tensors) -> Tensor:
        """The function's result, to be used before the next call."""
        shape = tuple((name, tensor.shape) for name, tensor in inputs.items())
        sightings = self._sightings[shape] = self._sightings.get(shape, 0) + 1
        if self.records and sightings == WARMUP_CALLS:
            self._record(shape, inputs)
        recording = self._recordings.get(shape) if self.records else None
        if recording is None:
            return self.function({name: tensor.to(self.device, non_blocking=True) for name, tensor in inputs.items()})
        for name, tensor in inputs.items():
            recording.inputs[name].copy_(tensor, non_blocking=True)
        recording.graph.replay()
        return recording.result

    def _record(self, shape: tuple[tuple[str, torch.Size], ...], inputs: Tensors) -> None:
        static = {name: self._placed(name, tensor) for name, tensor in inputs.items()}
        graph = torch.cuda.CUDAGraph()
        try:
            # another thread prepares the next batch meanwhile, and may
            with torch.cuda.graph(graph, pool=self.memory.pool, capture_error_mode="thread_local"):
                result = self._placed(RESULT, self.function(static))
        except RuntimeError as error:
            self._able = False
            log.warning("this encoder cannot be recorded as a CUDA graph, so training is slower: %s", error)
            return
        self.memory.pool = graph.pool()
        self._recordings[shape] = _Recording(static, result, graph)

    def _placed(self, name: str, tensor: Tensor) -> Tensor:
        """A copy of a tensor where those of other shapes are put too: of all recordings, only one is in use at a time.

        Where there is too little room there is more from now on; the recordings that lie in the old one keep it.
        """
        room = self._rooms.get(name)
        if room is None or len(room) < tensor.numel():
            size = tensor.numel() if room is None else max(tensor.numel(), 2 * len(room))
            room = self._rooms[name] = torch.empty(size, dtype=tensor.dtype, device=self.device)
        return room[: tensor.numel()].view(tensor.shape).copy_(tensor)
