"""Files and folders: decompression, atomic writing, and folders that are not replaced while they are read.

The system releases a lock when its process ends, also after `kill -9`. So no lock is ever stale. Where a file system
has no locks, everything works as if no other process held one.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import secrets
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TextIO

from unire.errors import OnError, UnireError
from unire.limits import DEFAULT_LIMITS, ReadLimits, UnpackedStream

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "HEX_SUFFIX",
    "POLL_SECONDS",
    "check_uncompressed",
    "decompress",
    "explain_read_errors",
    "get_suffix",
    "is_append_only",
    "is_compressed",
    "is_same_file",
    "is_stream",
    "list_files",
    "open_binary",
    "open_stream",
    "open_text_output",
    "read_folder",
    "remove",
    "replace_atomically",
    "try_lock",
]

DECOMPRESSORS: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
"""The function that decompresses a file, by the suffix of its name."""
UNPACKED_BLOCK_BYTES = 2**17
"""Bytes that are decompressed at a time."""
OPEN_FILE = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|(?:/dev|/proc/(?P<process>[^/]+))/fd/(?P<number>\d+)")
"""Names of files that a process has open."""
STANDARD_STREAMS = ("stdin", "stdout", "stderr")
MAX_SYMLINKS = 40
"""The number of links to follow; Linux has the same limit."""
MAX_LOOKS = 3
"""How often to look for a folder that may be moving from one name to the other."""
HEX_SUFFIX = "[0-9a-f]" * 8
"""The pattern of the random part of a temporary name."""
WAIT_SECONDS = 30.0
"""A writer waits this long for the readers of a folder, and a reader for the writer."""
POLL_SECONDS = 0.001
WINDOWS_OFFSET = 2**30
"""The byte that Windows locks. A locked byte cannot be read, so it is behind the text."""


def is_compressed(path: str | Path) -> bool:
    return Path(path).suffix.lower() in DECOMPRESSORS


def get_suffix(path: str | Path) -> str:
    """The suffix of a file's name in lower case, without that of its compression: `.txt` for `Notes.TXT.gz`."""
    path = Path(path)
    return Path(path.stem if is_compressed(path) else path.name).suffix.lower()


def check_uncompressed(path: str | Path) -> None:
    """Refuse an output name with the suffix of a compressed file, because outputs are not compressed."""
    if is_compressed(path):
        raise UnireError(
            f"{path} cannot be written compressed; write {Path(path).with_suffix('')} and compress it afterwards"
        )


