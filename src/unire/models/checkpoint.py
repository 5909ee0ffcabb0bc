"""Checkpoints: a folder of config.json, labels.json, tokenizer.json, model.safetensors and a model card.

What `unire export` makes of one is a checkpoint too: with a graph for onnxruntime, and perhaps weights in eight bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unire.errors import UnireError
from unire.files import replace_atomically
from unire.hub.model_dir import WEIGHTS, ModelDir, ensure_writable, write_model_config
from unire.models.unire import UniRE

__all__ = [
    "INT8",
    "INT8_TRANSPOSED",
    "SCALE",
    "Int8",
    "dequantized",
    "fill",
    "load",
    "save",
    "tensors_from",
    "tensors_to",
    "writing",
]

INT8, INT8_TRANSPOSED, SCALE = "_int8", "_int8t", "_scale"


class Int8(NamedTuple):
    """A tensor in eight bits."""

    values: Tensor
    """int8, of the tensor's shape."""
    scale: Tensor
    """float32, a number for each vector along the last dimension."""

    @classmethod
    def of(cls, tensor: Tensor) -> Int8:
        scale = tensor.abs().amax(-1) / 127
        scale = torch.where(scale > 0, scale, 1.0)  # of a vector of zeros
        return cls((tensor / scale.unsqueeze(-1)).round().to(torch.int8), scale)

    def tensor(self) -> Tensor:
        return self.values.float() * self.scale.unsqueeze(-1)


def dequantized(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file by their own names, those in eight bits as float32."""
    scales = {name.removesuffix(SCALE) for name in stored if name.endswith(SCALE)}
    tensors = {}
    for name, tensor in stored.items():
        base, mark, kind = name.rpartition("_")
        if mark + kind in (INT8, INT8_TRANSPOSED) and base in scales:
            values, scale = tensor.T if mark + kind == INT8_TRANSPOSED else tensor, stored[base + SCALE]
            if values.shape[:-1] != scale.shape:
                raise UnireError(f"the scales of the tensor {base!r} are not of its shape; the weights are damaged")
            tensors[base] = Int8(values, scale.float()).tensor()
        elif name.removesuffix(SCALE) not in scales:
            tensors[name] = tensor
    return tensors


def save(model: UniRE, folder: Path) -> None:
    """Write `model` as `folder`: under a temporary name first, renamed when it is whole."""
    with writing(model, folder) as temporary:
        tensors_to(temporary / WEIGHTS, model.state_dict())


@contextmanager
def writing(model: UniRE, folder: Path) -> Iterator[Path]:
    """A temporary folder that holds all of `model` but its weights, and becomes `folder` when the body has run.

    The files are written at the end, so that they tell of what the body has done to `model.config`.
    """
    ensure_writable(folder)
    try:
        with replace_atomically(folder, directory=True) as temporary:
            yield temporary
            write_model_config(temporary, model.config, model.labels)
            (temporary / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load(source: str | Path) -> UniRE:
    """The model of a name in the box, of a folder, or of a Hub name."""
    found = ModelDir.open(source)
    folder = found.path
    weights = dequantized(tensors_from(folder / WEIGHTS))
    model = UniRE(found.config, found.labels, found.tokenizer)
    fill(model, weights, folder)
    return model.eval()


def fill(model: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Give a model the weights of a folder, all of which must be its own."""
    expected = model.state_dict()
    if wrong := sorted(expected.keys() ^ weights.keys()):
        what = "lacks the tensor" if wrong[0] in expected else "has the unknown tensor"
        raise UnireError(f"model folder {str(folder)!r} {what} {wrong[0]!r}; it is damaged or of another model")
    if wrong := sorted(name for name in expected if expected[name].shape != weights[name].shape):
        raise UnireError(f"model folder {str(folder)!r} has a tensor {wrong[0]!r} of the wrong shape; it is damaged")
    model.load_state_dict(weights)


def tensors_to(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors; a full disk is an `OSError`, as for any other file."""
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
        path.chmod(0o644)  # safetensors lets only the owner read
    except SafetensorError as error:
        raise OSError(str(error)) from None


def tensors_from(path: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UnireError(f"{str(path)!r} is missing, cut short or no safetensors file: {error}") from None
    whole = (torch.uint8, torch.int8)
    return {name: tensor if tensor.dtype in whole else tensor.float() for name, tensor in weights.items()}
