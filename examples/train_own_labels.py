"""Train a model on your own labels, evaluate it, and extract with it.

    python examples/train_own_labels.py annotated.json --encoder bert-base-uncased --out models/mine

The data can be in any format that `unire` reads: brat, Label Studio, Prodigy, spaCy, SpERT, DyGIE++ and others. The
entity and relation types are learnt from it. Needs `pip install "unire[train]"`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from unire import Extractor, LabelSpace, TrainingConfig, evaluate, formats, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="Annotated file or folder.")
    parser.add_argument("--encoder", required=True, help="Pretrained encoder: Hub name or folder.")
    parser.add_argument("--out", type=Path, required=True, help="New folder for the model.")
    parser.add_argument("--epochs", type=int, default=60, help="[default: 60]")
    args = parser.parse_args()

    documents = list(formats.read(args.data))
    labels = LabelSpace.learn(documents)
    print("entity types:", ", ".join(labels.entity_types))
    print("relation types:", ", ".join(labels.relation_types))

    # Every fifth document is for dev: it selects the best epoch and calibrates the scores.
    dev = documents[::5]
    training = [document for i, document in enumerate(documents) if i % 5]
    config = TrainingConfig.from_preset("best", epochs=args.epochs, evaluate_after=0)
    train(args.encoder, training, dev=dev, labels=labels, config=config, out=args.out)

    print(evaluate(args.out, dev))
    print(Extractor.load(args.out).extract(dev[0].text))


if __name__ == "__main__":
    main()
