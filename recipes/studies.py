"""All studies on SciERC with an adapted encoder, on a fast schedule, for one large GPU.

    python recipes/studies.py --encoder mpnet-science --data DIR --out DIR [--jobs 5] [--dry-run]

`DIR` of the data holds SciERC's train, dev and test.json. The schedule is that of the preset `best` (shared windows),
cut to 20 epochs; ablation and pipeline have three seeds, the other trainings have one. The pipeline's span model reads
the data ten times, its model of markers five times. What is done is kept, so a second start goes on where the first was
stopped; where NVIDIA's MPS runs, trainings share the card better.

Numbers and charts go to `docs/studies/` too, without the sentences of the data set; `python recipes/tables.py` puts
them into `docs/studies.md`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs" / "studies"
SCHEDULE = ("--preset", "best", "--epochs", "20", "--set", "evaluate_after=9")


def commands(encoder: str, data: Path, out: Path, jobs: int) -> list[tuple[str, ...]]:
    """What `unire` is asked, in this order."""
    files = [word for part in ("train", "dev", "test") for word in (_option(part), str(data / f"{part}.json"))]
    setup = ("--encoder", encoder, *files, "--labels", "scierc", *SCHEDULE, "--jobs", str(jobs), "--out", str(out))
    default, without_context = (str(out / "models" / name) for name in ("default-0", "window=0-0"))
    return [
        ("study", "ablate", *setup, "--seeds", "3"),
        ("study", "pipeline", *setup, "--seeds", "3"),  # with the default's models of the ablation
        ("study", "report", *setup, "--seeds", "1"),  # windows, dropout, β₂, threshold, errors, speed
        ("study", "compare", default, without_context, "--data", str(data / "test.json"), "--out", str(out)),
        ("study", "report", "--out", str(out)),
    ]


def publish(out: Path) -> None:
    """Copy numbers and charts, but no sentence of the data."""
    DOCS.mkdir(exist_ok=True)
    for name, result in json.loads((out / "report.json").read_text(encoding="utf-8")).items():
        result.pop("cases", None)
        (DOCS / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for chart in out.glob("*.svg"):
        shutil.copy(chart, DOCS)


def _option(part: str) -> str:
    return "--data" if part == "train" else f"--{part}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    for command in commands(arguments.encoder, arguments.data, arguments.out, arguments.jobs):
        print("unire", *command, flush=True)
        if not arguments.dry_run:
            subprocess.run([sys.executable, "-m", "unire", *command], check=True)
    if not arguments.dry_run:
        publish(arguments.out)


if __name__ == "__main__":
    main()
