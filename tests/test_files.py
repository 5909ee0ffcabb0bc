from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unire.errors import UnireError
from unire.files import is_append_only, open_stream, open_text_output, read_folder, replace_atomically
from unire.output_files import check_output_file, check_output_folder


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replace_atomically(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == tmp_path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_replaces_another_with_nothing_of_the_old_one_left(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for name in ("old", "new"):
        with replace_atomically(path, directory=True) as temporary:
            (temporary / "inner").mkdir()
            (temporary / "inner" / name).write_text(name)
    assert [p.name for p in (path / "inner").iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("directory", [False, True])
def test_whatever_stops_the_writing_leaves_the_old_one_and_no_rubbish(
    tmp_path: Path, directory: bool, interruption: type[BaseException]
) -> None:
    path = tmp_path / "a"
    with replace_atomically(path, directory=directory) as temporary:
        (temporary / "b" if directory else temporary).write_text("old")
    with pytest.raises(interruption), replace_atomically(path, directory=directory) as temporary:  # noqa: PT012
        (temporary / "b" if directory else temporary).write_text("ne")
        raise interruption
    assert (path / "b" if directory else path).read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_of_the_system_and_leaves_no_rubbish(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught, replace_atomically(tmp_path / "a") as temporary:  # noqa: PT012
        temporary.symlink_to("/dev/full")
        temporary.write_text("much")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    program = (
        "import os, signal, sys\n"
        "from unire.files import replace_atomically\n"
        "with replace_atomically(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('ne')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -9
    assert path.read_text() == "old"


def test_a_folder_that_cannot_be_moved_in_leaves_the_old_one_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    with replace_atomically(path, directory=True) as temporary:
        (temporary / "old").touch()
    rename = Path.rename

    def refuse(source: Path, target: Path) -> Path:
        if source.name.endswith(".partial"):
            raise PermissionError
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError), replace_atomically(path, directory=True) as temporary:
        (temporary / "new").touch()
    assert [p.name for p in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_left_aside_by_a_killed_process_is_read_where_it_is(tmp_path: Path) -> None:
    aside = tmp_path / ".model.0123abcd.previous"
    aside.mkdir()
    (aside / "old").touch()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    for name in ("model", "link"):
        with read_folder(tmp_path / name) as folder:
            assert folder == aside
            assert [p.name for p in folder.iterdir()] == ["old"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [aside.name, "link"]


def test_a_folder_left_aside_is_put_back_if_its_replacement_cannot_be_moved_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = tmp_path / ".model.0123abcd.previous"
    aside.mkdir()
    (aside / "old").touch()
    rename = Path.rename

    def refuse(source: Path, target: Path) -> Path:
        if source.name.endswith(".partial"):
            raise PermissionError
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError), replace_atomically(tmp_path / "model", directory=True):
        pass
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["old"]
    assert not aside.exists()


def test_a_folder_left_aside_is_cleared_away_once_the_new_one_stands(tmp_path: Path) -> None:
    for name in (".model.0123abcd.previous", "model", ".model.v2.0123abcd.previous"):
        (tmp_path / name).mkdir()
    with replace_atomically(tmp_path / "model", directory=True):
        pass
    assert sorted(p.name for p in tmp_path.iterdir()) == [".model.v2.0123abcd.previous", "model"]


def test_a_folder_that_is_not_there_is_read_as_missing(tmp_path: Path) -> None:
    with read_folder(tmp_path / "model") as folder:
        assert folder == tmp_path / "model"
    assert list(tmp_path.iterdir()) == []


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with replace_atomically(tmp_path / "a" / "b" / "c.txt") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replace_atomically(tmp_path / "link") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


def test_permissions_survive(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o600)
    with replace_atomically(path) as temporary:
        temporary.write_text("x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with replace_atomically(path) as given:
        assert given == path
    assert path.is_fifo()


def test_a_file_does_not_replace_a_folder_nor_a_folder_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(IsADirectoryError), replace_atomically(tmp_path / "folder"):
        pass
    with pytest.raises(NotADirectoryError), replace_atomically(tmp_path / "file", directory=True):
        pass


def test_text_goes_to_a_stream_as_it_is_and_to_a_file_in_utf8(tmp_path):
    stream = io.StringIO(newline="")
    for target in (stream, tmp_path / "file"):
        with open_text_output(target) as file:
            file.write("naïve\r\nα\n")
    assert stream.getvalue().encode() == (tmp_path / "file").read_bytes() == "naïve\r\nα\n".encode()


def test_a_closed_pipe_is_raised_and_a_full_disk_is_reported():
    with pytest.raises(BrokenPipeError), open_text_output(io.StringIO()):
        raise BrokenPipeError
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(UnireError, match="the output cannot be written: No space"), open_text_output(io.StringIO()):
        raise full


def test_a_folder_is_new_where_there_is_nothing_or_nothing_in_it(tmp_path: Path) -> None:
    check_output_folder(tmp_path)
    check_output_folder(tmp_path / "no" / "such")
    file = tmp_path / "file"
    file.touch()
    for place, problem in ((tmp_path, "already exists and holds 'file'"), (file, "is a file")):
        with pytest.raises(UnireError, match=f"^output folder '{place}' {problem}; pass a new folder$"):
            check_output_folder(place)
    with pytest.raises(UnireError, match=r"holds 'file'; think again$"):
        check_output_folder(str(tmp_path), remedy="think again")
    check_output_folder(tmp_path, replaceable=("file",))
    (tmp_path / "thesis").touch()
    with pytest.raises(UnireError, match="already exists and holds 'thesis'"):
        check_output_folder(tmp_path, replaceable=("file",))


def test_a_folder_moved_aside_counts_as_an_existing_output(tmp_path: Path) -> None:
    aside = tmp_path / ".model.0123abcd.previous"
    aside.mkdir()
    (aside / "weights").touch()
    with pytest.raises(UnireError, match=r"model\.0123abcd\.previous' already exists and holds 'weights'"):
        check_output_folder(tmp_path / "model")
    assert (aside / "weights").exists()


def test_an_input_cannot_be_an_output_by_any_name(tmp_path: Path) -> None:
    folder, link, hard = tmp_path / "folder", tmp_path / "link", tmp_path / "hard"
    file = folder / "file"
    folder.mkdir()
    file.touch()
    link.symlink_to(file)
    hard.hardlink_to(file)
    for out in (file, folder / ".." / "folder" / "file", link, hard):
        with pytest.raises(UnireError, match="is also an input; write to another file"):
            check_output_file(out, [tmp_path / "gone", file])
    check_output_file(folder / "other", [file, folder])
    alias = tmp_path / "alias"
    alias.symlink_to(folder)
    for out in (folder / "other", alias / "deep" / "other", alias):
        with pytest.raises(UnireError, match=r"is inside the input folder .*folder; write to another folder"):
            check_output_file(out, [], [folder])
    check_output_file(tmp_path / "folder2", [], [folder])
    check_output_file("/dev/null", ["/dev/null"])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs names for open files")
def test_a_file_that_is_open_is_written_on_by_whatever_name_and_never_replaced(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    with path.open("wb") as file:
        number = file.fileno()
        link.symlink_to(f"/dev/fd/{number}")
        for name in (f"/dev/fd/{number}", f"/proc/self/fd/{number}", f"/proc/{os.getpid()}/fd/{number}", str(link)):
            assert is_append_only(name)
            with open_text_output(name) as stream:
                stream.write("whole ")
            with open_stream(name) as lines:
                lines.write(b"line ")
        with pytest.raises(NotADirectoryError), replace_atomically(link, directory=True):
            pass
        file.write(b"end")
    assert path.read_text() == "whole line " * 4 + "end"
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [path, link]


def test_names_of_open_streams_are_recognised(tmp_path: Path) -> None:
    for name in ("/dev/stdin", "/dev/stdout", "/dev/../dev/stderr", "/dev/fd/12", "/proc/self/fd/1", "/proc/1/fd/1"):
        assert is_append_only(name)
    for name in ("/dev/stdout.jsonl", "/dev/fd", "stdout", "/home/dev/stdout", "/proc/self/fd/x", tmp_path):
        assert not is_append_only(name)


def test_the_root_is_not_replaced() -> None:
    with pytest.raises(OSError, match="busy"), replace_atomically("/", directory=True):
        raise AssertionError


def test_a_file_that_is_not_packed_is_not_written_under_the_name_of_one_that_is(tmp_path: Path) -> None:
    with (
        pytest.raises(
            UnireError,
            match=r"found\.jsonl\.gz cannot be written compressed; write \S+found\.jsonl and",
        ),
        open_text_output(tmp_path / "found.jsonl.gz"),
    ):
        pass
    assert not list(tmp_path.iterdir())
