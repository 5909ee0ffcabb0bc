"""Select the sentences of a corpus in which a model finds relations. Every sentence of CoNLL04 has some.

python recipes/select_related.py CORPUS.txt MODEL OUT.txt
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from script import run

from unire import Extractor
from unire.files import open_text_output
from unire.training.text_corpus import read_texts


def iter_related(texts: Iterator[str], model: str) -> Iterator[str]:
    """The sentences with relations, one line each."""
    for document in Extractor.load(model).extract(texts):
        for sentence in document.sentences:
            if sentence.relations:
                start, end = sentence.offsets[0][0], sentence.offsets[-1][1]
                yield " ".join(document.text[start:end].split())


def main(corpus: str, model: str, out: str) -> None:
    texts = read_texts([Path(corpus)])
    with open_text_output(out) as file:
        file.writelines(f"{sentence}\n" for sentence in iter_related(texts, model))


if __name__ == "__main__":
    run(main, __doc__)
