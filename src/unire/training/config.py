"""Training configurations: dataclasses and presets.

Preset `paper` follows the text of the paper, `released` follows its authors' code, and `best` has the highest scores on
dev (`docs/results.md`). Where the paper does not name a value, `paper` uses that of the released code, with two
exceptions. `eps` is the default of AdamW, and evaluation on dev begins with the first epoch, because a short training
would otherwise have none. `docs/paper-to-code.md` lists all differences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unire.config import Layout, ModelConfig
from unire.decoding.decoders import SPAN_DECODERS
from unire.errors import COUNT, FRACTION, NATURAL, POSITIVE, Range, UnireError, check_kinds, check_ranges
from unire.hub.model_dir import locate_model

if TYPE_CHECKING:
    import torch

__all__ = ["MARKER_SETTINGS", "PRESETS", "AdaptationConfig", "TrainingConfig", "marker_config"]


@dataclass(frozen=True)
class TrainingConfig:
    """All settings of a training, except encoder, data and labels."""

    preset: str = "paper"

    layout: Layout = "in-place"
    """How a sentence and its context become an encoder input."""
    window: int = 200
    """W: words per window, including the sentence; 0 for no context."""
    max_table: int = 512
    """Words of the largest table; a longer sentence is split."""

    d: int = 150
    """Size of the head and tail vectors."""
    mlp_dropout: float = 0.4
    keep_head: bool = False
    """Whether to continue with the head of a trained model, instead of a new one."""
    case_marks: bool = False
    """Whether an uncased encoder gets a token that marks capitals after each word that has some."""
    constraints: bool = False
    """Whether relations may only join entity types that they join in the training data."""
    logit_dropout: float = 0.2
    """p: dropout on the logits of L_entry."""

    mean: Literal["sentence", "batch"] = "sentence"
    """What the losses are means over: each sentence, then the batch; or all cells of the batch at once."""
    symmetry: bool = True
    """Whether L_sym is part of the objective."""
    implication: Literal["max", "sum", "none"] = "max"
    """L_imp: `max` (the paper), `sum` (the released code) or `none`."""

    epochs: int = 200
    batch_size: int = 32
    """Sentences per optimiser step, over all processes."""
    lr: float = 5e-5
    """Peak learning rate of the encoder."""
    head_lr: float | None = None
    """Peak learning rate of MLPs and biaffine; that of the encoder by default."""
    layer_decay: float = 1.0
    """Learning rate of an encoder layer, relative to that of the layer above it."""
    beta1: float = 0.9
    beta2: float = 0.9
    eps: float = 1e-8
    weight_decay: float = 1e-5
    bias_correction: bool = True
    """Adam's bias correction, which the released code does not use."""
    warmup: float = 0.2
    """Fraction of the training in which the learning rate rises; then it decays linearly to zero."""
    clip: float = 5.0
    """Gradients with a larger norm are scaled down to it."""

    evaluate_after: int = 0
    """Epochs before the first evaluation on dev."""
    evaluate_every: int = 1
    """Epochs between two evaluations on dev."""
    patience: int = 30
    """Epochs without a better Ent + Rel F1 on dev before training stops."""
    decoder: Literal["split", "hard", "likely"] = "split"
    """`split` (the paper), `hard` (its baseline) or `likely` (maximum-weight spans)."""
    alpha: float | None = None
    """α of the decoder during training; the default of the decoder if `None`. It is tuned on dev at the end."""
    tune_alpha: bool = True
    relation_odds: float = 1.0
    """A relation is predicted if it is this many times as probable as ⊥."""
    tune_odds: bool = False
    """Whether `relation_odds` is tuned on dev at the end, by Rel F1."""

    seed: int = 0
    bf16: bool | None = None
    """Whether to train in mixed precision; by default if the hardware supports it."""
    max_cells: int = 250_000
    """Padded cells of a batch. A larger step is split into batches, whose gradients add up."""
    max_pieces: int = 16_384
    """Padded tokens of a batch, as for `max_cells`."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "training setting")
        check_ranges(vars(self), RANGES, "training setting")

    @property
    def tunes(self) -> bool:
        """Whether something is tuned on dev at the end."""
        return self.decoder in SPAN_DECODERS and (self.tune_alpha or self.tune_odds)

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> TrainingConfig:
        """A preset by name, with some settings changed.

        Raises:
            UnireError: There is no such preset or setting.
        """
        if name not in PRESETS:
            raise UnireError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
        settings = [field.name for field in fields(cls) if field.name != "preset"]
        for setting in changes:
            if setting == "preset":
                raise UnireError("preset is not a setting; choose a preset with preset=...")
            if setting not in settings:
                raise UnireError(f"no training setting {setting!r}; there are {', '.join(settings)}")
        return replace(PRESETS[name], **changes)

    @classmethod
    def further(cls, model: str | Path, preset: str = "best", **changes: Any) -> TrainingConfig:
        """A preset for continuing the training of a model, head included.

        Layout, window, head and decoder are those of the model unless `changes` has others.
        """
        settings = ModelConfig.load(locate_model(model))
        kept = {name: getattr(settings, name) for name in READING}
        kept |= {"case_marks": bool(settings.spec.case_marks), **asdict(settings.head), "keep_head": True}
        return cls.from_preset(preset, **kept | changes)


READING = ("layout", "window", "max_table", "decoder", "alpha", "relation_odds", "constraints")
"""Settings that a model keeps when it is trained further."""


RANGES = {
    **dict.fromkeys(("window", "weight_decay", "evaluate_after"), NATURAL),
    **dict.fromkeys(("max_table", "d", "epochs", "batch_size", "evaluate_every", "patience"), COUNT),
    **dict.fromkeys(("max_cells", "max_pieces"), COUNT),
    **dict.fromkeys(("lr", "head_lr", "eps", "clip", "alpha", "relation_odds"), POSITIVE),
    **dict.fromkeys(("mlp_dropout", "logit_dropout", "beta1", "beta2", "warmup"), FRACTION),
    "layer_decay": Range(0, 1, with_low=False, with_high=True),
    "seed": Range(0, 2**32),
}


PRESETS = {
    "paper": TrainingConfig(),
    "released": TrainingConfig(
        preset="released",
        layout="released",
        mean="batch",
        implication="sum",
        layer_decay=0.9,
        eps=1e-12,
        bias_correction=False,
        evaluate_after=100,
    ),
    "best": TrainingConfig(
        preset="best",
        layout="shared",
        epochs=60,
        lr=1e-4,
        head_lr=3e-4,
        evaluate_after=29,
        evaluate_every=5,
        patience=60,
        decoder="likely",
        tune_odds=True,
    ),
}


# Marker models

MARKER_SETTINGS: dict[str, Any] = {
    "epochs": 5,
    "batch_size": 64,
    "lr": 5e-5,
    "head_lr": 5e-4,
    "beta2": 0.999,
    "warmup": 0.1,
    "window": 100,
}
"""Settings of marker models that differ from the preset `best`. `batch_size` counts entity pairs; an approximate model
takes whole sentences until they have this many pairs."""
MARKER_FIELDS = (
    *MARKER_SETTINGS,
    *("case_marks", "seed", "bf16", "max_pieces"),
    *("layer_decay", "beta1", "eps", "weight_decay", "bias_correction", "clip"),
)
"""The fields that marker models use. The others concern tables."""


def marker_config(**changes: Any) -> TrainingConfig:
    """The training configuration of a marker model, with changes."""
    for name in changes:
        if name not in MARKER_FIELDS:
            raise UnireError(f"marker models have no setting {name!r}; there are {', '.join(MARKER_FIELDS)}")
    return TrainingConfig.from_preset("best", **{**MARKER_SETTINGS, **changes})


# Adaptation

BATCH_TOKENS = {"cuda": 65_536, "cpu": 4_096}
"""Tokens of one optimiser step by default. A CPU gets few, so that it takes more than one step in the time."""


@dataclass(frozen=True)
class AdaptationConfig:
    """Settings of an adaptation, which ends when the time or the steps are used up."""

    minutes: float | None = None
    """Time limit for the whole run, from loading to saving."""
    max_steps: int | None = None
    """Number of optimiser steps; with a limit of steps alone, results are reproducible on a CPU."""
    length: int = 256
    """Tokens per row, including special tokens."""
    batch_tokens: int | None = None
    """Tokens per optimiser step; by default 65,536 on a GPU and 4,096 on a CPU."""
    lr: float = 1e-4
    """Peak learning rate of the encoder."""
    warmup: float = 0.06
    """Fraction of the training in which the learning rate rises; then it decays linearly to zero."""
    mask_rate: float = 0.2
    """Fraction of tokens to mask."""
    case_marks: bool = False
    """Whether an uncased encoder gets tokens that mark capitals, for trainings with the same setting."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.minutes is None and self.max_steps is None:
            raise UnireError("adaptation needs an end: give the minutes or the steps that it may take")
        check_kinds(type(self), vars(self), "adaptation setting")
        check_ranges(vars(self), ADAPTATION_RANGES, "adaptation setting")
        if self.batch_tokens is not None and self.batch_tokens < self.length:
            raise UnireError(
                f"adaptation setting batch_tokens = {self.batch_tokens} is less than a row, of length = {self.length}"
            )
        if round(self.mask_rate * self.length) < 1:
            raise UnireError(
                f"adaptation setting mask_rate = {self.mask_rate} hides nothing of a row, of length = {self.length}"
            )

    def on(self, device: torch.device) -> AdaptationConfig:
        """The same settings, with the default `batch_tokens` of the device unless it is set."""
        usual = BATCH_TOKENS["cuda" if device.type == "cuda" else "cpu"]
        return replace(self, batch_tokens=self.batch_tokens or max(usual, self.length))

    @property
    def lasting(self) -> dict[str, Any]:
        """The settings that a resumed adaptation must have too: all but time and steps."""
        return {name: value for name, value in asdict(self).items() if name not in ("minutes", "max_steps")}

    @property
    def rows(self) -> int:
        """Rows of one optimiser step: `batch_tokens`, rounded down; 0 before `on` has set `batch_tokens`."""
        return (self.batch_tokens or 0) // self.length


ADAPTATION_RANGES = {
    **dict.fromkeys(("minutes", "lr"), POSITIVE),
    "max_steps": COUNT,
    "length": Range(8),
    "warmup": FRACTION,
    "mask_rate": Range(0, 0.5, with_low=False, with_high=True),
    "seed": Range(0, 2**32),
}
