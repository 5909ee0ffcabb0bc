"""Faults of the system around a command: full disks, missing rights, closed streams, little memory, odd terminals.

    with FULL_DISK.folder(tmp_path) as folder:
        ran = FULL_DISK.run(["data", "convert", "in.jsonl", "--out", folder / "out.jsonl"])

Some need root (a small file system is mounted) or a program (`faketime`): see `Fault.available`.
"""

from __future__ import annotations

import os
import pty
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from helpers.paths import SOURCE

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
RIGHTS = ("dac_override", "dac_read_search", "fowner")
"""What lets root write where permissions forbid it."""
MEMORY = resource.RLIMIT_AS
SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    status: int
    output: bytes
    errors: str

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.errors.splitlines() if line.startswith("error: ")]

    def complaint(self, *, heard: bool = True) -> str | None:
        """What is wrong with how the command failed, if it did; it may also have succeeded.

        Args:
            heard: Whether standard error could be read.
        """
        if "Traceback (most recent call last)" in self.errors:
            return f"a traceback: {self.errors.strip().splitlines()[-1]}"
        if self.status < 0:
            return f"ended by signal {-self.status}: {self.errors[-200:]}"
        if heard and self.status not in (0, 141) and len(self.error_lines) != 1:
            return f"status {self.status} with {len(self.error_lines)} sentences: {self.errors[-300:]!r}"
        return None


