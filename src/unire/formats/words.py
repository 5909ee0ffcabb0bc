"""Words already split: a sentence a line, words between spaces, an empty line between documents. Read only.

Ada lives in London .
She works there .

Another document .
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unire.documents import Document

__all__ = ["from_lines"]


def from_lines(lines: Iterable[str], name: str) -> Iterator[Document]:
    """The documents of some lines, called `name:1`, `name:2` and so on."""
    sentences: list[list[str]] = []
    count = 0
    for line in lines:
        if words := line.split():
            sentences.append(words)
        elif sentences:
            count += 1
            yield Document.from_words(sentences, id=f"{name}:{count}")
            sentences = []
    if sentences:
        yield Document.from_words(sentences, id=f"{name}:{count + 1}")
