"""Checkpoints: a folder of config.json, labels.json, tokenizer.json, model.safetensors and a model card."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from unire.exceptions import UnireError
from unire.files import recover, replacing
from unire.labels import LabelSpace
from unire.modeling.card import model_card
from unire.modeling.model import UniRE
from unire.settings import Settings

__all__ = ["check_target", "load", "resolve", "save", "tensors_from", "tensors_to"]

WEIGHTS = "model.safetensors"
FILES = ("README.md", "config.json", "labels.json", WEIGHTS, "tokenizer.json")
"""All that a checkpoint holds."""


def save(model: UniRE, folder: Path) -> None:
    """Write `model` as `folder`: under a temporary name first, renamed when it is whole."""
    check_target(folder)
    try:
        with replacing(folder, directory=True) as temporary:
            _write_json(temporary / "config.json", model.settings.to_dict())
            _write_json(temporary / "labels.json", model.labels.to_dict())
            (temporary / "tokenizer.json").write_text(model.tokenizer.to_str(), encoding="utf-8")
            tensors_to(temporary / WEIGHTS, model.state_dict())
            (temporary / "README.md").write_text(model_card(model.settings, model.labels), encoding="utf-8")
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def check_target(folder: Path) -> None:
    """Refuse a place where no model can be written, or where writing one would replace anything but a model."""
    place = f"the model cannot be written to {str(folder)!r}"
    if folder.exists() and not folder.is_dir():
        raise UnireError(f"{place}: that is a file; give a folder")
    found = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
    if foreign := [name for name in found if name not in FILES]:
        raise UnireError(f"{place}: the folder holds {foreign[0]!r}, which is no part of a model; give a new folder")
    if found:
        Settings.load(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise UnireError(f"{place}: {error.strerror or error}") from None


def load(source: str | Path) -> UniRE:
    """The model in a folder, or of a Hub name."""
    folder = resolve(source)
    settings = Settings.load(folder)
    try:
        labels = LabelSpace.load(folder)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except UnireError:
        raise
    except Exception as error:  # tokenizers raises bare Exception
        raise UnireError(f"tokenizer.json of {str(folder)!r} is missing or broken: {error}") from None
    weights = tensors_from(folder / WEIGHTS)
    model = UniRE(settings, labels, tokenizer)
    expected = model.state_dict()
    if wrong := sorted(expected.keys() ^ weights.keys()):
        what = "lacks the tensor" if wrong[0] in expected else "has the unknown tensor"
        raise UnireError(f"model folder {str(folder)!r} {what} {wrong[0]!r}; it is damaged or of another model")
    if wrong := sorted(name for name in expected if expected[name].shape != weights[name].shape):
        raise UnireError(f"model folder {str(folder)!r} has a tensor {wrong[0]!r} of the wrong shape; it is damaged")
    model.load_state_dict(weights)
    return model.eval()


def resolve(source: str | Path) -> Path:
    """The folder of a model: `source` itself, or where the Hub's model of that name was brought to."""
    folder = Path(source)
    recover(folder)
    if folder.is_dir():
        return folder
    name = str(source)
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise UnireError(f"there is no model folder {name!r}")
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=list(FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise UnireError(
            f"there is no model folder {name!r}, and the Hub did not give it ({type(error).__name__})"
        ) from None


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
    return {name: tensor if tensor.dtype == torch.uint8 else tensor.float() for name, tensor in weights.items()}


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
