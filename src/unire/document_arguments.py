"""Checks of what documents are built from: words, character offsets, and annotation as tuples."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from unire.errors import UnireError

__all__ = ["are_fragments", "check_annotation", "check_offsets", "check_split_words", "join_offsets"]


def check_split_words(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Check the words of a sentence. A string is refused, because it is a sequence of letters."""
    try:
        if not isinstance(words, str):
            "".join(checked := tuple(words))  # the fastest check that all are strings
            return checked
    except TypeError:
        pass
    raise UnireError(f"document {name!r}: a sentence is a list of words, but {reprlib.repr(words)} was given")


def check_offsets(offsets: Sequence[tuple[int, int]], length: int, name: str) -> None:
    """Refuse spans that are outside the text or not in order. They may share characters."""
    first = last = 0
    for i, span in enumerate(offsets):
        try:
            start, end = span
            if not (first <= index(start) <= index(end) <= length and last <= end):
                raise ValueError
        except (TypeError, ValueError):
            raise UnireError(
                f"document {name!r}: offset {reprlib.repr(span)} of word {i} must be (start, end), in a text of "
                f"{length} characters and after the previous word"
            ) from None
        first, last = start, end


def check_annotation(item: Any, kind: str, places: str, name: str) -> Any:
    """Check the form of an annotation: two positions, a label, and optionally a score and attributes."""
    if (
        not isinstance(item, Sequence)
        or not 3 <= len(item) <= 5
        or not all(hasattr(place, "__index__") for place in item[:2])
        or not isinstance(item[2], str)
    ):
        raise UnireError(
            f"document {name!r}: {kind} {reprlib.repr(item)} must be ({places}, label) or ({places}, label, score)"
        )
    return item


def are_fragments(value: Any, length: int) -> bool:
    """Whether a value is a list of `[start, end]`, in order, inside a text of this length."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    last = 0
    for part in value:
        if not isinstance(part, (list, tuple)) or [type(place) for place in part] != [int, int]:
            return False
        if not last <= part[0] < part[1] <= length:
            return False
        last = part[1]
    return True


def join_offsets(sentences: Iterable[Sequence[str]]) -> list[tuple[tuple[int, int], ...]]:
    """The character spans of words that are joined by spaces, in sentences that are joined by line ends."""
    placed = []
    end = -1
    for words in sentences:
        placed.append(tuple([(start := end + 1, end := start + len(word)) for word in words]))
        end += not words
    return placed
