"""Training configurations: dataclasses and presets.

Preset `paper` follows the paper's text, and `released` its authors' code. `best` has the highest scores on dev, and
`cpu` the highest ones after minutes on a CPU. Where the paper does not name a value, `paper` uses that of the released
code, with two exceptions: `eps` is the default of AdamW, and evaluation on dev begins with the first epoch, because a
short training would otherwise have none. `docs/explanation/paper-to-code.md` lists all differences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unire.config import Layout
from unire.decoding.decoders import SPAN_DECODERS
from unire.errors import COUNT, FRACTION, NATURAL, POSITIVE, Range, UnireError, check_kinds, check_ranges
from unire.hub.model_dir import ModelDir

if TYPE_CHECKING:
    import torch

__all__ = ["MARKER_SETTINGS", "PRESETS", "AdaptationConfig", "TrainingConfig", "marker_config"]


@dataclass(frozen=True)
class TrainingConfig:
    """All settings of a training, except encoder, data and labels.

    >>> config = TrainingConfig.from_preset("best", epochs=30, lr=5e-5)
    >>> config.epochs
    30
    """

    preset: str = "paper"
    """The preset that the settings come from; for the model card."""

    layout: Layout = "in-place"
    """How a sentence and its context become an encoder input: `in-place`, `released` or `shared`."""
    window: int = 200
    """W: words per window, including the sentence. 0 means no context. `shared` fills the encoder instead."""
    max_table: int = 512
    """Words of the largest table. A longer sentence is split."""

    d: int = 150
    """Size of the head and tail vectors."""
    mlp_dropout: float = 0.4
    """Dropout behind the two MLPs."""
    keep_head: bool = False
    """Whether to continue with the head of a trained model, instead of a new one."""
    frozen: float = 0.0
    """Share of the encoder's layers, from the lowest one, that stay as they are. The embeddings then do so too."""
    case_marks: bool = False
    """Whether an uncased encoder gets a token that marks capitals after each word that has some."""
    constraints: bool = False
    """Whether relations may only join entity types that they join in the training data."""
    logit_dropout: float = 0.2
    """p: dropout on the logits of L_entry."""

    mean: Literal["sentence", "batch"] = "sentence"
    """Mean of the losses. `sentence`: over each sentence's cells, then over sentences. `batch`: over all cells."""
    symmetry: bool = True
    """Whether L_sym is part of the objective."""
    implication: Literal["max", "sum", "none"] = "max"
    """L_imp. `max`: hinge of the largest relation in row and column. `sum`: hinges of all of them. `none`: off."""

    epochs: int = 200
    """Passes over the training data."""
    batch_size: int = 32
    """Sentences per optimiser step, over all processes."""
    lr: float = 5e-5
    """Peak learning rate of the encoder."""
    head_lr: float | None = None
    """Peak learning rate of MLPs and biaffine. [default: that of the encoder]"""
    layer_decay: float = 1.0
    """Learning rate of an encoder layer, relative to that of the layer above it."""
    beta1: float = 0.9
    """AdamW's β₁."""
    beta2: float = 0.9
    """AdamW's β₂."""
    eps: float = 1e-8
    """AdamW's ε."""
    weight_decay: float = 1e-5
    """Weight decay of all parameters."""
    bias_correction: bool = True
    """Whether AdamW corrects its bias, which the released code does not."""
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
    """α of the decoder during training. [default: 1.4 for `split`, 2 for `likely`]"""
    tune_alpha: bool = True
    """Whether α is tuned on dev at the end, by Ent + Rel F1."""
    relation_odds: float = 1.0
    """A relation is predicted if it is this many times as probable as ⊥."""
    tune_odds: bool = False
    """Whether `relation_odds` is tuned on dev at the end, by Rel F1."""

    seed: int = 0
    """Seed of all random numbers. On a CPU, the same seed gives the same model."""
    bf16: bool | Literal["auto"] | None = None
    """Whether to train in mixed precision. `auto`: on a GPU or CPU that supports it. [default: on such a GPU]"""
    max_cells: int = 250_000
    """Padded cells of a batch. A larger step is split into batches, whose gradients add up."""
    max_pieces: int = 16_384
    """Padded tokens of a batch, as for `max_cells`. Saved configurations keep the name, pieces."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "training setting")
        check_ranges(vars(self), RANGES, "training setting")

    @property
    def tunes(self) -> bool:
        """Whether something is tuned on dev at the end."""
        return self.decoder in SPAN_DECODERS and (self.tune_alpha or self.tune_odds)

    @classmethod
    def from_preset(cls, name: str | None = None, **changes: Any) -> TrainingConfig:
        """Return a preset, with some settings changed.

        >>> TrainingConfig.from_preset("paper", window=100).layout
        'in-place'

        Args:
            name: `best`, `cpu`, `paper` or `released`. [default: `best` if there is a GPU, else `cpu`]
            changes: Settings by name.

        Returns:
            The configuration.

        Raises:
            UnireError: There is no such preset or setting, or a value is out of range.
        """
        name = name or default_preset()
        if name not in PRESETS:
            raise UnireError(f"unknown preset {name!r}; give one of {', '.join(PRESETS)}")
        settings = [field.name for field in fields(cls) if field.name != "preset"]
        for setting in changes:
            if setting == "preset":
                raise UnireError("preset is not a setting; choose a preset with preset=...")
            if setting not in settings:
                raise UnireError(f"unknown training setting {setting!r}; give one of {', '.join(settings)}")
        return replace(PRESETS[name], **changes)

    @classmethod
    def further(cls, model: str | Path, preset: str | None = None, **changes: Any) -> TrainingConfig:
        """Return a preset for continuing the training of a model, head included.

        >>> train("models/mine", documents, config=TrainingConfig.further("models/mine"), out="b")  # doctest: +SKIP

        Args:
            model: The folder or name of the model.
            preset: The preset of all settings that the model does not determine, as in `from_preset`.
            changes: Settings by name. Without changes, layout, window, head and decoder are those of the model.

        Returns:
            The configuration, with `keep_head`.

        Raises:
            UnireError: There is no such model, preset or setting.
        """
        settings = ModelDir.open(model).config
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
    "frozen": Range(0, 1, with_high=True),
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
PRESETS["cpu"] = replace(
    PRESETS["best"], preset="cpu", batch_size=8, epochs=120, evaluate_after=59, evaluate_every=10, bf16="auto"
)


def default_preset() -> str:
    """The preset for the present machine."""
    import torch

    return "best" if torch.cuda.is_available() else "cpu"


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
    """Return the training configuration of a marker model, with some settings changed.

    >>> marker_config(seed=1).batch_size
    64

    Args:
        changes: Settings by name, of those in `MARKER_FIELDS`.

    Returns:
        The configuration, for `train_markers`.

    Raises:
        UnireError: Marker models do not have such a setting, or a value is out of range.
    """
    for name in changes:
        if name not in MARKER_FIELDS:
            raise UnireError(f"unknown setting {name!r} of marker models; give one of {', '.join(MARKER_FIELDS)}")
    return TrainingConfig.from_preset("best", **{**MARKER_SETTINGS, **changes})


# Adaptation

BATCH_TOKENS = {"cuda": 65_536, "cpu": 4_096}
"""Tokens of one optimiser step by default. A CPU gets few, so that it takes more than one step in the time."""


@dataclass(frozen=True)
class AdaptationConfig:
    """Settings of an adaptation. It needs a limit of time, of steps, or both.

    >>> AdaptationConfig(minutes=10).length
    256
    """

    minutes: float | None = None
    """Time limit of the whole run, from loading to saving."""
    max_steps: int | None = None
    """Number of optimiser steps. With a limit of steps alone, results are reproducible on a CPU."""
    length: int = 256
    """Tokens per row, including special tokens."""
    batch_tokens: int | None = None
    """Tokens per optimiser step. [default: 65,536 on a GPU, 4,096 on a CPU]"""
    lr: float = 1e-4
    """Peak learning rate of the encoder."""
    warmup: float = 0.06
    """Fraction of the training in which the learning rate rises; then it decays linearly to zero."""
    mask_rate: float = 0.2
    """Fraction of tokens to mask."""
    case_marks: bool = False
    """Whether an uncased encoder gets tokens that mark capitals, for trainings with the same setting."""
    seed: int = 0
    """Seed of all random numbers."""

    def __post_init__(self) -> None:
        if self.minutes is None and self.max_steps is None:
            raise UnireError("adaptation needs a limit; give minutes=... or max_steps=...")
        check_kinds(type(self), vars(self), "adaptation setting")
        check_ranges(vars(self), ADAPTATION_RANGES, "adaptation setting")
        if self.batch_tokens is not None and self.batch_tokens < self.length:
            raise UnireError(
                f"adaptation setting batch_tokens must be at least the length, {self.length}, not {self.batch_tokens}"
            )
        if round(self.mask_rate * self.length) < 1:
            raise UnireError(
                f"adaptation setting mask_rate must mask at least 1 token of the length, {self.length}, "
                f"not {self.mask_rate}"
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
