"""Tables by PyTorch, on a CPU or a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from unire.exceptions import UnireError
from unire.modeling.model import TensorBatch, UniRE
from unire.windows import Batch

__all__ = ["TorchEngine", "choose_device"]


def choose_device(name: str | None = None) -> torch.device:
    """A device by name, if it can be used; when there is no name a GPU, if there is one."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, ImportError):
        raise UnireError(f"there is no device {name!r} here that PyTorch can use; try cpu") from None
    return torch.device(name)


class TorchEngine:
    """Runs a model in evaluation mode; in bf16 on hardware that has it, unless told otherwise."""

    def __init__(
        self, model: UniRE, *, bf16: bool | None = None, max_cells: int | None = None, max_pieces: int | None = None
    ) -> None:
        self.model = model
        on_gpu = model.device.type == "cuda"
        self.bf16 = (on_gpu and torch.cuda.is_bf16_supported()) if bf16 is None else bf16
        # a GPU is only kept busy by batches that a CPU's caches could not hold
        self.max_cells = max_cells or (2_000_000 if on_gpu else 400_000)
        self.max_pieces = max_pieces or self.most_pieces(model.device)

    @staticmethod
    def most_pieces(device: torch.device) -> int:
        """Padded pieces that an encoder is given at once."""
        return 32_768 if device.type == "cuda" else 16_384

    @torch.inference_mode()
    def tables(self, batch: Batch) -> Tensor:
        self.model.eval()
        device = self.model.device
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.model(TensorBatch.of(batch, device))
        return logits.float().softmax(-1)
