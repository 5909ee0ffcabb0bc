"""What a model needs to know beside its weights: `config.json` of a checkpoint, read without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from unire.calibration import Calibration, Curve
from unire.checks import COUNT, FRACTION, check_kinds, check_ranges
from unire.exceptions import UnireError
from unire.windows import EncoderSpec, Layout

__all__ = ["FORMAT_VERSION", "HeadSettings", "Settings", "checked_alpha"]

FORMAT_VERSION = 1


@dataclass(frozen=True)
class HeadSettings:
    """The table-filling head on top of the encoder."""

    d: int = 150
    """Size of the head and tail vectors."""
    mlp_dropout: float = 0.4

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "head setting")
        check_ranges(vars(self), {"d": COUNT, "mlp_dropout": FRACTION}, "head setting")


@dataclass(frozen=True)
class Settings:
    """How text becomes windows, how large the head is, and how tables are decoded."""

    spec: EncoderSpec
    encoder: Mapping[str, Any]
    """The encoder's own configuration, as transformers writes it."""
    head: HeadSettings = field(default_factory=HeadSettings)
    layout: Layout = "in-place"
    window: int = 200
    """W: words of a window, the sentence included."""
    max_table: int = 512
    """Words of the largest table; a longer sentence is split."""
    decoder: str = "split"
    alpha: float = 1.4
    """α, by which the decoder cuts: between adjacent rows and columns that are farther apart (`split`), or around
    squares that have more in their favour (`likely`)."""
    relation_odds: float = 1.0
    """How many times as probable as ⊥ a relation must be to be found; tuned on dev, if at all."""
    signatures: tuple[tuple[str, str, str], ...] = ()
    """Head type, relation type and tail type of the relations in the training data, each once."""
    constraints: bool = False
    """Whether only such relations may be found."""
    calibration: Calibration = field(default_factory=Calibration)
    """What makes of a table's mean probability the chance that a finding is right; fitted on dev."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the model comes from: encoder, data, preset, seed, scores."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "setting")
        check_kinds(EncoderSpec, vars(self.spec), "setting")
        checked_alpha(self.alpha)
        checked_odds(self.relation_odds)

    def with_(self, **changes: Any) -> Settings:
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "unire",
            "format_version": FORMAT_VERSION,
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("spec", "head", "calibration")},
            "calibration": asdict(self.calibration),
            "spec": self.spec.to_dict(),
            "head": asdict(self.head),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        if not isinstance(data, Mapping) or data.get("format") != "unire":
            raise UnireError("it is not a unire model: its config.json was written by another program")
        version = data.get("format_version")
        if not isinstance(version, int):
            raise UnireError(f"the format_version of its config.json is {version!r}, not a number")
        if version > FORMAT_VERSION:
            raise UnireError(
                f"it was written in format {version}, but this version of unire reads up to {FORMAT_VERSION}; "
                "upgrade unire"
            )
        values = {"calibration": {}, **_known(cls, data)}
        for name in ("spec", "encoder", "head", "calibration"):
            if not isinstance(values.get(name), Mapping):
                raise UnireError(f"its config.json is incomplete or damaged: {name} is not an object")
        values["spec"] = EncoderSpec.from_dict(values["spec"])
        signatures = values.get("signatures", ())
        if not isinstance(signatures, Sequence) or not all(isinstance(each, list | tuple) for each in signatures):
            raise UnireError("its config.json is incomplete or damaged: signatures is not a list of lists")
        values["signatures"] = tuple(map(tuple, signatures))
        # before there was a choice, a model had signatures where it was to keep to them
        values.setdefault("constraints", bool(values["signatures"]))
        values["calibration"] = _calibration(values["calibration"])
        values["head"] = HeadSettings(**_known(HeadSettings, values["head"]))
        return cls(**values)

    @classmethod
    def load(cls, folder: Path) -> Settings:
        """Read `config.json` of a checkpoint folder."""
        try:
            return cls.from_dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise UnireError(f"model folder {str(folder)!r} has no config.json; is it a unire model?") from None
        except (OSError, ValueError) as error:
            raise UnireError(f"config.json of {str(folder)!r} cannot be read: {error}") from None
        except UnireError as error:
            raise UnireError(f"model folder {str(folder)!r} cannot be used: {error}") from None


def _calibration(data: Mapping[str, Any]) -> Calibration:
    curves = {}
    for name, curve in _known(Calibration, data).items():
        if not isinstance(curve, Mapping):
            raise UnireError(f"its config.json is incomplete or damaged: calibration of {name} is not an object")
        curves[name] = Curve(**_known(Curve, curve))
    return Calibration(**curves)


def checked_alpha(alpha: float) -> float:
    """A threshold α that can cut."""
    if not 0 < alpha < math.inf:
        raise UnireError(f"alpha = {alpha} makes no sense; it is a threshold above zero, 1.4 in the paper")
    return alpha


def checked_odds(odds: float) -> float:
    """Odds that a relation can have."""
    if not 0 < odds < math.inf:
        raise UnireError(f"relation_odds = {odds} makes no sense; it must be a number above zero, 1 in the paper")
    return odds


def _known(cls: type[Settings | HeadSettings | Calibration | Curve], data: Mapping[str, Any]) -> dict[str, Any]:
    """What `data` says of the fields of `cls`; what other versions of unire wrote beside it is not looked at."""
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}
