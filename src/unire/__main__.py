"""`python -m unire` is the `unire` command."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

from unire.failures import describe_out_of_memory, open_closed_streams

__all__ = ["main"]

GC_THRESHOLD = 10_000
"""New objects before Python searches for garbage. Importing torch creates many objects, none of which is garbage."""


def main() -> None:
    """Run the command. Ctrl-C, missing memory and packages that are too old are not a crash either."""
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # the system frees the memory; Python need not search it first
    open_closed_streams()
    try:
        from unire.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        sentence = describe_out_of_memory(error)
        if sentence is None:
            from unire.errors import describe_outdated

            if (outdated := describe_outdated(error)) is None:
                raise
            sys.exit(f"error: {outdated}")
        os.write(2, f"error: {sentence}\n".encode(errors="replace"))
        os._exit(1)  # native threads that lack memory may fail once more at exit


if __name__ == "__main__":
    main()
