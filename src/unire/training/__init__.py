"""Training: `train` does it all; a `TrainingConfig` says how.

The names below are imported when they are first used, so that a configuration is made, or refused, without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unire.exceptions import told_of_the_extra

_HOMES = {
    "PRESETS": "unire.training.config",
    "Trained": "unire.training.trainer",
    "TrainingConfig": "unire.training.config",
    "train": "unire.training.loop",
}

__all__ = ["PRESETS", "Trained", "TrainingConfig", "train"]

if TYPE_CHECKING:
    from unire.training.config import PRESETS, TrainingConfig
    from unire.training.loop import train
    from unire.training.trainer import Trained


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unire.training' has no attribute {name!r}")
    with told_of_the_extra():
        return getattr(import_module(_HOMES[name]), name)
