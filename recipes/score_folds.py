"""Score the models of a cross-validation twice: on all sentences, and without sentences with overlapping entities.

python recipes/score_folds.py DATA FOLDS MODELS

MODELS is the output folder of `unire train --data DATA --folds FOLDS`. Prints JSON: the macro averages,
averaged over folds.
"""

from __future__ import annotations

import json
from pathlib import Path

from script import run

from unire import Extractor, formats
from unire.analysis.splits import read_folds, split_folds
from unire.evaluation.scorer import score
from unire.evaluation.scores import Protocol
from unire.training.cross_validation import over_folds


def main(data: str, folds: str, models: str) -> None:
    parts = list(split_folds(list(formats.read(data)), read_folds(Path(folds))))
    results = []
    for number, part in enumerate(parts, start=1):
        extractor = Extractor.load(Path(models) / f"fold-{number:02d}")
        results.append((part.test, list(extractor.annotate(part.test)), extractor.labels))
    protocols = {}
    for protocol in (Protocol(average="macro", drop_overlapping=drop) for drop in (False, True)):
        scores = [score(gold, predicted, labels, protocol) for gold, predicted, labels in results]
        protocols[protocol.name] = {**over_folds(scores, "macro"), "dropped": sum(one.dropped for one in scores)}
    print(json.dumps({"protocols": protocols}))


if __name__ == "__main__":
    run(main, __doc__)
