"""Command lines of the small scripts: positional arguments, errors in one sentence."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from inspect import signature
from typing import TypeVar

from unire.errors import UnireError

__all__ = ["parse_count", "parse_number", "run"]

Number = TypeVar("Number", int, float)


def run(main: Callable[..., None], about: str | None) -> None:
    """Call `main` with the arguments of the command line, or print `about` if their number is wrong.

    Errors that the user can fix end the script with one sentence.
    """
    words = sys.argv[1:]
    try:
        signature(main).bind(*words)
    except TypeError:
        sys.exit((about or "").strip())
    try:
        main(*words)
    except (OSError, UnireError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt as interrupt:
        print("interrupted; nothing was kept", file=sys.stderr)
        number, *_ = *interrupt.args, signal.SIGINT
        sys.exit(128 + number)


def parse_count(word: str) -> int:
    """A number of texts."""
    count = parse_number(int, "N", word)
    if count < 1:
        raise UnireError(f"the number of texts must be 1 or more, not {word}")
    return count


def parse_number(kind: type[Number], name: str, word: str) -> Number:
    """An argument as a number. `name` is the argument's name in the usage."""
    try:
        return kind(word)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise UnireError(f"{name} must be {what}, not {word!r}") from None
