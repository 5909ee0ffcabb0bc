"""How many pieces an encoder makes of a sentence: its tokenizer is all that is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire.exceptions import UnireError
from unire.windows import EncoderSpec, Windower

__all__ = ["piece_counter"]

LONGEST = 512
"""No input is longer, even where an encoder could read more."""


def piece_counter(folder: Path) -> tuple[Callable[[Sequence[str]], int], int]:
    """What counts the pieces of a sentence, special ones included, and how many the encoder in `folder` can read.

    They are those of its windows: a word is spelt by itself, and one that is left without a piece has the unknown one.
    """
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        spec = EncoderSpec.from_dict(config["spec"]) if "spec" in config else _probed(tokenizer, folder, config)
        windower = Windower(tokenizer, spec)
    except Exception as error:  # tokenizers has no exception type of its own
        raise UnireError(
            f"encoder {str(folder)!r} cannot be read; give a folder with tokenizer.json and config.json ({error})"
        ) from None

    def count(words: Sequence[str]) -> int:
        return len(spec.prefix) + len(windower.tokenize(words).ids) + len(spec.suffix)

    return count, spec.max_pieces


def _probed(tokenizer: Tokenizer, folder: Path, config: Mapping[str, Any]) -> EncoderSpec:
    """What can be known of an encoder without torch, which is enough to count by."""
    extra = folder / "tokenizer_config.json"
    more = json.loads(extra.read_text(encoding="utf-8")) if extra.exists() else {}
    limits = (more.get("model_max_length"), config.get("max_position_embeddings"))
    longest = min([LONGEST, *(int(limit) for limit in limits if limit)])
    return EncoderSpec.probe(tokenizer, max_pieces=longest, token_types=False, pad_id=0, unk_id=0)
