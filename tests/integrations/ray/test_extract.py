"""`unire extract --ray`: the same results on a cluster, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.ray import bare, ray_or_skip, rows_of
from unire import formats
from unire.cli.main import app, name_options
from unire.errors import UnireError
from unire.integrations import ray
from unire.integrations.ray import shards
from unire.integrations.ray.extract import UNUSED_WORKER, WAITING_WORKER
from unire.integrations.ray.shards import ExtractionResult, Shard, plan_shards, stamp_files
from unire.sources import TextSources

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def local_cluster() -> Iterator[None]:
    """Two cores of this machine, for all tests."""
    ray = ray_or_skip()
    options = {"include_dashboard": False, "object_store_memory": 10**8, "log_to_driver": False}
    ray.init(address="local", num_cpus=2, logging_level="error", **options)
    yield
    ray.shutdown()


def run(*arguments: object) -> None:
    ran = CliRunner().invoke(app, ["extract", *map(str, arguments)])
    assert ran.exit_code == 0, (ran.output, ran.exception)


def workers_of(parent: int) -> list[int]:
    """Processes that work for a cluster which this one started."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            raylet = int((Path("/proc") / str(parents) / "stat").read_text().rpartition(")")[2].split()[1])
            if raylet == parent and b"MapWorker" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def test_a_cluster_finds_what_the_plain_command_finds(local_cluster, exported, corpus, small_shards, tmp_path):
    run("--model", exported, "--device", "cpu", corpus, "--out", tmp_path / "plain.parquet")
    run("--model", exported, "--ray", corpus, "--out", tmp_path / "found")
    plain, found = rows_of(tmp_path / "plain.parquet"), rows_of(tmp_path / "found")
    assert len(plain) == 42
    assert any(row["relations"] for row in plain)
    assert bare(found) == plain
    numbers = {(Path(row["source"]).name, row["number"]) for row in found}
    assert numbers == {
        ("a.txt", 1),
        ("b.txt", 1),
        *(("c.jsonl", number) for number in (*range(1, 8), *range(9, 22))),  # the eighth line is empty
        *(("d.parquet", number) for number in range(1, 21)),
    }
    places = {row["id"]: row["number"] for row in found}
    assert (places["json-6"], places["json-7"]) == (7, 9)
    assert {row["block"] for row in found} == {path.stem for path in (tmp_path / "found").glob("*.parquet")}
    one = next((tmp_path / "found").glob("*.parquet"))
    assert all(document.id for document in formats.read(one))
    assert json.loads((tmp_path / "found" / "_manifest.json").read_text())["complete"] is True


