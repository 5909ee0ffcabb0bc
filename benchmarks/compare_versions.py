"""Is one version of the code slower than another? Both are measured in one run, alternately.

    python benchmarks/compare_versions.py cpu DATA --baseline v0.1.0
    python benchmarks/compare_versions.py gpu DATA --baseline v0.1.0 --rounds 7 --only shared,training
    python benchmarks/compare_versions.py cpu DATA --baseline-source /tmp/old/src --source src --json speed.json

DATA is an annotated file, for example SciERC's test set. Every measurement runs in a fresh process, old and new in
turns, so that other load on the machine affects both. The table shows medians with the range of all rounds, and the
speed of the new code relative to the old: above 1 is faster. That ratio is the median over pairs of neighbours.

| mode | measurement | what is timed |
|---|---|---|
| `cpu` | `extraction` | raw text to documents with the bundled model `science`, in sentences per second |
| `cpu` | `training` | steps of one epoch with a small random BERT, in steps per second |
| `cpu` | `first-result` | `unire extract "one sentence"`, from the start of the process to its end |
| `host` | as `gpu` | the same on a CPU with an encoder that costs almost nothing: the work of the host |
| `gpu` | `window-per-sentence` | words to documents, BERT-base, layout `in-place`, in sentences per second |
| `gpu` | `shared` | the same with the layout `shared` |
| `gpu` | `training` | steps of one epoch of BERT-base, in steps per second |

Encoders have random weights and the vocabulary of `science`. The models of the modes `host` and `gpu` are trained for
one epoch by the old code, so that both versions load the same checkpoint. `--model` measures a trained model instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

SENTENCE = "We train a parser on the Penn Treebank."
SIZES = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 32},
    "small": {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
"""Shapes of the random encoders."""


@dataclass(frozen=True)
class Job:
    """One measurement, as its process receives it."""

    kind: str
    data: str
    repeat: int
    threads: int
    encoder: str = ""
    model: str = "science"
    device: str = "cpu"


def measure_extraction(job: Job) -> float:
    """Sentences per second, from raw text to documents."""
    from unire import Extractor, formats

    texts = [document.text for document in formats.read(job.data)] * job.repeat
    extractor = Extractor.load(job.model, device=job.device)
    list(extractor.extract(texts[:20]))
    began = time.perf_counter()
    sentences = sum(len(document.sentences) for document in extractor.extract(texts))
    return sentences / (time.perf_counter() - began)


def measure_annotation(job: Job) -> float:
    """Sentences per second, from words to documents. The warm-up is long enough to record all CUDA graphs."""
    from unire import Extractor, formats

    documents = list(formats.read(job.data))
    extractor = Extractor.load(job.model, device=job.device)
    for _ in range(3):
        list(extractor.annotate(documents))
    began = time.perf_counter()
    sentences = sum(len(document.sentences) for document in extractor.annotate(documents * job.repeat))
    return sentences / (time.perf_counter() - began)


def measure_training(job: Job) -> float:
    """Optimizer steps per second after the first few."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from unire import LabelSpace, TrainingConfig, formats, train

    ends: list[float] = []
    optimizers: list[Any] = []

    def on_step(optimizer: Any, *_: Any) -> None:
        optimizers.append(optimizer)
        if optimizer is optimizers[0]:  # and not that of the scorer of coreference
            ends.append(time.perf_counter())

    hook = register_optimizer_step_post_hook(on_step)
    documents = list(formats.read(job.data)) * job.repeat
    config = TrainingConfig.from_preset("best", epochs=1, batch_size=16, evaluate_after=0, tune_odds=False)
    with tempfile.TemporaryDirectory() as folder:
        train(job.encoder, documents, labels=LabelSpace.learn(documents), config=config, out=Path(folder) / "model")
    hook.remove()
    warm = ends[min(3, len(ends) - 2) :]
    return (len(warm) - 1) / (warm[-1] - warm[0])


def measure_first_result(job: Job) -> float:
    """Runs per second of the command; the inverse of its time."""
    command = [sys.executable, "-m", "unire", "extract", SENTENCE, "--device", "cpu"]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return 1 / (time.perf_counter() - began)


MEASUREMENTS: dict[str, Callable[[Job], float]] = {
    "extraction": measure_extraction,
    "training": measure_training,
    "first-result": measure_first_result,
    "window-per-sentence": measure_annotation,
    "shared": measure_annotation,
}
MODES = {
    "cpu": ("extraction", "training", "first-result"),
    "host": ("window-per-sentence", "shared", "training"),
    "gpu": ("window-per-sentence", "shared", "training"),
}
ENCODERS = {"cpu": "small", "host": "tiny", "gpu": "base"}
"""The size of the random encoder in each mode."""


