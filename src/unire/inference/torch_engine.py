"""Tables by PyTorch, on a CPU or a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unire.errors import UnireError
from unire.inference.engine import PendingTables
from unire.models.attention import has_bf16
from unire.models.batch import TensorBatch
from unire.models.unire import UniRE
from unire.utils import copy_to_device
from unire.windows.collator import MAX_SLICE_TOKENS, Batch, Padding, group_by_length

__all__ = ["TorchEngine", "choose_device", "keep_in_bf16"]

NUMBERS = 1792
"""Numbers of P, of all labels together, for each token of a batch that a GPU is given."""


def choose_device(name: str | None = None) -> torch.device:
    """A device by name, if it can be used; when there is no name a GPU, if there is one."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, ImportError):
        raise UnireError(f"there is no device {name!r} here that PyTorch can use; try cpu") from None
    return torch.device(name)


def keep_in_bf16(module: nn.Module) -> None:
    """Keep what linear layers multiply in bf16 so from now on, in a module that is run under autocast.

    It gives the same as before; but these weights are not turned into bf16 once for every batch.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.to(torch.bfloat16)


class TorchEngine:
    """Runs a model in evaluation mode; in bf16 on hardware that has it, unless told otherwise.

    Whoever trains the model meanwhile says so to the whole of it (`model.train()`), for that is what is looked at.

    A GPU has a stream of its own for what is started here, so that whoever reads tables does not wait for those that
    were started since.
    """

    def __init__(
        self, model: UniRE, *, bf16: bool | None = None, max_cells: int | None = None, max_tokens: int | None = None
    ) -> None:
        self.model = model
        on_gpu = model.device.type == "cuda"
        self.bf16 = (on_gpu and has_bf16()) if bf16 is None else bf16
        most = self.most_tokens(model.device, model.encoder.config.hidden_size)
        self.max_tokens = max_tokens or most
        self.max_slice = min(MAX_SLICE_TOKENS, most // 4) if on_gpu else sys.maxsize
        """Tokens that the encoder is given at once; to a CPU, all of a batch."""
        self.max_cells = max_cells or (NUMBERS * most // len(model.labels) if on_gpu else 400_000)
        self.padding: Padding = "bucketed" if on_gpu else "exact"
        self._stream = torch.cuda.Stream(model.device) if on_gpu else None  # type: ignore[no-untyped-call]

    @classmethod
    def frozen(cls, model: UniRE, *, bf16: bool | None = None, max_tokens: int | None = None) -> TorchEngine:
        """An engine that a model is given up to: nobody goes on training it, or saves it.

        What its linear layers multiply in bf16 is kept so from now on.
        """
        engine = cls(model, bf16=bf16, max_tokens=max_tokens)
        if engine.bf16:
            keep_in_bf16(model)
        return engine

    @staticmethod
    def most_tokens(device: torch.device, n_hidden: int) -> int:
        """Padded tokens of a batch, for an encoder whose vectors have `n_hidden` numbers.

        On a GPU the encoder reads them slice by slice, and what comes after is done for all of them at once: the more,
        the less often the host is asked.
        """
        if device.type != "cuda":
            return 2**14
        gigabytes = torch.cuda.get_device_properties(device).total_memory // 2**30
        return 2**13 * max(1, min(gigabytes, 128)) * 768 // max(768, n_hidden)

    @torch.inference_mode()
    def tables(self, batch: Batch) -> Tensor:
        if self.model.training:  # to go through all modules takes the host as long as many calls of a GPU
            self.model.eval()
        device, biaffine = self.model.device, self.model.biaffine
        T, N = batch.words.shape
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.bf16):
            head, tail = self.model.project(TensorBatch.from_batch(batch, device), list(self.slices(batch)))
            P = torch.zeros(T, N, N, len(self.model.labels), device=device)
            for group, n in group_by_length(batch.lengths):
                tables = group if isinstance(group, slice) else copy_to_device(group, device)
                P[tables, :n, :n] = biaffine(head[tables, :n], tail[tables, :n]).float().softmax(-1)
        return P

    def slices(self, batch: Batch) -> Iterator[tuple[slice, int]]:
        """Those of the batch; on a GPU with little memory, halves or quarters of them."""
        for windows, n_tokens in batch.slices:
            step = 1 << max(0, (self.max_slice // n_tokens).bit_length() - 1)
            for start in range(windows.start, windows.stop, step):
                yield slice(start, min(start + step, windows.stop)), n_tokens

    def start(self, batch: Batch) -> PendingTables:
        if self._stream is None:
            P = self.tables(batch)
            return PendingTables(lambda: P)
        self._stream.wait_stream(torch.cuda.default_stream(self.model.device))  # the weights may just have changed
        with torch.cuda.stream(self._stream):
            P = self.tables(batch)
            made = self._stream.record_event()

        def finish() -> Tensor:
            made.synchronize()
            return P

        return PendingTables(finish)