@pytest.mark.parametrize("bad", [b"no JSON", b'{"title": "A text."}', b'{"text": 3}', b'{"text": "\xff"}'])
def test_a_bad_first_document_is_reported_in_the_words_of_the_plain_command(local_cluster, exported, tmp_path, bad):
    path = tmp_path / "some.jsonl"
    path.write_bytes(bad + b'\n{"text": "A parser is tested."}\n')
    plain = CliRunner().invoke(app, ["extract", "--model", str(exported), str(path)])
    ran = CliRunner().invoke(
        app,
        ["extract", "--model", str(exported), "--ray", str(path), "--out", str(tmp_path / "found"), "--workers", "3"],
    )
    assert ran.exit_code == plain.exit_code == 1
    assert isinstance(ran.exception, SystemExit)
    assert f"error: {name_options(str(plain.exception), ['extract'])}" in ran.stderr
    assert "failed: 1 × document" in ran.stderr
    assert "note: 2 × worker that was not started" in ran.stderr
    first, second = sorted(rows_of(tmp_path / "found"), key=lambda row: row["number"])
    assert first["error"] == str(plain.exception)
    assert (second["text"], second["error"]) == ("A parser is tested.", None)
    again = CliRunner().invoke(
        app, ["extract", "--model", str(exported), "--ray", str(path), "--out", str(tmp_path / "found"), "--resume"]
    )
    assert again.exit_code == 1, "what failed has not been corrected"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_killed_worker_costs_no_document(local_cluster, exported, corpus, small_shards, tmp_path):
    killed = []

    def kill_one(shard: Shard, result: ExtractionResult, earlier: bool) -> None:
        if not killed:
            killed.append(workers_of(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    inputs = TextSources([str(corpus)])
    done = ray.extract(inputs, tmp_path / "found", model=str(exported), on_shard=kill_one)
    assert killed
    assert killed[0] not in workers_of(os.getpid())
    assert done.documents == 42
    assert [row["id"] for row in rows_of(tmp_path / "found")] == sorted(item.id for item in inputs)
    assert not list((tmp_path / "found").glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
def test_a_killed_command_is_resumed_and_nothing_is_lost_or_doubled(
    local_cluster, exported, corpus, small_shards, tmp_path
):
    out = tmp_path / "found"
    code = (
        "import sys; from pathlib import Path; from unire.integrations.ray import shards, extract; "
        "from unire.sources import TextSources; "
        "shards.MIN_SHARD_BYTES = 400; extract(TextSources(sys.argv[1:2]), Path(sys.argv[2]), model=sys.argv[3], "
        "address='local')"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(corpus), str(out), str(exported)])
    deadline = time.monotonic() + 300
    while not list(out.glob("*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(1)  # what it started ends as well
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    inputs = TextSources([str(corpus)])
    total = len(plan_shards(inputs, stamp_files(inputs)))
    assert 0 < len(before) < total
    with pytest.raises(UnireError, match="holds an earlier run; continue it with resume=True"):
        ray.extract(inputs, out, model=str(exported))
    earlier_shards = Counter()
    done = ray.extract(
        inputs,
        out,
        model=str(exported),
        resume=True,
        on_shard=lambda shard, result, earlier: earlier_shards.update([earlier]),
    )
    assert earlier_shards == {True: len(before), False: total - len(before)}
    assert done.documents == 42
    assert [row["id"] for row in rows_of(out)] == sorted(item.id for item in inputs)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert len(after) == total
    assert before.items() <= after.items()
    assert not list(out.glob(".*"))
    assert ray.extract(inputs, out, model=str(exported), resume=True) == done


def test_a_terminated_command_says_how_to_continue(exported, corpus, tmp_path):
    """On SIGTERM, as job queues and containers send it; Ray itself would crash."""
    ray_or_skip()
    code = (
        "from unire.integrations.ray import shards; from unire.cli.main import main; "
        "shards.MIN_SHARD_BYTES = 400; main()"
    )
    arguments = ["extract", "--ray", "local", corpus, "--model", exported, "--out", tmp_path / "found"]
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list((tmp_path / "found").glob("*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    _, stderr = process.communicate(timeout=60)
    assert stderr == f"stopped: {tmp_path / 'found'} keeps the finished blocks; continue with --resume\n"
    assert process.returncode == 130


NODES = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
from unire.cli import console
from unire.cli.main import app
from unire.integrations.ray import shards

shards.MIN_SHARD_BYTES = 400
node = {"num_cpus": 1, "object_store_memory": 10**8}
nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
other = nodes.add_node(**node)
advance, calls = console.ProgressMeter.advance, []

def fall_out(self, *arguments, **more):
    if not calls:
        nodes.remove_node(other, allow_graceful=False)
    calls.append(arguments)
    advance(self, *arguments, **more)

console.ProgressMeter.advance = fall_out
app(["extract", "--json", "--model", sys.argv[1], "--ray", nodes.address, sys.argv[2], "--out", sys.argv[3]])
"""


def test_a_node_that_falls_out_costs_no_document_and_says_nothing_on_standard_output(exported, corpus, tmp_path):
    ray_or_skip()
    arguments = [sys.executable, "-c", NODES, exported, corpus, tmp_path / "found"]
    soon = {**os.environ, "RAY_health_check_period_ms": "200"}  # Ray gives a node up after five, of 3 seconds each
    ran = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=300, env=soon)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["documents"] == 42
    ids = [row["id"] for row in rows_of(tmp_path / "found")]
    assert ids == sorted(item.id for item in TextSources([str(corpus)]))


def test_workers_without_a_core_or_a_block_are_counted(local_cluster, exported, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MIN_SHARD_BYTES", 1200)
    inputs = TextSources([str(corpus)])
    n_shards = len(plan_shards(inputs, stamp_files(inputs)))
    assert n_shards > 2
    done = ray.extract(inputs, tmp_path / "found", model=str(exported), workers=n_shards + 5)
    assert done.documents == 42
    assert done.notes == {UNUSED_WORKER: 5, WAITING_WORKER: n_shards - 2}


def test_files_of_a_folder_that_are_left_out_are_counted(local_cluster, exported, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.txt", "b.rst"):
        (folder / name).write_text("A text.")
    done = ray.extract(TextSources([str(folder)]), tmp_path / "found", model=str(exported), workers=1)
    assert (done.documents, done.notes) == (1, {"file of another kind left out (.rst)": 1})


def test_an_error_that_stops_one_worker_stops_the_run(local_cluster, exported, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    inputs = TextSources([str(tmp_path / "text.txt")])
    with pytest.raises(UnireError, match="this model stores no type constraints"):
        ray.extract(inputs, tmp_path / "found", model=str(exported), constraints="learnt")
    with pytest.raises(UnireError, match="the cluster has 0 GPUs, but this run needs 2; pass a smaller gpus="):
        ray.extract(inputs, tmp_path / "found", model=str(exported), gpus=2)
