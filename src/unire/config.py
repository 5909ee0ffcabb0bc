"""What a model needs to know beside its weights: `config.json` of a checkpoint, read without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from unire.calibration import Calibration, CalibrationCurve
from unire.errors import COUNT, FRACTION, UnireError, check_kinds, check_ranges

__all__ = ["FORMAT_VERSION", "EncoderSpec", "HeadConfig", "ModelConfig", "checked_alpha", "unbound"]


@dataclass(frozen=True)
class EncoderSpec:
    """The special tokens of an encoder and the limits of its input; a checkpoint keeps it as JSON."""

    prefix: tuple[int, ...]
    """Tokens before the text, `[CLS]` say."""
    middle: tuple[int, ...]
    """Tokens between the two texts of a pair: `[SEP]`, or `</s></s>`."""
    suffix: tuple[int, ...]
    """Tokens after the text."""
    pad_id: int
    unk_id: int
    max_pieces: int
    """Longest input of the encoder, special tokens included."""
    token_types: bool
    """Whether the encoder tells the two texts of a pair apart by token types."""
    prefix_space: bool
    """Whether a word by itself must be given a leading space to be spelt as it is inside a text."""
    case_marks: tuple[int, ...] = ()
    """Tokens behind a word that begins with a capital, and behind one that is all capitals; none if left out."""

    @classmethod
    def probe(
        cls, tokenizer: Tokenizer, *, max_pieces: int, token_types: bool, pad_id: int, unk_id: int
    ) -> EncoderSpec:
        """Find out how a tokenizer frames a text and a pair of texts, and how it spells words, by trying it."""
        tokenizer = unbound(tokenizer)

        def tokens(text: str) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=False).ids

        word = next((word for word in ("a", "x", "1") if tokens(word)), None)
        if word is None:
            raise UnireError("the tokenizer makes no tokens of plain letters; use the tokenizer.json of the encoder")
        prefix, _, suffix = _specials(tokenizer, word)
        if not prefix and not suffix:
            raise UnireError(
                "the tokenizer adds no special tokens to a text; give its tokenizer.json a post-processor, such as the "
                'template "[CLS] $A [SEP]"'
            )
        # Without a template for pairs, the first of two texts ends as a single one would.
        middle = _specials(tokenizer, word, word)[1] or suffix
        alone, spaced, running = tokens(word), tokens(f" {word}"), tokens(f"{word} {word}")
        return cls(
            prefix=prefix,
            middle=middle,
            suffix=suffix,
            pad_id=pad_id,
            unk_id=unk_id,
            max_pieces=max_pieces,
            token_types=token_types,
            prefix_space=running != alone + alone and running == alone + spaced,
        )

    def with_case_marks(self, tokenizer: Tokenizer) -> EncoderSpec:
        """This encoder with two tokens of its vocabulary that no text uses as marks of capitals."""
        unused = (tokenizer.token_to_id(f"[unused{n}]") for n in range(100))
        spare = [token for token in unused if token is not None]
        if len(spare) < 2:
            raise UnireError("case marks need two unused tokens ([unused0], …), and the encoder's vocabulary has none")
        return replace(self, case_marks=(spare[0], spare[1]))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EncoderSpec:
        try:
            known = {"case_marks": (), **{field.name: data[field.name] for field in fields(cls) if field.name in data}}
            lists = ("prefix", "middle", "suffix", "case_marks")
            return cls(**known | {name: tuple(map(int, known[name])) for name in lists})
        except (KeyError, TypeError, ValueError):
            names = ", ".join(field.name for field in fields(cls))
            raise UnireError(f"the description of an encoder is a JSON object with {names}") from None

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def unbound(tokenizer: Tokenizer) -> Tokenizer:
    """A copy of `tokenizer` that neither pads nor truncates, and that reads a word `[SEP]` as the letters it has."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    copy.encode_special_tokens = True
    return copy


def _specials(
    tokenizer: Tokenizer, text: str, pair: str | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Special tokens before, inside and after a text or a pair of texts."""
    encoding = tokenizer.encode(text, pair)
    ids, special = encoding.ids, encoding.special_tokens_mask
    first, last = special.index(0), len(ids) - 1 - special[::-1].index(0)
    return tuple(ids[:first]), tuple(ids[i] for i in range(first, last) if special[i]), tuple(ids[last + 1 :])


Layout = Literal["in-place", "released", "shared"]
"""How sentences and their context are laid out in encoder windows."""

FORMAT_VERSION = 1


@dataclass(frozen=True)
class HeadConfig:
    """The table-filling head on top of the encoder."""

    d: int = 150
    """Size of the head and tail vectors."""
    mlp_dropout: float = 0.4

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "head setting")
        check_ranges(vars(self), {"d": COUNT, "mlp_dropout": FRACTION}, "head setting")


@dataclass(frozen=True)
class ModelConfig:
    """How text becomes windows, how large the head is, and how tables are decoded."""

    spec: EncoderSpec
    encoder: Mapping[str, Any]
    """The encoder's own configuration, as transformers writes it."""
    head: HeadConfig = field(default_factory=HeadConfig)
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

    def with_(self, **changes: Any) -> ModelConfig:
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
    def from_dict(cls, data: Mapping[str, Any]) -> ModelConfig:
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
        values["head"] = HeadConfig(**_known(HeadConfig, values["head"]))
        return cls(**values)

    @classmethod
    def load(cls, folder: Path) -> ModelConfig:
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
        curves[name] = CalibrationCurve(**_known(CalibrationCurve, curve))
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


def _known(
    cls: type[ModelConfig | HeadConfig | Calibration | CalibrationCurve], data: Mapping[str, Any]
) -> dict[str, Any]:
    """What `data` says of the fields of `cls`; what other versions of unire wrote beside it is not looked at."""
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}
