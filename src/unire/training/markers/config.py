"""How marker models are trained."""

from __future__ import annotations

from typing import Any

from unire.errors import UnireError
from unire.training.config import TrainingConfig

__all__ = ["SETTINGS", "marker_config"]

SETTINGS: dict[str, Any] = {
    "epochs": 5,
    "batch_size": 64,
    "lr": 5e-5,
    "head_lr": 5e-4,
    "beta2": 0.999,
    "warmup": 0.1,
    "window": 100,
}
"""Where they differ from the preset `best`. A step has so many pairs; where all pairs of a sentence share a pass, as
many whole sentences as have them."""


KNOWN = (
    *SETTINGS,
    *("case_marks", "seed", "bf16", "max_pieces"),
    *("layer_decay", "beta1", "eps", "weight_decay", "bias_correction", "clip"),
)
"""What may be set; all else is about tables."""


def marker_config(**changes: Any) -> TrainingConfig:
    """How a marker model is trained, with some settings changed."""
    for name in changes:
        if name not in KNOWN:
            raise UnireError(f"no setting {name!r} of marker models; there are {', '.join(KNOWN)}")
    return TrainingConfig.from_preset("best", **{**SETTINGS, **changes})
