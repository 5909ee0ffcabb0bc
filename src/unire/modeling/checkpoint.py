"""Checkpoints: a folder of config.json, labels.json, tokenizer.json, model.safetensors and a model card.

What `unire export` makes of one is a checkpoint too: with a graph for onnxruntime, and perhaps weights in eight bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unire.exceptions import UnireError
from unire.files import replacing
from unire.folders import WEIGHTS, ModelFolder, check_target, write_settings
from unire.modeling.model import UniRE
from unire.modeling.quantization import dequantized

__all__ = ["fill", "load", "save", "tensors_from", "tensors_to", "writing"]


def save(model: UniRE, folder: Path) -> None:
    """Write `model` as `folder`: under a temporary name first, renamed when it is whole."""
    with writing(model, folder) as temporary:
        tensors_to(temporary / WEIGHTS, model.state_dict())


@contextmanager
def writing(model: UniRE, folder: Path) -> Iterator[Path]:
    """A temporary folder that holds all of `model` but its weights, and becomes `folder` when the body has run.

    The files are written at the end, so that they tell of what the body has done to `model.settings`.
    """
    check_target(folder)
    try:
        with replacing(folder, directory=True) as temporary:
            yield temporary
            write_settings(temporary, model.settings, model.labels)
            (temporary / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load(source: str | Path) -> UniRE:
    """The model of a name in the box, of a folder, or of a Hub name."""
    found = ModelFolder.open(source)
    folder = found.path
    weights = dequantized(tensors_from(folder / WEIGHTS))
    model = UniRE(found.settings, found.labels, found.tokenizer)
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
