"""`unire extract --ray`: the same findings on a cluster, whatever is killed, and what is wrong told in one sentence."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from unire import cluster, formats, texts
from unire.cli.extract_ray import address_in
from unire.cli.main import app
from unire.cluster import blocks as blocks_room
from unire.cluster.blocks import Block, plan, stamps
from unire.cluster.connection import address_of
from unire.cluster.extract import IDLE, WAITING, _about, _job
from unire.cluster.folder import Finished, OutputFolder, path_of
from unire.cluster.worker import AGAIN, TRIES, Job, Worker
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.folders import fingerprint
from unire.inputs import Inputs
from unire.texts import Part

FIXTURES = Path(__file__).parent / "fixtures"
EXTRA = ["source", "number", "block", "error"]


def rows_of(path: Path) -> list[dict]:
    table = pyarrow.dataset.dataset(str(path), format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def bare(rows: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if key not in EXTRA} for row in rows]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_room, "SMALLEST", 400)


@pytest.fixture
def sentences(twenty) -> list[str]:
    return [" ".join(sentence.words) for document in twenty for sentence in document.sentences]


@pytest.fixture
def corpus(tmp_path: Path, sentences) -> Path:
    """Text, JSON lines with ids and an empty line, and Parquet of several row groups."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(sentences[:3]))
    (folder / "b.txt").write_text(sentences[3])
    lines = [json.dumps({"id": f"json-{i}", "text": text}) for i, text in enumerate(sentences)]
    (folder / "c.jsonl").write_text("\n".join([*lines[:7], "", *lines[7:]]))
    pq.write_table(pa.table({"text": sentences}), folder / "d.parquet", row_group_size=6)
    return folder


# Blocks


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.integers(1, 30), st.booleans())
def test_lines_in_parts_are_the_lines_of_the_file(tmp_path_factory, lines, size, ended):
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_bytes(b"\n".join(b"x" + line.hex().encode() for line in lines) + (b"\n" if ended else b""))
    with path.open("rb") as file:
        parts = list(texts.line_parts(file, "lines", size))
        file.seek(0)
        whole = list(texts.from_lines(file, "lines"))
        assert [text for part in parts for text in texts.from_lines(file, "lines", part)] == whole
        assert sum(part.size for part in parts) == path.stat().st_size
        assert all(part.size >= size for part in parts[:-1])
        singles = [single for part in parts for single in texts.line_parts(file, "lines", 1, part)]
        assert [(single.start, single.stop) for single in singles] == [(i, i + 1) for i in range(len(whole))]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 300))
def test_rows_in_parts_are_the_rows_of_the_file(tmp_path_factory, rows, group, size):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({"text": [f"row {i}" for i in range(rows)]}), path, row_group_size=group)
    parts = list(texts.row_parts(path, "text", size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "ROWS", 8)
        found = [text for part in parts for text in texts.from_parquet(path, "text", part)]
    assert [(text.number, text.text) for text in found] == [(i + 1, f"row {i}") for i in range(rows)]
    assert found == list(texts.from_parquet(path))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts)][: len(parts)]


def test_texts_that_repeat_are_not_taken_for_short_ones(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["The same text in every row, which Parquet holds but once."] * 10_000}), path)
    assert len(list(texts.row_parts(path, "text", 2**15))) == 20


