"""`python -m unire` is the `unire` command."""

from __future__ import annotations

import atexit
import gc
import signal
import sys

__all__ = ["main"]

GC_THRESHOLD = 10_000
"""New objects before Python looks for garbage among them: importing torch makes many, and none of them is."""


def main() -> None:
    """Run the command; Ctrl-C while its parts are still being imported is no crash either."""
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # what is left at the end goes back to the system, and need not be searched first
    try:
        from unire.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
