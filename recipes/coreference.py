"""Add coreference to a model, as the bundled `science` got it.

    python recipes/coreference.py MODEL DATA OUT

DATA holds `train.json`, `dev.json` and `test.json` with clusters, as SciERC has them. The weights of the model do not
change. Prints the scores of the clusters of predicted entities.
"""

from __future__ import annotations

import json
from pathlib import Path

from script import run

from unire import read_documents
from unire.training.coreference import add_coreference


def main(model: str, data: str, out: str) -> None:
    train, dev, test = (read_documents(Path(data) / f"{part}.json") for part in ("train", "dev", "test"))
    name = f"{Path(data).name}/train.json"
    print(json.dumps(add_coreference(model, train, dev=dev, test=test, out=out, data=[name]), indent=2))


if __name__ == "__main__":
    run(main, __doc__)
