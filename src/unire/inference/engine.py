"""Engines compute the probability tables of batches; choosing and starting one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from ctypes import CDLL
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

from unire.errors import UnireError
from unire.hub.model_dir import ModelDir
from unire.windows.collator import Batch, Padding

__all__ = ["Engine", "EngineName", "PendingTables", "choose_engine", "start_engine"]

EngineName = Literal["onnx", "torch"]

GPU_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")
"""Libraries of a machine with a GPU that PyTorch can use."""
MAX_BATCHES_IN_FLIGHT = 3
"""Batches that are started before the first result is waited for. They keep a GPU busy while the host lays out the next
chunk, which takes longer than the GPU takes for a batch."""


@dataclass(frozen=True)
class PendingTables:
    """The tables of a batch that an engine has started."""

    result: Callable[[], Any]
    """Waits for the tables."""
    cancel: Callable[[], object] = lambda: None
    """Drops the work on the batch that has not started."""


class Engine(ABC):
    """Computes probability tables from batches of windows."""

    max_cells: int
    """Largest number of padded cells in a batch, T·N²."""
    max_batch_tokens: int
    """Largest number of padded tokens in a batch, B·L."""
    padding: Padding
    """How batches are padded: a GPU is faster with few distinct shapes."""
    n_hidden: int | None = None
    """Size of the vectors of words; `None` if the engine does not return them."""

    @abstractmethod
    def predict_tables(self, batch: Batch) -> Any:
        """Compute P of every table, `[T, N, N, |Y|]`, as an array on the engine's device."""

    def predict_with_vectors(self, batch: Batch) -> tuple[Any, Any]:
        """P, and h of every word of every table: `[T, N, n_hidden]`."""
        raise NotImplementedError(f"{type(self).__name__} returns no vectors")

    def start(self, batch: Batch, *, vectors: bool = False) -> PendingTables:
        """Start to compute a batch: P or, with `vectors`, P and h.

        An engine without a queue computes it when the result is requested.
        """
        return PendingTables(lambda: self.predict_with_vectors(batch) if vectors else self.predict_tables(batch))

    def run(self, batches: Iterable[Batch], *, vectors: bool = False) -> Iterator[tuple[Batch, Any]]:
        """Yield each batch with its result, in order. While the caller works on one, the next ones are in flight.

        The result of a batch is P or, with `vectors`, P and h.

        The calling thread builds all batches: two threads that both run Python would wait for each other at every call
        of the engine's library. If building or starting a batch fails, the results before it are yielded first.
        Closing the generator cancels the batches in flight.
        """
        batches = iter(batches)
        in_flight: deque[tuple[Batch, PendingTables]] = deque()
        more = True
        error: Exception | None = None
        try:
            while more or in_flight:
                while more and len(in_flight) < MAX_BATCHES_IN_FLIGHT:
                    try:
                        if more := (batch := next(batches, None)) is not None:
                            started = self.start(batch, vectors=True) if vectors else self.start(batch)
                            in_flight.append((batch, started))
                    except Exception as failure:
                        more, error = False, failure
                if in_flight:
                    batch, pending = in_flight.popleft()
                    yield batch, pending.result()
            if error is not None:
                raise error
        finally:
            for _, pending in in_flight:
                pending.cancel()


def start_engine(
    model: ModelDir, engine: str | None = None, device: str | None = None, threads: int | None = None
) -> Engine:
    """Start an engine for a model.

    Args:
        model: The model directory.
        engine: See `choose_engine`.
        device: A device of PyTorch, such as `cpu` or `cuda`.
        threads: Threads of onnxruntime. [default: one per core]
    """
    if choose_engine(model, engine, device) == "onnx":
        from unire.inference.onnx_engine import OnnxEngine

        started = OnnxEngine(model.path, threads=threads)
        if started.n_labels != len(model.labels):
            raise UnireError(
                f"the graph in {str(model.path)!r} has {started.n_labels} labels, but the model has "
                f"{len(model.labels)}; export the model again"
            )
        return started
    from unire.inference.torch_engine import TorchEngine, choose_device
    from unire.models.unire import UniRE

    return TorchEngine.for_inference(UniRE.from_pretrained(model.path).to(choose_device(device)))


def choose_engine(model: ModelDir, engine: str | None = None, device: str | None = None) -> EngineName:
    """Return the requested engine, if it can run; otherwise the fastest one on this machine.

    That is torch if it is installed and there is a GPU, else onnxruntime if the model was exported, else torch on the
    CPU.
    """
    if engine is not None and engine not in get_args(EngineName):
        raise UnireError(f"unknown engine {engine!r}; give {' or '.join(get_args(EngineName))}")
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
        raise UnireError(f"model folder {str(model.path)!r} has no graph for onnxruntime; create one with unire export")
    if device not in (None, "cpu"):
        raise UnireError(f"onnxruntime runs on the CPU only; for the device {device!r}, use the engine torch")
    return "onnx"


def _has_gpu() -> bool:
    """Whether PyTorch has a GPU. Imports torch, which is slow, only if the machine has a driver."""
    for driver in GPU_DRIVERS:
        try:
            CDLL(driver)
        except OSError:
            continue
        import torch

        return torch.cuda.is_available()
    return False
