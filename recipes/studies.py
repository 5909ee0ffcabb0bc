"""All studies on SciERC with an adapted encoder, on a fast schedule, for one large GPU.

    python recipes/studies.py --encoder mpnet-science --data DIR --out DIR [--jobs 5] [--dry-run] [STUDY ...]

The data folder has SciERC's train, dev and test.json. The schedule is that of the preset `best` (shared windows) with
20 epochs. Ablation and pipeline have three seeds, the other variants one. The span model of the pipeline trains for ten
epochs, its relation model for five. Finished runs are kept, so run the same command again after an interruption. With
NVIDIA's MPS, variants share the GPU better. By default all studies run; threshold, errors and speed need a model of the
ablation. The commands of the comparison, which needs no GPU, are in `docs/how-to/compare-systems.md`.

Results are also copied to `results/studies/`, without the sentences of the data set, and charts to
`docs/lab-notes/charts/`. `python recipes/tables.py` puts both into `docs/lab-notes/studies.md`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unire.studies.report import STUDIES
from unire.studies.results import load_result, save_result

ROOT = Path(__file__).parents[1]
CHARTS = ROOT / "docs" / "lab-notes" / "charts"
RESULTS = ROOT / "results" / "studies"
SCHEDULE = ("--preset", "best", "--epochs", "20", "--set", "evaluate_after=9", "--set", "decoder=split")


def commands(encoder: str, data: Path, out: Path, jobs: int) -> dict[str, tuple[str, ...]]:
    """The arguments of `unire study`, by the name of the study and in this order."""
    train, dev, test = (str(data / f"{part}.json") for part in ("train", "dev", "test"))
    files = ("--data", train, "--dev", dev, "--test", test, "--labels", "scierc")
    training = ("--encoder", encoder, *files, *SCHEDULE, "--jobs", str(jobs))
    default = str(out / "models" / "default-0")
    return {
        "ablate": (*training, "--seeds", "3"),
        "window": training,
        "dropout": training,
        "beta2": training,
        "threshold": ("--model", default, "--data", dev),
        "errors": (default, "--data", test),
        "speed": ("--model", default, "--data", test),
        "pipeline": (*training, "--seeds", "3"),  # with the default's models of the ablation
    }


def run(command: Sequence[str]) -> None:
    """Run `unire`. If it fails or is interrupted, exit with its status; it has printed the reason."""
    process = subprocess.Popen([sys.executable, "-m", "unire", *command])
    try:
        status = process.wait()
    except KeyboardInterrupt:  # reaches the study too, which saves its state
        with suppress(KeyboardInterrupt):
            process.wait()
        sys.exit(130)
    if status:
        sys.exit(status if status > 0 else 128 - status)  # a signal as shells count it


def publish(out: Path, names: Sequence[str]) -> None:
    """Copy numbers and charts, but no sentence of the data."""
    CHARTS.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in names:
        result = load_result(out, name)
        assert result is not None, f"{name} has left no result"
        result.pop("cases", None)
        save_result(result, RESULTS)
        for chart, svg in STUDIES[name].charts(result).items():
            (CHARTS / f"{chart}.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="STUDY", help="ablate, window, …; all by default")
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    known = commands(arguments.encoder, arguments.data, arguments.out, arguments.jobs)
    names = arguments.names or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"there is no study {unknown.pop()!r}; there are {', '.join(known)}")
    for name, options in [*((name, known[name]) for name in known if name in names), ("report", ())]:
        command = ("study", name, *options, "--out", str(arguments.out))
        print("unire", *command, flush=True)
        if not arguments.dry_run:
            run(command)
    if not arguments.dry_run:
        publish(arguments.out, names)


if __name__ == "__main__":
    main()
