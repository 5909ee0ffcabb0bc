"""Choose the sentences of a corpus in which a model finds relations, as every sentence of CoNLL04 has some.

python recipes/related.py CORPUS.txt MODEL OUT.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from unire import Extractor


def related(texts: Iterator[str], model: str) -> Iterator[str]:
    """The sentences with relations, a text of one line each."""
    for document in Extractor.load(model).extract(texts):
        for sentence in document.sentences:
            if sentence.relations:
                start, end = sentence.offsets[0][0], sentence.offsets[-1][1]
                yield " ".join(document.text[start:end].split())


def main() -> None:
    corpus, model, out = sys.argv[1:]
    with Path(corpus).open(encoding="utf-8") as texts, Path(out).open("w", encoding="utf-8") as chosen:
        chosen.writelines(f"{sentence}\n" for sentence in related(texts, model))


if __name__ == "__main__":
    main()
