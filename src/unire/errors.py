"""Whether values that come from outside, by JSON or the command line, are of the kind and size that is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args, get_origin, get_type_hints

__all__ = [
    "COUNT",
    "EXTRA",
    "FINITE",
    "FRACTION",
    "NATURAL",
    "NEEDS_EXTRA",
    "POSITIVE",
    "OnError",
    "Range",
    "UnireError",
    "check_kinds",
    "check_ranges",
    "fits",
    "require_extra",
]

EXTRA = ("accelerate", "safetensors", "torch", "transformers")
"""What comes with `unire[train]`."""
NEEDS_EXTRA = 'this needs PyTorch and transformers: pip install "unire[train]"'


class UnireError(Exception):
    """Something the caller can mend: one sentence that says what is wrong, where, and what to do.

    The command line prints the sentence alone; a traceback means a bug of ours.
    """


OnError = Callable[[UnireError], None]
"""Told of one of many things that cannot be read or written; if it returns, the others still are."""


@contextmanager
def require_extra() -> Iterator[None]:
    """Whoever lacks the extra `train` is told so, instead of which module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise UnireError(NEEDS_EXTRA) from None


@dataclass(frozen=True)
class Range:
    """The finite numbers from `low` to `high`."""

    low: float
    high: float = inf
    with_low: bool = True
    with_high: bool = False

    def __contains__(self, number: float) -> bool:
        """NaN is in none."""
        high_enough = self.low <= number if self.with_low else self.low < number
        return high_enough and (number <= self.high if self.with_high else number < self.high)

    def __str__(self) -> str:
        if self.low == -inf and self.high == inf:
            return "finite"
        low = f"{self.low} or more" if self.with_low else f"above {self.low}"
        if self.high == inf:
            return low
        return f"{low}, and {self.high} at most" if self.with_high else f"{low}, and below {self.high}"


NATURAL = Range(0)
COUNT = Range(1)
POSITIVE = Range(0, with_low=False)
FRACTION = Range(0, 1)
FINITE = Range(-inf, with_low=False)

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
"""Types as those know them who write JSON."""


def check_ranges(values: Mapping[str, Any], ranges: Mapping[str, Range], what: str) -> None:
    """Refuse numbers that are out of range; what is left out (`None`) is not looked at.

    Args:
        values: By name; of the right kinds.
        ranges: For some of the names.
        what: What they are called in the error, "training setting" say.
    """
    for name, allowed in ranges.items():
        value = values[name]
        if value is not None and value not in allowed:
            # of infinity, "above 0" is true already
            wanted = FINITE if abs(value) == inf else allowed
            raise UnireError(f"{what} {name} = {value!r} makes no sense; it must be {wanted}")


def check_kinds(cls: type, values: Mapping[str, Any], what: str) -> None:
    """Refuse values that are not of the types of the fields of the dataclass `cls`.

    Args:
        cls: Whose fields they will be.
        values: By the names of fields.
        what: What they are called in the error, "training setting" say.
    """
    kinds = get_type_hints(cls)
    for name, value in values.items():
        if not fits(value, kinds[name]):
            raise UnireError(f"{what} {name} = {value!r} is of the wrong kind; it must be {_in_words(kinds[name])}")


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; a whole number is a number too, and nothing else is taken for something else."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in options
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = options[:1] * len(value) if options[-1] is Ellipsis else options
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, origin)
    if options:
        return any(fits(value, option) for option in options)
    if kind is float:
        kind = (int, float)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _in_words(kind: Any) -> str:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(options)}"
    if origin is tuple and options[-1] is not Ellipsis:
        return f"a list of {len(options)}"
    if origin is tuple:
        return "a list" + (f", each part {_in_words(options[0])}" if get_origin(options[0]) is tuple else "")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "an object"
    if options:
        return ", or ".join(map(_in_words, options))
    return WORDS.get(kind, str(kind.__name__))
