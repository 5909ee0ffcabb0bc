"""What the scripts that take plain words have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature

from unire.exceptions import UnireError

__all__ = ["run"]


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
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    except (UnireError, ValueError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was kept")
