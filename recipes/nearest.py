"""Choose the texts of a corpus, a document per line, that read most like annotated ones.

python recipes/nearest.py CORPUS.txt ANNOTATED N OUT.txt
"""

from __future__ import annotations

from pathlib import Path

from script import number, run

from unire import formats
from unire.exceptions import UnireError
from unire.files import text_output
from unire.training.selection import nearest
from unire.training.text_files import read_documents


def main(corpus: str, annotated: str, n: str, out: str) -> None:
    count = number(int, "N", n)
    if count < 1:
        raise UnireError(f"{n} texts cannot be chosen; give 1 or more")
    texts = list(read_documents([Path(corpus)]))
    chosen = nearest(texts, (document.text for document in formats.read(annotated)), count)
    with text_output(out) as file:
        file.writelines(f"{text}\n" for text in chosen)


if __name__ == "__main__":
    run(main, __doc__)
