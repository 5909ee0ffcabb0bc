"""Runs commands in parallel and keeps a record of each. A second start runs only what is missing or outdated."""

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

POLL_SECONDS = 0.1
"""Time between two checks of the running processes."""
STOP_SECONDS = 60.0
"""Time in which a stopped process may save its state."""


@dataclass(frozen=True)
class StudyJob:
    """A command, and the jobs that must be done before it."""

    name: str
    command: tuple[str, ...]
    """The arguments of `python`: `-m unire …`, or a script and its arguments. The record keeps what it prints."""
    record_path: Path
    """The record of the finished job. The standard error of the command goes to a `.log` file next to it."""
    needs: tuple[str, ...] = ()
    """Names of other jobs. Those that are not among the jobs to be run count as done."""
    exclusive: bool = False
    """It uses the whole machine. Only light jobs run at the same time."""
    light: bool = False
    """It needs one core and no GPU. It may run at the same time as any job."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Added to the record, with the output of the command."""
    fresh_output: Path | None = None
    """A folder that the command creates. The folder of an earlier run is removed first."""

    @property
    def log(self) -> Path:
        return self.record_path.with_name(f"{self.name}.log")

    def digest_needs(self) -> dict[str, str]:
        """Digests of the records of needed jobs, which are in the same folder."""
        records = (self.record_path.with_name(f"{name}.json") for name in self.needs)
        return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in records if file.exists()}

    def remove_output(self) -> None:
        """Remove the output of an earlier run, if the command needs a new folder."""
        if self.fresh_output is None or not self.fresh_output.is_dir():
            return
        try:
            shutil.rmtree(self.fresh_output)
        except OSError as error:
            raise UnireError(f"{str(self.fresh_output)!r} cannot be removed: {error.strerror or error}") from None


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
def _exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`, so that `finally` blocks run. SIGTERM does not reach the jobs by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore further ones
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@_exit_on_sigterm()
def run_jobs(
    jobs: Sequence[StudyJob],
    max_parallel: int,
    *,
    log: Callable[[str], None] = lambda line: None,
    on_finished: Callable[[StudyJob, Record], None] = lambda job, record: None,
) -> None:
    """Run the jobs that are missing, and those whose needs were run again since.

    If a job fails, or this process gets SIGTERM, the running jobs get SIGTERM. Ctrl-C reaches them directly, because
    they are in the same process group. Each may save its state, and is waited for.

    Args:
        jobs: Their needs must not be circular.
        max_parallel: Jobs in parallel.
        log: Called with a line at every start and end.
        on_finished: Called with a job and its record before the record is written.

    Raises:
        UnireError: A job failed, or another process is running it.
    """
    waiting = _find_missing(jobs)
    running: list[_Running] = []
    try:
        while waiting or running:
            for job in list(waiting):
                if _may_start(job, waiting, running, max_parallel):
                    waiting.remove(job)
                    running.append(_start(job, max_parallel))
                    log(f"{job.name}: started")
            time.sleep(POLL_SECONDS)
            for ended in [one for one in running if one.process.poll() is not None]:
                record = _build_record(ended)
                on_finished(ended.job, record)
                with open_text_output(ended.job.record_path) as file:
                    file.write(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
                running.remove(ended)
                log(f"{ended.job.name}: {ended.seconds:.0f} s, {len(waiting) + len(running)} left")
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
    last = time.monotonic() + STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def read_record(path: Path) -> Record:
    """Read the record of a finished job."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise UnireError(
            f"{path} is not the record of a finished job ({error}); remove it to run the job again"
        ) from None
    return record


def _find_missing(jobs: Sequence[StudyJob]) -> list[StudyJob]:
    """Jobs without a record, outdated ones, and those that need any of these."""
    undone = {job.name for job in jobs if not job.record_path.exists() or _is_outdated(job)}
    while more := {job.name for job in jobs if undone.intersection(job.needs)} - undone:
        undone |= more
    return [job for job in jobs if job.name in undone]


def _is_outdated(job: StudyJob) -> bool:
    """Whether a needed record has changed since. Old records lack digests and never count as outdated."""
    before, now = read_record(job.record_path).get("needed", {}), job.digest_needs()
    return any(before[name] != now[name] for name in before.keys() & now.keys())


def _may_start(job: StudyJob, waiting: Sequence[StudyJob], running: Sequence[_Running], max_parallel: int) -> bool:
    pending = {other.name for other in waiting} | {one.job.name for one in running}
    if pending.intersection(job.needs):
        return False
    beside = [one for one in running if one.job.light == job.light]
    if job.exclusive:
        return not beside
    return len(beside) < max_parallel and not any(one.job.exclusive for one in beside)


def _start(job: StudyJob, max_parallel: int) -> _Running:
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the job ends
    threads = str(max(1, cpu_count() // (1 if job.exclusive else max_parallel)))
    with _open_log(job) as log:
        job.remove_output()
        process = subprocess.Popen(  # noqa: S603 - our own commands
            [sys.executable, *job.command],
            stdout=printed,
            stderr=log,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )
    return _Running(job, process, printed, time.monotonic())


@contextmanager
def _open_log(job: StudyJob) -> Iterator[IO[bytes]]:
    """The emptied log of a job. Its writer holds a lock, even if the process that started it was killed."""
    try:
        job.record_path.parent.mkdir(parents=True, exist_ok=True)
        log = job.log.open("ab")
    except OSError as error:
        raise UnireError(f"{job.record_path.parent} cannot be written to: {error.strerror}") from None
    with log:
        if sys.platform != "win32":
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnireError(
                    f"another process runs {job.name} and writes {job.log}; wait for it or stop it"
                ) from None
            except OSError:  # a file system without locks
                pass
        log.truncate(0)
        yield log


def _build_record(ended: _Running) -> Record:
    job = ended.job
    if ended.process.returncode:
        lines = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("error: ") if lines else f"exit status {ended.process.returncode}"
        raise UnireError(f"{job.name} failed: {reason}; see {job.log}")
    ended.printed.seek(0)
    text = ended.printed.read().decode("utf-8", errors="replace").strip()
    ended.printed.close()
    try:
        printed = json.loads(text) if text else None
    except json.JSONDecodeError:
        printed = text
    return {**job.info, "needed": job.digest_needs(), "seconds": ended.seconds, "printed": printed}
