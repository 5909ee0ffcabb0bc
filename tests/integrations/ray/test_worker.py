"""A worker of a cluster: a bad document affects no other, and wrong nodes are reported."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from helpers.paths import FIXTURES
from helpers.ray import rows_of
from unire import formats
from unire.extractor import Extractor
from unire.hub.model_dir import fingerprint
from unire.integrations.ray.shards import ExtractionResult, Shard, plan_shards, shard_path, stamp_files
from unire.integrations.ray.worker import MAX_ATTEMPTS, RETRIED_SHARD, RayJob, RayWorker
from unire.result_filter import ResultFilter
from unire.sources import TextSources


@pytest.fixture
def worker(exported, tmp_path, monkeypatch) -> Callable[..., tuple[RayWorker, list[Shard], Path]]:
    def build(inputs: TextSources, **more) -> tuple[RayWorker, list[Shard], Path]:
        out = tmp_path / "found"
        out.mkdir(exist_ok=True)
        (out / "_manifest.json").touch()
        job = RayJob(inputs, out, str(exported), fingerprint(exported), tmp_path, "run", **more)
        monkeypatch.setattr(os, "chdir", lambda folder: None)
        return RayWorker(job), plan_shards(inputs, stamp_files(inputs)), out

    return build


def process(worker: RayWorker, shards: list[Shard]) -> list[str]:
    return [worker({"block": [shard.to_json()]})["problem"][0] for shard in shards]


def test_a_bad_document_costs_no_other_and_its_row_holds_the_error(worker, sentences, tmp_path):
    lines = [json.dumps({"text": sentence}) for sentence in sentences]
    lines[4], lines[11] = '{"text": 3}', "no JSON"
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(lines))
    ray_worker, shards, out = worker(TextSources([str(path)]))
    assert process(ray_worker, shards) == [""]
    rows = sorted(rows_of(out), key=lambda row: row["number"])
    assert [row["number"] for row in rows] == list(range(1, 21))
    assert [row["id"] for row in rows] == [f"{path}:{i}" for i in range(1, 21)]
    assert [row["number"] for row in rows if row["error"]] == [5, 12]
    assert rows[4]["error"].startswith(f"{path}, line 5: 'text' is int, not a string")
    assert rows[11]["error"].startswith(f"{path}, line 12 is not valid JSON")
    notes: Counter[str] = Counter()
    assert len(list(formats.read(out, notes=notes))) == 18
    assert list(notes.values()) == [2]
    extractor = Extractor.load(ray_worker.job.model, device="cpu")
    alone = extractor.extract(sentences[19])
    assert [entity["score"] for entity in rows[19]["entities"]] == [entity.score for entity in alone.entities]
    finished = ExtractionResult.load(shard_path(out, shards[0]))
    assert (finished.documents, finished.failed, len(finished.errors)) == (20, 2, 2)


def test_a_worker_writes_only_the_types_of_its_job(worker, sentences, tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("\n".join(sentences))
    every, shards, out = worker(TextSources([str(path)], lines=True))
    process(every, shards)
    rows = rows_of(out)
    shard_path(out, shards[0]).unlink()
    some, _, _ = worker(TextSources([str(path)], lines=True), filter=ResultFilter(entity_types=("Method",)))
    process(some, shards)
    entities = [[entity for entity in row["entities"] if entity["label"] == "Method"] for row in rows]
    assert [row["entities"] for row in rows_of(out)] == entities
    assert 0 < sum(map(len, entities)) < sum(len(row["entities"]) for row in rows)


def test_a_broken_file_costs_no_other(worker, sentences, tmp_path, small_shards):
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
    ray_worker, shards, out = worker(TextSources([str(folder)]))
    assert set(process(ray_worker, shards)) == {""}
    rows = sorted(rows_of(out), key=lambda row: (row["source"], row["number"]))
    assert [row["error"] for row in rows if row["error"]] == [
        f"{folder}/a.parquet is not a Parquet file",
        f"{folder}/b.parquet is not a Parquet file",
        f"{folder}/c.parquet has no column 'text', only 'title'; choose one with field=...",
        f"{folder}/d.parquet, row 4 is not UTF-8; convert it first",
    ]
    assert [row["number"] for row in rows] == [1, 1, 1, *range(1, 21), 1]
    assert rows[-1]["text"] == sentences[0]


def test_of_an_annotated_file_what_comes_before_the_broken_line_is_read(worker, tmp_path):
    path = tmp_path / "twenty.jsonl"
    lines = (FIXTURES / "twenty.jsonl").read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{", *lines[2:]]))
    ray_worker, shards, out = worker(TextSources([str(path)]))
    assert process(ray_worker, shards) == [""]
    rows = sorted(rows_of(out), key=lambda row: row["number"])
    assert [bool(row["error"]) for row in rows] == [False, False, True]


def test_notes_of_workers_are_counted(worker, tmp_path):
    (tmp_path / "long.txt").write_text("word " * 300 + ".")
    ray_worker, shards, out = worker(TextSources([str(tmp_path / "long.txt")]))
    assert process(ray_worker, shards) == [""]
    finished = ExtractionResult.load(shard_path(out, shards[0]))
    finished.add(finished)
    assert finished.documents == 2
    assert finished.notes["sentence longer than the encoder, stitched"] == 2


def test_a_document_that_the_model_fails_on_is_named(worker, tmp_path, monkeypatch):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(["Good text.", "Bad text.", "Good text again."]))
    ray_worker, shards, out = worker(TextSources([str(path)], lines=True))
    annotate = Extractor.annotate

    def fails(self, documents, **more):
        def checked():
            for document in documents:
                if document.text == "Bad text.":
                    raise MemoryError("too much")
                yield document

        return annotate(self, checked(), **more)

    monkeypatch.setattr(Extractor, "annotate", fails)
    assert process(ray_worker, shards) == [""]
    errors = [row["error"] for row in rows_of(out)]
    assert errors == [None, f"{path}, document 2 cannot be extracted: MemoryError: too much", None]


def test_a_worker_with_a_broken_model_ends_and_reports_no_document(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    ray_worker, shards, out = worker(TextSources([str(tmp_path / "text.txt")]))

    def broken(self, documents, **more):
        raise RuntimeError("the GPU has fallen off the bus")

    class Ended(BaseException):
        pass

    def ended(status):
        raise Ended(status)

    monkeypatch.setattr(Extractor, "annotate", broken)
    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(Ended):
        process(ray_worker, shards)
    assert not shard_path(out, shards[0]).exists()


def test_a_shard_that_kills_its_workers_is_left_out(worker, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    ray_worker, shards, out = worker(TextSources([str(tmp_path / "text.txt")]))
    tries = out / f".{shards[0].id}.run.tries"
    tries.write_bytes(b"." * MAX_ATTEMPTS)
    assert process(ray_worker, shards) == [""]
    assert not shard_path(out, shards[0]).exists()
    tries.write_bytes(b"." * (MAX_ATTEMPTS - 1))
    assert process(ray_worker, shards) == [""]
    assert ExtractionResult.load(shard_path(out, shards[0])).notes == {RETRIED_SHARD: MAX_ATTEMPTS - 1}
    assert not tries.exists()


def test_a_node_with_a_changed_input_reports_it(worker, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("A text.")
    ray_worker, shards, out = worker(TextSources([str(path)]))
    path.write_text("Another text.")
    assert "text.txt has changed since the run began; start again with another out=" in process(ray_worker, shards)[0]
    path.unlink()
    assert "text.txt cannot be read: No such file" in process(ray_worker, shards)[0]
    (out / "_manifest.json").unlink()
    assert "must be in storage that all nodes share" in process(ray_worker, shards)[0]


def test_a_node_with_another_model_says_so(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    ray_worker, shards, _ = worker(TextSources([str(tmp_path / "text.txt")]))
    monkeypatch.setattr("unire.integrations.ray.worker.fingerprint", lambda folder: "other")
    assert "differs from that of the driver; all nodes need the same model" in process(ray_worker, shards)[0]


def test_a_node_with_another_version_says_so(worker, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    ray_worker, shards, out = worker(TextSources([str(tmp_path / "text.txt")]), version="0.0")
    assert process(ray_worker, shards)[0].endswith(", and the driver has 0.0; install the same version")
    assert not shard_path(out, shards[0]).exists()


def test_storage_errors_are_reported_and_no_document_is_blamed(worker, tmp_path, monkeypatch):
    (tmp_path / "lines.txt").write_text("A text.\nAnother text.")
    ray_worker, shards, out = worker(TextSources([str(tmp_path / "lines.txt")], lines=True))

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("unire.sources.lines.continue_lines", fails)
    assert process(ray_worker, shards)[0].endswith("lines.txt cannot be read: Input/output error")
    assert not shard_path(out, shards[0]).exists()


def test_a_full_disk_is_reported_and_no_document_is_blamed(worker, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("A text.")
    ray_worker, shards, _ = worker(TextSources([str(tmp_path / "text.txt")]))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    (problem,) = process(ray_worker, shards)
    assert "block 000000" in problem
    assert "No space left on device" in problem
