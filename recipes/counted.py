"""Score the models of a cross-validation in two ways: on all sentences, and without those of overlapping entities.

python recipes/counted.py DATA FOLDS MODELS

MODELS is the folder that `unire train --folds FOLDS` has made of DATA. Prints JSON: the means over
folds of their macro averages.
"""

from __future__ import annotations

import json
from pathlib import Path

from script import run

from unire import Extractor, formats
from unire.analysis.splits import read_folds, split_folds
from unire.evaluation.protocol import Protocol
from unire.evaluation.scorer import score
from unire.training.cross_validation import over_folds


def main(data: str, folds: str, models: str) -> None:
    parts = list(split_folds(list(formats.read(data)), read_folds(Path(folds))))
    found = []
    for number, part in enumerate(parts, start=1):
        extractor = Extractor.load(Path(models) / f"fold-{number:02d}")
        found.append((part.test, list(extractor.annotate(part.test)), extractor.labels))
    counted = {}
    for protocol in (Protocol(average="macro", drop_overlapping=drop) for drop in (False, True)):
        scores = [score(gold, predicted, labels, protocol) for gold, predicted, labels in found]
        counted[protocol.name] = {**over_folds(scores, "macro"), "dropped": sum(one.dropped for one in scores)}
    print(json.dumps({"protocols": counted}))


if __name__ == "__main__":
    run(main, __doc__)
