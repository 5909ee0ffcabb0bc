"""Text files as documents, one a line."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from unire.exceptions import UnireError
from unire.files import ending, opened, reading
from unire.texts import JSON_LINES, PARQUET, TABLES

__all__ = ["ANNOTATED", "check_text_files", "no_text", "read_documents"]

ANNOTATED = (".json", *JSON_LINES)
"""How files end that hold documents in one of our formats."""
OTHERS = (*ANNOTATED, *TABLES, *PARQUET)
"""How files end that have other lines than those of a text."""


def read_documents(files: Iterable[Path]) -> Iterator[str]:
    """The lines of UTF-8 text files that hold something; `.gz`, `.xz` and `.bz2` are unpacked on the way."""
    for file in files:
        name = f"corpus file {str(file)!r}"
        with reading(name), opened(file) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode().strip()
                except UnicodeDecodeError:
                    raise UnireError(f"{name}, line {number}: not UTF-8 text") from None
                if text:
                    yield text


def check_text_files(files: Sequence[Path], beside: Collection[str] = ()) -> None:
    """Refuse at once what would fail only after minutes: files that are not there, or that hold no text.

    No more is read than the first line that holds something.

    Args:
        files: The corpus.
        beside: Endings of files that are no plain text, and may be there all the same.
    """
    if not files:
        raise UnireError("there is no corpus; give one or more text files")
    if missing := [file for file in files if not file.is_file()]:
        raise UnireError(f"there is no corpus file {str(missing[0])!r}")
    if others := [file for file in files if ending(file) in OTHERS and ending(file) not in beside]:
        raise UnireError(
            f"corpus file {str(others[0])!r} is not plain text; write the texts in it to a file of their own, "
            "a document per line"
        )
    if next(read_documents(files), None) is None:
        raise no_text(files)


def no_text(files: Sequence[Path]) -> UnireError:
    """What to say of files that were read, and nothing found in them."""
    return UnireError(f"there is no text in {', '.join(repr(str(file)) for file in files)}")
