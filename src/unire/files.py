"""Files and folders: read whether packed or not; written under a temporary name and renamed, so whole or not there."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TextIO

from unire.errors import UnireError

__all__ = [
    "check_apart",
    "check_new",
    "check_unpacked",
    "ending",
    "is_packed",
    "is_stream",
    "opened",
    "reading",
    "recover",
    "replacing",
    "streaming",
    "text_output",
    "unpacked",
    "writes_on",
]

PACKED: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
"""What unpacks a file, by its ending."""
OPEN = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|(?:/dev|/proc/(?P<process>[^/]+))/fd/(?P<number>\d+)")
"""The names of files that a process has open."""
STANDARD = ("stdin", "stdout", "stderr")
LINKS = 40
"""Links that are followed, as the system does."""


def is_packed(path: str | Path) -> bool:
    return Path(path).suffix.lower() in PACKED


def ending(path: str | Path) -> str:
    """How the name of a file ends, in small letters, whatever it is packed with: `.txt` for `Notes.TXT.gz`."""
    path = Path(path)
    return Path(path.stem if is_packed(path) else path.name).suffix.lower()


def check_unpacked(path: str | Path) -> None:
    """Refuse to write a file under a name by which it would be read as a packed one."""
    if is_packed(path):
        raise UnireError(
            f"{path} would not be packed, as its name says; write {Path(path).with_suffix('')}, and pack it"
        )


def unpacked(file: BinaryIO, path: str | Path) -> BinaryIO:
    """A stream of what the file of that name holds; the file itself, where it is not packed."""
    stream: BinaryIO = PACKED[Path(path).suffix.lower()](file, "rb") if is_packed(path) else file
    return stream


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """A file to read bytes from, unpacked on the way if it ends in `.gz`, `.xz` or `.bz2`."""
    with Path(path).open("rb") as file, unpacked(file, path) as stream:
        yield stream


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """What is wrong with a file that is read, by the operating system or by what unpacks it, in one sentence."""
    try:
        yield
    except EOFError:
        raise UnireError(f"{name} cannot be read: it is packed, and its end is missing") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())  # Arrow has paragraphs
        raise UnireError(f"{name} cannot be read: {reason}") from None


@contextmanager
def text_output(target: str | Path | TextIO) -> Iterator[TextIO]:
    """A stream to write text to: the one that is given, or that of a file in UTF-8, which is whole or not there.

    What cannot be written is refused in one sentence; that a reader closed the pipe is left to the caller.
    """
    name = target if isinstance(target, (str, Path)) else getattr(target, "name", "the output")
    try:
        if isinstance(target, (str, Path)):
            with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                yield file
        else:
            yield target
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnireError(f"{name} cannot be written: {error.strerror or error}") from None
    except UnicodeEncodeError as error:
        raise UnireError(
            f"{name} cannot be written in {error.encoding}: it has no way to say {error.object[error.start]!r}"
        ) from None


@contextmanager
def replacing(path: str | Path, *, directory: bool = False) -> Iterator[Path]:
    """Write a file or a folder so that `path` is at every moment the old one or the whole new one.

    The body writes to the temporary path that it is given, in the same folder. At its end that is synced to disk and
    renamed to `path`; if it raises, the temporary path is removed and `path` stays as it was.

    No system replaces a folder in one step: the old one is moved aside, the new one moved in, the old one deleted. A
    process killed between the two moves leaves `path` missing and the old folder whole beside it; `recover`, or the
    next `replacing`, puts it back. A process killed earlier leaves a `.NAME.*.partial` behind, which is rubbish.

    Errors of the operating system, a full disk among them, reach the caller as `OSError`.

    Args:
        path: What to write. Missing parent folders are made, a link is followed, old permissions are kept, a pipe or a
            device is written to directly, and what is already open, such as `/dev/stdout`, gets the whole at the end.
        directory: Whether it is a folder; the temporary one is then made.
    """
    if writes_on(path) and directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if _open_name(path):
        with _copied_to(path) as temporary:
            yield temporary
        return
    if is_stream(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    if not directory:
        check_unpacked(path)
    if target.is_dir() and not directory:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not target.name:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))  # the root, which nothing can replace
    if target.is_file() and directory:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    recover(target)
    temporary = _beside(target, "partial")
    try:
        if directory:
            temporary.mkdir()
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        for written in (temporary, *temporary.rglob("*")):
            _sync(written)
        if target.is_dir():
            _exchange(temporary, target)
        else:
            temporary.replace(target)
        _sync(target.parent)
    finally:
        _remove(temporary)


def is_stream(path: str | Path) -> bool:
    """Whether there is a pipe or a device, which can be read once only, and not be replaced.

    Links are followed by the system: what `/dev/stdout` leads to may have no path of its own.
    """
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def writes_on(path: str | Path) -> bool:
    """Whether what is written goes on from where something stands: a pipe, a device, or what is already open.

    A shell opens files for `/dev/stdout` and `/dev/fd/3`. They are not to be replaced: more than one writes to them.
    """
    return bool(_open_name(path)) or is_stream(path)


def streaming(path: str | Path) -> BinaryIO:
    """Such a thing, to write bytes to."""
    name = _open_name(path)
    if name is None:
        return Path(path).open("wb")
    if name["process"] in (None, "self", "thread-self", str(os.getpid())):
        number = int(name["number"]) if name["number"] else STANDARD.index(name["name"])
        return os.fdopen(os.dup(number), "wb")  # to open it by its name would empty it
    return Path(path).open("ab")


def _open_name(path: str | Path) -> re.Match[str] | None:
    """The name of what a process has open, as which the path, or a link on its way, is known."""
    here = Path(path)
    for _ in range(LINKS):
        here = Path(os.path.normpath(here.absolute()))
        if found := OPEN.fullmatch(str(here)):
            return found
        if not here.is_symlink():
            break
        here = here.parent / here.readlink()
    return None


@contextmanager
def _copied_to(path: str | Path) -> Iterator[Path]:
    """A file that is copied to what is already open when it is whole."""
    with TemporaryDirectory() as folder:
        yield (file := Path(folder) / "out")
        with file.open("rb") as whole, streaming(path) as stream:
            shutil.copyfileobj(whole, stream)


def check_new(folder: str | Path, remedy: str = "give a new folder") -> None:
    """Refuse to make a folder where there is something; an empty folder is nothing.

    Args:
        folder: Where it is to be made.
        remedy: What the error tells the user to do.
    """
    target = Path(os.path.realpath(folder))
    try:
        recover(target)
        if target.is_dir() and any(target.iterdir()):
            raise UnireError(f"{str(folder)!r} is not empty; {remedy}")
        if target.exists() and not target.is_dir():
            raise UnireError(f"{str(folder)!r} is a file; {remedy}")
    except OSError as error:
        raise UnireError(f"{str(folder)!r} cannot be looked into: {error.strerror or error}; {remedy}") from None


def check_apart(out: str | Path, files: Iterable[str | Path], folders: Iterable[str | Path] = ()) -> None:
    """Refuse to write what is read, by whatever name, or where it would be read with the rest of a folder.

    Args:
        out: What is to be written; a pipe or a device may be read from as well.
        files: What is read.
        folders: Those that are read with all that is in them.
    """
    if is_stream(out):
        return
    target = Path(os.path.realpath(out))
    for file in files if target.exists() else ():
        with suppress(OSError):  # what is not there is not read
            if target.samefile(file):
                raise UnireError(f"{out} is read by the same command; write to another place")
    for folder in folders:
        if target.is_relative_to(os.path.realpath(folder)):
            raise UnireError(f"{out} is inside {folder}, which is read; write to a place that is not in it")


def recover(path: str | Path) -> None:
    """Put back the folder that a process killed in the middle of `replacing` left aside, or clear it away."""
    path = Path(path)
    aside = list(path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.previous"))
    if aside and not path.exists():
        with suppress(FileNotFoundError):  # another process of the same training was quicker
            aside.pop().rename(path)
    for folder in aside:
        _remove(folder)


def _exchange(new: Path, old: Path) -> None:
    aside = _beside(old, "previous")
    old.rename(aside)
    try:
        new.rename(old)
    except BaseException:
        aside.rename(old)
        raise
    _remove(aside)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{suffix}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Have the disk hold what was written."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
