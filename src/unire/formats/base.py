"""What a format is, and how it is read: one shape for files of lines, files of one piece, and folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.errors import OnError, UnireError
from unire.formats.capabilities import EVERYTHING, Capability

__all__ = ["Format", "ReadOptions", "at", "needed", "refuse"]


def refuse(error: UnireError) -> None:
    raise error


@dataclass(frozen=True)
class ReadOptions:
    """How documents are read."""

    predicted: bool = False
    """Predictions rather than gold, in a file that holds both."""
    spaces: bool = False
    """Text without words is split at its spaces and line ends, and not by the rules of `segment`."""
    notes: Counter[str] = field(default_factory=Counter)
    """Counts what was changed or left out."""
    on_error: OnError = refuse


@dataclass(frozen=True)
class Format:
    """How a file or a folder becomes documents, and documents become one."""

    read: Callable[[Path, ReadOptions], Iterator[Document]]
    write: Callable[[Iterable[Document], Path, OnError], None] | None = None
    """Given documents with nothing in them that the format does not hold; `None` for a format that is only read."""
    holds: frozenset[Capability] = EVERYTHING
    own: tuple[str, ...] = ()
    """Names that stand among the document's meta data, which cannot have them there."""
    folder: bool = False
    of_files: bool = False
    """A folder of such files is read too, as one."""
    suffix: str = ".jsonl"
    """What a file of the format is usually called."""
    endings: tuple[str, ...] = ()
    """How files end that are read from a folder of the format."""


@contextmanager
def at(place: str, on_error: OnError) -> Iterator[None]:
    """Errors inside are told with their place."""
    try:
        yield
    except UnireError as error:
        on_error(UnireError(f"{place}: {error}"))


def needed(module: str, extra: str) -> Any:
    """A module that an extra brings, or a sentence that says which."""
    try:
        return import_module(module)
    except ImportError:
        raise UnireError(f'this format needs {module}; install it with `pip install "unire[{extra}]"`') from None
