"""Outputs: the one policy against overwriting, and one writer for each output at a time.

1. An output **folder** must be new or empty, or hold only files that the caller may replace (`check_output_folder`).
2. An output **file** replaces an older one, but it is never one of the inputs (`check_output_file`).
3. Both are written under a temporary name and then renamed, so they are complete or absent (`replace_atomically`).
4. A process holds a lock on the output that it writes (`lock_output`). A second one is refused.
"""

from __future__ import annotations

import inspect
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import wraps
from glob import escape
from pathlib import Path
from typing import ParamSpec, TypeVar

from unire.errors import UnireError
from unire.files import HEX_SUFFIX, POLL_SECONDS, is_same_file, is_stream, read_folder, remove, try_lock

__all__ = [
    "check_output_file",
    "check_output_folder",
    "is_unused_lock",
    "lock_output",
    "lock_path",
    "locks_output",
]

RETRY_SECONDS = 0.1
"""A lock is requested again for this long, because another process may only be looking at it."""
SIGNATURE = "process "
"""The start of every lock file."""
MAX_COMMAND_CHARACTERS = 200
"""A command line is shortened to this in a lock file."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_held: dict[Path, tuple[int, int]] = {}
"""The locks that this process holds: by path, the thread and the file descriptor."""


def check_output_folder(
    folder: str | Path, *, replaceable: Collection[str] = (), remedy: str = "pass a new folder"
) -> None:
    """Refuse an output folder that holds something which is not to be replaced. An empty folder is fine.

    Args:
        folder: The folder to write.
        replaceable: Names of files that may be replaced, such as those of an older model.
        remedy: The end of the error message: what the user can do.
    """
    name = f"output folder {str(folder)!r}"
    try:
        with read_folder(folder) as present:
            name = f"output folder {str(present)!r}"
            if present.exists() and not present.is_dir():
                raise UnireError(f"{name} is a file; {remedy}")
            files = present.iterdir() if present.is_dir() else ()
            names = sorted(file.name for file in files if not is_unused_lock(file))
    except OSError as error:
        raise UnireError(f"{name} cannot be read: {error.strerror or error}; {remedy}") from None
    if kept := [entry for entry in names if entry not in replaceable]:
        raise UnireError(f"{name} already exists and holds {kept[0]!r}; {remedy}")


def check_output_file(out: str | Path, inputs: Iterable[str | Path], folders: Iterable[str | Path] = ()) -> None:
    """Refuse an output file that is one of the inputs, by whatever name, or that is inside an input folder.

    Args:
        out: The file to write. A pipe or a device may be an input as well.
        inputs: The files that are read.
        folders: The folders that are read with everything in them.
    """
    if is_stream(out):
        return
    target = Path(os.path.realpath(out))
    for file in inputs if target.exists() else ():
        with suppress(OSError):  # a missing file is no input
            if target.samefile(file):
                raise UnireError(f"{out} is also an input; write to another file")
    for folder in folders:
        if target.is_relative_to(os.path.realpath(folder)):
            raise UnireError(f"{out} is inside the input folder {folder}; write to another folder")


def lock_path(out: str | Path) -> Path:
    """The lock file of an output: `.NAME.lock` in the same folder."""
    target = Path(os.path.realpath(out))
    return target.with_name(f".{target.name}.lock") if target.name else target / ".lock"


@contextmanager
def lock_output(out: str | Path, *, inside: str = "") -> Iterator[None]:
    """Hold the lock of an output while it is written, so that no second run writes it at the same time.

    The lock is on a file next to the output. The file names the process, and it is deleted at the end. A killed process
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
    except OSError:  # the writer of the output will report the reason
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
        return try_lock(descriptor)
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
            if try_lock(descriptor):
                if is_same_file(descriptor, path):  # else its holder has just deleted it
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
    program = Path(sys.argv[0] if sys.argv else "python")
    name = program.parent.name if program.name == "__main__.py" else program.name  # `python -m unire`
    command = shlex.join([name, *sys.argv[1:]])
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


def _forget_locks() -> None:
    """Let go of the locks of the parent in a forked process, which would otherwise hold them longer than the parent."""
    for _, descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