def build_encoder(folder: Path, size: str) -> Path:
    """Save a BERT with random weights and the tokenizer of the bundled model `science`."""
    import torch
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    bundled = Path(__file__).resolve().parents[1] / "src" / "unire" / "pretrained" / "science" / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(bundled))
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=tokenizer.get_vocab_size(), **SIZES[size])).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "unk", "mask")},
        model_max_length=512,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    return folder


def train_model(source: Path, job: Job, layout: str, out: Path) -> Path:
    """Train a model for one epoch with the code in `source`."""
    command = [sys.executable, "-m", "unire", "train", "--encoder", job.encoder, "--data", job.data, "--out", str(out)]
    options = ["--layout", layout, "--epochs", "1", "--json"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL, env=environment(source, job))
    return out


def environment(source: Path, job: Job) -> dict[str, str]:
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if job.device == "cpu" else {}
    threads = {"OMP_NUM_THREADS": str(job.threads), "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, "PYTHONPATH": str(source), **threads, **hidden}


def run_job(source: Path, job: Job) -> float:
    """Measure in a fresh process that imports `unire` from `source`."""
    command = [sys.executable, __file__, "--worker", json.dumps(vars(job))]
    ran = subprocess.run(command, env=environment(source, job), stdout=subprocess.PIPE, text=True, check=True)
    return float(ran.stdout.splitlines()[-1])


def compare(trees: dict[str, Path], job: Job, rounds: int) -> dict[str, Any]:
    """Measure both trees alternately. The order is swapped in every round."""
    speeds: dict[str, list[float]] = {name: [] for name in trees}
    for turn in range(rounds):
        for name in list(trees) if turn % 2 == 0 else reversed(trees):
            speeds[name].append(run_job(trees[name], job))
    old, new = speeds.values()
    ratios = [b / a for a, b in zip(old, new, strict=True)]
    return {"old": old, "new": new, "ratios": ratios, "ratio": median(ratios)}


def format_range(values: list[float], unit: str = "") -> str:
    return f"{median(values):.4g}{unit} ({min(values):.4g}–{max(values):.4g})"


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        job = Job(**json.loads(sys.argv[2]))
        print(MEASUREMENTS[job.kind](job))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("data", type=Path, help="Annotated file.")
    old = parser.add_mutually_exclusive_group(required=True)
    old.add_argument("--baseline", metavar="REF", help="Git revision of the old code.")
    old.add_argument("--baseline-source", type=Path, metavar="DIR", help="Folder that holds the old package.")
    parser.add_argument("--source", type=Path, help="Folder that holds the new package. [default: src]")
    parser.add_argument("--rounds", type=int, default=5, help="Measurements of each version. [default: 5]")
    parser.add_argument("--repeat", type=int, default=1, help="Read the data this many times. [default: 1]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="Threads. [default: all]")
    parser.add_argument("--model", help="Measure extraction with this model.")
    parser.add_argument("--only", default="", metavar="A,B", help="Run these measurements only.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Also write all figures to this file.")
    asked = parser.parse_args()
    chosen = [name for name in MODES[asked.mode] if not asked.only or name in asked.only.split(",")]
    if asked.mode == "gpu":
        import torch

        if not torch.cuda.is_available():
            parser.error("the mode gpu needs a CUDA device")
    from golden import source_of

    results = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = {
            "old": stack.enter_context(source_of(asked.baseline_source, asked.baseline)),
            "new": stack.enter_context(source_of(asked.source, None)),
        }
        device = "cuda" if asked.mode == "gpu" else "cpu"
        shared = {"data": str(asked.data.resolve()), "repeat": asked.repeat, "threads": asked.threads, "device": device}
        encoder = str(build_encoder(folder / "encoder", ENCODERS[asked.mode]))
        print(f"| {asked.mode} | old | new | speed new/old |\n|---|---|---|---|")
        for name in chosen:
            job = Job(name, encoder=encoder, model=asked.model or "science", **shared)
            if name in ("window-per-sentence", "shared") and not asked.model:
                layout = "shared" if name == "shared" else "in-place"
                model = train_model(trees["old"], job, layout, folder / name)
                job = Job(name, encoder=encoder, model=str(model), **shared)
            result = results[name] = compare(trees, job, asked.rounds)
            unit = {"training": " steps/s", "first-result": " runs/s"}.get(name, " sentences/s")
            cells = [name, format_range(result["old"], unit), format_range(result["new"], unit)]
            print("|", " | ".join([*cells, format_range(result["ratios"])]), "|", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
