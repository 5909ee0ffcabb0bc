"""Peak memory and speed of training, by layout and precision, on one GPU (or, slowly, a CPU).

    python benchmarks/training.py --encoder DIR --data train.json [--layouts shared] [--precisions bf16] [--epochs 99]
    python benchmarks/training.py --encoder DIR --data train.json --labels conll04 --window 0 --layouts shared --padded

100 epochs are the first, in which CUDA graphs are recorded, and 99 times the mean of the others (`--epochs`).

The paper's setting is a batch of 32 sentences, W = 200, a base-size encoder. A GPU is given the windows of a step one
behind the other in rows, with less padding; `--padded` measures a row for every window, too. What that saves is
counted first, wherever this runs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from unire import Extractor, formats
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import TrainingConfig
from unire.training.dataset import TrainingSet
from unire.training.tasks import TableTask
from unire.training.train import init_model
from unire.training.trainer import Trainer


class EpochTimes(Callback):
    """The time of every epoch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        self._began = time.perf_counter()

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        now = time.perf_counter()  # the loss of the epoch was read, so the GPU is done
        self.seconds.append(now - self._began)
        self._began = now


def measure(
    encoder: str, documents: list, labels: LabelSpace, layout: str, window: int, bf16: bool, epochs: int, padded: bool
) -> dict:
    AcceleratorState._reset_state(reset_partial_state=True)  # one process measures several precisions
    config = TrainingConfig.from_preset("paper", layout=layout, window=window, bf16=bf16, epochs=epochs + 1)
    accelerator = Accelerator(mixed_precision="bf16" if bf16 else "no")
    model = init_model(encoder, labels, config).to(accelerator.device)
    task = TableTask(model, documents, [], config, accelerator)
    if padded:  # a row for every window, also where they could be packed
        task._batching = lambda record: ("fixed" if record else "exact", None)
    cuda = accelerator.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = EpochTimes()
    Trainer(task, callbacks=[times]).fit(Interrupt())
    first, *others = times.seconds  # the first epoch meets every shape for the first time
    seconds = sum(others) / len(others)
    n_tables = sum(len(group.table_spans) for group in task.data.groups)
    return {
        "layout": layout,
        "window": window,
        "precision": "bf16" if bf16 else "fp32",
        "padded": padded,
        "first_epoch_seconds": first,
        "seconds_per_epoch": seconds,
        "seconds_for_100_epochs": first + 99 * seconds,
        "sentences_per_second": n_tables / seconds,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
        "reserved_gb": torch.cuda.max_memory_reserved() / 1e9 if cuda else None,
    }


def count_tokens(encoder: str, documents: list, labels: LabelSpace, layout: str, window: int) -> str:
    """How many tokens a GPU computes in an epoch, and how many there are."""
    config = TrainingConfig.from_preset("paper", layout=layout, window=window)
    model = init_model(encoder, labels, config)
    window_builder = Extractor(TorchEngine(model), model.tokenizer, model.config, labels).window_builder
    data = TrainingSet(documents, labels, window_builder, config)
    found = {}
    for name, padding, max_padding in (
        ("padded", "fixed", None),
        ("cut by length", "fixed", 1024),
        ("packed", "packed", None),
    ):
        data.padding, data.max_padding = padding, max_padding
        batches = [gold.batch for groups in data.steps(0) for gold in data.step(groups).batches]
        found[name] = sum(batch.input_ids.size for batch in batches), len(batches)
    there = sum(len(window.tokens) for group in data.groups for window in group.windows)
    ways = (f"{name} {tokens:,} in {n:,} batches" for name, (tokens, n) in found.items())
    return f"{layout}: an epoch has {there:,} tokens; {', '.join(ways)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--labels", default="scierc")
    parser.add_argument("--window", type=int, default=200)
    parser.add_argument("--padded", action="store_true", help="also with a row for every window, all in one batch")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--layouts", default="in-place,released,shared")
    parser.add_argument("--precisions", default="bf16,fp32" if torch.cuda.is_available() else "fp32")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    documents, labels = list(formats.read(arguments.data)), LabelSpace.load(arguments.labels)
    rows = []
    layouts, precisions = arguments.layouts.split(","), arguments.precisions.split(",")
    for layout in layouts:
        print(count_tokens(arguments.encoder, documents, labels, layout, arguments.window))
    for layout, precision, padded in product(layouts, precisions, [True, False] if arguments.padded else [False]):
        window, epochs = arguments.window, arguments.epochs
        row = measure(arguments.encoder, documents, labels, layout, window, precision == "bf16", epochs, padded)
        rows.append(row)
        memory = f"peak {row['peak_gb']:.1f} GB" if row["peak_gb"] is not None else ""
        print(
            f"{layout:>9} {row['precision']}{', padded' if padded else ''}: "
            f"{row['sentences_per_second']:7.0f} sentences/s, "
            f"100 epochs in {row['seconds_for_100_epochs']:6.1f} s, "
            f"{row['sentences_per_second'] / rows[0]['sentences_per_second']:.2f}x the first row  {memory}"
        )
        torch.cuda.empty_cache()
        if arguments.json:  # what is measured is kept, also if the next takes too long
            arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
