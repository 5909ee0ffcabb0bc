"""Read the files of model folders and encoder folders, which may come from a stranger.

Only regular files of bounded size are read: a pipe or a device would block, or never end. JSON has bounded depth, and
numbers that Python, numpy and PyTorch can hold. Everything else is a `UnireError` of one sentence.
"""

from __future__ import annotations

import errno
import json
import math
import re
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from unire.errors import UnireError, describe_error

__all__ = [
    "MAX_JSON_BYTES",
    "TensorLocation",
    "check_regular_file",
    "load_json",
    "parse_json",
    "read_bytes",
    "read_tensor_locations",
]

MAX_JSON_BYTES = 2**22
"""Size of the largest `config.json`, `labels.json`, or header of a safetensors file. 10,000 tensors need 1 MB."""
MAX_JSON_DEPTH = 50
"""Lists and objects inside each other. Far below the limit of Python, which a later step may reach sooner."""
MAX_INTEGER = 2**63 - 1
MAX_DIMENSIONS = 8
"""Dimensions of a tensor."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
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


def count_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of a tensor; an error for other sizes than whole numbers."""
    if len(shape) > MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("a shape is not a list of a few sizes")
    return math.prod(shape, start=DTYPE_BYTES[dtype])
