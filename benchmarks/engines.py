"""How fast are the engines on this machine's CPU? Sentences per second, all from one run.

    python benchmarks/engines.py --encoder ENCODER --data FILE [--json FILE]

A model with a random head on `ENCODER` is exported twice, in fp32 and in int8. PyTorch, onnxruntime in fp32 and
onnxruntime in int8 then compute the tables of the same documents: in shared windows, as the extractor does it, and
sentence by sentence, without context. Tokenizing and decoding do not count. The engines take turns. The figures are
those of the best rounds, and in brackets those of the median rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch

from timing import race
from unire import Document, LabelSpace, TrainingConfig, formats
from unire.export.onnx_graph import write_graph
from unire.inference.engine import Engine
from unire.inference.onnx_engine import OnnxEngine
from unire.inference.torch_engine import TorchEngine
from unire.models.unire import UniRE
from unire.training.train import init_model
from unire.windows.collator import bucket_groups, collate
from unire.windows.windows import WindowBuilder

LABELS = LabelSpace.load("scierc")


def contestants(model: UniRE, folder: Path) -> dict[str, Engine]:
    engines: dict[str, Engine] = {"torch fp32": TorchEngine(model, max_batch_tokens=4096)}
    for precision in ("fp32", "int8"):
        (folder / precision).mkdir()
        write_graph(model, folder / precision, precision)  # type: ignore[arg-type]
        engines[f"onnx {precision}"] = OnnxEngine(folder / precision)
    return engines


def runs(
    engines: dict[str, Engine], model: UniRE, documents: Sequence[Document], window: int
) -> dict[str, Callable[[], object]]:
    """How each engine fills the tables of all documents."""
    window_builder = WindowBuilder(model.tokenizer, model.config.spec, layout="shared", window=window)
    groups = [group for i, document in enumerate(documents) for group in window_builder.build([document], i)]

    def run(engine: Engine) -> Callable[[], object]:
        batches = [
            collate(bucket, model.config.spec)
            for bucket in bucket_groups(groups, max_cells=engine.max_cells, max_tokens=engine.max_batch_tokens)
        ]
        return lambda: [engine.predict_tables(batch) for batch in batches]

    return {name: run(engine) for name, engine in engines.items()}


def report(title: str, seconds: dict[str, list[float]], sentences: int) -> dict[str, Any]:
    """Of each engine, the best round and the median one."""
    print(f"\n{title}")
    times = {name: (min(rounds), statistics.median(rounds)) for name, rounds in seconds.items()}
    slowest = times["torch fp32"]
    results = {}
    for name, (best, median) in times.items():
        ratio = (slowest[0] / best, slowest[1] / median)
        print(f"  {name:<12} {sentences / best:7.0f} sentences/s [{sentences / median:5.0f}]  ", end="")
        print(f"{ratio[0]:5.1f}× torch [{ratio[1]:.1f}×]")
        results[name] = {"sentences_per_second": sentences / best, "median": sentences / median, "ratio": ratio[0]}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    arguments = parser.parse_args()

    documents = list(formats.read(arguments.data))
    sentences = sum(len(document.sentences) for document in documents)
    model = init_model(arguments.encoder, LABELS, TrainingConfig()).eval()
    torch.nn.init.normal_(model.biaffine.U, std=0.02)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"{sentences} sentences, {torch.get_num_threads()} cores, Python {platform.python_version()}, ", end="")
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        engines = contestants(model, Path(folder))
        results = {
            title: report(title, race(runs(engines, model, documents, window), arguments.rounds), sentences)
            for title, window in (("shared windows", 200), ("one sentence per window", 0))
        }
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
