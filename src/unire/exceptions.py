"""The one error type that users of unire meet."""

from __future__ import annotations

__all__ = ["UnireError"]


class UnireError(Exception):
    """Something the caller can mend: one sentence that says what is wrong, where, and what to do.

    The command line prints the sentence alone; a traceback means a bug of ours.
    """
