"""The spelling of the Penn Treebank, in which much training data is written, and ordinary text.

Treebank words escape brackets (`-LRB-`), quotes (two backquotes, two apostrophes) and slashes, and stand between
spaces. Text that people write has none of that, so an encoder is always shown `plain` words, whatever the data holds.
"""

from __future__ import annotations

import re

__all__ = ["plain"]

SPELLINGS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "\\/": "/", "\\*": "*",
    "``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'",
}  # fmt: skip
"""Escapes, and quotes that have a plainer form."""

_SPELLING = re.compile("|".join(map(re.escape, SPELLINGS)))


def plain(word: str) -> str:
    """The word as ordinary text has it: escapes undone, quotes straight."""
    return _SPELLING.sub(lambda found: SPELLINGS[found[0]], word)
