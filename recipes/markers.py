"""Train a marker model, which names relations between given entities, as a cell of the study `pipeline` does.

python recipes/markers.py exact|approximate ENCODER TRAIN DEV LABELS SEED [NAME=VALUE...] OUT

NAME is a setting of `PipelineConfig` or of `TrainingConfig`, whose preset is `best`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields
from pathlib import Path

from script import number, run

from unire.cli.training import changes_from
from unire.exceptions import UnireError
from unire.files import check_new
from unire.labels import LabelSpace
from unire.studies.pipeline.cells import MARKED, Cell
from unire.studies.pipeline.config import PipelineConfig
from unire.training import TrainingConfig


def main(way: str, encoder: str, train: str, dev: str, labels: str, seed: str, word: str, *more: str) -> None:
    *settings, out = word, *more
    if way not in MARKED:
        raise UnireError(f"there is no marker model {way!r}; there are {' and '.join(MARKED)}")
    check_new(out)
    changes = changes_from("a setting", settings, seed=number(int, "SEED", seed))
    pipeline = {field.name: changes.pop(field.name) for field in fields(PipelineConfig) if field.name in changes}
    training = TrainingConfig.from_preset("best", **changes)
    cell = Cell(
        part=way,
        encoder=str(Path(encoder).resolve()) if Path(encoder).exists() else encoder,
        data=[train],
        dev=[dev],
        test=[],
        format=None,
        labels=LabelSpace.load(labels).to_dict(),
        training=asdict(training),
        pipeline=asdict(PipelineConfig(**pipeline)),
        folder=out,
    )
    printed = cell.run(tell=lambda line: print(line, file=sys.stderr, flush=True))
    if not printed["history"]:
        raise UnireError("; ".join(printed["notes"]))
    best = max(epoch["dev"] for epoch in printed["history"])  # that of the epoch that was kept
    print(json.dumps({"dev_rel_f1_between_gold_entities": best, **printed}))


if __name__ == "__main__":
    run(main, __doc__)
