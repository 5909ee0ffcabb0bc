"""Marker models as folders, which hold all that it takes to ask them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire.engines.torch_engine import TorchEngine, choose_device, keep_in_bf16
from unire.exceptions import UnireError
from unire.files import replacing
from unire.labels import LabelSpace
from unire.marking.marker_model import MarkerModel
from unire.marking.reading import Reader
from unire.marking.relations import RelationFinder, spare
from unire.modeling.checkpoint import tensors_from, tensors_to
from unire.modeling.encoder import build_encoder
from unire.training import TrainingConfig
from unire.training.trainer import use_bf16
from unire.windows import SLICE, EncoderSpec

__all__ = ["Marker", "load_markers", "new_finder", "save_finder"]

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
ABOUT = "markers.json"


@dataclass(frozen=True)
class Marker:
    """A marker model that was trained."""

    about: dict[str, Any]
    """Who it is, in the form of a teacher."""
    finder: RelationFinder


def new_finder(
    encoder: Any,
    tokenizer: Tokenizer,
    spec: EncoderSpec,
    labels: LabelSpace,
    config: TrainingConfig,
    *,
    approximate: bool,
) -> RelationFinder:
    """An untrained marker model over an encoder, with what it needs to find something."""
    device = choose_device()
    # as the encoder of a model of tables is given
    at_once = min(SLICE, TorchEngine.most_pieces(device, encoder.config.hidden_size))
    model = MarkerModel(encoder, len(labels.entity_types), len(labels.relation_types), approximate=approximate)
    reader = Reader(tokenizer, spec, config.window, spare=spare(approximate))
    return RelationFinder(model.to(device), reader, labels, use_bf16(config), at_once)


def save_finder(finder: RelationFinder, folder: Path, *, encoder: str, config: TrainingConfig) -> None:
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
        "encoder_config": {**model.encoder.config.to_dict(), "vocab_size": model.markers.first},
        "training": asdict(config),
    }
    try:
        with replacing(folder, directory=True) as temporary:
            tensors_to(temporary / WEIGHTS, model.state_dict())
            (temporary / TOKENIZER).write_text(finder.reader.tokenizer.to_str(), encoding="utf-8")
            (temporary / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnireError(f"the model could not be saved as {str(folder)!r}: {error.strerror or error}") from None


def load_markers(folder: str | Path) -> list[Marker]:
    """The marker model of a folder, or all that the cells of a study have saved under it."""
    folder = Path(folder)
    if (folder / ABOUT).exists():
        return [_load(folder)]
    found = sorted(file.parent for file in folder.glob(f"models/*/{ABOUT}"))
    if not found:
        raise UnireError(f"there is no marker model in {str(folder)!r}; `unire markers` trains one")
    return [_load(each) for each in found]


def _load(folder: Path) -> Marker:
    """That of a folder with weights; nobody goes on training it."""
    about = _read(folder, lambda: json.loads((folder / ABOUT).read_text(encoding="utf-8")))

    def untrained() -> RelationFinder:
        encoder, tokenizer = build_encoder(about["encoder_config"]), Tokenizer.from_file(str(folder / TOKENIZER))
        labels, spec = LabelSpace.from_dict(about["labels"]), EncoderSpec.from_dict(about["spec"])
        training = TrainingConfig(**about["training"])
        return new_finder(encoder, tokenizer, spec, labels, training, approximate=about["approximate"])

    finder = _read(folder, untrained)
    _read(folder, lambda: finder.model.load_state_dict(tensors_from(folder / WEIGHTS)))
    if finder.bf16:
        keep_in_bf16(finder.model)
    return Marker({"name": folder.name, "encoder": str(about["encoder"]), "scores": {}}, finder)


def _read(folder: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # tokenizers raises bare Exception, torch RuntimeError
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UnireError(f"the marker model in {str(folder)!r} cannot be read ({reason}); train it again") from None
