"""How marker models are trained."""

from __future__ import annotations

from typing import Any

from unire.training import TrainingConfig

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


def marker_config(**changes: Any) -> TrainingConfig:
    """How a marker model is trained, with some settings changed. What is about tables has no meaning for it."""
    return TrainingConfig.from_preset("best", **{**SETTINGS, **changes})
