"""Read the files of model folders and encoder folders, which may come from a stranger.

Only regular files of bounded size are read: a pipe or a device would block, or never end. JSON has bounded depth, and
numbers that Python, numpy and PyTorch can hold. Everything else is a `UnireError` of one sentence.

The tokenizers library checks the form of a `tokenizer.json`, but no sizes: a normalizer that replaces every letter by
two, thirty times, fills any memory, and a broken table of characters ends the process. Errors of its Rust code are
panics, which are no `Exception`.
"""

from __future__ import annotations

import errno
import json
import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unire.errors import UnireError, describe_error, describe_out_of_memory

__all__ = [
    "MAX_JSON_BYTES",
    "TensorLocation",
    "check_regular_file",
    "check_tokenizer_file",
    "explain_tokenizer_errors",
    "is_panic",
    "load_json",
    "load_tokenizer_file",
    "max_growth_of",
    "parse_json",
    "read_arrays",
    "read_bytes",
    "read_tensor_locations",
    "reserve_memory",
]

MAX_JSON_BYTES = 2**22
"""Size of the largest `config.json`, `labels.json`, or header of a safetensors file. 10,000 tensors need 1 MB."""
MAX_JSON_DEPTH = 50
"""Lists and objects inside each other. Far below the limit of Python, which a later step may reach sooner."""
MAX_INTEGER = 2**63 - 1
MAX_DIMENSIONS = 8
"""Dimensions of a tensor."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_ARRAYS_BYTES = 2**26
"""Size of the largest file that `read_arrays` reads."""
FLOAT_DTYPES = {"F16": "<f2", "F32": "<f4"}
DTYPE_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "F64": 8}
"""Bytes of a number, by safetensors dtype."""


def check_regular_file(path: Path, max_bytes: int | None = None) -> int:
    """Return the size of a file. Pipes, devices, folders, and files with more than `max_bytes` are an `OSError`."""
    size = path.stat().st_size
    if not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if max_bytes is not None and size > max_bytes:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {max_bytes:,} are allowed", str(path))
    return size


def read_bytes(path: Path, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Read a regular file of bounded size, or raise an `OSError`."""
    size = check_regular_file(path, max_bytes)
    with path.open("rb") as file:
        return file.read(size)  # never more: files of /proc say that they are empty, and may block


def load_json(path: Path) -> Any:
    """Read a JSON file of a model folder. A missing file raises a `FileNotFoundError`, all else a `UnireError`."""
    try:
        return parse_json(read_bytes(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UnireError(f"{str(path)!r} cannot be read: {describe_error(error)}") from None


def parse_json(raw: bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises:
        ValueError: It is not JSON, is nested too deeply, or has numbers or characters that cannot be handled: NaN,
            infinities, numbers of more than 64 bits, half a surrogate pair, two values under one key.
    """
    text = raw.decode()
    try:
        value = DECODER.decode(text)
        if SURROGATE.search(text):  # only an escape can bring in half a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        containers = [item for item in level if isinstance(item, (dict, list))]
        level = list(chain.from_iterable(item.values() if isinstance(item, dict) else item for item in containers))
        if not level:
            return value
    raise ValueError("lists and objects are nested too deeply")


def _parse_integer(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > MAX_INTEGER:
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _parse_float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _refuse_doubled_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Readers disagree about which of two values counts."""
    if len(values := dict(pairs)) < len(pairs):
        raise ValueError("an object has two values under one key")
    return values


DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_doubled_keys,
    parse_int=_parse_integer,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
)


class TensorLocation(NamedTuple):
    """A tensor of a safetensors file: its type, its shape, and the position of its numbers."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


def read_tensor_locations(path: Path) -> dict[str, TensorLocation]:
    """Read the header of a complete safetensors file: type, shape and location of every tensor."""
    damaged = UnireError(f"{str(path)!r} is missing, truncated or not a safetensors file")
    try:
        size = check_regular_file(path)
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
            if begin > min(size, MAX_JSON_BYTES):
                raise damaged
            header = parse_json(file.read(begin - 8))
        header.pop("__metadata__", None)
        locations = {}
        for name, entry in header.items():
            (first, end), shape = entry["data_offsets"], tuple(entry["shape"])
            if not 0 <= first <= end <= size - begin or end - first != count_bytes(entry["dtype"], shape):
                raise damaged
            locations[name] = TensorLocation(entry["dtype"], shape, begin + first, end - first)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    return locations


def read_arrays(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read a small safetensors file of floating-point numbers, without the library of that name."""
    locations = read_tensor_locations(path)
    try:
        raw = read_bytes(path, MAX_ARRAYS_BYTES)
        return {
            name: np.frombuffer(raw, FLOAT_DTYPES[dtype], math.prod(shape), start).reshape(shape).astype(np.float32)
            for name, (dtype, shape, start, _) in locations.items()
        }
    except (OSError, KeyError, ValueError):
        raise UnireError(f"{str(path)!r} is too large, or holds no floating-point numbers") from None


def count_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of a tensor; an error for other sizes than whole numbers."""
    if len(shape) > MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("a shape is not a list of a few sizes")
    return math.prod(shape, start=DTYPE_BYTES[dtype])


# tokenizer.json

MAX_TOKENIZER_BYTES = 2**26
"""Size of the largest `tokenizer.json`. Those of multilingual encoders have 10 to 35 MB."""
MAX_GROWTH = 4096
"""How many times longer a normalizer may make a text, by the estimate of `max_growth`. Most are far below 100."""
MAX_TOKEN_ID = 2**21
"""The largest id of a token. The library lists all ids up to the largest one when it writes a tokenizer."""
MAX_PARTS = 50
"""Steps of a normalizer or a pre-tokenizer."""
MEMORY_RATIO = 24
"""Bytes of memory for one byte of a `tokenizer.json`, at most."""
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
            _check_tokenizer(parse_json(raw))
        reserve_memory(MEMORY_RATIO * len(raw))
        return Tokenizer.from_buffer(raw)


def check_tokenizer_file(path: Path) -> None:
    """Refuse a `tokenizer.json` that another library should not read."""
    with explain_tokenizer_errors(f"{path.name} of {str(path.parent)!r} is missing or broken"):
        _check_tokenizer(parse_json(read_bytes(path, MAX_TOKENIZER_BYTES)))


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
        raise UnireError(describe_out_of_memory(error) or f"{sentence}: {describe_error(error)}") from None


def reserve_memory(n_bytes: int) -> None:
    """Raise a `MemoryError` if so much memory is missing. The tokenizers library would end the process."""
    bytes(n_bytes)  # the system gives the memory when it is used, and this never is


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


def _check_tokenizer(data: Any) -> None:
    """Refuse a tokenizer that could take any time or memory."""
    max_growth(data.get("normalizer"))
    _check_length((data.get("pre_tokenizer") or {}).get("pretokenizers", ()))
    model = data["model"]
    if (length := model.get("max_input_chars_per_word", 0)) > MAX_WORDPIECE_CHARACTERS:
        raise UnireError(f"max_input_chars_per_word of the tokenizer is {length}, above {MAX_WORDPIECE_CHARACTERS}")
    vocabulary = model["vocab"].values() if isinstance(model.get("vocab"), dict) else ()  # a list has no ids
    if (largest := max([0, *vocabulary, *(token["id"] for token in data.get("added_tokens") or ())])) > MAX_TOKEN_ID:
        raise UnireError(f"the tokenizer has a token {largest}, above {MAX_TOKEN_ID:,}")
