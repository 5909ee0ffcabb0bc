"""Failures of the system are one sentence and a status, whatever a command was doing."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import faults
from helpers.cli import TWENTY
from helpers.faults import NO_FAULT, Fault, Outcome
from unire import pretrained
from unire.errors import describe_os_error, describe_out_of_memory

CONVERT = ("data", "convert", TWENTY, "--out")
EXTRACT = ("extract", "--lines")


def system_error(name: str, *file: str) -> OSError:
    number = getattr(errno, name)
    return OSError(number, os.strerror(number), *file)


def test_system_errors_are_described_with_the_file() -> None:
    assert describe_os_error(system_error("EACCES", "/a/b")) == "/a/b cannot be read or written: Permission denied"
    assert describe_os_error(system_error("ENOSPC")) == "the output cannot be written: No space left on device"
    assert describe_os_error(system_error("EFBIG")) == "the output cannot be written: File too large"
    assert (
        describe_os_error(system_error("ECONNRESET"))
        == "the system ended this run: Connection reset by peer; check its limits (ulimit -a) and the network"
    )
    assert describe_os_error(OSError("a library's own")) is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8.00 TiB for an array with shape (1000000,) and data type int64"),
        system_error("ENOMEM"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("can't start new thread"),
        Exception("[ONNXRuntimeError] : 1 : FAIL : Failed to allocate memory for requested buffer of size 12387072"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_missing_memory_is_known_by_whatever_a_library_says(error: Exception) -> None:
    sentence = describe_out_of_memory(error)
    assert sentence is not None
    assert sentence.startswith("memory ran out")
    assert "\n" not in sentence


def test_other_errors_are_no_missing_memory() -> None:
    assert describe_out_of_memory(ValueError("x")) is None
    assert describe_out_of_memory(system_error("EACCES", "a")) is None


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Enough lines for the output to be larger than a pipe."""
    file = tmp_path / "lines.txt"
    file.write_text("We train a parser on the Penn Treebank.\n" * 300)
    return file


def check_failure(ran: Outcome, problem: str) -> None:
    assert ran.complaint() is None
    assert ran.status == 1, ran.errors
    assert problem in ran.error_lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [faults.CLOSED_STDOUT, faults.ALL_CLOSED, faults.FULL_STDOUT], ids=lambda f: f.name)
def test_a_standard_output_that_cannot_be_written_fails_with_a_sentence(fault: Fault, tmp_path: Path) -> None:
    for arguments in (("extract", "We train a parser."), ("data", "stats", TWENTY, "--json"), ("--help",)):
        ran = fault.run(arguments)
        assert ran.complaint(heard=2 not in fault.closed) is None
        assert ran.status == 1
    ran = fault.run([*CONVERT, out := tmp_path / "out.jsonl", "--json"])
    assert (ran.status, out.exists()) == (1, True)
    out.unlink()
    ran = fault.run([*EXTRACT, TWENTY, "--out", out])  # which prints nothing there
    assert (ran.status, out.exists()) == (0, True), ran.errors


