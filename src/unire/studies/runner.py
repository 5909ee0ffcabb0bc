"""Commands run side by side, each with a record that is kept: what a second start finds done, it does not do again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from unire.errors import UnireError
from unire.files import open_text_output
from unire.utils import cpu_count

if sys.platform != "win32":
    import fcntl

__all__ = ["Record", "StudyJob", "read_record", "run_jobs"]

Record = dict[str, Any]

POLL = 0.1
"""Seconds between two looks at what runs."""
PATIENCE = 60.0
"""Seconds in which what is stopped may save where it stands."""


@dataclass(frozen=True)
class StudyJob:
    """A command, and what must have been done before it."""

    name: str
    command: tuple[str, ...]
    """The words behind `python`: `-m unire …`, or a script and its arguments. It prints JSON, or nothing."""
    kept: Path
    """Its record, which is there when the job is done; what the command says meanwhile is in a `.log` beside it."""
    needs: tuple[str, ...] = ()
    """Names of other jobs; those that are not among the jobs to be run are done."""
    alone: bool = False
    """It uses the whole machine: nothing but what is light runs beside it."""
    light: bool = False
    """It needs little of the machine, and no GPU: it runs beside anything."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the record says beside what the command printed."""
    anew: Path | None = None
    """A folder that the command makes from nothing: what an earlier run has made of it is removed first."""

    @property
    def log(self) -> Path:
        return self.kept.with_name(f"{self.name}.log")

    def needed(self) -> dict[str, str]:
        """What tells the records of the jobs that it needs, which lie beside its own, from those of another run."""
        records = (self.kept.with_name(f"{name}.json") for name in self.needs)
        return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in records if file.exists()}

    def clear(self) -> None:
        """Remove what an earlier run has made of that which is made from nothing."""
        if self.anew is None or not self.anew.is_dir():
            return
        try:
            shutil.rmtree(self.anew)
        except OSError as error:
            raise UnireError(
                f"{str(self.anew)!r} cannot be removed to be made again: {error.strerror or error}"
            ) from None


@dataclass
class _Running:
    job: StudyJob
    process: subprocess.Popen[bytes]
    printed: IO[bytes]
    started: float

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.started, 1)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Have SIGTERM, which a queue or a container sends, end us by way of `finally`: it reaches none of the jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one says nothing new
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@_stoppable()
def run_jobs(
    jobs: Sequence[StudyJob],
    at_once: int,
    *,
    tell: Callable[[str], None] = lambda line: None,
    finished: Callable[[StudyJob, Record], None] = lambda job, record: None,
) -> None:
    """Do what is not done yet, and again what needs something that was done again since.

    Where a job fails, or SIGTERM comes, those that run get SIGTERM; by Ctrl-C they are reached themselves (they are of
    one group). Each can save where it stands, and is waited for.

    Args:
        jobs: Their needs must not go round in a circle.
        at_once: How many run side by side.
        tell: Told of every start and end.
        finished: Called with a job and its record before that is kept.

    Raises:
        UnireError: A job failed, or another process is at it.
    """
    waiting = _undone(jobs)
    running: list[_Running] = []
    try:
        while waiting or running:
            for job in list(waiting):
                if _may_start(job, waiting, running, at_once):
                    waiting.remove(job)
                    running.append(_start(job, at_once))
                    tell(f"{job.name}: started")
            time.sleep(POLL)
            for ended in [one for one in running if one.process.poll() is not None]:
                record = _record(ended)
                finished(ended.job, record)
                with open_text_output(ended.job.kept) as file:
                    file.write(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
                running.remove(ended)
                tell(f"{ended.job.name}: {ended.seconds:.0f} s, {len(waiting) + len(running)} left")
    except (Exception, SystemExit):
        _stop([one.process for one in running])
        raise
    finally:
        for one in running:
            one.process.wait()
            one.printed.close()


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    last = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def read_record(path: Path) -> Record:
    """A record that was kept."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it is no JSON object")
    except (OSError, ValueError) as error:
        raise UnireError(f"{path} is no record of a finished job ({error}); remove it to have it made again") from None
    return record


def _undone(jobs: Sequence[StudyJob]) -> list[StudyJob]:
    """What is to be done: also what needs any of it, or was done with what an earlier run had made."""
    undone = {job.name for job in jobs if not job.kept.exists() or _outdated(job)}
    while more := {job.name for job in jobs if undone.intersection(job.needs)} - undone:
        undone |= more
    return [job for job in jobs if job.name in undone]


def _outdated(job: StudyJob) -> bool:
    """Older records do not say what they needed, and what was needed may be gone: then nobody knows."""
    before, now = read_record(job.kept).get("needed", {}), job.needed()
    return any(before[name] != now[name] for name in before.keys() & now.keys())


def _may_start(job: StudyJob, waiting: Sequence[StudyJob], running: Sequence[_Running], at_once: int) -> bool:
    unmade = {other.name for other in waiting} | {one.job.name for one in running}
    if unmade.intersection(job.needs):
        return False
    beside = [one for one in running if one.job.light == job.light]
    if job.alone:
        return not beside
    return len(beside) < at_once and not any(one.job.alone for one in beside)


def _start(job: StudyJob, at_once: int) -> _Running:
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed where the job ends
    threads = str(max(1, cpu_count() // (1 if job.alone else at_once)))
    with _own_log(job) as log:
        job.clear()
        process = subprocess.Popen(  # noqa: S603 - our own commands
            [sys.executable, *job.command],
            stdout=printed,
            stderr=log,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )
    return _Running(job, process, printed, time.monotonic())


@contextmanager
def _own_log(job: StudyJob) -> Iterator[IO[bytes]]:
    """The log of a job, emptied. Whoever writes it has it locked: also a process whose starter was killed."""
    try:
        job.kept.parent.mkdir(parents=True, exist_ok=True)
        log = job.log.open("ab")
    except OSError as error:
        raise UnireError(f"{job.kept.parent} cannot be written to: {error.strerror}") from None
    with log:
        if sys.platform != "win32":
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnireError(
                    f"another process is at {job.name}, and writes {job.log}; wait for it, or end it"
                ) from None
            except OSError:  # a file system without locks
                pass
        log.truncate(0)
        yield log


def _record(ended: _Running) -> Record:
    job = ended.job
    if ended.process.returncode:
        said = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = said[-1].removeprefix("error: ") if said else f"exit status {ended.process.returncode}"
        raise UnireError(f"{job.name} failed: {reason}; {job.log} has all that it said")
    ended.printed.seek(0)
    text = ended.printed.read()
    ended.printed.close()
    printed = json.loads(text) if text.strip() else None
    return {**job.about, "needed": job.needed(), "seconds": ended.seconds, "printed": printed}
