"""How the pipeline is built and trained."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from unire.errors import FRACTION, NATURAL, POSITIVE, UnireError, check_kinds, check_ranges
from unire.training.config import MARKER_SETTINGS, TrainingConfig

__all__ = ["PipelineConfig"]


@dataclass(frozen=True)
class PipelineConfig:
    """Sizes and windows are those of Zhong & Chen for SciERC; their trainings are longer and at lower rates."""

    max_span: int = 8
    """Words of the longest span that is looked at."""
    entity_window: int = 300
    """Words of a window of the span model, the sentence included; 0 for no context."""
    relation_window: int = MARKER_SETTINGS["window"]
    """The same for the markers' model."""
    d_width: int = 150
    """Size of the embedding of a span's width."""
    d_hidden: int = 150
    """Size of the two hidden layers over a span."""

    entity_epochs: int = 10
    relation_epochs: int = MARKER_SETTINGS["epochs"]
    sentences: int = 16
    """Of one step of the span model."""
    pairs: int = MARKER_SETTINGS["batch_size"]
    """Of one step of the markers' model; in the approximate one as many whole sentences as have them."""
    entity_lr: float = 1e-4
    """Peak rate of the encoder."""
    relation_lr: float = MARKER_SETTINGS["lr"]
    entity_head_lr: float = 1e-3
    """Peak rate of everything else."""
    relation_head_lr: float = MARKER_SETTINGS["head_lr"]
    beta2: float = MARKER_SETTINGS["beta2"]
    warmup: float = MARKER_SETTINGS["warmup"]
    """Share of the training in which the rate rises."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "pipeline setting")
        windows = dict.fromkeys(("entity_window", "relation_window"), NATURAL)
        ranges = {**dict.fromkeys(vars(self), POSITIVE), **windows, "beta2": FRACTION, "warmup": FRACTION}
        check_ranges(vars(self), ranges, "pipeline setting")

    @classmethod
    def changed(cls, **changes: Any) -> PipelineConfig:
        """The defaults with some settings changed."""
        known = [field.name for field in fields(cls)]
        for name in changes:
            if name not in known:
                raise UnireError(f"no pipeline setting {name!r}; there are {', '.join(known)}")
        return cls(**changes)

    def training(self, joint: TrainingConfig, *, entities: bool) -> TrainingConfig:
        """How one of the two models is trained: what is not set here is as in the joint model's training."""
        return replace(
            joint,
            epochs=self.entity_epochs if entities else self.relation_epochs,
            batch_size=self.sentences if entities else self.pairs,
            lr=self.entity_lr if entities else self.relation_lr,
            head_lr=self.entity_head_lr if entities else self.relation_head_lr,
            beta2=self.beta2,
            warmup=self.warmup,
            window=self.entity_window if entities else self.relation_window,
        )