@pytest.mark.slow
def test_a_file_that_is_opened_does_not_get_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    ran = faults.ALL_CLOSED.run([*EXTRACT, TWENTY, "--out", out := tmp_path / "out.jsonl"])
    assert ran.status == 0
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 7


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_silently_with_the_status_of_sigpipe(lines: Path) -> None:
    words = f"{sys.executable} -m unire extract --lines {lines} 2>/dev/null | head -1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (141, 1)
    for arguments in (("data", "stats", TWENTY), ("data", "stats", TWENTY, "--json"), ("--help",)):
        outcome = faults.BROKEN_STDOUT.run(arguments)
        assert (outcome.status, outcome.errors) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (faults.FORBIDDEN, "Permission denied"),
        (faults.HIDDEN, "Permission denied"),
        (faults.FILE_SIZE, "File too large"),
        (faults.SMALL_FILE_SIZE, "File too large"),
        (faults.FULL_DISK, "No space left on device"),
        (faults.READ_ONLY, "Read-only file system"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_output_that_cannot_be_written_fails_with_a_sentence_and_the_earlier_one_stays(
    fault: Fault, problem: str, lines: Path, tmp_path: Path
) -> None:
    if not fault.available:
        pytest.skip("needs root")
    for arguments in (CONVERT, (*EXTRACT, lines, "--out")):
        with fault.folder(tmp_path) as folder:
            out = folder / "out.jsonl"
            out.write_text("earlier\n")
            with fault.at(folder):
                check_failure(fault.run([*arguments, out]), problem)
            assert out.read_text() == "earlier\n"
            assert not list(folder.glob(".*.partial"))


@pytest.mark.slow
def test_a_run_stopped_by_a_full_disk_can_be_resumed(lines: Path, tmp_path: Path) -> None:
    fault = faults.SMALL_DISK
    if not fault.available:
        pytest.skip("needs root")
    expected = NO_FAULT.run([*EXTRACT, lines]).output
    with fault.folder(tmp_path) as folder:
        out = folder / "out.jsonl"
        with fault.at(folder):
            ran = fault.run([*EXTRACT, lines, "--out", out])
            check_failure(ran, "No space left on device")
        ran = NO_FAULT.run([*EXTRACT, lines, "--out", out, "--resume"])
        assert ran.status == 0, ran.errors
        assert out.read_bytes() == expected


@pytest.mark.slow
@pytest.mark.no_cover
def test_missing_memory_is_one_sentence(lines: Path) -> None:
    for megabytes in (150, 700):
        fault = Fault(f"{megabytes} MB", limits={faults.MEMORY: megabytes * 2**20})
        ran = fault.run([*EXTRACT, lines] if megabytes < 700 else ["data", "stats", TWENTY])
        assert ran.complaint() is None
        assert ran.status in (0, 1)


TOKENIZER_WITHOUT_MEMORY = """
import os, resource, sys
from pathlib import Path
from unire.config import copy_without_limits
from unire.errors import UnireError
from unire.model_files import explain_tokenizer_errors, load_tokenizer_file

def leave(n_bytes):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + n_bytes, -1))

path = Path(sys.argv[1])
tokenizer = load_tokenizer_file(path, trusted=True)
leave(3_000_000)
for fails in (lambda: load_tokenizer_file(path, trusted=True), lambda: copy_without_limits(tokenizer)):
    try:
        with explain_tokenizer_errors("it is broken"):
            fails()
    except UnireError as error:
        print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_tokenizer_without_memory_is_an_error_and_does_not_end_the_process() -> None:
    command = [sys.executable, "-c", TOKENIZER_WITHOUT_MEMORY, str(pretrained.find("science") / "tokenizer.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["memory ran out; use smaller inputs or batches, or more memory"] * 2


@pytest.mark.slow
def test_control_characters_are_escaped_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    raw = "The \x9b31mparser\x7f is \u202egood."
    file = tmp_path / "text.txt"
    file.write_text(raw)
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"text": raw, "sentences": [raw.split()]}, ensure_ascii=False) + "\n")
    for name in ("jsonl", "csv", "unire", "text", "cypher", "graphml"):
        shown = faults.NO_TERM.run(["extract", file, "--format", name])
        assert shown.status == 0
        assert not set("\x9b\x7f\u202e") & set(shown.output.decode())
        piped = NO_FAULT.run(["extract", file, "--format", name]).output.decode()
        assert name in ("text", "csv", "cypher", "graphml") or set("\x9b\x7f\u202e") < set(piped)
    shown = faults.NO_TERM.run(["extract", file, "--json"]).output.decode()
    line = next(line for line in shown.splitlines() if line.startswith("{"))
    assert json.loads(line)["text"] == raw
    shown = faults.NO_TERM.run(["data", "convert", data, "--from", "unire", "--out", "-"]).output.decode()
    assert not set("\x9b\x7f\u202e") & set(shown)


@pytest.mark.slow
def test_results_are_the_same_in_an_odd_locale_and_under_odd_names(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    file.write_text("Évaluons le parser sur le corpus \U0001f600.", encoding="utf-8")
    expected = NO_FAULT.run(["extract", file])
    assert (expected.status, expected.complaint()) == (0, None)
    assert faults.C_LOCALE.run(["extract", file]).output == expected.output
    for arguments in (
        [*CONVERT, tmp_path / "\u00e9.jsonl", "--json"],
        ["data", "show", TWENTY],
        ["models"],
        ["--help"],
    ):
        ran = faults.C_LOCALE.run(arguments)
        assert (ran.status, ran.complaint()) == (0, None), ran.errors
    summary = json.loads(faults.C_LOCALE.run([*CONVERT, file.with_suffix(".jsonl"), "--json"]).output)
    assert summary["documents"] == 7
