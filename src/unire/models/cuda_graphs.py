"""CUDA graphs: capture a computation once per input shape, then replay it without the host."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unire.models.batch import Tensors, move_tensors, pin_tensors

__all__ = ["GraphPool", "GraphRunner"]

log = logging.getLogger(__name__)

Shapes = tuple[tuple[str, torch.Size], ...]
"""Names and shapes of the inputs: one graph is captured for each."""

WARMUP_CALLS = 2
"""The call of a shape that captures it. Capturing takes as long as a few steps: too long for shapes that occur once."""
OUTPUT = ""
"""The name of the output among the static buffers."""


@dataclass
class GraphPool:
    """A memory pool shared by graphs that never run at the same time."""

    handle: Any = None
    """As `torch.cuda.graph` takes it; `None` before the first capture."""


@dataclass(frozen=True)
class _CapturedGraph:
    inputs: Tensors
    output: Tensor
    graph: torch.cuda.CUDAGraph


class GraphRunner:
    """Runs a function of tensors on a GPU, as a CUDA graph if its input shapes repeat.

    A training step of a base-size encoder on a few sentences launches thousands of small kernels. A GPU runs them
    faster than Python launches them. A CUDA graph launches all of them at once. It holds for one shape of the inputs,
    whose values are copied into static buffers before each replay. Random numbers continue as without a graph.

    Args:
        function: Takes tensors by name. Its side effects (gradients are accumulated) must go to tensors that keep their
            address. It must not read values on the host.
        device: The device that the inputs are copied to.
        capture: Whether to capture graphs. If false, every call runs the function.
        parent: A runner whose memory pool this one shares. If the parent stops capturing, this one stops too, because
            its inputs then have other shapes and gradients other addresses.
    """

    def __init__(
        self,
        function: Callable[[Tensors], Tensor],
        device: torch.device,
        *,
        capture: bool,
        parent: GraphRunner | None = None,
    ) -> None:
        self.function = function
        self.device = device
        self.parent = parent
        self.pool: GraphPool = parent.pool if parent else GraphPool()
        self._captures = capture
        self._static_buffers: dict[str, Tensor] = {}
        self._n_calls: dict[Shapes, int] = {}
        self._graphs: dict[Shapes, _CapturedGraph] = {}

    @property
    def captures(self) -> bool:
        """Whether shapes are captured and replayed. The first capture that fails ends this permanently."""
        return self._captures and (self.parent is None or self.parent.captures)

    def pin(self, inputs: Tensors) -> Tensors:
        """Pin the inputs, so that copying them does not wait for earlier work of the GPU."""
        return pin_tensors(inputs) if self.captures else inputs

    def __call__(self, inputs: Tensors) -> Tensor:
        """Run the function. Use the result before the next call, which may overwrite it."""
        shapes = tuple((name, tensor.shape) for name, tensor in inputs.items())
        n_calls = self._n_calls[shapes] = self._n_calls.get(shapes, 0) + 1
        if self.captures and n_calls == WARMUP_CALLS:
            self._capture(shapes, inputs)
        captured = self._graphs.get(shapes) if self.captures else None
        if captured is None:
            return self.function(move_tensors(inputs, self.device))
        for name, tensor in inputs.items():
            captured.inputs[name].copy_(tensor, non_blocking=True)
        captured.graph.replay()
        return captured.output

    def _capture(self, shapes: Shapes, inputs: Tensors) -> None:
        static = {name: self._copy_to_static(name, tensor) for name, tensor in inputs.items()}
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: another thread may prepare the next batch meanwhile
            with torch.cuda.graph(graph, pool=self.pool.handle, capture_error_mode="thread_local"):
                output = self._copy_to_static(OUTPUT, self.function(static))
        except RuntimeError as error:
            self._captures = False
            log.warning("this encoder cannot be captured as a CUDA graph, so training is slower: %s", error)
            return
        self.pool.handle = graph.pool()
        self._graphs[shapes] = _CapturedGraph(static, output, graph)

    def _copy_to_static(self, name: str, tensor: Tensor) -> Tensor:
        """Copy a tensor into the static buffer of its name, which the graphs of all shapes share.

        They can, because only one graph runs at a time. A buffer that is too small is replaced by a larger one; graphs
        that were captured with the old buffer keep it.
        """
        buffer = self._static_buffers.get(name)
        if buffer is None or len(buffer) < tensor.numel():
            size = tensor.numel() if buffer is None else max(tensor.numel(), 2 * len(buffer))
            buffer = self._static_buffers[name] = torch.empty(size, dtype=tensor.dtype, device=self.device)
        return buffer[: tensor.numel()].view(tensor.shape).copy_(tensor)
