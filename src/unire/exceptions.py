"""The one error type that users of unire meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["EXTRA", "NEEDS_EXTRA", "OnError", "UnireError", "told_of_the_extra"]

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
def told_of_the_extra() -> Iterator[None]:
    """Whoever lacks the extra `train` is told so, instead of which module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise UnireError(NEEDS_EXTRA) from None
