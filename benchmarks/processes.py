"""Do two processes train like one? The same training with one process and with two, on the CPU, for several seeds.

    python benchmarks/processes.py ENCODER TRAIN DEV TEST [--seeds 3] [OPTIONS OF unire train]

Prints the F1 on TEST of each model. Each is then scored again, by one process, and must have the very counts that its
training printed, however the documents were distributed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

LAUNCHERS = {1: (), 2: ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")}
ENVIRONMENT = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}


def unire(*arguments: object, processes: int = 1) -> dict[str, Any]:
    line = [sys.executable, *LAUNCHERS[processes], "-m", "unire", *map(str, arguments), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, env=ENVIRONMENT).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder")
    for name in ("train", "dev", "test"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments, more = parser.parse_known_args()
    data = ("--data", arguments.train, "--dev", arguments.dev, "--test", arguments.test)
    f1: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            for processes, found in f1.items():
                out = Path(folder) / f"{processes}-{seed}"
                options = ("--encoder", arguments.encoder, *data, "--seed", seed, "--out", out, *more)
                scores = unire("train", *options, processes=processes)["scores"]["test"]
                again = unire("evaluate", "--model", out, "--data", arguments.test, "--device", "cpu")["scores"]
                assert scores["entities"] == again["entities"], "other entities were counted"
                assert scores["relations"] == again["relations"], "other relations were counted"
                found.append((100 * scores["entities"]["f1"], 100 * scores["relations"]["f1"]))
                counts = {
                    part: [scores[part][n] for n in ("true_positives", "predicted", "gold")]
                    for part in ("entities", "relations")
                }
                print(
                    f"{processes} process(es), seed {seed}: Ent {found[-1][0]:.1f}  Rel {found[-1][1]:.1f}  {counts}",
                    flush=True,
                )
    for processes, found in f1.items():
        ent, rel = (mean(each) for each in zip(*found, strict=True))
        print(f"{processes} process(es), mean: Ent {ent:.1f}  Rel {rel:.1f}")


if __name__ == "__main__":
    main()
