"""Failures of the system, in one sentence: a full disk, no permission, a closed pipe, no memory."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from contextlib import suppress

__all__ = ["BROKEN_PIPE", "describe_os_error", "describe_out_of_memory", "discard_output", "open_closed_streams"]

BROKEN_PIPE = 128 + getattr(signal, "SIGPIPE", 13)
"""Exit status of a command whose reader has gone, as in `unire … | head`. Other Unix tools have the same."""
MAX_REASON_CHARACTERS = 200
"""Characters of the system's own message that an error quotes."""
WRITE_ERRORS = {
    getattr(errno, name, 0) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EBADF", "ENXIO", "ESTALE")
}
"""Errors of the system that belong to the output if they name no file."""
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|(cannot|can't|could not|failed to|unable to) (allocate|map segment|reserve)|"
    r"can't start new thread|pthread_create failed|not enough memory",
    re.IGNORECASE,
)
"""What native libraries say, whatever type their errors have."""


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


def open_closed_streams() -> None:
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


def discard_output() -> None:
    """Discard what is still to be written, so that Python does not fail again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
