"""Model directories: locate, load, copy and publish them. Everything but the weights, and without torch."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire import pretrained
from unire.config import ModelConfig
from unire.errors import UnireError
from unire.files import check_output_folder, recover, replace_atomically
from unire.hub.client import download, upload
from unire.hub.model_card import model_card
from unire.labels import LabelSpace

__all__ = [
    "FILES",
    "GRAPH",
    "WEIGHTS",
    "ModelDir",
    "copy_model",
    "ensure_writable",
    "fingerprint",
    "is_model_dir",
    "locate_model",
    "push_to_hub",
    "write_model_config",
]

WEIGHTS = "model.safetensors"
GRAPH = "model.onnx"
"""The ONNX graph. Only `unire export` writes it."""
FILES = ("README.md", "config.json", "labels.json", GRAPH, WEIGHTS, "tokenizer.json")
"""All files that a model directory may hold."""


@dataclass(frozen=True)
class ModelDir:
    """A model without its weights."""

    path: Path
    config: ModelConfig
    labels: LabelSpace
    tokenizer: Tokenizer

    @classmethod
    def open(cls, source: str | Path) -> ModelDir:
        """Open a model by the name of a bundled model, a folder, or a name on the Hub."""
        path = locate_model(source)
        settings = ModelConfig.load(path)
        labels = LabelSpace.load(path)
        try:
            tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # tokenizers raises bare Exception
            raise UnireError(f"tokenizer.json of {str(path)!r} is missing or broken: {error}") from None
        return cls(path, settings, labels, tokenizer)

    @property
    def has_graph(self) -> bool:
        return (self.path / GRAPH).is_file()

    def save(self, settings: ModelConfig, out: Path | None = None) -> None:
        """Write the model with other settings: in place, or as a new folder with the weights."""
        if out is not None:
            check_output_folder(out)
        try:
            if out is None:
                write_model_config(self.path, settings, self.labels)
                return
            with replace_atomically(out, directory=True) as temporary:
                _copy_files(self.path, temporary)
                write_model_config(temporary, settings, self.labels)
        except OSError as error:
            raise UnireError(
                f"the model cannot be written to {str(out or self.path)!r}: {error.strerror or error}"
            ) from None


def copy_model(source: Path, target: Path) -> None:
    """Copy a model directory. `target` must not exist, or be a model, which is replaced."""
    check_output_folder(target, replaceable=FILES)
    try:
        with replace_atomically(target, directory=True) as temporary:
            _copy_files(source, temporary)
    except OSError as error:
        raise UnireError(f"the model cannot be written to {str(target)!r}: {error.strerror or error}") from None


def _copy_files(source: Path, target: Path) -> None:
    for name in FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


def push_to_hub(
    source: str | Path, name: str, *, private: bool | None = None, about: Mapping[str, Any] | None = None
) -> str:
    """Publish a model on the Hugging Face Hub, where `Extractor.load(name)` finds it.

    Log in with `hf auth login`, or set `HF_TOKEN`. All files are uploaded in one commit. Files of an earlier model that
    this one does not have are deleted.

    >>> push_to_hub("models/mine", "USER/MODEL", about={"licence": "mit"})  # doctest: +SKIP
    'https://huggingface.co/USER/MODEL'

    Args:
        source: The folder of a model, or the name of a bundled one.
        name: `USER/MODEL`. The repository is created if it does not exist.
        private: Whether a new repository is private. By default the account decides.
        about: More facts for the model card: `base` (the checkpoint that the encoder comes from), `licence`,
            `language` (`en`), `datasets` (names on the Hub).

    Returns:
        The address of the model.
    """
    model = ModelDir.open(source)
    if not (model.path / WEIGHTS).is_file():
        raise UnireError(f"model folder {str(model.path)!r} has no {WEIGHTS}; is it a whole unire model?")
    settings = model.config.with_(provenance={**model.config.provenance, **(about or {})})
    files: dict[str, Path | bytes] = {file: model.path / file for file in FILES if (model.path / file).is_file()}
    files |= {file: text.encode() for file, text in _texts(settings, model.labels, name).items()}
    return upload(name, files, known=FILES, message="Upload a unire model", private=private)


def write_model_config(folder: Path, settings: ModelConfig, labels: LabelSpace) -> None:
    """Write the configuration, the labels and the model card of a model."""
    for name, text in _texts(settings, labels).items():
        with replace_atomically(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _texts(settings: ModelConfig, labels: LabelSpace, name: str | None = None) -> dict[str, str]:
    return {
        "config.json": _json(settings.to_dict()),
        "labels.json": _json(labels.to_dict()),
        "README.md": model_card(settings, labels, name),
    }


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def locate_model(source: str | Path) -> Path:
    """Return the folder of a model: bundled, `source` itself, or the download of a model on the Hub.

    The name of a bundled model has precedence over a folder of that name; `./NAME` is the folder.
    """
    name = str(source)
    if isinstance(source, str) and name in pretrained.names():
        return pretrained.find(name)
    folder = Path(source)
    recover(folder)
    if folder.is_dir():
        return folder
    if name.partition("@")[0].count("/") != 1 or name.startswith((".", "/", "~")):
        raise UnireError(f"there is no model folder {name!r}, and {pretrained.list_bundled()}")
    try:
        ModelConfig.load(download(name, ["config.json"]))  # fail before downloading gigabytes of a foreign model
        return download(name, FILES)
    except UnireError as error:
        raise UnireError(f"there is no model folder {name!r}, and {error}") from None


def fingerprint(folder: Path) -> str:
    """Hash all files that the predictions of a model depend on."""
    digest = hashlib.sha256()
    for name in FILES:
        if name != "README.md" and (folder / name).is_file():
            digest.update(name.encode())
            with (folder / name).open("rb") as file:
                while data := file.read(2**20):
                    digest.update(data)
    return digest.hexdigest()[:16]


def ensure_writable(folder: Path) -> None:
    """Check that a model can be written to `folder`, and that it would replace nothing but a model."""
    check_output_folder(folder, replaceable=FILES)
    if folder.is_dir() and any(folder.iterdir()):
        ModelConfig.load(folder)  # fails for the config.json of another program
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise UnireError(f"the model cannot be written to {str(folder)!r}: {error.strerror or error}") from None


def is_model_dir(source: str | Path) -> bool:
    """Whether `source` is a unire model, bundled or in a folder, and not an encoder checkpoint."""
    if isinstance(source, str) and source in pretrained.names():
        return True
    try:
        config = json.loads((Path(source) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == "unire"
