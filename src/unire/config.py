"""The configuration of a model, as in the `config.json` of a checkpoint: encoder, head, windows and decoding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from unire.calibration import Calibration, CalibrationCurve
from unire.errors import FRACTION, Range, UnireError, check_kinds, check_ranges, shorten
from unire.labels import LabelSpace
from unire.model_files import load_json, reserve_memory

__all__ = [
    "FORMAT_VERSION",
    "PAPER_ALPHA",
    "EncoderSpec",
    "HeadConfig",
    "Layout",
    "ModelConfig",
    "check_alpha",
    "copy_without_limits",
]

# The largest sizes that a model may declare. They bound the memory of a window, a table and a layer.
MAX_INPUT_TOKENS = 8192
MAX_WINDOW_WORDS = 1_000_000
MAX_TABLE_WORDS = 4096
MAX_HEAD_SIZE = 4096
MAX_TOKEN_ID = 2**31 - 1
TOKEN_BYTES = 512
"""Memory that a tokenizer needs for one token, at most, while it is copied."""


@dataclass(frozen=True)
class EncoderSpec:
    """The special tokens of an encoder and the limits of its input. Checkpoints store it as JSON."""

    prefix: tuple[int, ...]
    """Tokens before the text, for example `[CLS]`."""
    middle: tuple[int, ...]
    """Tokens between the two segments of a pair: `[SEP]`, or `</s></s>`."""
    suffix: tuple[int, ...]
    """Tokens after the text."""
    pad_id: int
    """The token that fills up a batch."""
    unk_id: int
    """The token for words without tokens."""
    max_pieces: int
    """Longest input of the encoder in tokens, special ones included. Saved models keep the name, pieces."""
    token_types: bool
    """Whether the encoder distinguishes the two segments of a pair by token types."""
    prefix_space: bool
    """Whether a single word needs a leading space to get the same tokens as inside a text."""
    case_marks: tuple[int, ...] = ()
    """Tokens appended to words that begin with a capital, and to words in all capitals; empty if not used."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The ids of all special tokens."""
        return (*self.prefix, *self.middle, *self.suffix, self.pad_id, self.unk_id, *self.case_marks)

    @classmethod
    def probe(
        cls, tokenizer: Tokenizer, *, max_pieces: int, token_types: bool, pad_id: int, unk_id: int
    ) -> EncoderSpec:
        """Find the special tokens of a tokenizer, and whether words need a leading space, by trying it."""
        tokenizer = copy_without_limits(tokenizer)

        def tokens(text: str) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=False).ids

        word = next((word for word in ("a", "x", "1") if tokens(word)), None)
        if word is None:
            raise UnireError("the tokenizer returns no tokens for plain letters; use the tokenizer.json of the encoder")
        prefix, _, suffix = _find_special_tokens(tokenizer, word)
        if not prefix and not suffix:
            raise UnireError(
                "the tokenizer adds no special tokens to a text; give its tokenizer.json a post-processor, such as the "
                'template "[CLS] $A [SEP]"'
            )
        # Without a template for pairs, the first segment ends like a single text.
        middle = _find_special_tokens(tokenizer, word, word)[1] or suffix
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
        """Use two unused tokens of the vocabulary to mark capitals."""
        unused = (tokenizer.token_to_id(f"[unused{n}]") for n in range(100))
        found = [token for token in unused if token is not None]
        if len(found) < 2:
            raise UnireError("case marks need two unused tokens ([unused0], …), and the encoder's vocabulary has none")
        return replace(self, case_marks=(found[0], found[1]))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EncoderSpec:
        try:
            known = {"case_marks": (), **{field.name: data[field.name] for field in fields(cls) if field.name in data}}
            lists = ("prefix", "middle", "suffix", "case_marks")
            return cls(**known | {name: tuple(map(int, known[name])) for name in lists})
        except (KeyError, TypeError, ValueError, OverflowError):
            names = ", ".join(field.name for field in fields(cls))
            raise UnireError(f"the description of an encoder is a JSON object with {names}") from None

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def copy_without_limits(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a tokenizer, without padding, truncation and special tokens: a word `[SEP]` is tokenized as its letters."""
    reserve_memory(TOKEN_BYTES * tokenizer.get_vocab_size())
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    copy.encode_special_tokens = True
    return copy


def _find_special_tokens(
    tokenizer: Tokenizer, text: str, pair: str | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The special tokens before, inside and after a text or a pair of texts."""
    encoding = tokenizer.encode(text, pair)
    ids, special = encoding.ids, encoding.special_tokens_mask
    first, last = special.index(0), len(ids) - 1 - special[::-1].index(0)
    return tuple(ids[:first]), tuple(ids[i] for i in range(first, last) if special[i]), tuple(ids[last + 1 :])


PAPER_ALPHA = 1.4
"""The paper's threshold α. Models have their own, which is tuned on dev."""

Layout = Literal["in-place", "released", "shared"]
"""How sentences and their context are laid out in encoder windows."""

FORMAT_VERSION = 1
RECORDS = ("scores", "calibration", "export")
"""The parts of the provenance that are read when a model is changed."""


@dataclass(frozen=True)
class HeadConfig:
    """The table-filling head on top of the encoder."""

    d: int = 150
    """Size of the head and tail vectors."""
    mlp_dropout: float = 0.4
    """Dropout behind the two MLPs."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "head setting")
        sizes = Range(1, MAX_HEAD_SIZE, with_high=True)
        check_ranges(vars(self), {"d": sizes, "mlp_dropout": FRACTION}, "head setting")


@dataclass(frozen=True)
class ModelConfig:
    """The configuration of a model: encoder, windows, size of the head, decoding."""

    spec: EncoderSpec
    """The special tokens of the encoder and the limits of its input."""
    encoder: Mapping[str, Any]
    """The configuration of the encoder, in the format of transformers."""
    head: HeadConfig = field(default_factory=HeadConfig)
    """The size of the head: `d` and `mlp_dropout`."""
    layout: Layout = "in-place"
    """How sentences and their context are laid out in windows: `in-place`, `released` or `shared`."""
    window: int = 200
    """W: words of a window, including the sentence."""
    max_table: int = 512
    """Words of the largest table. Longer sentences are split."""
    decoder: str = "split"
    """`split`, `likely` or `hard`."""
    alpha: float = PAPER_ALPHA
    """Threshold α of the decoder: of the distance between adjacent rows and columns (`split`), or of the evidence for a
    span (`likely`)."""
    relation_odds: float = 1.0
    """A relation is predicted if it is this many times as probable as ⊥."""
    signatures: tuple[tuple[str, str, str], ...] = ()
    """The distinct (head type, relation type, tail type) of the relations in the training data."""
    constraints: bool = False
    """Whether to predict only relations with such types."""
    calibration: Calibration = field(default_factory=Calibration)
    """Maps scores to calibrated probabilities; fitted on dev."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the model comes from: encoder, data, preset, seed, scores."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "setting")
        check_kinds(EncoderSpec, vars(self.spec), "setting")
        ranges = {
            "window": Range(0, MAX_WINDOW_WORDS, with_high=True),
            "max_table": Range(1, MAX_TABLE_WORDS, with_high=True),
            "max_pieces": Range(1, MAX_INPUT_TOKENS, with_high=True),
        }
        check_ranges(vars(self.spec) | vars(self), ranges, "setting")
        if bad_ids := [token for token in self.spec.token_ids if not 0 <= token <= MAX_TOKEN_ID]:
            raise UnireError(f"special tokens have ids from 0 to {MAX_TOKEN_ID:,}, not {bad_ids[0]}")
        check_alpha(self.alpha)
        check_relation_odds(self.relation_odds)
        if wrong := [name for name in RECORDS if not isinstance(self.provenance.get(name, {}), Mapping)]:
            raise UnireError(f"setting provenance.{wrong[0]} must be an object")

    def with_(self, **changes: Any) -> ModelConfig:
        return replace(self, **changes)

    def with_constraints(
        self, constraints: str | Path | Mapping[str, Iterable[Sequence[str]]] | None, labels: LabelSpace
    ) -> ModelConfig:
        """Return a config with other type constraints, as `Extractor.load` takes them; `None` changes nothing."""
        if constraints is None:
            return self
        if constraints == "none":
            return self.with_(constraints=False)
        if constraints != "learnt":
            return self.with_(constraints=True, signatures=labels.load_signatures(constraints))
        if not self.signatures:
            raise UnireError("this model stores no type constraints; pass a JSON file, or train it again")
        return self.with_(constraints=True)

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
            raise UnireError(f"the format_version of its config.json is {shorten(version)}, not a number")
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
        # older models have no such setting: they have signatures only if these are constraints
        values.setdefault("constraints", bool(values["signatures"]))
        values["calibration"] = _calibration(values["calibration"])
        values["head"] = HeadConfig(**_known(HeadConfig, values["head"]))
        return cls(**values)

    @classmethod
    def load(cls, folder: Path) -> ModelConfig:
        """Read `config.json` of a checkpoint folder."""
        try:
            data = load_json(folder / "config.json")
        except FileNotFoundError:
            raise UnireError(f"model folder {str(folder)!r} has no config.json; it is not a unire model") from None
        try:
            return cls.from_dict(data)
        except UnireError as error:
            raise UnireError(f"model folder {str(folder)!r} cannot be used: {error}") from None


def _calibration(data: Mapping[str, Any]) -> Calibration:
    parts = _known(Calibration, data)
    for name in parts.keys() & {"entities", "relations"}:
        if not isinstance(parts[name], Mapping):
            raise UnireError(f"its config.json is incomplete or damaged: calibration of {name} is not an object")
        parts[name] = CalibrationCurve(**_known(CalibrationCurve, parts[name]))
    return Calibration(**parts)


def check_alpha(alpha: float) -> float:
    """Return a valid threshold α; raise an error otherwise."""
    if not 0 < alpha < math.inf:
        raise UnireError(f"alpha must be above 0, not {alpha}")
    return alpha


def check_relation_odds(odds: float) -> float:
    """Return valid relation odds; raise an error otherwise."""
    if not 0 < odds < math.inf:
        raise UnireError(f"relation_odds must be above 0, not {odds}")
    return odds


def _known(
    cls: type[ModelConfig | HeadConfig | Calibration | CalibrationCurve], data: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of `cls` in `data`. Keys of other versions of unire are ignored."""
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}
