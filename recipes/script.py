"""What the scripts that take plain words have in common."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from inspect import signature
from typing import TypeVar

from unire.errors import UnireError

__all__ = ["how_many", "number", "run"]

Number = TypeVar("Number", int, float)


def run(main: Callable[..., None], about: str | None) -> None:
    """Call `main` with the words of the command line; if it does not take as many, print what the script is about.

    What fails for a reason that its caller can do something about ends in one sentence.
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
        heard, *_ = *interrupt.args, signal.SIGINT
        sys.exit(128 + heard)


def how_many(word: str) -> int:
    """A word of the command line as a number of texts."""
    count = number(int, "N", word)
    if count < 1:
        raise UnireError(f"{word} texts cannot be taken; give 1 or more")
    return count


def number(kind: type[Number], name: str, word: str) -> Number:
    """A word of the command line as a number; `name` is what the script calls it."""
    try:
        return kind(word)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise UnireError(f"{name} must be {what}, not {word!r}") from None
