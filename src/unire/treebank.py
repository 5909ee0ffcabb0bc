"""The spelling of the Penn Treebank, in which much training data is written, and ordinary text.

Treebank words escape brackets (`-LRB-`), quotes (two backquotes, two apostrophes) and slashes, and stand between
spaces. Text that people write has none of that, so an encoder is always shown `plain` words, whatever the data holds;
`restored` turns a whole document back into the text that it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from unire.documents import Document

__all__ = ["plain", "restored"]

SPELLINGS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "\\/": "/", "\\*": "*",
    "``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'",
}  # fmt: skip
"""Escapes, and quotes that have a plainer form."""

_SPELLING = re.compile("|".join(map(re.escape, SPELLINGS)))

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}", ",", ".", ";", ":", "?", "!", "%", "...", "'")
_CLITIC = re.compile(r"'(?:s|d|m|re|ve|ll)|n't", re.IGNORECASE)


def plain(word: str) -> str:
    """The word as ordinary text has it: escapes undone, quotes straight."""
    return _SPELLING.sub(lambda found: SPELLINGS[found[0]], word)


def restored(document: Document) -> Document:
    """The document as ordinary text, with the same sentences, words and annotation at their places in it.

    Words are `plain`; punctuation, brackets, quotes and `n't` stand where a writer puts them, and sentences follow each
    other after a space. A full stop after an abbreviation that ends in one is written once: it is then its own word.
    Attributes are left out.
    """
    text = ""
    sentences: list[list[str]] = []
    offsets: list[tuple[int, int]] = []
    for sentence in document.sentences:
        words = [plain(word) for word in sentence.words]
        for i, word in enumerate(words[:-1]):
            if word.endswith(".") and len(word) > 1 and words[i + 1] == ".":
                words[i] = word[:-1]
        spaces = _spaces(words, sentence.words)
        for word, space in zip(words, spaces, strict=True):
            text += " " if space and text else ""
            offsets.append((len(text), len(text) + len(word)))
            text += word
        sentences.append(words)
    position = {entity: i for i, entity in enumerate(document.entities)}
    return Document.from_words(
        sentences,
        [(e.start, e.end, e.label, e.score) for e in document.entities],
        [(position[r.head], position[r.tail], r.label, r.score) for r in document.relations],
        text=text,
        offsets=offsets,
        id=document.id,
        meta=document.meta,
    )


def _spaces(words: Sequence[str], escaped: Sequence[str]) -> list[bool]:
    """For each word of a sentence, whether a space stands before it."""
    spaces = []
    space = True
    quoted = False
    for i, word in enumerate(words):
        opens = word in _OPENING or escaped[i] == "`"
        closes = word in _CLOSING and not opens
        if word == '"':
            # Data that had straight quotes has '' on both sides: one without a partner to its left begins.
            opens = escaped[i] == "``" or (not quoted and '"' in words[i + 1 :])
            closes = not opens
            quoted = opens
        clitic = _CLITIC.fullmatch(word) or (word.lower() == "not" and i > 0 and words[i - 1].lower() == "can")
        spaces.append(space and not closes and not clitic)
        space = not opens
    return spaces
