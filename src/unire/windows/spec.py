"""What windows must know of an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tokenizers import Tokenizer

from unire.exceptions import UnireError

__all__ = ["EncoderSpec", "unbound"]


@dataclass(frozen=True)
class EncoderSpec:
    """The special pieces of an encoder and the limits of its input; a checkpoint keeps it as JSON."""

    prefix: tuple[int, ...]
    """Pieces before the text, `[CLS]` say."""
    middle: tuple[int, ...]
    """Pieces between the two texts of a pair: `[SEP]`, or `</s></s>`."""
    suffix: tuple[int, ...]
    """Pieces after the text."""
    pad_id: int
    unk_id: int
    max_pieces: int
    """Longest input of the encoder, special pieces included."""
    token_types: bool
    """Whether the encoder tells the two texts of a pair apart by token types."""
    prefix_space: bool
    """Whether a word by itself must be given a leading space to be spelt as it is inside a text."""
    case_marks: tuple[int, ...] = ()
    """Pieces behind a word that begins with a capital, and behind one that is all capitals; none if left out."""

    @classmethod
    def probe(
        cls, tokenizer: Tokenizer, *, max_pieces: int, token_types: bool, pad_id: int, unk_id: int
    ) -> EncoderSpec:
        """Find out how a tokenizer frames a text and a pair of texts, and how it spells words, by trying it."""
        tokenizer = unbound(tokenizer)

        def pieces(text: str) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=False).ids

        word = next((word for word in ("a", "x", "1") if pieces(word)), None)
        if word is None:
            raise UnireError("the tokenizer makes no pieces of plain letters; use the tokenizer.json of the encoder")
        prefix, _, suffix = _specials(tokenizer, word)
        if not prefix and not suffix:
            raise UnireError(
                "the tokenizer adds no special pieces to a text; give its tokenizer.json a post-processor, such as the "
                'template "[CLS] $A [SEP]"'
            )
        # Without a template for pairs, the first of two texts ends as a single one would.
        middle = _specials(tokenizer, word, word)[1] or suffix
        alone, spaced, running = pieces(word), pieces(f" {word}"), pieces(f"{word} {word}")
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
        """This encoder with two pieces of its vocabulary that no text uses as marks of capitals."""
        unused = (tokenizer.token_to_id(f"[unused{n}]") for n in range(100))
        spare = [piece for piece in unused if piece is not None]
        if len(spare) < 2:
            raise UnireError("case marks need two unused pieces ([unused0], …), and the encoder's vocabulary has none")
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
    """Special pieces before, inside and after a text or a pair of texts."""
    encoding = tokenizer.encode(text, pair)
    ids, special = encoding.ids, encoding.special_tokens_mask
    first, last = special.index(0), len(ids) - 1 - special[::-1].index(0)
    return tuple(ids[:first]), tuple(ids[i] for i in range(first, last) if special[i]), tuple(ids[last + 1 :])
