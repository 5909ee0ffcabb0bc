"""Locks between processes: one writer for each output, and no replacement of a folder that is being read.

The system releases a lock when its process ends, also after `kill -9`. So no lock is ever stale. Where a file system
has no locks, everything works as if nobody else held one.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import wraps
from glob import escape
from pathlib import Path
from typing import ParamSpec, TypeVar

from unire.errors import UnireError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["HEX_SUFFIX", "is_unused_lock", "lock_folder", "lock_output", "lock_path", "locks_output", "remove"]

HEX_SUFFIX = "[0-9a-f]" * 8
"""The pattern of the random part of a temporary name."""
WAIT_SECONDS = 30.0
"""A writer waits this long for the readers of a folder, and a reader for the writer."""
POLL_SECONDS = 0.001
RETRY_SECONDS = 0.1
"""A lock is requested again for this long, because another process may only be looking at it."""
SIGNATURE = "process "
"""The start of every lock file."""
MAX_COMMAND_CHARACTERS = 200
"""A command line is shortened to this in a lock file."""
WINDOWS_OFFSET = 2**30
"""The byte that Windows locks. A locked byte cannot be read, so it is behind the text."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


# Outputs

_held: dict[Path, tuple[int, int]] = {}
"""The locks that this process holds: by path, the thread and the file descriptor."""


def lock_path(out: str | Path) -> Path:
    """The lock file of an output: `.NAME.lock` beside it."""
    target = Path(os.path.realpath(out))
    return target.with_name(f".{target.name}.lock") if target.name else target / ".lock"


@contextmanager
def lock_output(out: str | Path, *, inside: str = "") -> Iterator[None]:
    """Hold the lock of an output while it is written, so that no second run writes it at the same time.

    The lock is on a file beside the output. The file names the process, and it is deleted at the end. A killed process
    leaves the file behind, but not the lock: the next run takes over, and deletes what that process left unfinished.

    The thread that holds a lock may request it again. In distributed runs, only the main process holds it.

    Args:
        out: The output, a file or a folder. Missing parent folders are created, and deleted if nothing is written.
        inside: The name of a file in the output folder, beside which the lock file is then.

    Raises:
        UnireError: Another process, or another thread, is writing the output.
    """
    path = lock_path(Path(out) / inside)
    if _held.get(path, (None,))[0] == threading.get_ident() or os.environ.get("RANK", "0") != "0":
        yield
        return
    new_folders = [folder for folder in path.parents if not folder.exists()]
    try:
        descriptor = _open_locked(path)
    except BlockingIOError:
        raise UnireError(
            f"{str(out)!r} is being written by {_read_holder(path)}; wait for it, or choose another output"
        ) from None
    except OSError:  # whoever writes the output will see the reason and report it
        yield
        return
    _held[path] = threading.get_ident(), descriptor
    try:
        yield
    finally:
        if _held.pop(path, None):  # a forked process has forgotten it
            _unlock(path, descriptor)
            with suppress(OSError):  # they are not empty
                for folder in new_folders:
                    folder.rmdir()


def locks_output(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Hold the lock of the output that is the argument `out` of a function, while the function runs."""
    signature = inspect.signature(function)

    @wraps(function)
    def locked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with lock_output(signature.bind(*args, **kwargs).arguments["out"]):
            return function(*args, **kwargs)

    return locked


def is_unused_lock(path: Path) -> bool:
    """Whether a file is the lock file of a process that was killed. It means nothing and may be deleted."""
    if not (path.name.startswith(".") and path.suffix == ".lock" and path.is_file()):
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    """Open and lock a lock file, and write into it who holds it.

    Raises:
        BlockingIOError: Another process holds the lock.
        OSError: There can be no lock file here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if _try_lock(descriptor):
                if _is_same(descriptor, path):  # else its holder has just deleted it
                    _take_over(path, descriptor)
                    return descriptor
            elif time.monotonic() > deadline:
                raise BlockingIOError
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        time.sleep(POLL_SECONDS)


def _take_over(path: Path, descriptor: int) -> None:
    """Write into a lock file who holds it, after deleting what a killed process has left unfinished."""
    left = os.read(descriptor, 2 * MAX_COMMAND_CHARACTERS)
    if left:
        if not left.startswith(SIGNATURE.encode()):
            raise FileExistsError(f"{path} is not a lock file of unire")
        output = path.name.removeprefix(".").removesuffix(".lock")
        for name in (output, f"{output}.part.json"):
            for unfinished in path.parent.glob(f".{escape(name)}.{HEX_SUFFIX}.partial"):
                remove(unfinished)
    with suppress(OSError):  # a full disk; the lock holds without the text
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, _describe_process().encode("utf-8", "backslashreplace"))


def _unlock(path: Path, descriptor: int) -> None:
    """Delete a lock file before it is unlocked, so that nobody can lock it in between; Windows deletes no open file."""
    if sys.platform == "win32":
        os.close(descriptor)
    with suppress(OSError):
        path.unlink()
    if sys.platform != "win32":
        os.close(descriptor)


def _describe_process() -> str:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "python"
    if len(command) > MAX_COMMAND_CHARACTERS:
        command = f"{command[:MAX_COMMAND_CHARACTERS]} …"
    since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    return f"{SIGNATURE}{os.getpid()} on {socket.gethostname()} since {since} ({command})"


def _read_holder(path: Path) -> str:
    try:
        holder = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        holder = ""
    return holder or "another process"


def remove(path: Path) -> None:
    """Delete a file, or a folder as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _forget_locks() -> None:
    """Let go of the locks of the parent in a forked process, which would otherwise hold them longer than the parent."""
    for _, descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


# Folders


@contextmanager
def lock_folder(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    """Hold a lock on a folder itself: readers share it, and a writer that replaces the folder waits for them.

    Nothing is written. The wait is limited, so that a reader that hangs blocks nobody for ever.

    Args:
        folder: The folder.
        shared: Whether to share the lock, as a reader.

    Yields:
        Whether this is still the folder of that name; false if it was replaced or deleted before it was locked.
    """
    if sys.platform == "win32":
        yield folder.exists()
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        yield not isinstance(error, FileNotFoundError)
        return
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _try_lock(descriptor, shared=shared) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        yield _is_same(descriptor, folder)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder; return whether nobody else has locked it."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, WINDOWS_OFFSET, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