@dataclass(frozen=True)
class Fault:
    name: str
    hits: Literal["files", "stdout", "memory", "nothing"] = "nothing"
    """What the command cannot have. It must fail if it needs it."""
    mount: str | None = None
    """Options of the small file system that is mounted for the output."""
    mode: int = 0o755
    """Permissions of the folder for the output."""
    limits: Mapping[int, int] = field(default_factory=dict)
    closed: Sequence[int] = ()
    """Standard streams that are closed."""
    broken: Sequence[int] = ()
    """Standard streams that are pipes without a reader."""
    full: bool = False
    """Whether standard output is a full device."""
    terminal: bool = False
    """Whether standard output and standard error are a terminal."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    wrapper: Sequence[str] = ()
    """The command before the command."""

    @property
    def available(self) -> bool:
        needs_root = self.mount is not None
        program = self.wrapper[0] if self.wrapper else "true"
        return (IS_ROOT or not needs_root) and shutil.which(program) is not None

    @contextmanager
    def folder(self, beside: Path) -> Iterator[Path]:
        """A new folder for the output."""
        folder = Path(tempfile.mkdtemp(dir=beside))
        with _mounted(folder, self.mount) if self.mount else nullcontext():
            yield folder
            folder.chmod(0o755)

    @contextmanager
    def at(self, folder: Path) -> Iterator[None]:
        """Make the fault of the folder: until here, it could be written."""
        if self.mount and "ro" in self.mount.split(","):
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        folder.chmod(self.mode) if self.mode != 0o755 else None
        try:
            yield
        finally:
            if self.mount:
                subprocess.run(["mount", "-o", "remount,rw,size=256m", str(folder)], check=True)
            folder.chmod(0o755)

    def run(self, arguments: Sequence[object], stdin: bytes = b"") -> Outcome:
        """Run `unire` with the fault."""
        words = [
            os.fsencode(str(word)) for word in (*self.wrapper, *self._with_rights(), sys.executable, "-m", "unire")
        ]
        words += [os.fsencode(word) if isinstance(word, (Path, str)) else str(word).encode() for word in arguments]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "OMP_NUM_THREADS": "1"}
        environment["TOKENIZERS_PARALLELISM"] = "false"
        for name, value in self.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        streams = {0: subprocess.PIPE, 1: subprocess.PIPE, 2: subprocess.PIPE}
        opened: list[int] = []
        for number in self.broken:
            reading, writing = os.pipe()
            os.close(reading)
            opened.append(writing)
            streams[number] = writing
        if self.full:
            opened.append(full := os.open("/dev/full", os.O_WRONLY))
            streams[1] = full
        shown: list[bytes] = []
        if self.terminal:
            master, slave = pty.openpty()
            opened.append(slave)
            streams[1] = streams[2] = slave
            reader = threading.Thread(target=_read_terminal, args=(master, shown))
            reader.start()
        process = subprocess.Popen(
            words, env=environment, stdin=streams[0], stdout=streams[1], stderr=streams[2], preexec_fn=self._prepare
        )
        for descriptor in opened:
            os.close(descriptor)
        try:
            output, errors = process.communicate(stdin, SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            errors = b"does not end: " + (errors or b"")
        if self.terminal:
            reader.join()
            os.close(master)
            output = errors = b"".join(shown)
        return Outcome(process.returncode, output or b"", (errors or b"").decode(errors="replace"))

    def _with_rights(self) -> list[str]:
        if not IS_ROOT or self.mode == 0o755:
            return []
        dropped = ",".join(f"-{right}" for right in RIGHTS)
        return ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}"]

    def _prepare(self) -> None:
        for kind, value in self.limits.items():
            resource.setrlimit(kind, (value, value))
        for number in self.closed:
            os.close(number)


def _read_terminal(master: int, shown: list[bytes]) -> None:
    with suppress(OSError):  # the other side is closed
        while block := os.read(master, 65536):
            shown.append(block)


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    size = ",".join(option for option in options.split(",") if option != "ro")
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


NO_FAULT = Fault("none")
FULL_DISK = Fault("disk full", "files", mount="size=4k")
SMALL_DISK = Fault("disk of 16 kB", "files", mount="size=16k")
READ_ONLY = Fault("read-only file system", "files", mount="size=64m,ro")
FORBIDDEN = Fault("permission denied", "files", mode=0o555)
HIDDEN = Fault("folder without any permission", "files", mode=0o000)
FILE_SIZE = Fault("file size limit of 0", "files", limits={resource.RLIMIT_FSIZE: 0})
SMALL_FILE_SIZE = Fault("file size limit of 2 kB", "files", limits={resource.RLIMIT_FSIZE: 2000})
FEW_FILES = Fault("16 open files", "memory", limits={resource.RLIMIT_NOFILE: 16})
CLOSED_STDOUT = Fault("stdout closed", "stdout", closed=(1,))
CLOSED_STDERR = Fault("stderr closed", closed=(2,))
CLOSED_STDIN = Fault("stdin closed", closed=(0,))
ALL_CLOSED = Fault("all streams closed", "stdout", closed=(0, 1, 2))
BROKEN_STDOUT = Fault("stdout without a reader", "stdout", broken=(1,))
BROKEN_STDERR = Fault("stderr without a reader", broken=(2,))
FULL_STDOUT = Fault("stdout is full", "stdout", full=True)
LITTLE_MEMORY = Fault("memory of 400 MB", "memory", limits={resource.RLIMIT_AS: 400 * 2**20})
C_LOCALE = Fault(
    "C locale, ASCII",
    environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
)
DUMB_TERMINAL = Fault("dumb terminal of one column", terminal=True, environment={"TERM": "dumb", "COLUMNS": "1"})
NO_TERM = Fault("terminal without a name", terminal=True, environment={"TERM": None, "COLUMNS": None})
EARLIER = Fault("clock a year ago", wrapper=("faketime", "-f", "-1y"))
LATER = Fault("clock in a year", wrapper=("faketime", "-f", "+1y"))
FAST = Fault("clock that runs 1000 times faster", wrapper=("faketime", "-f", "+0 x1000"))

FAULTS: tuple[Fault, ...] = (
    FULL_DISK, SMALL_DISK, READ_ONLY, FORBIDDEN, HIDDEN, FILE_SIZE, SMALL_FILE_SIZE, FEW_FILES,
    CLOSED_STDOUT, CLOSED_STDERR, CLOSED_STDIN, ALL_CLOSED, BROKEN_STDOUT, BROKEN_STDERR, FULL_STDOUT,
    LITTLE_MEMORY, C_LOCALE, DUMB_TERMINAL, NO_TERM, EARLIER, LATER, FAST,
)  # fmt: skip
