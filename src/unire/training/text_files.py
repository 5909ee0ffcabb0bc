"""Text files as documents, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unire.exceptions import UnireError
from unire.files import opened, reading

__all__ = ["check_text_files", "no_text", "read_documents"]


def read_documents(files: Iterable[Path]) -> Iterator[str]:
    """The lines of UTF-8 text files that hold something; `.gz`, `.xz` and `.bz2` are unpacked on the way."""
    for file in files:
        name = f"corpus file {str(file)!r}"
        with reading(name), opened(file) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError:
                    raise UnireError(f"{name}, line {number}: not UTF-8 text") from None
                if text:
                    yield text


def check_text_files(files: Sequence[Path]) -> None:
    """Refuse at once what would fail only after minutes: files that are not there, or that hold no text.

    No more is read than the first line that holds something.
    """
    if not files:
        raise UnireError("there is no corpus; give one or more text files")
    if missing := [file for file in files if not file.is_file()]:
        raise UnireError(f"there is no corpus file {str(missing[0])!r}")
    if next(read_documents(files), None) is None:
        raise no_text(files)


def no_text(files: Sequence[Path]) -> UnireError:
    """What to say of files that were read, and nothing found in them."""
    return UnireError(f"there is no text in {', '.join(repr(str(file)) for file in files)}")
