"""Engines turn a batch of windows into tables of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol, get_args

from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.windows.collator import Batch, Padding

__all__ = ["Engine", "EngineName", "PendingTables", "choose_engine", "start_engine"]

EngineName = Literal["onnx", "torch"]

GPU_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""What a machine has that has a GPU which PyTorch can use."""


@dataclass(frozen=True)
class PendingTables:
    """A batch that an engine has begun with."""

    tables: Callable[[], Any]
    """Waits for its tables."""
    cancel: Callable[[], object] = lambda: None
    """Does no more of it than was begun."""


class Engine(Protocol):
    """What the extractor needs of an engine."""

    max_cells: int
    """Padded cells of a batch that fit into memory."""
    max_tokens: int
    """Padded tokens of a batch that fit into memory."""
    padding: Padding
    """What of a batch should be of few sizes, if a new one costs the engine time."""

    def tables(self, batch: Batch) -> Any:
        """P of every table, `[T, N, N, |Y|]`, as an array that the decoder reads where it lies."""

    def start(self, batch: Batch) -> PendingTables:
        """Begin with a batch. Another may be begun before its tables are waited for."""


def start_engine(
    model: ModelDir, engine: str | None = None, device: str | None = None, threads: int | None = None
) -> Engine:
    """An engine for a model: see `choose_engine`. On a CPU onnxruntime keeps to so many `threads`, if it is told."""
    if choose_engine(model, engine, device) == "onnx":
        from unire.inference.onnx_engine import OnnxEngine

        return OnnxEngine(model.path, threads=threads)
    from unire.inference.torch_engine import TorchEngine, choose_device
    from unire.models.unire import UniRE

    return TorchEngine.frozen(UniRE.from_pretrained(model.path).to(choose_device(device)))


def choose_engine(model: ModelDir, engine: str | None = None, device: str | None = None) -> EngineName:
    """The engine that is asked for, if it can run; when none is, the fastest here.

    That is torch where it is installed and there is a GPU, otherwise onnxruntime if the folder has a graph for it,
    and otherwise torch on the CPU.
    """
    if engine is not None and engine not in get_args(EngineName):
        raise UnireError(f"no engine {engine!r}; there are {' and '.join(get_args(EngineName))}")
    asked = f"the engine {engine}" if engine else f"the device {device!r}"
    has_torch = find_spec("torch") is not None and find_spec("transformers") is not None
    if engine is None:
        on_gpu = has_torch and _has_gpu() if device is None else device != "cpu"
        engine = "onnx" if model.has_graph and not on_gpu else "torch"
    if engine == "torch":
        if not has_torch:
            who = asked if model.has_graph else "this model"
            otherwise = "" if model.has_graph else ", or export the model where that is installed (unire export)"
            raise UnireError(f'{who} needs PyTorch: pip install "unire[train]"{otherwise}')
        return "torch"
    if not model.has_graph:
        raise UnireError(f"model folder {str(model.path)!r} has no graph for onnxruntime; make one with unire export")
    if device not in (None, "cpu"):
        raise UnireError(f"onnxruntime computes on the CPU here; for the device {device!r} use the engine torch")
    return "onnx"


def _has_gpu() -> bool:
    """Whether there is a GPU, to the best of our knowledge; torch is asked only if there may be one, for it is slow."""
    for driver in GPU_DRIVERS:
        try:
            CDLL(driver)
        except OSError:
            continue
        import torch

        return torch.cuda.is_available()
    return False
