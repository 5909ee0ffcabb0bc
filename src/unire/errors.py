"""The error type, failures in one sentence, the guard for optional dependencies, and checks of values."""

from __future__ import annotations

import errno
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from operator import index
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
    "are_fragments",
    "check_annotation",
    "check_clusters",
    "check_kinds",
    "check_offsets",
    "check_ranges",
    "check_split_words",
    "describe_error",
    "describe_os_error",
    "describe_out_of_memory",
    "describe_outdated",
    "fits",
    "require_extra",
    "shorten",
    "skip_errors",
]

EXTRA = ("accelerate", "safetensors", "torch", "transformers")
"""The packages of the extra `unire[train]`."""
NEEDS_EXTRA = 'this needs PyTorch and transformers: pip install "unire[train]"'
LOWEST = r"([\w.-]+)[^;]*>=([\d.]+)(?!.*'(dev|docs)')"
"""The name and the lowest version in a requirement of users, such as `ray[data]<3,>=2.51; extra == 'ray'`."""


class UnireError(Exception):
    """An error that the caller can fix. Its message says what is wrong, where, and what to do.

    The command line prints only the message. A traceback means a bug in unire.

    >>> try:
    ...     Extractor.load("nope")
    ... except UnireError as error:
    ...     print(error)  # doctest: +SKIP
    """


OnError = Callable[[UnireError], None]
"""Called for each item that cannot be read or written; if it returns, the item is skipped."""


@contextmanager
def skip_errors(on_error: OnError | None) -> Iterator[None]:
    """Pass an error in the body to `on_error` and continue, or raise it if there is no `on_error`."""
    try:
        yield
    except UnireError as error:
        if on_error is None:
            raise
        on_error(error)


@contextmanager
def require_extra() -> Iterator[None]:
    """Name the missing extra `train` instead of the missing module, or packages that are too old."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in EXTRA:
            raise UnireError(NEEDS_EXTRA) from None
        if outdated := describe_outdated(error):
            raise UnireError(outdated) from error
        raise


def describe_outdated(error: Exception) -> str | None:
    """Explain an unexpected error by packages that are older than unire requires; `None` if all are new enough."""
    from importlib import metadata

    try:
        requirements = [re.match(LOWEST, line) for line in metadata.requires("unire") or ()]
    except metadata.PackageNotFoundError:  # unire runs from a folder
        return None
    old = {}
    for name, lowest in (found.group(1, 2) for found in requirements if found):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:  # of an extra that is not installed
            continue
        if _order_version(version) < _order_version(lowest):
            old[name] = version, lowest
    if not old:
        return None
    versions = " and ".join(f"{name} {version}" for name, (version, _) in old.items())
    wanted = " ".join(f'"{name}>={lowest}"' for name, (_, lowest) in old.items())
    reason = " ".join(str(error).split())
    verb = "is" if len(old) == 1 else "are"
    return f"{versions} {verb} too old for unire: pip install -U {wanted} ({type(error).__name__}: {reason})"


def _order_version(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


MAX_REASON_CHARACTERS = 200
WRITE_ERRORS = {
    getattr(errno, name, 0) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EBADF", "ENXIO", "ESTALE")
}
"""Errors of the system that belong to the output if they name no file."""
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|(cannot|can't|could not|failed to|unable to) (allocate|map segment|reserve)|"
    r"can't start new thread|pthread_create failed|ThreadPoolBuildError|not enough memory",
    re.IGNORECASE,
)
"""What native libraries say, whatever type their errors have."""


def describe_error(error: BaseException) -> str:
    """The first line of an error of another library, or its type; shortened, without control characters."""
    text = getattr(error, "strerror", None) or str(error)
    line = next(iter(text.strip().splitlines()), "") or type(error).__name__
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line[:MAX_REASON_CHARACTERS])


def describe_os_error(error: OSError) -> str | None:
    """What the system refused, and where; `None` if the error is not one of the system."""
    if error.errno is None or not error.strerror:
        return None
    if error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes, os.PathLike)) else "a file"
        return f"{name} cannot be read or written: {error.strerror}"
    if error.errno in WRITE_ERRORS:
        return f"the output cannot be written: {error.strerror}"
    return f"the system ended this run: {error.strerror}; check its limits (ulimit -a) and the network"


def describe_out_of_memory(error: BaseException) -> str | None:
    """What could not be allocated; `None` if the error is another one."""
    is_known = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    if not is_known and not OUT_OF_MEMORY.search(str(error)):
        return None
    reason = " ".join(str(error).split())[:MAX_REASON_CHARACTERS]
    return f"memory ran out{f' ({reason})' if reason else ''}; use smaller inputs or batches, or more memory"


def shorten(value: object) -> str:
    """The `repr` of a value for an error message, shortened."""
    text = repr(value)
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[:MAX_REASON_CHARACTERS]}…"


@dataclass(frozen=True)
class Range:
    """The finite numbers from `low` to `high`."""

    low: float
    high: float = inf
    with_low: bool = True
    with_high: bool = False

    def __contains__(self, number: float) -> bool:
        """NaN is in no range."""
        high_enough = self.low <= number if self.with_low else self.low < number
        return high_enough and (number <= self.high if self.with_high else number < self.high)

    def __str__(self) -> str:
        if self.low == -inf and self.high == inf:
            return "finite"
        low = f"{self.low} or more" if self.with_low else f"above {self.low}"
        if self.high == inf:
            return low
        return f"{low} and at most {self.high}" if self.with_high else f"{low} and below {self.high}"


NATURAL = Range(0)
COUNT = Range(1)
POSITIVE = Range(0, with_low=False)
FRACTION = Range(0, 1)
FINITE = Range(-inf, with_low=False)

TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
"""The names of types in error messages, for people who write JSON."""


def check_ranges(values: Mapping[str, Any], ranges: Mapping[str, Range], what: str) -> None:
    """Refuse numbers that are out of range; `None` is allowed.

    Args:
        values: Values of the right types, by name.
        ranges: The ranges of some of the names.
        what: The noun for a value in the error message, for example "training setting".
    """
    for name, allowed in ranges.items():
        value = values[name]
        if value is not None and value not in allowed:
            # "must be above 0" would not explain what is wrong with infinity
            wanted = FINITE if abs(value) == inf else allowed
            raise UnireError(f"{what} {name} must be {wanted}, not {shorten(value)}")


def check_kinds(cls: type, values: Mapping[str, Any], what: str) -> None:
    """Refuse values whose types differ from those of the fields of the dataclass `cls`.

    Args:
        cls: The dataclass.
        values: Values by field name.
        what: The noun for a value in the error message, for example "training setting".
    """
    kinds = get_type_hints(cls)
    for name, value in values.items():
        if not fits(value, kinds[name]):
            raise UnireError(f"{what} {name} must be {_describe_type(kinds[name])}, not {shorten(value)}")


def fits(value: object, kind: Any) -> bool:
    """Whether a value has a type. An int counts as a float; there are no other conversions."""
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


def _describe_type(kind: Any) -> str:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(options)}" if len(options) > 1 else repr(options[0])
    if origin is tuple and options[-1] is not Ellipsis:
        return f"a list of {len(options)}"
    if origin is tuple:
        return "a list" + (f", each part {_describe_type(options[0])}" if get_origin(options[0]) is tuple else "")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "an object"
    if options:
        return " or ".join(map(_describe_type, options))
    return TYPE_NAMES.get(kind, str(kind.__name__))


# Documents


def check_split_words(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Check the words of a sentence. A string is refused, because it is a sequence of letters."""
    try:
        if not isinstance(words, str):
            "".join(checked := tuple(words))  # the fastest check that all are strings
            return checked
    except TypeError:
        pass
    raise UnireError(f"document {name!r}: a sentence is a list of words, but {reprlib.repr(words)} was given")


