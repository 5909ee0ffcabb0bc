"""Checkpoints of marker models: weights, tokenizer and `markers.json`."""

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
from unire.inference.torch_engine import choose_device, store_in_bf16
from unire.labels import LabelSpace
from unire.models.checkpoint import load_weights, read_tensors, write_tensors
from unire.models.encoder import build_encoder
from unire.training.config import TrainingConfig
from unire.training.markers.data import SentenceReader, count_text_markers
from unire.training.markers.inference import RelationClassifier, max_batch_tokens
from unire.training.markers.model import MarkerModel
from unire.training.train import portable_config
from unire.training.trainer import use_bf16

__all__ = ["TrainedMarker", "init_classifier", "load_marker", "replace_model", "save_classifier"]

TOKENIZER = "tokenizer.json"
INFO = "markers.json"


@dataclass(frozen=True)
class TrainedMarker:
    """A trained marker model."""

    info: dict[str, Any]
    """Name, encoder and scores, in the form of a teacher's."""
    classifier: RelationClassifier


def init_classifier(
    encoder: Any,
    tokenizer: Tokenizer,
    spec: EncoderSpec,
    labels: LabelSpace,
    config: TrainingConfig,
    *,
    approximate: bool,
    device: torch.device,
) -> RelationClassifier:
    """An untrained marker model over an encoder."""
    model = MarkerModel(encoder, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = SentenceReader(tokenizer, spec, config.window, reserved=count_text_markers(approximate))
    return RelationClassifier(model.to(device), reader, labels, use_bf16(config, device), max_batch_tokens(model))


def save_classifier(classifier: RelationClassifier, folder: Path, *, encoder: str, config: TrainingConfig) -> None:
    """Write a marker model atomically. The model of an earlier run is replaced.

    Args:
        classifier: With a single model, not an ensemble.
        folder: A new folder, or one of a marker model.
        encoder: Name of the pretrained encoder.
        config: The training configuration.
    """
    model: Any = classifier.model
    info = {
        "encoder": encoder,
        "approximate": model.approximate,
        "labels": classifier.labels.to_dict(),
        "spec": classifier.reader.spec.to_dict(),
        # of the encoder without the embeddings of markers
        "encoder_config": {**portable_config(model.encoder.config), "vocab_size": model.markers.first},
        "training": asdict(config),
    }
    with replace_model(folder) as temporary:
        write_tensors(temporary / WEIGHTS, model.state_dict())
        (temporary / TOKENIZER).write_text(classifier.reader.tokenizer.to_str(), encoding="utf-8")
        (temporary / INFO).write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")


@contextmanager
def replace_model(folder: Path) -> Iterator[Path]:
    """A temporary folder for a model, which then replaces that of an earlier run."""
    try:
        with replace_atomically(folder, directory=True) as temporary:
            yield temporary
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load_marker(folder: str | Path, device: str | None = None) -> TrainedMarker:
    """Load a marker model for inference. By default it is on a GPU if there is one."""
    folder, place = Path(folder), choose_device(device)
    if not (folder / INFO).exists():
        if (folder / "cell.json").exists():
            raise UnireError(f"the marker model in {str(folder)!r} is of an earlier version; train it again")
        raise UnireError(f"there is no marker model in {str(folder)!r}; `unire markers` trains one")
    try:
        info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        name = str(info["encoder"])
        encoder, tokenizer = build_encoder(info["encoder_config"]), _load_tokenizer(folder)
        labels, spec = LabelSpace.from_dict(info["labels"]), EncoderSpec.from_dict(info["spec"])
        training = TrainingConfig(**info["training"])
        if training.bf16:  # decide by the present device
            training = replace(training, bf16=None)
        approximate = info["approximate"]
        classifier = init_classifier(encoder, tokenizer, spec, labels, training, approximate=approximate, device=place)
    except (OSError, ValueError, KeyError, TypeError, UnireError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UnireError(f"the marker model in {str(folder)!r} cannot be read ({reason}); train it again") from None
    load_weights(classifier.model, read_tensors(folder / WEIGHTS), folder)
    if classifier.bf16:
        store_in_bf16(classifier.model)
    return TrainedMarker({"name": folder.resolve().name, "encoder": name, "scores": {}}, classifier)


def _load_tokenizer(folder: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as error:  # tokenizers raises bare Exception
        raise UnireError(f"{TOKENIZER} is missing or broken: {error}") from None
