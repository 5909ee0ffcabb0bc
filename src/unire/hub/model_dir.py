"""Model directories: locate, load, copy and publish them. Everything but the weights, and without torch."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire import pretrained
from unire.config import ModelConfig
from unire.errors import UnireError, describe_error
from unire.files import read_folder, replace_atomically
from unire.hub.client import download, upload
from unire.hub.model_card import base_licence, model_card
from unire.labels import LabelSpace
from unire.model_files import load_json, load_tokenizer_file
from unire.output_files import check_output_folder, lock_output

__all__ = [
    "COREFERENCE",
    "FILES",
    "GRAPH",
    "WEIGHTS",
    "ModelDir",
    "copy_model",
    "ensure_writable",
    "files_to_publish",
    "fingerprint",
    "is_model_dir",
    "locate_model",
    "push_to_hub",
    "write_model_config",
]

WEIGHTS = "model.safetensors"
GRAPH = "model.onnx"
"""The ONNX graph. Only `unire export` writes it."""
COREFERENCE = "coreference.safetensors"
"""The weights of the coreference scorer. Models that were trained on data without clusters have none."""
FILES = ("README.md", "config.json", "labels.json", GRAPH, WEIGHTS, COREFERENCE, "tokenizer.json")
"""All files that a model directory may hold."""
MAX_TABLE_PROBABILITIES = 2**30
"""Probabilities of the largest table, N² · |Y|: 4 GiB."""


@dataclass(frozen=True)
class ModelDir:
    """A model without its weights."""

    path: Path
    config: ModelConfig
    labels: LabelSpace
    tokenizer: Tokenizer

    @classmethod
    def open(cls, source: str | Path) -> ModelDir:
        """Open a model by the name of a bundled or installed model, a folder, or a name on the Hub."""
        with cls.reading(source) as model:
            return model

    @classmethod
    @contextmanager
    def reading(cls, source: str | Path) -> Iterator[ModelDir]:
        """Open a model; it is not replaced while the body reads its other files, so that all are of one version."""
        with read_folder(locate_model(source)) as path:
            settings = ModelConfig.load(path)
            labels = LabelSpace.load(path)
            trusted = pretrained.is_bundled(path)
            tokenizer = load_tokenizer_file(path / "tokenizer.json", trusted=trusted)
            if not trusted:
                _check_sizes(path, settings, labels)
            yield cls(path, settings, labels, tokenizer)

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
            with lock_output(out), replace_atomically(out, directory=True) as temporary:
                _copy_files(self.path, temporary)
                write_model_config(temporary, settings, self.labels)
        except OSError as error:
            raise UnireError(
                f"the model cannot be written to {str(out or self.path)!r}: {error.strerror or error}"
            ) from None


def _check_sizes(path: Path, settings: ModelConfig, labels: LabelSpace) -> None:
    """Refuse a model whose largest table would not fit into memory, or whose encoder lacks its special tokens."""
    n_probabilities = len(labels) * settings.max_table**2
    if n_probabilities > MAX_TABLE_PROBABILITIES:
        raise UnireError(
            f"model folder {str(path)!r} cannot be used: a table of {settings.max_table:,} words and {len(labels):,} "
            f"labels has {n_probabilities:,} probabilities, and at most {MAX_TABLE_PROBABILITIES:,} are allowed"
        )
    n_tokens = settings.encoder.get("vocab_size")
    largest = max(settings.spec.token_ids)
    if isinstance(n_tokens, int) and largest >= n_tokens:
        raise UnireError(
            f"model folder {str(path)!r} cannot be used: its special tokens include the id {largest}, but the encoder "
            f"has {n_tokens} tokens"
        )


def copy_model(source: Path, target: Path) -> None:
    """Copy a model directory. `target` must not exist, or be a model, which is replaced."""
    check_output_folder(target, replaceable=FILES)
    try:
        with lock_output(target), replace_atomically(target, directory=True) as temporary:
            _copy_files(source, temporary)
    except OSError as error:
        raise UnireError(f"the model cannot be written to {str(target)!r}: {error.strerror or error}") from None


def _copy_files(source: Path, target: Path) -> None:
    with read_folder(source) as folder:
        for name in FILES:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, target / name)


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
        private: Whether a new repository is private. [default: as the account is set up]
        about: More facts for the model card: `base` (the checkpoint that the encoder comes from), `licence` (of the
            model), `base_licence` (of that checkpoint), `language` (`en`), `datasets` (names on the Hub).

    Returns:
        The address of the model.

    Raises:
        UnireError: The model has no weights, `huggingface_hub` is not installed, or the upload fails.
    """
    with ModelDir.reading(source) as model:
        files = files_to_publish(model, name, about or {})
        return upload(name, files, known=FILES, message="Upload a unire model", private=private)


