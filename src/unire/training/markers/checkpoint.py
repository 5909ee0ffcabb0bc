"""Marker models as folders, which hold all that it takes to ask them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from unire.config import EncoderSpec
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.hub.model_dir import WEIGHTS
from unire.inference.torch_engine import choose_device, keep_in_bf16
from unire.labels import LabelSpace
from unire.models.checkpoint import fill, tensors_from, tensors_to
from unire.models.encoder import build_encoder
from unire.training.config import TrainingConfig
from unire.training.initialization import portable_config
from unire.training.markers.data import MarkerReader
from unire.training.markers.inference import tokens_at_once
from unire.training.markers.model import MarkerModel
from unire.training.markers.relations import RelationClassifier, spare
from unire.training.trainer import use_bf16

__all__ = ["TrainedMarker", "load_marker", "new_classifier", "save_classifier", "saving"]

TOKENIZER = "tokenizer.json"
ABOUT = "markers.json"


@dataclass(frozen=True)
class TrainedMarker:
    """A marker model that was trained."""

    about: dict[str, Any]
    """Who it is, in the form of a teacher."""
    finder: RelationClassifier


def new_classifier(
    encoder: Any,
    tokenizer: Tokenizer,
    spec: EncoderSpec,
    labels: LabelSpace,
    config: TrainingConfig,
    *,
    approximate: bool,
    device: torch.device,
) -> RelationClassifier:
    """An untrained marker model over an encoder, with what it needs to find something."""
    model = MarkerModel(encoder, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = MarkerReader(tokenizer, spec, config.window, spare=spare(approximate))
    return RelationClassifier(model.to(device), reader, labels, use_bf16(config, device), tokens_at_once(model))


def save_classifier(finder: RelationClassifier, folder: Path, *, encoder: str, config: TrainingConfig) -> None:
    """Write a marker model, all of it or nothing; what an earlier run has saved is replaced.

    Args:
        finder: With one model.
        folder: A new one, or one of a marker model.
        encoder: The name of what it was trained from.
        config: How it was trained.
    """
    model: Any = finder.model
    about = {
        "encoder": encoder,
        "approximate": model.approximate,
        "labels": finder.labels.to_dict(),
        "spec": finder.reader.spec.to_dict(),
        # as it was before it had an embedding for every marker
        "encoder_config": {**portable_config(model.encoder.config), "vocab_size": model.markers.first},
        "training": asdict(config),
    }
    with saving(folder) as temporary:
        tensors_to(temporary / WEIGHTS, model.state_dict())
        (temporary / TOKENIZER).write_text(finder.reader.tokenizer.to_str(), encoding="utf-8")
        (temporary / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


@contextmanager
def saving(folder: Path) -> Iterator[Path]:
    """A temporary folder for all of a model, which then replaces what an earlier run has saved."""
    try:
        with replace_atomically(folder, directory=True) as temporary:
            yield temporary
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load_marker(folder: str | Path, device: str | None = None) -> TrainedMarker:
    """The marker model of a folder, on a GPU when there is one; nobody goes on training it."""
    folder, place = Path(folder), choose_device(device)
    if not (folder / ABOUT).exists():
        if (folder / "cell.json").exists():
            raise UnireError(f"the marker model in {str(folder)!r} is of an earlier version; remove and train it again")
        raise UnireError(f"there is no marker model in {str(folder)!r}; `unire markers` trains one")
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        name = str(about["encoder"])
        encoder, tokenizer = build_encoder(about["encoder_config"]), _tokenizer(folder)
        labels, spec = LabelSpace.from_dict(about["labels"]), EncoderSpec.from_dict(about["spec"])
        training = TrainingConfig(**about["training"])
        if training.bf16:  # a model that was trained in it can be asked without
            training = replace(training, bf16=None)
        approximate = about["approximate"]
        finder = new_classifier(encoder, tokenizer, spec, labels, training, approximate=approximate, device=place)
    except (OSError, ValueError, KeyError, TypeError, UnireError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UnireError(f"the marker model in {str(folder)!r} cannot be read ({reason}); train it again") from None
    fill(finder.model, tensors_from(folder / WEIGHTS), folder)
    if finder.bf16:
        keep_in_bf16(finder.model)
    return TrainedMarker({"name": folder.resolve().name, "encoder": name, "scores": {}}, finder)


def _tokenizer(folder: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # tokenizers raises bare Exception
        raise UnireError(f"{TOKENIZER} is missing or broken: {error}") from None
