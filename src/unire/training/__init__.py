"""Training: `train` does it all; a `TrainingConfig` says how."""

from unire.training.config import PRESETS, TrainingConfig
from unire.training.loop import train
from unire.training.trainer import Trained

__all__ = ["PRESETS", "Trained", "TrainingConfig", "train"]