def files_to_publish(model: ModelDir, name: str, about: Mapping[str, Any]) -> dict[str, Path | bytes]:
    """The files of a model that gets a name and a card with more facts: paths, and contents of those that change."""
    if not (model.path / WEIGHTS).is_file():
        raise UnireError(f"model folder {str(model.path)!r} has no {WEIGHTS}; it is incomplete, or not a unire model")
    known = model.config.provenance
    settings = model.config.with_(provenance={**known, "base_licence": base_licence(known), **about})
    files: dict[str, Path | bytes] = {file: model.path / file for file in FILES if (model.path / file).is_file()}
    return files | {file: text.encode() for file, text in _texts(settings, model.labels, name).items()}


def write_model_config(folder: Path, settings: ModelConfig, labels: LabelSpace) -> None:
    """Write the configuration, the labels and the model card of a model."""
    for name, text in _texts(settings, labels).items():
        with replace_atomically(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _texts(settings: ModelConfig, labels: LabelSpace, name: str | None = None) -> dict[str, str]:
    try:
        card = model_card(settings, labels, name)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnireError(
            f"the model card cannot be written, because the provenance in config.json is damaged "
            f"({type(error).__name__}: {describe_error(error)})"
        ) from None
    return {"config.json": _json(settings.to_dict()), "labels.json": _json(labels.to_dict()), "README.md": card}


def _json(data: object) -> str:
    """Format as JSON, which has no NaN: a score that is none becomes null."""
    data = json.loads(json.dumps(data), parse_constant=lambda _: None)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def locate_model(source: str | Path) -> Path:
    """Return the folder of a model: bundled, installed, `source` itself, or the download of a model on the Hub.

    The name of a bundled or installed model has precedence over a folder of that name; `./NAME` is the folder.
    """
    if folder := locate_local_model(source):
        return folder
    name = str(source)
    try:
        ModelConfig.load(download(name, ["config.json"]))  # fail before downloading gigabytes of a foreign model
        return download(name, FILES)
    except UnireError as error:
        raise UnireError(f"there is no model folder {name!r}; {error}") from None


def locate_local_model(source: str | Path) -> Path | None:
    """Return the folder of a model on this machine; `None` if `source` can be the name of a model on the Hub."""
    name = str(source)
    if isinstance(source, str) and (named := pretrained.get(name)):
        return named
    folder = Path(source)
    with read_folder(folder) as present:
        if present.is_dir():
            return folder
    if name.partition("@")[0].count("/") != 1 or name.startswith((".", "/", "~")):
        raise UnireError(f"there is no model folder {name!r}; {pretrained.describe_available()}")
    return None


def fingerprint(folder: Path) -> str:
    """Hash all files that the predictions of a model depend on."""
    digest = hashlib.sha256()
    with read_folder(folder) as path:
        for name in FILES:
            if name != "README.md" and (path / name).is_file():
                digest.update(name.encode())
                with (path / name).open("rb") as file:
                    while data := file.read(2**20):
                        digest.update(data)
    return digest.hexdigest()[:16]


def ensure_writable(folder: Path) -> None:
    """Check that a model can be written to `folder`, and that it would replace nothing but a model."""
    check_output_folder(folder, replaceable=FILES)
    with read_folder(folder) as present:
        if present.is_dir() and any(present.iterdir()):
            ModelConfig.load(present)  # fails for the config.json of another program
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise UnireError(f"the model cannot be written to {str(folder)!r}: {error.strerror or error}") from None


def is_model_dir(source: str | Path) -> bool:
    """Whether `source` is a unire model, by name or in a folder, and not an encoder checkpoint."""
    if isinstance(source, str) and pretrained.get(source):
        return True
    try:
        with read_folder(source) as folder:
            config = load_json(folder / "config.json")
    except (OSError, UnireError):
        return False
    return isinstance(config, dict) and config.get("format") == "unire"
