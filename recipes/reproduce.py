"""Rebuild our models and our results from the raw parts, on one GPU.

    python recipes/reproduce.py science --encoders DIR --data DIR --corpus DIR --work DIR [--jobs 3]

Names are stages of `plan.py`, or the beginnings of names (`scierc-best`); what a stage needs is made before it. What
is there already is not made again, so a second start goes on where the first was stopped. Stages that fit beside each
other run side by side, `--jobs` at a time; where NVIDIA's MPS runs they share the card better.

Scores of rows go to `docs/results/`, and `python recipes/tables.py` puts them into `docs/results.md`. The model of the
stage `science` or `news` is what lies under `src/unire/pretrained/`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plan import Parts, Stage, plan

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def wanted(stages: dict[str, Stage], names: Sequence[str]) -> list[Stage]:
    """The stages of these names and all that they need, in an order in which they can be made."""
    chosen: dict[str, Stage] = {}

    def choose(name: str) -> None:
        for need in stages[name].needs:
            choose(need)
        chosen[name] = stages[name]

    for name in names:
        matching = [name] if name in stages else [stage for stage in stages if stage.startswith(name)]
        if not matching:
            sys.exit(f"there is no stage {name!r}; there are {', '.join(stages)}")
        for match in matching:
            choose(match)
    return list(chosen.values())


@dataclass
class Runner:
    """Makes stages, several at a time."""

    work: Path
    jobs: int

    def make(self, stages: Sequence[Stage]) -> None:
        waiting = [stage for stage in stages if not (self.work / stage.name).exists()]
        running: dict[str, tuple[Stage, subprocess.Popen[bytes], float]] = {}
        while waiting or running:
            for stage in [stage for stage in waiting if self._may_start(stage, waiting, running)]:
                waiting.remove(stage)
                running[stage.name] = (stage, self._start(stage), time.monotonic())
                print(f"{stage.name}: started", flush=True)
            for stage, process, started in list(running.values()):
                if process.poll() is not None:
                    del running[stage.name]
                    if process.returncode:
                        for _, other, _ in running.values():
                            other.terminate()
                        sys.exit(f"{stage.name} failed; see {self._log(stage)}")
                    self._keep(stage)
                    print(f"{stage.name}: {time.monotonic() - started:.0f} s", flush=True)
            time.sleep(0.2)

    def _may_start(self, stage: Stage, waiting: Sequence[Stage], running: dict[str, object]) -> bool:
        unmade = {other.name for other in waiting} | set(running)
        alone = any(other.alone for other, *_ in running.values())  # type: ignore[misc]
        room = not running if stage.alone else len(running) < self.jobs and not alone
        return room and not unmade.intersection(stage.needs)

    def _start(self, stage: Stage) -> subprocess.Popen[bytes]:
        kind, *arguments = stage.command
        out = str(self.work / stage.name)
        if kind == "nearest":
            command = [sys.executable, str(Path(__file__).parent / "nearest.py"), *arguments, out]
        else:
            options = ["--resume"] if (self.work / f"{stage.name}.resume").exists() else []
            command = [sys.executable, "-m", "unire", kind, *arguments, "--out", out, "--json", *options]
        self.work.mkdir(parents=True, exist_ok=True)
        with self._log(stage).open("wb") as log, self._result(stage).open("wb") as result:
            return subprocess.Popen(command, stdout=result, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "3"})

    def _keep(self, stage: Stage) -> None:
        """Score a row by every protocol, and write down how it was made and what it reached."""
        if stage.command[0] not in ("train", "distill", "export"):
            return
        record = {"command": ["unire", *(Path(word).name if "/" in word else word for word in stage.command)]}
        made = json.loads(self._result(stage).read_text())
        if stage.command[0] == "export":
            made["scores"] = {"test": made["scores"]}
        record |= {key: value for key, value in made.items() if key not in ("history", "out", "folder")}
        if stage.test is not None:
            model = str(self.work / stage.name)
            command = ["evaluate", "--model", model, "--data", str(stage.test), "--all-protocols", "--json"]
            scored = subprocess.run([sys.executable, "-m", "unire", *command], capture_output=True, check=True)
            record["protocols"] = json.loads(scored.stdout)["scores"]
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{stage.name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def _log(self, stage: Stage) -> Path:
        return self.work / f"{stage.name}.log"

    def _result(self, stage: Stage) -> Path:
        return self.work / f"{stage.name}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="stages, or the beginnings of their names")
    for part in ("encoders", "data", "corpus", "work"):
        parser.add_argument(f"--{part}", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    parts = Parts(*(path.resolve() for path in (arguments.encoders, arguments.data, arguments.corpus, arguments.work)))
    stages = wanted(plan(parts), arguments.names)
    if arguments.dry_run:
        for stage in stages:
            print(f"{stage.name}: unire {' '.join(stage.command)}")
        return
    Runner(parts.work, arguments.jobs).make(stages)


if __name__ == "__main__":
    main()