def decompress(file: BinaryIO, path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> BinaryIO:
    """The decompressed content of a file; the file itself if the suffix of `path` names no compression."""
    if not is_compressed(path):
        return file
    stream = DECOMPRESSORS[Path(path).suffix.lower()](file, "rb")
    return io.BufferedReader(UnpackedStream(stream, file, str(path), limits), UNPACKED_BLOCK_BYTES)


@contextmanager
def open_binary(path: str | Path, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[BinaryIO]:
    """Open a file to read bytes. Files that end in `.gz`, `.xz` or `.bz2` are decompressed."""
    with Path(path).open("rb") as file, decompress(file, path, limits) as stream:
        yield stream


def list_files(folder: Path, on_error: OnError | None = None) -> list[Path]:
    """All files below a folder, in alphabetical order, without hidden ones. Links to folders are not followed.

    Args:
        folder: The folder.
        on_error: Called for every folder that cannot be read. Without it, the first of them raises an error.
    """

    def refuse(error: OSError) -> None:
        unreadable = UnireError(f"folder {error.filename} cannot be read: {error.strerror}")
        if on_error is None:
            raise unreadable
        on_error(unreadable)

    files = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [path for name in names if not name.startswith(".") and _is_file(path := Path(place, name))]
    return sorted(files)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # opening it will report the reason
        return True


@contextmanager
def explain_read_errors(name: str | Path) -> Iterator[None]:
    """Turn errors of the operating system and of decompression into a `UnireError` of one sentence."""
    try:
        yield
    except EOFError:
        raise UnireError(f"{name} cannot be read: the compressed file is truncated") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())  # Arrow's errors have several lines
        raise UnireError(f"{name} cannot be read: {reason}") from None


@contextmanager
def open_text_output(target: str | Path | TextIO) -> Iterator[TextIO]:
    """Open a stream to write text: `target` itself if it is one, or a UTF-8 file that is replaced atomically.

    A failed write raises a `UnireError` of one sentence. `BrokenPipeError` passes through: the caller decides what it
    means that the reader closed the pipe.
    """
    name = target if isinstance(target, (str, Path)) else getattr(target, "name", "the output")
    try:
        if isinstance(target, (str, Path)):
            with replace_atomically(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                yield file
        else:
            yield target
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnireError(f"{name} cannot be written: {error.strerror or error}") from None
    except UnicodeEncodeError as error:
        raise UnireError(
            f"{name} cannot be written: its encoding, {error.encoding}, lacks {error.object[error.start]!r}"
        ) from None


@contextmanager
def replace_atomically(path: str | Path, *, directory: bool = False) -> Iterator[Path]:
    """Write a file or a folder so that `path` is at every moment the old or the complete new one.

    The body writes to the temporary path that it gets, in the same folder. At the end that path is synced to disk and
    renamed to `path`. If the body raises, the temporary path is removed and `path` does not change.

    No system replaces a folder in one step: the old one is moved aside, the new one moved in, the old one deleted. A
    process that is killed between the two moves leaves `path` missing and the old folder next to it; `read_folder`
    finds it. A process that is killed earlier leaves a `.NAME.*.partial`, which can be deleted. Several writers move
    their folders one after the other, and wait for those who read the old one with `read_folder`.

    Errors of the operating system, such as a full disk, reach the caller as `OSError`.

    Args:
        path: The file or folder to write. Missing parent folders are created, links are followed, and old permissions
            are kept. A pipe or a device is written to directly. A file that is already open, such as `/dev/stdout`,
            receives a copy at the end.
        directory: Whether `path` is a folder. The temporary folder is then created before the body runs.
    """
    if is_append_only(path) and directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if _match_open_file(path):
        with _copy_to_open_file(path) as temporary:
            yield temporary
        return
    if is_stream(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    if not directory:
        check_uncompressed(path)
    if target.is_dir() and not directory:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not target.name:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))  # the root folder cannot be replaced
    if target.is_file() and directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(target, "partial")
    try:
        if directory:
            temporary.mkdir()
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        for written in (temporary, *temporary.rglob("*")):
            _sync(written)
        if directory:
            with lock_folder(target.parent):
                _move_folder(temporary, target)
        else:
            temporary.replace(target)
        _sync(target.parent)
    finally:
        remove(temporary)


def is_stream(path: str | Path) -> bool:
    """Whether `path` is a pipe or a device, which can be read only once and cannot be replaced.

    The system follows links, because the target of `/dev/stdout` may have no path.
    """
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def is_append_only(path: str | Path) -> bool:
    """Whether writing continues what is already there: a pipe, a device, or a file that is open.

    A shell opens the files behind `/dev/stdout` and `/dev/fd/3`. They cannot be replaced, because other processes may
    write to them too.
    """
    return bool(_match_open_file(path)) or is_stream(path)


def open_stream(path: str | Path) -> BinaryIO:
    """Open such a path to write bytes."""
    name = _match_open_file(path)
    if name is None:
        return Path(path).open("wb")
    if name["process"] in (None, "self", "thread-self", str(os.getpid())):
        number = int(name["number"]) if name["number"] else STANDARD_STREAMS.index(name["name"])
        return os.fdopen(os.dup(number), "wb")  # opening it by name would truncate the file
    return Path(path).open("ab")


def _match_open_file(path: str | Path) -> re.Match[str] | None:
    """The match of `OPEN_FILE` for the path, or for a link on the way to its target."""
    current = Path(path)
    for _ in range(MAX_SYMLINKS):
        current = Path(os.path.normpath(current.absolute()))
        if match := OPEN_FILE.fullmatch(str(current)):
            return match
        if not current.is_symlink():
            break
        current = current.parent / current.readlink()
    return None


@contextmanager
def _copy_to_open_file(path: str | Path) -> Iterator[Path]:
    """A temporary file whose content is copied to an open file at the end."""
    with TemporaryDirectory() as folder:
        yield (temporary := Path(folder) / "out")
        with temporary.open("rb") as file, open_stream(path) as stream:
            shutil.copyfileobj(file, stream)


@contextmanager
def read_folder(path: str | Path) -> Iterator[Path]:
    """Yield the complete folder that is at `path`, which `replace_atomically` does not replace meanwhile.

    If a process was killed as it replaced the folder, that is the old one next to it. Readers only look: they rename
    and delete nothing. They hold a lock on the folder, for which writers wait, so a body should be short.

    Args:
        path: The folder. If there is none, the body gets the path as it is.
    """
    path = Path(path)
    while folder := _find_folder(path):
        with lock_folder(folder, shared=True) as is_same:
            if is_same and _find_folder(path) == folder:
                yield folder
                return
    yield path


@contextmanager
def lock_folder(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    """Hold a lock on a folder itself: readers share it, and a writer that replaces the folder waits for them.

    Nothing is written. The wait is limited, so that a hanging reader blocks no process for ever.

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
        while not try_lock(descriptor, shared=shared) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        yield is_same_file(descriptor, folder)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder; return whether no other process has locked it."""
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


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _find_folder(path: Path) -> Path | None:
    """The folder at `path`, or the one that a killed process has moved aside, if there is either."""
    for _ in range(MAX_LOOKS):
        if path.exists():
            return path
        if aside := _find_aside(Path(os.path.realpath(path))):
            return aside[0]
    return None


def _find_aside(path: Path) -> list[Path]:
    """The folders that killed processes have moved aside."""
    return list(path.parent.glob(f".{escape(path.name)}.{HEX_SUFFIX}.previous"))


def _move_folder(new: Path, target: Path) -> None:
    """Move a new folder to its place, and delete what was there; no other writer does so at the same time."""
    for aside in _find_aside(target):  # left by a killed process
        with lock_folder(aside):
            if target.exists():
                remove(aside)
            else:
                aside.rename(target)
    if not target.is_dir():
        new.rename(target)
        return
    aside = _temporary_name(target, "previous")
    with lock_folder(target):
        target.rename(aside)
        try:
            new.rename(target)
        except BaseException:
            aside.rename(target)
            raise
    remove(aside)


def remove(path: Path) -> None:
    """Delete a file, or a folder as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _temporary_name(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{suffix}")


def _sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
