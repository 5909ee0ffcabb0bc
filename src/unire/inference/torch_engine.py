"""The PyTorch engine, on a CPU or a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unire.errors import UnireError
from unire.inference.engine import Engine, PendingTables
from unire.models.batch import TensorBatch
from unire.models.unire import UniRE
from unire.utils import copy_to_device, has_bf16
from unire.windows.collator import MAX_SLICE_TOKENS, Batch, Padding, bucket_tables

__all__ = ["TorchEngine", "choose_device", "store_in_bf16"]

GPU_PROBABILITIES_PER_TOKEN = 1792
"""Limits the memory of P on a GPU: at most this many probabilities, over all labels, per token of a batch."""
CPU_MAX_CELLS = 400_000


def choose_device(name: str | None = None) -> torch.device:
    """Return the device of this name after a check that it works. [default: a GPU if there is one, else the CPU]"""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, ImportError):
        raise UnireError(f"PyTorch cannot use the device {name!r} on this machine; try cpu") from None
    return torch.device(name)


def store_in_bf16(module: nn.Module) -> None:
    """Convert the linear layers of a module that runs under autocast to bf16.

    The results are the same, but autocast no longer converts the weights for every batch.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.to(torch.bfloat16)


class TorchEngine(Engine):
    """Runs a model in evaluation mode.

    If the model is trained between two batches, call `model.train()` on all of it, because only its own flag is
    checked. On a GPU, batches are started on a separate CUDA stream: reading the tables of one batch does not wait for
    the batches that were started after it.

    Args:
        model: The model, on its device.
        bf16: Compute in bf16. [default: on a GPU that supports it]
        max_cells: Padded cells of a batch. [default: by device]
        max_batch_tokens: Padded tokens of a batch. [default: by device]
    """

    def __init__(
        self,
        model: UniRE,
        *,
        bf16: bool | None = None,
        max_cells: int | None = None,
        max_batch_tokens: int | None = None,
    ) -> None:
        self.model = model
        on_gpu = model.device.type == "cuda"
        self.bf16 = (on_gpu and has_bf16()) if bf16 is None else bf16
        default_tokens = self.default_batch_tokens(model.device, model.encoder.config.hidden_size)
        self.max_batch_tokens = max_batch_tokens or default_tokens
        self.max_slice_tokens = min(MAX_SLICE_TOKENS, default_tokens // 4) if on_gpu else sys.maxsize
        """Tokens that one call of the encoder reads; on a CPU, the whole batch."""
        self.max_cells = max_cells or (
            GPU_PROBABILITIES_PER_TOKEN * default_tokens // len(model.labels) if on_gpu else CPU_MAX_CELLS
        )
        self.padding: Padding = "bucketed" if on_gpu else "exact"
        self.n_hidden = model.encoder.config.hidden_size
        self._stream = torch.cuda.Stream(model.device) if on_gpu else None  # type: ignore[no-untyped-call]

    @classmethod
    def for_inference(
        cls, model: UniRE, *, bf16: bool | None = None, max_batch_tokens: int | None = None
    ) -> TorchEngine:
        """Make an engine that takes over a model: it may convert the weights, so do not train or save the model."""
        engine = cls(model, bf16=bf16, max_batch_tokens=max_batch_tokens)
        if engine.bf16:
            store_in_bf16(model)
        return engine

    @staticmethod
    def default_batch_tokens(device: torch.device, n_hidden: int) -> int:
        """Return the padded tokens of a batch for a device and the hidden size of the encoder.

        On a GPU the encoder reads a batch slice by slice, and the layers after it run on the whole batch at once: the
        larger the batch, the fewer kernels the host launches.
        """
        if device.type != "cuda":
            return 2**14
        gigabytes = torch.cuda.get_device_properties(device).total_memory // 2**30
        return 2**13 * max(1, min(gigabytes, 128)) * 768 // max(768, n_hidden)

    def predict_tables(self, batch: Batch) -> Tensor:
        return self.predict_with_vectors(batch)[0]

    @torch.inference_mode()
    def predict_with_vectors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.model.training:  # `eval` visits all modules, which takes the host as long as many kernel launches
            self.model.eval()
        device, biaffine = self.model.device, self.model.biaffine
        T, N = batch.words.shape
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.bf16):
            h = self.model.encode(TensorBatch.from_batch(batch, device), list(self.iter_slices(batch)))
            head, tail = self.model.project(h)
            P = torch.zeros(T, N, N, len(self.model.labels), device=device)
            for group, n in bucket_tables(batch.lengths):
                tables = group if isinstance(group, slice) else copy_to_device(group, device)
                P[tables, :n, :n] = biaffine(head[tables, :n], tail[tables, :n]).float().softmax(-1)
        return P, h

    def iter_slices(self, batch: Batch) -> Iterator[tuple[slice, int]]:
        """Yield the slices of the batch, halved or quartered on a GPU with little memory."""
        for windows, n_tokens in batch.slices:
            step = 1 << max(0, (self.max_slice_tokens // n_tokens).bit_length() - 1)
            for start in range(windows.start, windows.stop, step):
                yield slice(start, min(start + step, windows.stop)), n_tokens

    def start(self, batch: Batch, *, vectors: bool = False) -> PendingTables:
        if self._stream is None:
            return super().start(batch, vectors=vectors)
        self._stream.wait_stream(torch.cuda.default_stream(self.model.device))  # the weights may just have changed
        with torch.cuda.stream(self._stream):
            result = self.predict_with_vectors(batch) if vectors else self.predict_tables(batch)
            computed = self._stream.record_event()

        def wait() -> Any:
            computed.synchronize()
            return result

        return PendingTables(wait)
