"""Text files as documents, one a line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unire.exceptions import UnireError

__all__ = ["check_text_files", "no_text", "read_documents"]

_OPENERS: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}


def read_documents(files: Iterable[Path]) -> Iterator[str]:
    """The lines of UTF-8 text files that hold something; `.gz`, `.xz` and `.bz2` are unpacked on the way."""
    for file in files:
        number = 0
        try:
            with _OPENERS.get(file.suffix, open)(file, "rb") as lines:
                for line in lines:
                    number += 1
                    if text := line.decode("utf-8").strip():
                        yield text
        except UnicodeDecodeError:
            raise UnireError(f"corpus file {str(file)!r}, line {number}: not UTF-8 text") from None
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnireError(f"corpus file {str(file)!r} cannot be read after line {number}: {reason}") from None


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
