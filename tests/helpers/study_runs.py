"""Runs of a study in this process, which start faster than commands."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

from typer.testing import Result

from helpers.cli import run
from unire.studies.pipeline import runs as pipeline_runs
from unire.studies.runner import StudyJob


def command(*words: object, code: int = 0) -> Result:
    """Run `unire` and check its exit status."""
    ran = run(*words)
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran


def runner(made: list[str]) -> Callable[..., None]:
    """A replacement of `run_jobs`. It adds the names of the jobs that it runs to `made`."""

    def run_jobs(jobs: Sequence[StudyJob], max_parallel: int, *, log: Callable[[str], None]) -> None:
        for job in jobs:
            if job.record_path.exists():
                continue
            assert all((job.record_path.parent / f"{need}.json").exists() for need in job.needs)
            made.append(job.name)
            job.remove_output()
            job.record_path.parent.mkdir(parents=True, exist_ok=True)
            record = {**job.info, "seconds": 1.0, "printed": json.loads(_printed_by(job))}
            job.record_path.write_text(json.dumps(record), encoding="utf-8")

    return run_jobs


def _printed_by(job: StudyJob) -> str:
    _, module, *arguments = job.command
    if module == "unire":
        return command(*arguments).stdout
    with redirect_stdout(io.StringIO()) as printed:
        assert pipeline_runs.main(arguments) == 0
    return printed.getvalue()