def test_a_part_may_span_row_groups(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": [str(i) for i in range(100)]}), path, row_group_size=7)
    assert [text.text for text in texts.from_parquet(path, "text", Part(5, 33))] == [str(i) for i in range(5, 33)]
    assert [(part.start, part.stop) for part in texts.row_parts(path, "text", 1, Part(5, 9))] == [
        *((5, 6), (6, 7), (7, 8), (8, 9)),
    ]


def test_blocks_hold_every_document_once_and_are_the_same_every_time(corpus, small_blocks):
    inputs = Inputs([str(corpus)])
    planned = plan(inputs, stamps(inputs))
    assert len(planned) > 5
    assert planned == plan(inputs, stamps(inputs))
    items = [item for block in planned for piece in block.pieces for item in inputs.read(piece)]
    assert [(item.id, item.content) for item in items] == [(item.id, item.content) for item in inputs]
    assert [Block.from_json(block.to_json()) for block in planned] == planned


def test_small_files_share_a_block_and_large_ones_are_cut(tmp_path):
    for i in range(300):
        (tmp_path / f"{i:03}.txt").write_text("A text. " * 100)
    inputs = Inputs([str(tmp_path)])
    assert len(plan(inputs, stamps(inputs))) == 10
    lines = tmp_path / "all.txt"
    lines.write_text("A text.\n" * 100_000)
    inputs = Inputs([str(lines)], lines=True)
    assert len(plan(inputs, stamps(inputs))) == 49


# A worker


@pytest.fixture
def worker(exported, tmp_path, monkeypatch) -> Callable[..., tuple[Worker, list[Block], Path]]:
    def made(inputs: Inputs, **more) -> tuple[Worker, list[Block], Path]:
        out = tmp_path / "found"
        out.mkdir(exist_ok=True)
        (out / "_manifest.json").touch()
        job = Job(inputs, out, str(exported), fingerprint(exported), tmp_path, "run", **more)
        monkeypatch.setattr(os, "chdir", lambda folder: None)
        return Worker(job), plan(inputs, stamps(inputs)), out

    return made


def do(worker: Worker, blocks: list[Block]) -> list[str]:
    return [worker({"block": [block.to_json()]})["problem"][0] for block in blocks]


def test_a_bad_document_costs_no_other_and_its_row_says_what_is_wrong(worker, sentences, tmp_path):
    lines = [json.dumps({"text": sentence}) for sentence in sentences]
    lines[4], lines[11] = '{"text": 3}', "no JSON"
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(lines))
    made, blocks, out = worker(Inputs([str(path)]))
    assert do(made, blocks) == [""]
    rows = sorted(rows_of(out), key=lambda row: row["number"])
    assert [row["number"] for row in rows] == list(range(1, 21))
    assert [row["id"] for row in rows] == [f"{path}:{i}" for i in range(1, 21)]
    assert [row["number"] for row in rows if row["error"]] == [5, 12]
    assert rows[4]["error"].startswith(f"{path}, line 5: 'text' is int, not a string")
    assert rows[11]["error"].startswith(f"{path}, line 12 is not valid JSON")
    extractor = Extractor.load(made.job.model, device="cpu")
    alone = extractor.extract(sentences[19])
    assert [entity["score"] for entity in rows[19]["entities"]] == [entity.score for entity in alone.entities]
    finished = Finished.of(path_of(out, blocks[0]))
    assert (finished.documents, finished.failed, len(finished.errors)) == (20, 2, 2)


