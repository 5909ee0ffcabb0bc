"""What a format is, and how it is read: one shape for files of lines, files of one piece, and folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.exceptions import UnireError
from unire.formats.contents import EVERYTHING, Content

__all__ = ["Format", "OnError", "Reading", "at", "needed", "refuse"]

OnError = Callable[[UnireError], None]
"""What is done about a document that cannot be read or written; if it returns, the others still are."""


def refuse(error: UnireError) -> None:
    raise error


@dataclass(frozen=True)
class Reading:
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

    read: Callable[[Path, Reading], Iterator[Document]]
    write: Callable[[Iterable[Document], Path, OnError], None] | None = None
    """Given documents with nothing in them that the format does not hold; `None` for a format that is only read."""
    holds: frozenset[Content] = EVERYTHING
    folder: bool = False
    suffix: str = ".jsonl"
    """What a file of the format is usually called."""


def at(place: object, on_error: OnError) -> AbstractContextManager[None]:
    """Errors inside are told with their place."""
    return _Place(place, on_error)


class _Place(AbstractContextManager[None]):
    """Entered for every document, and so not made by `contextmanager`, which takes three times as long."""

    __slots__ = ("on_error", "place")

    def __init__(self, place: object, on_error: OnError) -> None:
        self.place = place
        self.on_error = on_error

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, UnireError):
            return False
        self.on_error(UnireError(f"{self.place}: {error}"))
        return True


def needed(module: str, extra: str) -> Any:
    """A module that an extra brings, or a sentence that says which."""
    try:
        return import_module(module)
    except ImportError:
        raise UnireError(f'this format needs {module}; install it with `pip install "unire[{extra}]"`') from None
