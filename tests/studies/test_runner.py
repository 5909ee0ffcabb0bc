"""Commands side by side: in order, kept, and not done twice."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from unire.errors import UnireError
from unire.studies import runner
from unire.studies.runner import StudyJob, read_record, run_jobs


@pytest.fixture
def job(tmp_path):
    """A job that notes its start and its end in a file that all share, and prints its name."""
    notes = tmp_path / "notes.txt"

    def make(name, *, sleep=0.0, code="pass", **more):
        program = (
            f"import time; notes = open({str(notes)!r}, 'a', buffering=1); notes.write('{name} begins\\n'); "
            f'time.sleep({sleep}); {code}; notes.write("{name} ends\\n"); print(\'{{"name": "{name}"}}\')'
        )
        return StudyJob(name, ("-c", program), tmp_path / "kept" / f"{name}.json", **more)

    make.file = notes
    make.notes = lambda: notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return make


def test_a_job_records_its_output_and_info(job):
    made = job("a", info={"seed": 3})
    run_jobs([made], 1)
    record = read_record(made.record_path)
    assert (record["seed"], record["printed"]) == (3, {"name": "a"})
    assert record["seconds"] >= 0


def test_finished_jobs_are_not_repeated(job):
    jobs = [job("a"), job("b")]
    run_jobs(jobs[:1], 1)
    logged = []
    run_jobs(jobs, 1, log=logged.append)
    assert job.notes() == ["a begins", "a ends", "b begins", "b ends"]
    assert logged[0] == "b: started"
    assert logged[1].endswith("s, 0 left")


@pytest.mark.slow
@pytest.mark.parametrize("max_parallel", [True, False])
def test_jobs_that_depend_on_a_repeated_job_are_repeated(job, max_parallel):
    first, second, third = job("first"), job("second", needs=("first",)), job("third", needs=("second", "elsewhere"))
    run_jobs([first, second, third, job("other")], 1)
    first.record_path.unlink()
    job.file.unlink()
    if not max_parallel:
        run_jobs([replace(first, info={"seed": 1})], 1)
    run_jobs([third, second, first, job("other")], 1)
    assert [note for note in job.notes() if "begins" in note] == [
        f"{name} begins" for name in ("first", "second", "third")
    ]
    job.file.unlink()
    run_jobs([first, second, third], 1)
    assert not job.notes()


def test_a_fresh_output_is_removed_before_the_job_is_repeated(job, tmp_path):
    folder = tmp_path / "model"
    made = job("a", code=f"import os; os.mkdir({str(folder)!r})", fresh_output=folder)
    run_jobs([made], 1)
    (folder / "old").touch()
    run_jobs([made], 1)
    assert (folder / "old").exists()  # what is done stays as it is
    made.record_path.unlink()
    run_jobs([made], 1)
    assert not (folder / "old").exists()


def test_the_output_of_a_job_running_elsewhere_is_not_removed(job, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    made = job("a", fresh_output=folder)
    made.record_path.parent.mkdir()
    with made.log.open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(UnireError, match="another process runs a"):
            run_jobs([made], 1)
    assert folder.exists()


def test_an_output_that_cannot_be_removed_is_named(job, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(UnireError, match=r"link' cannot be removed"):
        run_jobs([job("a", fresh_output=tmp_path / "link")], 1)
    assert (tmp_path / "elsewhere").exists()


def test_a_record_that_does_not_say_what_it_needed_stays(job):
    first, second = job("first"), job("second", needs=("first",))
    run_jobs([first, second], 1)
    record = read_record(second.record_path)
    del record["needed"]
    second.record_path.write_text(json.dumps(record), encoding="utf-8")
    first.record_path.write_text(json.dumps({"printed": None}), encoding="utf-8")
    run_jobs([first, second], 1)
    assert read_record(second.record_path) == record


@pytest.mark.slow
def test_a_job_waits_for_what_it_needs_and_others_go_ahead(job):
    run_jobs([job("second", needs=("first",)), job("first", sleep=0.3), job("other")], 3)
    notes = job.notes()
    assert notes.index("first ends") < notes.index("second begins")
    assert notes.index("other begins") < notes.index("first ends")


def test_a_light_job_runs_beside_any_job(job):
    until_it_ends = "any('light ends' in open(notes.name).read() or time.sleep(0.05) for _ in range(1000))"
    run_jobs([job("alone", code=until_it_ends, exclusive=True), job("light", light=True), job("heavy")], 1)
    notes = job.notes()
    assert notes.index("light ends") < notes.index("alone ends") < notes.index("heavy begins")


def test_nothing_runs_beside_a_job_that_is_to_be_alone(job):
    run_jobs([job("alone", sleep=0.2, exclusive=True), job("a"), job("b")], 3)
    notes = job.notes()
    assert notes[:2] == ["alone begins", "alone ends"]
    assert len(notes) == 6


def test_a_job_that_is_alone_has_all_cores_to_itself(job, monkeypatch):
    monkeypatch.setattr(runner, "cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    note = "import os; notes.write(os.environ['OMP_NUM_THREADS'] + '\\n')"
    run_jobs([job("alone", code=note, exclusive=True), job("a", code=note)], 4)
    assert [line for line in job.notes() if line.isdecimal()] == ["8", "2"]


def test_a_failure_stops_the_others_and_says_why(job):
    began = time.monotonic()
    wrong = job("wrong", sleep=0.2, code="import sys; sys.stderr.write('error: no such data\\n'); sys.exit(1)")
    with pytest.raises(UnireError, match=r"wrong failed: no such data; see .*wrong\.log"):
        run_jobs([job("long", sleep=60), wrong], 2)
    assert time.monotonic() - began < 30
    assert "long ends" not in job.notes()
    assert not wrong.record_path.exists()
    with pytest.raises(UnireError, match="silent failed: exit status 3"):
        run_jobs([job("silent", code="import os; os._exit(3)")], 1)


def test_the_record_callback_runs_before_the_record_is_saved(job):
    made = job("a")

    def refuse(done, record):
        assert record["printed"] == {"name": "a"}
        assert not done.record_path.exists()
        raise UnireError("not good enough")

    with pytest.raises(UnireError, match="not good enough"):
        run_jobs([made], 1, on_finished=refuse)
    assert not made.record_path.exists()


@pytest.mark.slow
def test_an_interrupt_lets_the_jobs_end(job, monkeypatch):
    slow = job("slow", sleep=0.5)

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([slow], 1, log=interrupt)
    assert job.notes() == ["slow begins", "slow ends"]


def test_a_job_that_another_process_is_at_is_not_done_beside_it(job):
    made = job("a")
    made.log.parent.mkdir()
    with made.log.open("ab") as log:  # an orphan's: its starter was killed
        fcntl.flock(log, fcntl.LOCK_EX)
        writer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stderr=log)
    try:
        with pytest.raises(UnireError, match=r"another process runs a and writes .*a\.log; wait for it or stop it"):
            run_jobs([made], 1)
    finally:
        writer.kill()
        writer.wait()
    assert job.notes() == []
    run_jobs([made], 1)
    assert job.notes() == ["a begins", "a ends"]


def test_sigterm_stops_what_runs(job, tmp_path):
    slow = job("slow", sleep=60)

    def stop(line):
        while not job.notes():
            time.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run_jobs([slow], 1, log=stop)
    assert ended.value.code == 143
    assert job.notes() == ["slow begins"]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_stopped_job_has_limited_time_to_save_its_state(job, monkeypatch):
    monkeypatch.setattr(runner, "STOP_SECONDS", 2.0)
    willing, stubborn = (
        f"import signal; signal.signal(signal.SIGTERM, signal.{answer})"
        for answer in ("default_int_handler", "SIG_IGN")
    )
    saving = "try:\n time.sleep(60)\nexcept KeyboardInterrupt:\n notes.write('saved\\n')"

    def begun(program):
        return f"import time; notes = open({str(job.file)!r}, 'a', buffering=1); {program}"

    def fail(line):
        while len(job.notes()) < 2:
            time.sleep(0.05)
        raise UnireError("stop")

    made = [
        replace(job("saving"), command=("-c", begun(f"{willing}; notes.write('saving begins\\n')\n{saving}"))),
        job("stubborn", sleep=60),
    ]
    made[1] = replace(made[1], command=("-c", f"{stubborn}; {made[1].command[1]}"))
    began = time.monotonic()
    with pytest.raises(UnireError, match="stop"):
        run_jobs(made, 2, log=lambda line: fail(line) if "stubborn" in line else None)
    assert time.monotonic() - began < 30
    assert sorted(job.notes()) == ["saved", "saving begins", "stubborn begins"]


def test_a_broken_record_and_a_place_that_is_no_folder_are_refused(job, tmp_path):
    made = job("a")
    made.record_path.parent.mkdir()
    for broken in ("{", "[]"):
        made.record_path.write_text(broken, encoding="utf-8")
        with pytest.raises(UnireError, match="not the record of a finished job"):
            read_record(made.record_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UnireError, match="cannot be written to"):
        run_jobs([StudyJob("b", ("-c", ""), tmp_path / "file" / "cells" / "b.json")], 1)


def test_a_job_may_print_nothing(tmp_path):
    run_jobs([StudyJob("quiet", ("-c", ""), tmp_path / "quiet.json")], 1)
    assert json.loads((tmp_path / "quiet.json").read_text(encoding="utf-8"))["printed"] is None
