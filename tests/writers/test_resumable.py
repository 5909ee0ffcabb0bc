"""Files that grow and can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path
from shutil import copy

import pytest

from unire.errors import UnireError
from unire.writers import resumable
from unire.writers.resumable import MANIFEST, ResumableFile, ResumableFolder


def about() -> dict[str, object]:
    return {"model": "mine", "input": {"sources": ("a", "b")}}


def begin(path: Path, documents: int = 3) -> None:
    """A run that is stopped after some documents."""
    with suppress(KeyboardInterrupt), ResumableFile(path, about, resume=False) as file:
        for i in range(documents):
            file.add(str(i), f"line {i}\n".encode())
        raise KeyboardInterrupt


def test_a_finished_file_is_whole_and_alone(tmp_path):
    path = tmp_path / "new" / "out"
    with ResumableFile(path, about, resume=False) as file:
        file.add("a", b"one\n")
        assert not path.exists()
    assert path.read_bytes() == b"one\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["out"]
    with ResumableFile(path, about, resume=False) as file:
        file.add("a", b"other\n")
    assert path.read_bytes() == b"other\n"


def test_a_stopped_file_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "out"
    begin(path)
    with ResumableFile(path, about, resume=True) as file:
        assert (file.documents, file.last) == (3, "2")
        file.add("3", b"line 3\n")
    assert path.read_text() == "line 0\nline 1\nline 2\nline 3\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_head_is_written_once(tmp_path):
    path = tmp_path / "out"
    with suppress(KeyboardInterrupt), ResumableFile(path, about, resume=False, head=b"head\n") as file:
        file.add("0", b"line 0\n")
        raise KeyboardInterrupt
    with ResumableFile(path, about, resume=True, head=b"head\n") as file:
        file.add("1", b"line 1\n")
    assert path.read_text() == "head\nline 0\nline 1\n"
    with ResumableFile(path, about, resume=False, head=b"head\n"):
        ...
    assert path.read_text() == "head\n"


def test_lines_after_the_recorded_progress_are_truncated(tmp_path):
    path = tmp_path / "out"
    begin(path)
    with (tmp_path / "out.part").open("ab") as file:
        file.write(b"line 3\nhalf a li")
    with ResumableFile(path, about, resume=True) as file:
        file.add("3", b"line 3\n")
    assert path.read_text() == "line 0\nline 1\nline 2\nline 3\n"


def test_resume_starts_a_missing_file_and_sees_that_a_finished_one_is_complete(tmp_path):
    path = tmp_path / "out"
    with ResumableFile(path, about, resume=True) as file:
        assert (file.documents, file.complete) == (0, False)
        file.add("a", b"one\n")
    with ResumableFile(path, about, resume=True) as file:
        assert file.complete
    assert path.read_bytes() == b"one\n"


def test_a_partial_file_without_recorded_progress_is_restarted(tmp_path):
    path = tmp_path / "out"
    (tmp_path / "out.part").write_text("half a li")
    with ResumableFile(path, about, resume=True) as file:
        file.add("a", b"one\n")
    assert path.read_bytes() == b"one\n"


def test_a_run_that_fails_before_its_first_document_leaves_nothing(tmp_path):
    begin(tmp_path / "out", documents=0)
    assert list(tmp_path.iterdir()) == []


def test_hours_of_work_are_not_overwritten_by_a_forgotten_option(tmp_path):
    begin(tmp_path / "out")
    with pytest.raises(UnireError, match=r"out\.part holds 3 documents of an earlier run; continue .*resume=True"):
        ResumableFile(tmp_path / "out", about, resume=False)


def test_a_message_about_one_document_uses_the_singular(tmp_path):
    begin(tmp_path / "out", documents=1)
    with pytest.raises(UnireError, match=r"holds 1 document of an earlier run"):
        ResumableFile(tmp_path / "out", about, resume=False)


def test_the_run_description_is_not_computed_without_documents(tmp_path):
    def unknown() -> dict[str, object]:
        raise UnireError("there is no model")

    with pytest.raises(ValueError, match="the input"), ResumableFile(tmp_path / "out", unknown, resume=False):
        raise ValueError("the input")
    assert not list(tmp_path.iterdir())


def test_a_link_is_followed_to_what_is_replaced(tmp_path):
    link, target = tmp_path / "link", tmp_path / "store" / "out"
    link.symlink_to(target)
    begin(link)
    assert target.with_name("out.part").exists()
    with ResumableFile(link, about, resume=True) as file:
        file.add("3", b"line 3\n")
    assert target.read_text().splitlines()[-1] == "line 3"
    assert link.is_symlink()


def test_the_partial_file_of_another_run_is_not_resumed(tmp_path):
    begin(tmp_path / "out")
    with pytest.raises(UnireError, match="started with another model"):
        ResumableFile(tmp_path / "out", lambda: {**about(), "model": "yours"}, resume=True)


def test_a_damaged_file_is_reported(tmp_path):
    begin(tmp_path / "out")
    (tmp_path / "out.part").write_text("line")
    with pytest.raises(UnireError, match="is shorter than recorded"):
        ResumableFile(tmp_path / "out", about, resume=True)
    (tmp_path / "out.part.json").write_text("{")
    with pytest.raises(UnireError, match="cannot be read"):
        ResumableFile(tmp_path / "out", about, resume=True)


@pytest.mark.parametrize("note", ["[]", "{}", "3", "null", '{"documents": 3}', '{"documents": "3", "bytes": 1}'])
def test_an_invalid_progress_record_is_reported(tmp_path, note):
    begin(tmp_path / "out")
    (tmp_path / "out.part.json").write_text(note)
    with pytest.raises(UnireError, match=r"out\.part\.json does not record the progress .*; delete it to start again"):
        ResumableFile(tmp_path / "out", about, resume=True)


@pytest.mark.parametrize("note", ["[]", "null", '{"complete": true}', '{"complete": 1, "about": {}}'])
def test_a_folder_with_a_note_of_another_form_is_not_resumed(tmp_path, note):
    ResumableFolder(tmp_path / "out", about(), resume=False)
    (tmp_path / "out" / "000000.parquet").touch()
    ResumableFolder(tmp_path / "out", about(), resume=True)
    (tmp_path / "out" / MANIFEST).write_text(note)
    with pytest.raises(UnireError, match=r"_manifest\.json does not record the progress of .*; give a new folder"):
        ResumableFolder(tmp_path / "out", about(), resume=True)


def test_another_last_document_is_refused_also_when_resumed_twice(tmp_path):
    path = tmp_path / "out"
    with suppress(KeyboardInterrupt), ResumableFile(path, about, resume=False) as file:
        file.add("0", b"line 0\n", "text 0")
        raise KeyboardInterrupt
    for _ in range(2):
        with suppress(KeyboardInterrupt), ResumableFile(path, about, resume=True) as file:
            file.check_last("0", "text 0")
            for name, text in ((None, ""), ("1", "text 0"), ("0", "text 1")):
                with pytest.raises(UnireError, match="the input has changed: document 1 of it"):
                    file.check_last(name, text)
            raise KeyboardInterrupt


def test_an_unwritable_path_is_refused_at_once(tmp_path):
    with pytest.raises(UnireError, match="is a folder"):
        ResumableFile(tmp_path, about, resume=False)
    (tmp_path / "file").touch()
    with pytest.raises(UnireError, match="cannot be written"):
        ResumableFile(tmp_path / "file" / "out", about, resume=False)
    with pytest.raises(UnireError, match="cannot be written"):
        ResumableFile(Path("/proc/out"), about, resume=False)


def noted(path: Path, documents: int) -> None:
    """Wait until so many documents are noted."""
    note = path.with_name(f"{path.name}.part.json")
    for _ in range(2000):
        if note.exists() and json.loads(note.read_text())["documents"] == documents:
            return
        time.sleep(0.005)
    pytest.fail(f"{documents} documents were never noted")


def test_documents_that_come_together_are_all_noted_before_the_next_one_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "SAVE_SECONDS", 0.05)
    path, killed = tmp_path / "out", tmp_path / "killed"
    with ResumableFile(path, about, resume=False) as file:
        for together in ((0, 1, 2), (3, 4)):
            for i in together:
                file.add(str(i), f"line {i}\n".encode())
            noted(path, file.documents)
        for end in (".part", ".part.json"):  # what a kill would leave
            copy(f"{path}{end}", f"{killed}{end}")
    with ResumableFile(killed, about, resume=True) as file:
        assert (file.documents, file.last) == (5, "4")
    assert killed.read_bytes() == path.read_bytes()


def test_a_full_disk_is_reported_and_recorded_progress_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "SAVE_SECONDS", 0.01)
    path = tmp_path / "out"
    tried = threading.Event()

    def full(*_: object) -> None:
        tried.set()
        raise OSError(28, "No space left on device")

    def fill() -> None:
        with ResumableFile(path, about, resume=False) as file:
            file.add("0", b"line 0\n")
            noted(path, 1)
            monkeypatch.setattr(resumable.os, "fsync", full)
            file.add("1", b"line 1\n")
            assert tried.wait(10)
            file.add("2", b"line 2\n")
            pytest.fail("the full disk was not reported")

    with pytest.raises(UnireError, match="No space left"):
        fill()
    monkeypatch.undo()
    with ResumableFile(path, about, resume=True) as file:
        assert file.documents == 1
        file.add("1", b"line 1\n")
    assert path.read_text() == "line 0\nline 1\n"


WRITER = """
    import sys, time
    from pathlib import Path
    from unire.writers import resumable
    from unire.writers.resumable import MANIFEST, ResumableFile, ResumableFolder

    resumable.SAVE_SECONDS = 0.01
    with ResumableFile(Path(sys.argv[1]), dict, resume=True) as file:
        print(file.documents, flush=True)
        for i in range(file.documents, 3000):
            file.add(str(i), (f"line {i} " + 50 * "x" + "\\\\n").encode())
            time.sleep(0.0005)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
def test_killed_at_any_moment_no_line_is_lost_or_doubled(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", textwrap.dedent(WRITER).replace("\\\\n", "\\n"), str(out)]
    resumed_at = []
    for delay in (0.05, 0.13, 0.21, 0.34, None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        resumed_at.append(int(process.stdout.readline()))
        if delay is None:
            assert process.wait(60) == 0
        else:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            assert process.wait(60) == -signal.SIGKILL
    assert resumed_at == sorted(resumed_at)
    assert resumed_at[-1] > 0
    assert [line.split()[1] for line in out.read_text().splitlines()] == [str(i) for i in range(3000)]
