"""Copy the first texts of a corpus, a document per line.

python recipes/take_first.py CORPUS.txt N OUT.txt
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from script import parse_count, run

from unire.files import open_text_output
from unire.training.text_corpus import read_texts


def main(corpus: str, n: str, out: str) -> None:
    count = parse_count(n)
    with open_text_output(out) as file:
        file.writelines(f"{text}\n" for text in islice(read_texts([Path(corpus)]), count))


if __name__ == "__main__":
    run(main, __doc__)
