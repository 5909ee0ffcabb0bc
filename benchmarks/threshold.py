"""Compare the time of the sweep of `unire study threshold` with one pass over the same documents.

    python benchmarks/threshold.py --data FILE [--model NAME] [--rounds 5]

A pass is `Extractor.annotate`: entities and relations for one α. The study is everything that its command computes
after reading the data: distances, and scores for 50 values of α. The two take turns; the best round of each counts.
"""

from __future__ import annotations

import argparse

from timing import race
from unire import Extractor, formats
from unire.studies.threshold import ALPHAS, threshold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="science")
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    extractor = Extractor.load(arguments.model, device=arguments.device)
    documents = list(formats.read(arguments.data))
    times = race(
        {"pass": lambda: list(extractor.annotate(documents)), "study": lambda: threshold(extractor, documents)},
        arguments.rounds,
    )
    one, study = map(min, times.values())
    n = sum(len(document.sentences) for document in documents)
    print(f"{n:,} sentences, {arguments.model}: a pass {one:.2f} s; {len(ALPHAS)} values of α {study:.2f} s,", end=" ")
    print(f"{study / one:.2f} passes")


if __name__ == "__main__":
    main()
