"""Copy the texts of a corpus, a document per line, that share no text with evaluation data.

    python recipes/drop_overlaps.py CORPUS.txt OUT.txt EVALUATION…

EVALUATION are annotated files, such as dev and test. Two texts overlap if they share two n-grams of eight words, as in
`unire distill`, which drops such texts itself. `unire adapt` and `unire teach` do not. A short evaluation text, such as
a sentence of CoNLL04, must be equal. Prints how many texts were dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from script import run

from unire import formats
from unire.errors import UnireError
from unire.files import open_text_output
from unire.training.text_corpus import OverlapFilter, read_texts


def iter_clean(texts: Iterable[str], overlap_filter: OverlapFilter, dropped: list[str]) -> Iterator[str]:
    """The texts without overlap. The others are added to `dropped`."""
    for text in texts:
        if text in overlap_filter:
            dropped.append(text)
        else:
            yield text


def main(corpus: str, out: str, *evaluation: str) -> None:
    if not evaluation:
        raise UnireError("name the evaluation data after OUT.txt")
    overlap_filter = OverlapFilter(document.text for file in evaluation for document in formats.read(file))
    dropped: list[str] = []
    kept = 0
    with open_text_output(out) as file:
        for text in iter_clean(read_texts([Path(corpus)]), overlap_filter, dropped):
            file.write(f"{text}\n")
            kept += 1
    print(f"kept {kept:,} texts, dropped {len(dropped):,}")


if __name__ == "__main__":
    run(main, __doc__)
