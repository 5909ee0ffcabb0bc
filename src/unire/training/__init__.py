"""Training: `train` does it all, `distill` with teachers; a `TrainingConfig` says how."""

from unire.training.config import PRESETS, TrainingConfig
from unire.training.distill import DistillConfig, distill
from unire.training.loop import Trained, train

__all__ = ["PRESETS", "DistillConfig", "Trained", "TrainingConfig", "distill", "train"]
