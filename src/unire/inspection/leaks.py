"""Sentences that stand, equal or almost so, in more than one file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unire.documents import Document
from unire.inspection.finding import Finding, Kind

__all__ = ["find_leaks"]

SHORT = 5
"""Sentences of fewer words ("See Table 1 .") are bound to come again, and are not compared."""


class Place(NamedTuple):
    file: str
    document: str
    sentence: int

    def __str__(self) -> str:
        return f"document {self.document!r}, sentence {self.sentence}"


Words = frozenset[tuple[str, int]]
"""The words of a sentence, in small letters, each with the number of its occurrence."""


def find_leaks(files: Mapping[str, Sequence[Document]], near: float) -> Iterator[Finding]:
    """Each sentence that an earlier file has too, or almost: at least `near` of the words of both are common."""
    if len(files) < 2:
        return
    sentences = _sentences(files)
    common = Counter(word for words in sentences for word in words)
    seen: dict[tuple[str, int], list[Words]] = defaultdict(list)
    first = {words: places[0] for words, places in sentences.items()}
    for words, places in sentences.items():
        for place in places[1:]:
            if place.file != places[0].file:
                yield Finding(Kind.LEAK, place.file, str(place), f"as {places[0].file}, {places[0]}")
        # Two sets of which `near` is common share one of the rarest words of either; so many of them must be looked at.
        rarest = sorted(words, key=lambda word: (common[word], word))[: len(words) - math.ceil(near * len(words)) + 1]
        candidates = {id(other): other for word in rarest for other in seen[word]}
        for other in candidates.values():
            if first[other].file != first[words].file and len(words & other) >= near * len(words | other):
                yield Finding(
                    Kind.NEAR_LEAK, first[words].file, str(first[words]), f"as {first[other].file}, {first[other]}"
                )
        for word in rarest:
            seen[word].append(words)


def _sentences(files: Mapping[str, Sequence[Document]]) -> dict[Words, list[Place]]:
    """Where each sentence stands, in the order of files and documents."""
    found: dict[Words, list[Place]] = defaultdict(list)
    for file, documents in files.items():
        for document in documents:
            for i, sentence in enumerate(document.sentences, start=1):
                if len(sentence) >= SHORT:
                    number: Counter[str] = Counter()
                    words = []
                    for word in sentence.words:
                        small = word.casefold()
                        words.append((small, number[small]))
                        number[small] += 1
                    found[frozenset(words)].append(Place(file, document.id, i))
    return dict(found)
