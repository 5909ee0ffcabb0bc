"""Rebuild our models and our results from the raw parts, on one GPU.

    python recipes/reproduce.py science --encoders DIR --data DIR --corpus DIR --work DIR [--jobs 3]

A name is that of a stage in `plan.py`, or of all its runs, which end in `-` and a number: `scierc-marked` means
`scierc-marked-0` to `-4`, but not `scierc-marked-twice-0`. `ade-best-fold` means all folds, `ade-best` their combined
scores. Stages that a stage needs run before it. Finished stages are not repeated, so run the same command after an
interruption. Stages that fit on the GPU together run in parallel, `--jobs` at a time; NVIDIA's MPS helps.

Scores go to WORK/results, each with its command. The rows of `docs/lab-notes/accuracy.md` are such records, under other
names in `results/`; `python recipes/tables.py` reads them. The stages `science` and `news` train successors of
the bundled models, which are older than this plan. To bundle one, copy its folder to `src/unire/pretrained`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from plan import HELD, SCRIPTS, Parts, Stage, plan

from unire.errors import UnireError
from unire.studies.runner import Record, StudyJob, read_record, run_jobs

RESULTS = "results"
"""The folder of records in the work folder."""
REMADE = ("train", "distill", "calibrate", "export", "markers")
"""Commands whose models are rebuilt if their inputs were rebuilt. Outputs of other commands must be removed by hand."""


def wanted(stages: dict[str, Stage], names: Sequence[str]) -> list[Stage]:
    """The stages of these names, their runs, and all that they need, in a possible order."""
    chosen: dict[str, Stage] = {}

    def choose(name: str) -> None:
        for need in stages[name].needs:
            choose(need)
        chosen[name] = stages[name]

    for name in names:
        matching = [stage for stage in stages if re.fullmatch(rf"{re.escape(name)}(-\d+)?", stage)]
        if not matching:
            sys.exit(f"there is no stage {name!r}; there are {', '.join(stages)}")
        for match in matching:
            choose(match)
    return list(chosen.values())


def check(stages: Sequence[Stage], parts: Parts) -> None:
    """Check that all input files of the stages exist, before the first one runs.

    Raises:
        UnireError: Some are not.
    """
    *raw, work = astuple(parts)
    paths = {Path(word) for stage in stages for word in stage.command}
    read = [path for path in paths if any(path.is_relative_to(part) for part in raw) and not path.is_relative_to(work)]
    if missing := sorted(str(path) for path in read if not path.exists()):
        raise UnireError(f"there is no {', no '.join(missing)}; --help says what must be there")


def make(stages: Sequence[Stage], parts: Parts, jobs: int) -> None:
    """Run the stages whose output is missing, several at a time, and score the rows among them."""
    work = parts.work
    # output without a log was copied from elsewhere, for example an adapted encoder: use it unchanged
    in_parts = {stage.part_of for stage in stages}
    made = {stage.name: _job(stage, work) for stage in stages}
    rows = {f"{stage.name}-protocols": stage for stage in stages if stage.test is not None}
    missing = [job for name, job in made.items() if job.log.exists() or name in in_parts or not (work / name).exists()]
    scored = [_scoring(name, stage, work) for name, stage in rows.items() if made[stage.name] in missing]
    by_name = {stage.name: stage for stage in stages}

    def keep(job: StudyJob, record: Record) -> None:
        if job.name in rows:
            row = rows[job.name]
            _keep(row, parts, read_record(made[row.name].record_path)["printed"], record["printed"])
            return
        kind = by_name[job.name].command[0]
        # scored on dev alone; fold by fold
        if kind in ("markers", "score_folds") or (kind == "train" and job.name in in_parts):
            _keep(by_name[job.name], parts, record["printed"])

    run_jobs([*missing, *scored], jobs, log=lambda line: print(line, flush=True), on_finished=keep)


def _job(stage: Stage, work: Path) -> StudyJob:
    kind, *arguments = stage.command
    out = work / (stage.part_of or stage.name)
    kept = work / f"{stage.name}.json"
    if kind in SCRIPTS:
        command = (str(Path(__file__).parent / f"{kind}.py"), *arguments, str(out))
        return StudyJob(stage.name, command, kept, stage.needs, stage.alone, stage.light)
    model = out / stage.part
    options = ["--resume"] if model.with_name(f"{model.name}.resume").exists() else []
    command = ("-m", "unire", kind, *arguments, "--out", str(out), "--json", *options)
    fresh = model if kind in REMADE and "--resume" not in command else None
    return StudyJob(stage.name, command, kept, stage.needs, stage.alone, stage.light, fresh_output=fresh)


def _scoring(name: str, stage: Stage, work: Path) -> StudyJob:
    """Scores a model on its test set under every protocol."""
    command = ("evaluate", "--model", str(work / stage.name), "--data", str(stage.test), "--all-protocols", "--json")
    return StudyJob(name, ("-m", "unire", *command), work / f"{name}.json", (stage.name,))


def _keep(stage: Stage, parts: Parts, printed: dict[str, Any], scored: dict[str, Any] | None = None) -> None:
    """Write the record of a row: its command and its scores."""
    kind, *arguments = (_short(word, parts) for word in stage.command)
    program = [f"recipes/{kind}.py"] if kind in SCRIPTS else ["unire", kind]
    record: dict[str, Any] = {"command": [*program, *arguments]}
    made = dict(printed)
    if stage.command[0] == "export":
        made["scores"] = {"test": made["scores"]}
    record |= {key: value for key, value in made.items() if key not in ("history", "out", "folder")}
    if scored is not None:
        record["protocols"] = {
            scores["protocol"]["name"]: {kind: _rates(scores[kind]) for kind in ("entities", "relations")}
            for scores in scored["protocols"]
        }
    results = parts.work / RESULTS
    results.mkdir(exist_ok=True)
    (results / f"{stage.name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _short(word: str, parts: Parts) -> str:
    """The name of a path in one of the folders. Other words do not change, even with a slash."""
    path = Path(word)
    return path.name if any(path.is_relative_to(folder) for folder in astuple(parts)) else word


def _rates(counted: dict[str, Any]) -> dict[str, float]:
    return {rate: round(counted[rate], 6) for rate in ("precision", "recall", "f1")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="stages, or their names without the numbers of runs")
    for part, held in HELD.items():
        parser.add_argument(f"--{part}", type=Path, required=True, metavar="DIR", help=held)
    parser.add_argument(
        "--jobs",
        type=int,
        default=3,
        help="parallel stages; 3 by default. A distillation takes about 15 GB of GPU memory",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error("--jobs must be 1 or more")
    parts = Parts(*(path.resolve() for path in (arguments.encoders, arguments.data, arguments.corpus, arguments.work)))
    stages = wanted(plan(parts), arguments.names)
    if arguments.dry_run:
        for stage in stages:
            print(shlex.join(["python", *_job(stage, parts.work).command]))
        return
    try:
        check(stages, parts)
        make(stages, parts, arguments.jobs)
    except UnireError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("interrupted; finished stages are kept; run the same command to continue", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
