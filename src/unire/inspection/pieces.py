"""How many pieces an encoder makes of a sentence: its tokenizer is all that is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from unire.exceptions import UnireError
from unire.windows.spec import unbound

__all__ = ["piece_counter"]

LONGEST = 512
"""No input is longer, even where an encoder could read more."""


def piece_counter(folder: Path) -> tuple[Callable[[Sequence[str]], int], int]:
    """What counts the pieces of a sentence, special ones included, and how many the encoder in `folder` can read."""
    try:
        tokenizer = unbound(Tokenizer.from_file(str(folder / "tokenizer.json")))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        extra = folder / "tokenizer_config.json"
        config |= json.loads(extra.read_text(encoding="utf-8")) if extra.exists() else {}
        limits = [config.get("spec", {}).get("max_pieces"), config.get("model_max_length")]
        limits.append(config.get("max_position_embeddings"))
        longest = min([LONGEST, *(int(limit) for limit in limits if limit)])
    except Exception as error:  # tokenizers has no exception type of its own
        raise UnireError(
            f"encoder {str(folder)!r} cannot be read; give a folder with tokenizer.json and config.json ({error})"
        ) from None

    def count(words: Sequence[str]) -> int:
        return len(tokenizer.encode(list(words), is_pretokenized=True).ids)

    return count, longest
