"""Choose the texts of a corpus, a document per line, that read most like annotated ones.

python recipes/nearest.py CORPUS.txt ANNOTATED N OUT.txt
"""

from __future__ import annotations

from pathlib import Path

from script import how_many, run

from unire import formats
from unire.files import open_text_output
from unire.training.text_corpus import read_documents, select_similar


def main(corpus: str, annotated: str, n: str, out: str) -> None:
    count = how_many(n)
    texts = list(read_documents([Path(corpus)]))
    chosen = select_similar(texts, (document.text for document in formats.read(annotated)), count)
    with open_text_output(out) as file:
        file.writelines(f"{text}\n" for text in chosen)


if __name__ == "__main__":
    run(main, __doc__)
