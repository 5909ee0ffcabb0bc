"""Texts that must not be learnt from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["HeldOut"]

RUN = 8
"""Words of a run that texts may have in common by chance once, but not twice."""


class HeldOut:
    """Texts that a model will be scored on, and must not have read: `text in held_out` if it holds part of one.

    That is, if they share two runs of eight words, in whatever case and punctuation; or, where the held-out text is
    too short for that, if they are the same.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._short: set[tuple[str, ...]] = set()
        for words in map(_plain_words, texts):
            if len(words) > RUN:
                self._runs.update(_runs(words))
            elif words:
                self._short.add(words)

    def __contains__(self, text: str) -> bool:
        words = _plain_words(text)
        return words in self._short or len(self._runs.intersection(_runs(words))) > 1


def _plain_words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))


def _runs(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN)), strict=False)
