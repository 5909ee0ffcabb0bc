"""Kills every command at random points, runs it again until it is done, and compares what it has written.

    python benchmarks/chaos_kills.py [--kills 200] [--seed 0] [--only NAME ...] [--saves 3000] [--folder FOLDER]

Half of the kills come at a random time, half before a random operation of the file system: `kill -9`, of the command,
or on a Ray cluster also of a worker or of the process of the node. Nothing may be lost, duplicated or left behind, and
the output must be byte-identical to that of an undisturbed run, except for times. `--saves N` first lets one process
load a model while another saves it N times.

Inputs are tiny, and made on the fly. With 200 kills it takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.chaos import build_inputs, exercise, load_while_saving, scenarios
from unire.extractor import Extractor
from unire.hub.model_dir import copy_model, fingerprint
from unire.models.unire import UniRE

SHARES = {"ray": 0.1, "extract": 0.12, "train": 0.12, "distill": 0.08, "save": 0.1}
"""Share of the kills for some scenarios; the others share the rest."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="scenarios, each of which gets all the kills")
    parser.add_argument("--saves", type=int, default=3000, help="saves while another process loads")
    parser.add_argument("--minutes", type=float, default=1e9, help="longest time for a scenario, about")
    parser.add_argument("--folder", type=Path, help="keeps the inputs and the failed runs")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    inputs = build_inputs(folder / "inputs")
    if arguments.saves:
        save_and_load(folder, inputs, arguments.saves)
    every = scenarios(inputs)
    rest = (1 - sum(SHARES.values())) / (len(every) - len(SHARES))
    print(f"{'command':20} {'kills':>6} {'runs':>5} {'resumed':>8}  identical  seconds", flush=True)
    total, failed = 0, 0
    for name in arguments.only or every:
        kills = arguments.kills if arguments.only else round(arguments.kills * SHARES.get(name, rest))
        began = time.monotonic()
        shutil.rmtree(folder / name, ignore_errors=True)
        seconds = 60 * arguments.minutes
        done = exercise(every[name], folder / name, kills=kills, seed=arguments.seed, seconds=seconds)
        total, failed = total + done.kills, failed + bool(done.problems)
        identical = "yes" if done.identical else "NO"
        seconds = time.monotonic() - began
        print(f"{name:20} {done.kills:6} {done.runs:5} {done.resumed:8}  {identical:9}  {seconds:7.0f}", flush=True)
        for problem in done.problems:
            print(f"  {problem}", flush=True)
    print(f"{total} kills, {failed} commands with problems")
    return bool(failed)


def save_and_load(folder: Path, inputs: dict[str, str], saves: int) -> None:
    """Load a model with both engines while another process saves one of two versions of it."""
    versions = [folder / "version-1", folder / "version-2"]
    for version, alpha in zip(versions, (1.0, 2.0), strict=True):
        shutil.rmtree(version, ignore_errors=True)
        Extractor.load(inputs["exported"], alpha=alpha, device="cpu").save(version)
    known = {fingerprint(version): version for version in versions}
    target = folder / "saved"
    copy_model(versions[0], target)

    def load(path: Path) -> str:
        Extractor.load(path, engine="onnx")
        UniRE.from_pretrained(path)
        return known[fingerprint(path)].name

    began = time.monotonic()
    loaded = load_while_saving(versions, target, saves, load)
    counts = {version.name: loaded.count(version.name) for version in versions}
    print(f"{saves} saves and {3 * len(loaded)} loads in {time.monotonic() - began:.0f} s: {counts}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
