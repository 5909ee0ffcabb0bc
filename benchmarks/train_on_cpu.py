"""Train on part of a data set for some minutes on a few cores, and score on test; or the same sentences on a GPU.

    UNIRE_DATA=… python benchmarks/train_on_cpu.py conll04 200 --encoder science --seed 1 --minutes 8.5 --cores 2
    UNIRE_DATA=… python benchmarks/train_on_cpu.py conll04 200 --encoder science --seed 1 --gpu

Prints one line of JSON. The sentences are whole documents in a random order, until there are enough of them. All of dev
and test is used. Of ADE, 230 sentences become dev and 600 test.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SPLIT_SEED = 7
"""Seed of ADE's split."""


def read_parts(data: Path, name: str) -> list[list[dict[str, Any]]]:
    """The records of train, dev and test."""
    if name == "ade":
        records = json.loads((data / "ade" / "ade_full.json").read_text())
        random.Random(SPLIT_SEED).shuffle(records)
        return [records[830:], records[:230], records[230:830]]
    parts = []
    for part in ("train", "dev", "test"):
        text = (data / name / f"{part}.json").read_text()
        parts.append([json.loads(line) for line in text.splitlines()] if name == "scierc" else json.loads(text))
    return parts


def sample(records: list[dict[str, Any]], n_sentences: int, seed: int) -> list[dict[str, Any]]:
    """Documents in a random order, until there are `n_sentences`."""
    shuffled = list(records)
    random.Random(seed).shuffle(shuffled)
    chosen: list[dict[str, Any]] = []
    for record in shuffled:
        if n_sentences <= 0:
            break
        chosen.append(record)
        n_sentences -= len(record["sentences"]) if "sentences" in record else 1
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["scierc", "conll04", "ade"])
    parser.add_argument("sentences", type=int)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="Preset best, 60 epochs, no time limit.")
    options, settings = parser.parse_known_args()  # all other options are those of `unire train`
    with tempfile.TemporaryDirectory() as folder:
        train, dev, test = read_parts(Path(os.environ["UNIRE_DATA"]), options.name)
        files = {"data": sample(train, options.sentences, options.seed), "dev": dev, "test": test}
        command = [sys.executable, "-m", "unire", "train", "--labels", options.name, "--encoder", options.encoder]
        command += ["--seed", str(options.seed), "--out", f"{folder}/model", "--json", *settings]
        command += ["--preset", "best"] if options.gpu else ["--minutes", str(options.minutes)]
        for part, records in files.items():
            path = Path(folder) / f"{part}.json"
            lines = "\n".join(map(json.dumps, records))
            path.write_text(lines if options.name == "scierc" else json.dumps(records))
            command += [f"--{part}", str(path)]
        threads = {"OMP_NUM_THREADS": str(options.cores)}
        limits = {} if options.gpu else {"CUDA_VISIBLE_DEVICES": "", **threads}
        began = time.monotonic()
        if not options.gpu and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        run = subprocess.run(command, env=os.environ | limits, stdout=subprocess.PIPE, text=True, check=True)
        seconds = time.monotonic() - began
    result = json.loads(run.stdout)
    scores = {
        part: [round(100 * counts[kind]["f1"], 2) for kind in ("entities", "relations")]
        for part, counts in result["scores"].items()
    }
    epochs = result["history"][-1]["epoch"]
    print(json.dumps({**vars(options), "settings": settings, **scores, "epochs": epochs, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