def test_a_broken_file_costs_no_other(worker, sentences, tmp_path, small_blocks):
    """Whether it is long enough to be cut or not; and of a row that is no Unicode nothing but that row is lost."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"no Parquet")
    (folder / "b.parquet").write_bytes(b"no Parquet" * 1000)
    pq.write_table(pa.table({"title": sentences}), folder / "c.parquet")
    pq.write_table(pa.table({"text": sentences}), folder / "d.parquet", use_dictionary=False, compression="none")
    written = (folder / "d.parquet").read_bytes()
    (folder / "d.parquet").write_bytes(written.replace(sentences[3].encode(), b"\xff" * len(sentences[3].encode()), 1))
    (folder / "e.txt").write_text(sentences[0])
    made, blocks, out = worker(Inputs([str(folder)]))
    assert set(do(made, blocks)) == {""}
    rows = sorted(rows_of(out), key=lambda row: (row["source"], row["number"]))
    assert [row["error"] for row in rows if row["error"]] == [
        f"{folder}/a.parquet is not a Parquet file",
        f"{folder}/b.parquet is not a Parquet file",
        f"{folder}/c.parquet has no column 'text' but title; name one with --field",
        f"{folder}/d.parquet, row 4 is not UTF-8; convert it first",
    ]
    assert [row["number"] for row in rows] == [1, 1, 1, *range(1, 21), 1]
    assert rows[-1]["text"] == sentences[0]


def test_of_an_annotated_file_what_comes_before_the_broken_line_is_read(worker, tmp_path):
    path = tmp_path / "twenty.jsonl"
    lines = (FIXTURES / "twenty.jsonl").read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{", *lines[2:]]))
    made, blocks, out = worker(Inputs([str(path)]))
    assert do(made, blocks) == [""]
    rows = sorted(rows_of(out), key=lambda row: row["number"])
    assert [bool(row["error"]) for row in rows] == [False, False, True]


def test_what_needed_special_care_is_counted(worker, tmp_path):
    (tmp_path / "long.txt").write_text("word " * 300 + ".")
    made, blocks, out = worker(Inputs([str(tmp_path / "long.txt")]))
    assert do(made, blocks) == [""]
    finished = Finished.of(path_of(out, blocks[0]))
    finished.add(finished)
    assert finished.documents == 2
    assert finished.notes["sentence longer than the encoder, stitched"] == 2


def test_a_document_that_the_model_fails_on_is_named(worker, tmp_path, monkeypatch):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(["Good text.", "Bad text.", "Good text again."]))
    made, blocks, out = worker(Inputs([str(path)], lines=True))
    annotate = Extractor.annotate

    def fails(self, documents, **more):
        def checked():
            for document in documents:
                if document.text == "Bad text.":
                    raise MemoryError("too much")
                yield document

        return annotate(self, checked(), **more)

    monkeypatch.setattr(Extractor, "annotate", fails)
    assert do(made, blocks) == [""]
    errors = [row["error"] for row in rows_of(out)]
    assert errors == [None, f"{path}, document 2 cannot be extracted: MemoryError: too much", None]


def test_a_worker_whose_model_has_broken_down_ends_and_blames_no_document(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    made, blocks, out = worker(Inputs([str(tmp_path / "text.txt")]))

    def broken(self, documents, **more):
        raise RuntimeError("the GPU has fallen off the bus")

    class Ended(BaseException):
        pass

    def ended(status):
        raise Ended(status)

    monkeypatch.setattr(Extractor, "annotate", broken)
    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(Ended):
        do(made, blocks)
    assert not path_of(out, blocks[0]).exists()


def test_a_block_that_ends_its_workers_is_left(worker, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    made, blocks, out = worker(Inputs([str(tmp_path / "text.txt")]))
    tries = out / f".{blocks[0].id}.run.tries"
    tries.write_bytes(b"." * TRIES)
    assert do(made, blocks) == [""]
    assert not path_of(out, blocks[0]).exists()
    tries.write_bytes(b"." * (TRIES - 1))
    assert do(made, blocks) == [""]
    assert Finished.of(path_of(out, blocks[0])).notes == {AGAIN: TRIES - 1}
    assert not tries.exists()


def test_a_node_that_sees_something_else_says_so(worker, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("A text.")
    made, blocks, out = worker(Inputs([str(path)]))
    path.write_text("Another text.")
    assert "text.txt is not what it was when the run began" in do(made, blocks)[0]
    path.unlink()
    assert "text.txt cannot be read: No such file" in do(made, blocks)[0]
    (out / "_manifest.json").unlink()
    assert "must be in storage that all nodes share" in do(made, blocks)[0]


def test_a_node_with_another_model_says_so(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    made, blocks, _ = worker(Inputs([str(tmp_path / "text.txt")]))
    monkeypatch.setattr("unire.cluster.worker.fingerprint", lambda folder: "other")
    assert "is another one here; all nodes need the same" in do(made, blocks)[0]


def test_a_node_with_another_version_says_so(worker, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    made, blocks, out = worker(Inputs([str(tmp_path / "text.txt")]), version="0.0")
    assert do(made, blocks)[0].endswith(", and 0.0 where the command was given")
    assert not path_of(out, blocks[0]).exists()


def test_storage_that_fails_is_told_and_no_document_blamed(worker, tmp_path, monkeypatch):
    (tmp_path / "lines.txt").write_text("A text.\nAnother text.")
    made, blocks, out = worker(Inputs([str(tmp_path / "lines.txt")], lines=True))

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(texts, "islice", fails)
    assert do(made, blocks)[0].endswith("lines.txt cannot be read: Input/output error")
    assert not path_of(out, blocks[0]).exists()


def test_a_full_disk_is_told_and_no_document_blamed(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    made, blocks, _ = worker(Inputs([str(tmp_path / "text.txt")]))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    (problem,) = do(made, blocks)
    assert "block 000000" in problem
    assert "No space left on device" in problem


# What is wrong


@pytest.fixture
def error(exported, tmp_path):
    """The sentence with which the command fails, before any cluster is asked for."""
    ray_or_skip()

    def told(*arguments: object) -> str:
        ran = CliRunner().invoke(app, ["extract", "--model", str(exported), "--ray", *map(str, arguments)])
        assert isinstance(ran.exception, UnireError), ran.output
        assert "\n" not in str(ran.exception)
        return str(ran.exception)

    return told


def test_mistakes_are_told_in_one_sentence(error, tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    (tmp_path / "json.jsonl").write_text('{"title": "A text."}\n')
    (tmp_path / "empty").mkdir()
    assert "name one with --out" in error(text)
    assert "there is no file or folder 'missing'" in error("missing", "--out", out)
    assert "holds no text" in error(tmp_path / "empty", "--out", out)
    assert "reads files and folders, no standard input" in error("A text.", "--out", out)
    assert "reads files and folders, no standard input" in error("--out", out, "-")
    assert "line 1 has no 'text' but title" in error(tmp_path / "json.jsonl", "--out", out)
    assert "is there already, and no output of --ray" in error(text, "--out", tmp_path)
    assert "is there already, and no output of --ray" in error(text, "--out", text)
    assert "cannot be written" in error(text, "--out", "/proc/found")
    assert error(tmp_path, "--out", tmp_path / "into" / "it") == (
        f"{tmp_path / 'into' / 'it'} is inside {tmp_path}, which is read; give an --out that is not in it"
    )
    assert "leave --format and --device" in error(text, "--out", out, "--format", "csv")
    assert "takes one address, and not auto and 10.0.0.1:6379" in error("auto", "10.0.0.1:6379", text, "--out", out)
    assert not out.exists()
    ran = CliRunner().invoke(app, ["extract", str(text), "--workers", "2"])
    assert "--workers and --gpus go with --ray" in str(ran.exception)


def test_a_cluster_that_is_not_there_is_told_at_once(error, tmp_path, monkeypatch):
    ray_or_skip()
    (tmp_path / "text.txt").write_text("A text.")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
        assert told.startswith(f"there is no Ray cluster at '{address}'")
        monkeypatch.setenv("RAY_ADDRESS", address)  # which Ray takes `auto` for, as it does what a killed cluster left
        told = error("auto", tmp_path / "text.txt", "--out", tmp_path / "found")
        assert told.startswith("there is no Ray cluster at 'auto'")


@pytest.mark.parametrize("address", ["foo", "http://10.0.0.1:8265", "10.0.0.1", "ray://10.0.0.1:10001"])
def test_what_is_no_address_of_a_cluster_is_told_in_one_sentence(error, tmp_path, monkeypatch, address):
    (tmp_path / "text.txt").write_text("A text.")
    told = error(address, tmp_path / "text.txt", "--out", tmp_path / "found")
    assert repr(address) in told
    assert "HOST:PORT" in told
    monkeypatch.setenv("RAY_ADDRESS", address)
    told = error(tmp_path / "text.txt", "--out", tmp_path / "found")
    assert told.startswith(f"RAY_ADDRESS is {address!r}, ")
    assert "HOST:PORT" in told
    assert ("use `ray job submit`" in told) == address.startswith("ray:")
    assert not (tmp_path / "found").exists()


def test_whatever_ray_raises_where_it_cannot_be_reached_is_one_sentence(error, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")

    def init(**_):
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0\n    Python: 3.6")

    monkeypatch.setattr(ray_or_skip(), "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert error(address, tmp_path / "text.txt", "--out", tmp_path / "found") == (
            f"there is no Ray cluster at '{address}': Version mismatch: The cluster was started with: Ray: 1.0 "
            "Python: 3.6; if it asks for a token, set RAY_AUTH_MODE=token"
        )


def test_an_empty_variable_names_no_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    assert address_of(None) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert address_of(None) == "10.0.0.1:6379"
    assert address_of("auto") == "auto"


def test_without_ray_it_is_said_what_to_install(error, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "text.txt").write_text("A text.")
    assert error(tmp_path / "text.txt", "--out", tmp_path / "found") == 'a cluster needs Ray: pip install "unire[ray]"'


def test_another_input_model_or_setting_is_not_resumed(error, unexported, tmp_path, exported, monkeypatch):
    ray_or_skip()
    text, out = tmp_path / "text.txt", tmp_path / "found"
    text.write_text("A text.")
    job = _job(Inputs([str(text)]), out, str(exported), 0, 0.0, None)
    OutputFolder(out, _about(job, stamps(Inputs([str(text)]))), resume=False)
    Worker(job).do(plan(Inputs([str(text)]), stamps(Inputs([str(text)])))[0])
    assert "holds an earlier run; go on with --resume" in error(text, "--out", out)
    assert "was begun with another model; give the same" in error(
        text, "--out", out, "--resume", "--model", str(unexported)
    )
    assert "begun with another min-score" in error(text, "--out", out, "--resume", "--min-score", 0.5)
    assert "begun with another device" in error(text, "--out", out, "--resume", "--gpus", 1)
    text.write_text("Another text.")
    assert "begun with another input" in error(text, "--out", out, "--resume")
    monkeypatch.setattr(blocks_room, "SMALLEST", 400)
    assert "begun with another input and another size of blocks" in error(text, "--out", out, "--resume")
    (out / "_manifest.json").write_text("{")
    assert "_manifest.json cannot be read" in error(text, "--out", out, "--resume")


def test_an_address_is_told_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers").mkdir()
    assert address_in(["auto", "papers/"]) == ("auto", ["papers/"])
    assert address_in(["papers/", "head.example.org:6379", "a text"]) == (
        *("head.example.org:6379", ["papers/", "a text"]),
    )
    Path("local").touch()
    Path("papers.jsonl").touch()
    assert address_in(["./local", "papers.jsonl"]) == (None, ["./local", "papers.jsonl"])
    with pytest.raises(UnireError, match="there is no file or folder 'head'; an address is HOST:PORT, auto or local"):
        address_in(["head", "papers.jsonl"])


# A cluster


def ray_or_skip():
    return pytest.importorskip("ray", reason='a cluster needs Ray: pip install "unire[ray]"')


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


def test_a_cluster_finds_what_the_plain_command_finds(local_cluster, exported, corpus, small_blocks, tmp_path):
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
    assert f"error: {plain.exception}" in ran.stderr
    assert "failed: 1 × document" in ran.stderr
    assert "note: 2 × worker that was not started" in ran.stderr
    first, second = sorted(rows_of(tmp_path / "found"), key=lambda row: row["number"])
    assert first["error"] == str(plain.exception)
    assert (second["text"], second["error"]) == ("A parser is tested.", None)
    again = CliRunner().invoke(
        app, ["extract", "--model", str(exported), "--ray", str(path), "--out", str(tmp_path / "found"), "--resume"]
    )
    assert again.exit_code == 1, "what failed has not been mended"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_killed_worker_costs_no_document(local_cluster, exported, corpus, small_blocks, tmp_path):
    killed = []

    def kill_one(block: Block, finished: Finished, earlier: bool) -> None:
        if not killed:
            killed.append(workers_of(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    inputs = Inputs([str(corpus)])
    done = cluster.extract(inputs, tmp_path / "found", model=str(exported), on_block=kill_one)
    assert killed
    assert killed[0] not in workers_of(os.getpid())
    assert done.documents == 42
    assert [row["id"] for row in rows_of(tmp_path / "found")] == sorted(item.id for item in inputs)
    assert not list((tmp_path / "found").glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
def test_a_killed_command_is_resumed_and_nothing_is_lost_or_doubled(
    local_cluster, exported, corpus, small_blocks, tmp_path
):
    out = tmp_path / "found"
    code = (
        "import sys; from pathlib import Path; from unire.cluster import blocks, extract; from unire.inputs import "
        "Inputs; blocks.SMALLEST = 400; extract(Inputs(sys.argv[1:2]), Path(sys.argv[2]), model=sys.argv[3], "
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
    inputs = Inputs([str(corpus)])
    total = len(plan(inputs, stamps(inputs)))
    assert 0 < len(before) < total
    with pytest.raises(UnireError, match="holds an earlier run; go on with --resume"):
        cluster.extract(inputs, out, model=str(exported))
    told = Counter()
    done = cluster.extract(
        inputs,
        out,
        model=str(exported),
        resume=True,
        on_block=lambda block, finished, earlier: told.update([earlier]),
    )
    assert told == {True: len(before), False: total - len(before)}
    assert done.documents == 42
    assert [row["id"] for row in rows_of(out)] == sorted(item.id for item in inputs)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert len(after) == total
    assert before.items() <= after.items()
    assert not list(out.glob(".*"))
    assert cluster.extract(inputs, out, model=str(exported), resume=True) == done


def test_a_command_that_is_told_to_end_says_how_to_go_on(exported, corpus, tmp_path):
    """As a queue or a container tells it: Ray would answer with a crash."""
    ray_or_skip()
    code = "from unire.cluster import blocks; from unire.cli.main import main; blocks.SMALLEST = 400; main()"
    arguments = ["extract", "--ray", "local", corpus, "--model", exported, "--out", tmp_path / "found"]
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list((tmp_path / "found").glob("*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert told == f"stopped: {tmp_path / 'found'} keeps what is done; the same command with --resume goes on\n"
    assert process.returncode == 130


NODES = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
from unire.cli import extract_ray
from unire.cli.main import app
from unire.cluster import blocks

blocks.SMALLEST = 400
node = {"num_cpus": 1, "object_store_memory": 10**8}
nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
other = nodes.add_node(**node)
advance, told = extract_ray.Meter.advance, []

def fall_out(self, *arguments, **more):
    if not told:
        nodes.remove_node(other, allow_graceful=False)
    told.append(arguments)
    advance(self, *arguments, **more)

extract_ray.Meter.advance = fall_out
app(["extract", "--json", "--model", sys.argv[1], "--ray", nodes.address, sys.argv[2], "--out", sys.argv[3]])
"""


