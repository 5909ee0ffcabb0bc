"""Checkpoints: folders with config.json, labels.json, tokenizer.json, model.safetensors and a model card.

What `unire export` writes is a checkpoint too. It also has a graph for onnxruntime, and its weights may be int8.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unire.decoding.coreference import CoreferenceScorer
from unire.errors import UnireError, describe_error, shorten
from unire.files import replace_atomically
from unire.hub.model_dir import COREFERENCE, WEIGHTS, ModelDir, ensure_writable, write_model_config
from unire.model_files import read_tensor_locations
from unire.models.encoder import check_encoder, limit_sizes, max_input_tokens
from unire.models.unire import UniRE
from unire.output_files import lock_output

__all__ = [
    "INT8_SUFFIX",
    "INT8_TRANSPOSED_SUFFIX",
    "SCALE_SUFFIX",
    "Int8Tensor",
    "building_from",
    "dequantize",
    "load_checkpoint",
    "load_weights",
    "read_tensors",
    "save_checkpoint",
    "write_checkpoint",
    "write_scorer",
    "write_tensors",
]

INT8_SUFFIX, INT8_TRANSPOSED_SUFFIX, SCALE_SUFFIX = "_int8", "_int8t", "_scale"
"""A quantized tensor `w` is stored as `w_int8` (or, transposed, `w_int8t`) and `w_scale`."""


class Int8Tensor(NamedTuple):
    """A tensor quantized to int8, with one scale for each vector along the last dimension."""

    values: Tensor
    """int8, of the tensor's shape."""
    scale: Tensor
    """float32, of the shape without the last dimension."""

    @classmethod
    def quantize(cls, tensor: Tensor) -> Int8Tensor:
        """Symmetric quantization: the largest absolute value of a vector becomes 127."""
        scale = tensor.abs().amax(-1) / 127
        scale = torch.where(scale > 0, scale, 1.0)  # of a vector of zeros
        return cls((tensor / scale.unsqueeze(-1)).round().to(torch.int8), scale)

    def dequantize(self) -> Tensor:
        return self.values.float() * self.scale.unsqueeze(-1)


class _Part(NamedTuple):
    """A tensor of a file of weights."""

    stored_name: str
    name: str
    """The name in the model."""
    suffix: str
    """That of a quantized tensor, else empty."""


def _iter_parts(names: Collection[str]) -> Iterator[_Part]:
    """The tensors of a file, without the scales of those that are quantized."""
    quantized = {name.removesuffix(SCALE_SUFFIX) for name in names if name.endswith(SCALE_SUFFIX)}
    for name in names:
        base, underscore, kind = name.rpartition("_")
        suffix = underscore + kind
        if suffix in (INT8_SUFFIX, INT8_TRANSPOSED_SUFFIX) and base in quantized:
            yield _Part(name, base, suffix)
        elif name.removesuffix(SCALE_SUFFIX) not in quantized:
            yield _Part(name, name, "")


def dequantize(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file under the names of the model, with quantized ones as float32."""
    tensors = {}
    for stored_name, name, suffix in _iter_parts(stored):
        tensor = stored[stored_name]
        if suffix:
            values, scale = tensor.T if suffix == INT8_TRANSPOSED_SUFFIX else tensor, stored[name + SCALE_SUFFIX]
            if values.shape[:-1] != scale.shape:
                raise UnireError(f"the scales of the tensor {name!r} are not of its shape; the weights are damaged")
            tensor = Int8Tensor(values, scale.float()).dequantize()
        tensors[name] = tensor
    return tensors


def save_checkpoint(model: UniRE, folder: Path) -> None:
    """Write `model` to `folder`, atomically: under a temporary name, which is renamed when all files are written."""
    with write_checkpoint(model, folder) as temporary:
        write_tensors(temporary / WEIGHTS, model.state_dict())


@contextmanager
def write_checkpoint(model: UniRE, folder: Path) -> Iterator[Path]:
    """Yield a temporary folder for the weights; afterwards, add all other files of `model` and rename it to `folder`.

    The other files come last, because the body may change `model.config`.
    """
    ensure_writable(folder)
    try:
        with lock_output(folder), replace_atomically(folder, directory=True) as temporary:
            yield temporary
            if model.coreference is not None:
                write_scorer(model.coreference, temporary / COREFERENCE)
            write_model_config(temporary, model.config, model.labels)
            (temporary / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load_checkpoint(source: str | Path) -> UniRE:
    """Load a model by folder, by the name of a bundled model, or by Hub name."""
    with ModelDir.reading(source) as model_dir:
        with building_from(model_dir.path):
            model = UniRE(model_dir.config, model_dir.labels, model_dir.tokenizer).eval()
            check_encoder(model.encoder, model.tokenizer, model.config.spec, max_input_tokens(model.encoder))
        load_weights(model, model_dir.path)
        n_types, n_hidden = len(model.labels.entity_types), model.encoder.config.hidden_size
        model.coreference = CoreferenceScorer.find(model_dir.path, n_types, n_hidden)
    return model


@contextmanager
def building_from(folder: Path) -> Iterator[None]:
    """Build a model in the body, no larger than the weights in the folder can fill. Errors name the folder."""
    locations = read_tensor_locations(folder / WEIGHTS)
    n_numbers = sum(math.prod(location.shape) for location in locations.values())
    try:
        with limit_sizes(n_numbers, len(locations)):
            yield
    except Exception as error:  # impossible sizes fail wherever they are first used
        raise UnireError(f"model folder {str(folder)!r} cannot be used: {describe_error(error)}") from None


def load_weights(model: nn.Module, folder: Path) -> None:
    """Copy the weights of a folder into a model; an error if names or shapes differ."""
    locations = read_tensor_locations(folder / WEIGHTS)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {
        part.name: locations[part.stored_name].shape[:: -1 if part.suffix == INT8_TRANSPOSED_SUFFIX else 1]
        for part in _iter_parts(locations)
    }
    if wrong := sorted(expected.keys() ^ found.keys()):
        what = "lacks the tensor" if wrong[0] in expected else "has the unknown tensor"
        raise UnireError(f"model folder {str(folder)!r} {what} {shorten(wrong[0])}; it is damaged or of another model")
    if wrong := sorted(name for name in expected if expected[name] != found[name]):
        raise UnireError(f"model folder {str(folder)!r} has a tensor {wrong[0]!r} of the wrong shape; it is damaged")
    model.load_state_dict(dequantize(read_tensors(folder / WEIGHTS)))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors. A full disk raises an `OSError`, as for any other file."""
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
        path.chmod(0o644)  # safetensors lets only the owner read
    except SafetensorError as error:
        raise OSError(str(error)) from None


def write_scorer(scorer: CoreferenceScorer, path: Path) -> None:
    """Write the weights of a coreference scorer, which are small, in half precision."""
    write_tensors(path, {name: torch.from_numpy(weight).half() for name, weight in scorer.weights.items()})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file. Integers of 8 bits stay as they are; all others become float32."""
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UnireError(f"{str(path)!r} is missing, truncated or not a safetensors file: {error}") from None
    integers = (torch.uint8, torch.int8)
    return {name: tensor if tensor.dtype in integers else tensor.float() for name, tensor in weights.items()}
