"""One writer for each output; readers that never write, and never see half of a folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.chaos import load_while_saving
from unire import formats
from unire.analysis.splits import write_parts
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.files import lock_folder, read_folder, replace_atomically
from unire.graph import Graph, write_neo4j
from unire.hub.model_dir import ModelDir, copy_model, fingerprint
from unire.models.unire import UniRE
from unire.output_files import check_output_folder, lock_output, lock_path, locks_output

HOLD = (
    "import sys, time\n"
    "from unire.output_files import lock_output\n"
    "with lock_output(sys.argv[1]):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


@pytest.fixture
def holder(tmp_path):
    """Starts a process that holds the lock of an output until it is killed."""
    started = []

    def start(out: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


# Outputs


def test_a_second_process_is_refused_and_the_error_names_the_first(holder, tmp_path):
    out = tmp_path / "model"
    first = holder(out)
    with (
        pytest.raises(
            UnireError,
            match=rf"^'{out}' is being written by process {first.pid} on \S+ since \d{{4}}-.*\(-c {out}\); wait "
            "for it, or choose another output$",
        ),
        lock_output(out),
    ):
        pytest.fail("both hold it")
    with lock_output(tmp_path / "model2"):
        pass


@pytest.mark.parametrize(
    "write",
    [
        lambda out, documents: write_parts({"train": documents}, out),
        lambda out, documents: formats.write(documents, out, "brat"),
        lambda out, documents: write_neo4j(Graph(documents), out),
    ],
    ids=["splits", "a folder of annotation", "a graph for Neo4j"],
)
def test_a_folder_that_another_process_writes_is_refused(write, holder, twenty, tmp_path):
    out = tmp_path / "out"
    first = holder(out)
    with pytest.raises(UnireError, match=f"^'{out}' is being written by process {first.pid} "):
        write(out, twenty)
    assert not out.exists()
    first.kill()
    first.wait()
    write(out, twenty)
    assert list(tmp_path.iterdir()) == [out]


def test_a_lock_names_the_command_however_it_was_started(tmp_path, monkeypatch):
    for program in ("/usr/bin/unire", "/usr/lib/unire/__main__.py"):
        monkeypatch.setattr(sys, "argv", [program, "train", "--out", "a b"])
        with lock_output(tmp_path / "model"):
            assert lock_path(tmp_path / "model").read_text().endswith(" (unire train --out 'a b')")


def test_a_link_does_not_get_round_a_lock(holder, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model")
    holder(tmp_path / "link")
    with pytest.raises(UnireError, match="is being written by process"), lock_output(tmp_path / "model"):
        pass


def test_a_lock_leaves_nothing_behind(tmp_path):
    with lock_output(tmp_path / "a" / "model"):
        assert [path.name for path in (tmp_path / "a").iterdir()] == [".model.lock"]
    assert list(tmp_path.iterdir()) == []
    with lock_output(tmp_path / "a" / "b" / "model"):
        (tmp_path / "a" / "kept").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


def test_a_killed_process_holds_no_lock_and_what_it_left_is_deleted(holder, tmp_path):
    out = tmp_path / "model"
    first = holder(out)
    others = [tmp_path / ".model.v2.0123abcd.partial", tmp_path / ".model.0123abcd.previous", tmp_path / "model.part"]
    for path in (*others, tmp_path / ".model.0123abcd.partial"):
        path.mkdir()
    (tmp_path / ".model.part.json.0123abcd.partial").touch()
    first.kill()
    first.wait()
    assert lock_path(out).exists()
    with lock_output(out):
        assert lock_path(out).read_text().startswith(f"process {os.getpid()} on ")
        assert sorted(tmp_path.iterdir()) == sorted([lock_path(out), *others])
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_the_lock_file_of_a_killed_process_is_not_content_of_an_output_folder(holder, tmp_path):
    first = holder(tmp_path / "out" / "model")
    with pytest.raises(UnireError, match=r"already exists and holds '\.model\.lock'"):
        check_output_folder(tmp_path / "out")
    first.kill()
    first.wait()
    check_output_folder(tmp_path / "out")


def test_a_file_of_that_name_that_is_no_lock_is_neither_changed_nor_deleted(tmp_path):
    lock_path(tmp_path / "model").write_text("mine")
    with lock_output(tmp_path / "model"):
        pass
    assert lock_path(tmp_path / "model").read_text() == "mine"
    lock_path(tmp_path / "other").symlink_to(tmp_path / "thesis")
    with lock_output(tmp_path / "other"):
        pass
    assert not (tmp_path / "thesis").exists()


def test_the_thread_that_holds_a_lock_may_ask_again_and_another_may_not(tmp_path):
    out = tmp_path / "model"
    refused = []

    def second():
        try:
            with lock_output(out):
                pass
        except UnireError as error:
            refused.append(str(error))

    with lock_output(out):
        with lock_output(out):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert f"process {os.getpid()} " in refused[0]
    second()
    assert len(refused) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_that_outlives_its_parent_does_not_keep_the_lock(tmp_path):
    program = (
        "import os, sys, time\n"
        "from unire.output_files import lock_output\n"
        "with lock_output(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        time.sleep(60)\n"
        "    print(child, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.Popen([sys.executable, "-c", program, tmp_path / "model"], stdout=subprocess.PIPE, text=True)
    child = int(ran.stdout.readline())
    try:
        assert ran.wait() == -signal.SIGKILL
        with lock_output(tmp_path / "model"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        ran.communicate()


def test_where_no_lock_file_can_be_the_writer_says_why(tmp_path):
    (tmp_path / "file").touch()
    with lock_output(tmp_path / "file" / "model"):
        pass
    with lock_output("/"):
        pass


def test_only_the_main_process_of_a_distributed_run_holds_a_lock(holder, tmp_path, monkeypatch):
    holder(tmp_path / "model")
    monkeypatch.setenv("RANK", "1")
    with lock_output(tmp_path / "model"):
        pass


def test_a_function_holds_the_lock_of_its_argument_out(tmp_path):
    @locks_output
    def write(data: str, out: Path, *, end: str = "") -> str:
        assert lock_path(out).exists()
        return data + end

    assert write("a", tmp_path / "x", end="b") == "ab"
    assert write(out=tmp_path / "x", data="a") == "a"
    assert list(tmp_path.iterdir()) == []


# Folders


def test_a_folder_is_replaced_when_its_readers_are_done(tmp_path):
    out, order = tmp_path / "model", []
    with replace_atomically(out, directory=True) as temporary:
        (temporary / "version").write_text("1")

    def replace():
        with replace_atomically(out, directory=True) as temporary:
            (temporary / "version").write_text("2")
            written.set()
        order.append("replaced")

    written = threading.Event()
    writer = threading.Thread(target=replace)
    with read_folder(out) as folder, read_folder(out):
        writer.start()
        written.wait()
        writer.join(0.1)
        assert (folder / "version").read_text() == "1"
        order.append("read")
    writer.join()
    assert order == ["read", "replaced"]
    assert (out / "version").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_waiting_for_readers_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("unire.files.WAIT_SECONDS", 0.05)
    (tmp_path / "model").mkdir()
    with lock_folder(tmp_path / "model"), read_folder(tmp_path / "model") as folder:
        assert folder == tmp_path / "model"
        with replace_atomically(folder, directory=True) as temporary:
            (temporary / "new").touch()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["new"]


def test_a_model_that_was_moved_aside_is_loaded_and_nothing_is_renamed(random_model, tmp_path):
    aside = tmp_path / ".model.0123abcd.previous"
    shutil.copytree(random_model, aside)
    assert ModelDir.open(tmp_path / "model").config == ModelDir.open(random_model).config
    assert fingerprint(tmp_path / "model") == fingerprint(random_model)
    Extractor.load(tmp_path / "model", device="cpu").save(tmp_path / "saved")
    copy_model(tmp_path / "model", tmp_path / "copied")
    assert fingerprint(tmp_path / "copied") == fingerprint(random_model)
    assert sorted(path.name for path in tmp_path.iterdir()) == [aside.name, "copied", "saved"]
    copy_model(random_model, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied", "model", "saved"]


@pytest.mark.slow
@pytest.mark.parametrize("save", ["copy", "settings", "torch"])
def test_saving_a_model_deletes_what_a_killed_save_has_left(exported, tmp_path, save):
    saves = {
        "copy": lambda out: copy_model(exported, out),
        "settings": lambda out: Extractor.load(exported, alpha=2.0, engine="onnx").save(out),
        "torch": lambda out: UniRE.from_pretrained(exported).save_pretrained(out),
    }
    (tmp_path / ".model.0123abcd.partial").mkdir()
    (tmp_path / ".model.lock").write_text("process 1 on a since then (unire train)")
    saves[save](tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_a_model_that_is_being_saved_is_loaded_whole_and_every_save_succeeds(exported, twenty, tmp_path):
    """Hundreds of times, and always one version: configuration, weights and graph."""
    target, versions, expected = tmp_path / "model", [], {}
    for alpha in (1.0, 2.0):
        versions.append(tmp_path / f"version-{alpha}")
        extractor = Extractor.load(exported, alpha=alpha, device="cpu")
        extractor.save(versions[-1])
        expected[fingerprint(versions[-1])] = alpha
    copy_model(versions[0], target)

    def load(path: Path) -> str:
        model = Extractor.load(path, engine="onnx").model_dir
        assert model.config.alpha in (1.0, 2.0)
        return fingerprint(path)

    loaded = load_while_saving(versions, target, 300, load)
    assert set(loaded) == set(expected)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