def test_a_node_that_falls_out_costs_no_document_and_says_nothing_on_standard_output(exported, corpus, tmp_path):
    ray_or_skip()
    arguments = [sys.executable, "-c", NODES, exported, corpus, tmp_path / "found"]
    ran = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["documents"] == 42
    ids = [row["id"] for row in rows_of(tmp_path / "found")]
    assert ids == sorted(item.id for item in Inputs([str(corpus)]))


def test_workers_without_a_core_or_a_block_are_counted(local_cluster, exported, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks_room, "SMALLEST", 1200)
    inputs = Inputs([str(corpus)])
    n_blocks = len(plan(inputs, stamps(inputs)))
    assert n_blocks > 2
    done = cluster.extract(inputs, tmp_path / "found", model=str(exported), workers=n_blocks + 5)
    assert done.documents == 42
    assert done.notes == {IDLE: 5, WAITING: n_blocks - 2}


def test_what_stops_one_worker_stops_the_run(local_cluster, exported, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    inputs = Inputs([str(tmp_path / "text.txt")])
    with pytest.raises(UnireError, match="the model has learnt no type constraints"):
        cluster.extract(inputs, tmp_path / "found", model=str(exported), constraints="learnt")
    with pytest.raises(UnireError, match="the cluster has 0 GPUs, and 2 are asked for"):
        cluster.extract(inputs, tmp_path / "found", model=str(exported), gpus=2)
