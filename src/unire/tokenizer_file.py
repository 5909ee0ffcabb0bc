"""`tokenizer.json` files, which may come from a stranger: how they are read, and how much their normalizers can write.

The tokenizers library checks the form of the file. It does not check sizes: a normalizer that replaces every letter by
two, thirty times, fills any memory, and a broken table of characters ends the process. Errors of its Rust code are
panics, which are no `Exception`.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from unire.errors import UnireError, describe_error
from unire.model_files import parse_json, read_bytes

__all__ = ["check_tokenizer_file", "explain_tokenizer_errors", "is_panic", "load_tokenizer_file", "max_growth_of"]

MAX_TOKENIZER_BYTES = 2**26
"""Size of the largest `tokenizer.json`. Those of multilingual encoders have 10 to 35 MB."""
MAX_GROWTH = 4096
"""How many times longer a normalizer may make a text, by the estimate of `max_growth`. Most are far below 100."""
MAX_TOKEN_ID = 2**21
"""The largest id of a token. The library lists all ids up to the largest one when it writes a tokenizer."""
MAX_PARTS = 50
"""Steps of a normalizer or a pre-tokenizer."""
MAX_WORDPIECE_CHARACTERS = 1000
"""The largest `max_input_chars_per_word`, because WordPiece takes cubic time for it. It is 100 in general."""
GROWTH = {
    "BertNormalizer": 36,  # blanks around a Chinese character, decomposition, small letters
    "ByteLevel": 4,  # the bytes of a character
    "Lowercase": 3,
    "NFC": 3,
    "NFD": 4,
    "NFKC": 18,
    "NFKD": 18,
    "Nmt": 1,
    "Strip": 1,
    "StripAccents": 1,
}
"""The largest number of characters that a normalizer writes for one."""
OTHER_GROWTH = 36
"""The same for normalizers of later versions."""


def load_tokenizer_file(path: Path, *, trusted: bool = False) -> Tokenizer:
    """Read a `tokenizer.json`.

    Args:
        path: The file.
        trusted: Leave out the checks that take time.
    """
    with explain_tokenizer_errors(f"{path.name} of {str(path.parent)!r} is missing or broken"):
        raw = read_bytes(path, MAX_TOKENIZER_BYTES)
        if not trusted:
            _check(parse_json(raw))
        return Tokenizer.from_buffer(raw)


def check_tokenizer_file(path: Path) -> None:
    """Refuse a `tokenizer.json` that another library should not read."""
    with explain_tokenizer_errors(f"{path.name} of {str(path.parent)!r} is missing or broken"):
        _check(parse_json(read_bytes(path, MAX_TOKENIZER_BYTES)))


@contextmanager
def explain_tokenizer_errors(sentence: str) -> Iterator[None]:
    """Turn what the tokenizers library raises into a `UnireError`: bare exceptions, and panics of its Rust code."""
    try:
        yield
    except UnireError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise UnireError(f"{sentence}: {describe_error(error)}") from None


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic of Rust code. Its type derives from `BaseException`, and cannot be imported."""
    return type(error).__name__ == "PanicException"


def max_growth_of(tokenizer: Tokenizer) -> int:
    """The largest number of characters that the normalizer of a tokenizer writes for one, by an upper estimate."""
    normalizer = tokenizer.normalizer
    return 1 if normalizer is None else max_growth(json.loads(normalizer.__getstate__()))


def max_growth(normalizer: Mapping[str, Any] | None) -> int:
    """The same for a normalizer as in `tokenizer.json`."""
    if normalizer is None:
        return 1
    kind = normalizer["type"]
    if kind == "Sequence":
        growth = math.prod(max_growth(part) for part in normalizer["normalizers"][:MAX_PARTS])
        _check_length(normalizer["normalizers"])
    elif kind == "Replace":
        old, new = normalizer["pattern"], len(normalizer["content"])
        growth = max(1, new) if old.get("String") else 1 + new  # another pattern may match between two characters
    elif kind == "Prepend":
        growth = 1 + len(normalizer["prepend"])
    elif kind == "Precompiled":
        growth = _longest_replacement(b64decode(normalizer["precompiled_charsmap"], validate=True))
    else:
        growth = GROWTH.get(kind, OTHER_GROWTH)
    if growth > MAX_GROWTH:
        raise UnireError(f"the normalizer of the tokenizer may make a text more than {MAX_GROWTH:,} times longer")
    return growth


def _longest_replacement(table: bytes) -> int:
    """The longest text in a table of SentencePiece: the size of an index, the index, and texts that end in NUL."""
    size = int.from_bytes(table[:4], "little")
    if size % 4 or len(table) < 4 + size:
        raise ValueError("precompiled_charsmap is truncated")
    return max(1, *map(len, table[4 + size :].split(b"\0")))


def _check_length(parts: Sequence[Any]) -> None:
    if len(parts) > MAX_PARTS:
        raise UnireError(f"the tokenizer has a sequence of {len(parts):,} steps, and at most {MAX_PARTS} are allowed")


def _check(data: Any) -> None:
    """Refuse a tokenizer that could take any time or memory."""
    max_growth(data.get("normalizer"))
    _check_length((data.get("pre_tokenizer") or {}).get("pretokenizers", ()))
    model = data["model"]
    if (length := model.get("max_input_chars_per_word", 0)) > MAX_WORDPIECE_CHARACTERS:
        raise UnireError(f"max_input_chars_per_word of the tokenizer is {length}, above {MAX_WORDPIECE_CHARACTERS}")
    vocabulary = model["vocab"].values() if isinstance(model.get("vocab"), dict) else ()  # a list has no ids
    if (largest := max([0, *vocabulary, *(token["id"] for token in data.get("added_tokens") or ())])) > MAX_TOKEN_ID:
        raise UnireError(f"the tokenizer has a token {largest}, above {MAX_TOKEN_ID:,}")
