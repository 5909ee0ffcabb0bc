"""Which documents of a large corpus are most like some others."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from unire.exceptions import UnireError

__all__ = ["nearest"]

SHORTEST = 40
"""Words of a text that can be judged."""


def nearest(corpus: Sequence[str], like: Iterable[str], n: int) -> list[str]:
    """The `n` texts of `corpus` that read most like the texts `like`, in the order of the corpus.

    A text is the nearer, the likelier its words are on average in `like` than in the corpus. Texts too short to be
    judged come last. Words are of the letters a to z.
    """
    near = Counter(word for text in like for word in _words(text))
    if not near:
        raise UnireError("there are no words of the letters a to z in the texts that others are to be like")
    far = Counter(word for text in corpus for word in _words(text))
    n_near, n_far = near.total(), far.total()
    # a tenth of the words of `like` are taken to be spread as in the corpus, so that none of them is impossible there
    ratio = {word: math.log((near[word] * n_far / (n_near * count) + 0.1) / 1.1) for word, count in far.items()}

    def likeness(place: int) -> float:
        words = _words(corpus[place])
        return sum(ratio[word] for word in words) / len(words) if len(words) >= SHORTEST else -math.inf

    return [corpus[place] for place in sorted(heapq.nlargest(n, range(len(corpus)), key=likeness))]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())
