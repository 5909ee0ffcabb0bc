"""`python -m unire` is the `unire` command."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

from unire.errors import describe_out_of_memory, describe_outdated

__all__ = ["main"]

GC_THRESHOLD = 10_000
"""New objects before Python searches for garbage. Importing torch creates many objects, none of which is garbage."""


def main() -> None:
    """Run the command. Ctrl-C, SIGTERM, missing memory and packages that are too old are not a crash either."""
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # the system frees the memory; Python need not search it first
    _open_closed_streams()
    try:
        from unire.cli.main import main as run

        run()
    except KeyboardInterrupt as interrupt:
        sys.exit(128 + next(iter(interrupt.args), signal.SIGINT))
    except Exception as error:
        sentence = describe_out_of_memory(error)
        if sentence is None:
            if (outdated := describe_outdated(error)) is None:
                raise
            sys.exit(f"error: {outdated}")
        os.write(2, f"error: {sentence}\n".encode(errors="replace"))
        os._exit(1)  # native threads that lack memory may fail once more at exit


def _open_closed_streams() -> None:
    """Give closed standard streams a file, so that no other file gets their numbers and what libraries print.

    Writing to standard output is then an error, as for other commands. Messages on standard error are lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        # a stream that is opened in the wrong direction refuses to be used
        opened = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        if name != "stdin":
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
