"""Choose the texts of a corpus that read most like annotated ones.

python recipes/nearest.py CORPUS.txt ANNOTATED N OUT.txt
"""

from __future__ import annotations

from pathlib import Path

from script import run

from unire import formats
from unire.exceptions import UnireError
from unire.training.selection import nearest


def main(corpus: str, annotated: str, n: str, out: str) -> None:
    if int(n) < 1:
        raise UnireError(f"{n} texts cannot be chosen; give 1 or more")
    texts = Path(corpus).read_text(encoding="utf-8").splitlines()
    chosen = nearest(texts, (document.text for document in formats.read(annotated)), int(n))
    Path(out).write_text("\n".join(chosen) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, __doc__)
