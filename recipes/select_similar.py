"""Select the texts of a corpus, a document per line, that are most similar to annotated ones.

python recipes/select_similar.py CORPUS.txt ANNOTATED N OUT.txt
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from script import parse_count, run

from unire import formats
from unire.errors import UnireError
from unire.files import open_text_output
from unire.training.text_corpus import read_texts

MIN_WORDS = 40
"""Shorter texts are not judged."""


def select_similar(corpus: Sequence[str], like: Iterable[str], n: int) -> list[str]:
    """The `n` texts of `corpus` that are most similar to the texts `like`, in the order of the corpus.

    The similarity is the mean log-ratio of each word's frequency in `like` and in the corpus (cross-entropy difference
    of unigram models; Moore & Lewis, 2010). Texts that are too short come last. Only words of the letters a to z count.
    """
    near = Counter(word for text in like for word in _words(text))
    if not near:
        raise UnireError("there are no words of the letters a to z in the texts that others are compared with")
    far = Counter(word for text in corpus for word in _words(text))
    n_near, n_far = near.total(), far.total()
    # smoothing: a tenth of the words of `like` are taken to be distributed as in the corpus
    ratio = {word: math.log((near[word] * n_far / (n_near * count) + 0.1) / 1.1) for word, count in far.items()}

    def similarity(place: int) -> float:
        words = _words(corpus[place])
        return sum(ratio[word] for word in words) / len(words) if len(words) >= MIN_WORDS else -math.inf

    return [corpus[place] for place in sorted(heapq.nlargest(n, range(len(corpus)), key=similarity))]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def main(corpus: str, annotated: str, n: str, out: str) -> None:
    count = parse_count(n)
    texts = list(read_texts([Path(corpus)]))
    selected = select_similar(texts, (document.text for document in formats.read(annotated)), count)
    with open_text_output(out) as file:
        file.writelines(f"{text}\n" for text in selected)


if __name__ == "__main__":
    run(main, __doc__)