def check_offsets(offsets: Sequence[tuple[int, int]], length: int, name: str) -> None:
    """Refuse spans that are outside the text or not in order. They may share characters."""
    first = last = 0
    for i, span in enumerate(offsets):
        try:
            start, end = span
            if not (first <= index(start) <= index(end) <= length and last <= end):
                raise ValueError
        except (TypeError, ValueError):
            raise UnireError(
                f"document {name!r}: offset {reprlib.repr(span)} of word {i} must be (start, end), in a text of "
                f"{length} characters and after the previous word"
            ) from None
        first, last = start, end


def check_clusters(clusters: Iterable[Any], n_words: int, name: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Coreference clusters in order, without repeated mentions. Refuse mentions outside the words of the document."""
    checked = []
    for cluster in clusters:
        mentions = set()
        for mention in cluster:
            try:
                start, end = map(index, mention)
                if not 0 <= start < end <= n_words:
                    raise ValueError
            except (TypeError, ValueError):
                raise UnireError(
                    f"document {name!r}: mention {reprlib.repr(mention)} of a cluster must be (start, end), inside the "
                    f"{n_words} words of the document"
                ) from None
            mentions.add((start, end))
        if mentions:
            checked.append(tuple(sorted(mentions)))
    return tuple(sorted(checked))


def check_annotation(item: Any, kind: str, places: str, name: str) -> Any:
    """Check the form of an annotation: two positions, a label, and optionally a score and attributes."""
    if (
        not isinstance(item, Sequence)
        or not 3 <= len(item) <= 5
        or not all(hasattr(place, "__index__") for place in item[:2])
        or not isinstance(item[2], str)
    ):
        raise UnireError(
            f"document {name!r}: {kind} {reprlib.repr(item)} must be ({places}, label) or ({places}, label, score)"
        )
    return item


def are_fragments(value: Any, length: int) -> bool:
    """Whether a value is a list of `[start, end]`, in order, inside a text of this length."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    last = 0
    for part in value:
        if not isinstance(part, (list, tuple)) or [type(place) for place in part] != [int, int]:
            return False
        if not last <= part[0] < part[1] <= length:
            return False
        last = part[1]
    return True
