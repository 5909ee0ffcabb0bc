"""`unire extract`, killed, interrupted or stopped by a bad line: nothing is lost, and the same command goes on."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.extract import TEXT, hear_sigint
from unire.labels import LabelSpace


def test_results_before_a_bad_line_are_kept_and_the_corrected_file_is_resumed(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.txt", tmp_path / "found.jsonl"
    good = [f"Line number {i}." for i in range(9)]
    lines.write_bytes("\n".join(good[:-1]).encode() + b"\ncaf\xe9\n")
    ran = extract("--lines", lines, "--out", out)
    assert "lines.txt, line 9 is not UTF-8" in str(ran.exception)
    assert "continue with the same command and --resume" in ran.stderr.replace("\n", " ")
    assert not out.exists()
    assert len(out.with_name("found.jsonl.part").read_text().splitlines()) == 8
    lines.write_text("\n".join(good))
    assert "continue it with resume=True" in str(extract("--lines", lines, "--out", out).exception)
    assert extract("--lines", lines, "--out", out, "--resume").exit_code == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == good
    ran = extract("--lines", lines, "--out", out, "--resume")
    assert ran.exit_code == 0
    assert "nothing to resume" in ran.stderr.replace("\n", " ")
    assert "written to" not in ran.stderr


def test_an_archive_whose_end_was_missing_is_resumed_when_it_is_there(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.txt.gz", tmp_path / "found.jsonl"
    texts = [f"Line number {i}." for i in range(9)]
    packed = gzip.compress("".join(f"{text}\n" for text in texts).encode())
    lines.write_bytes(packed[:-4])
    ran = extract("--lines", lines, "--out", out)
    assert "lines.txt.gz cannot be read: the compressed file is truncated" in str(ran.exception)
    assert len(out.with_name("found.jsonl.part").read_text().splitlines()) == 9
    lines.write_bytes(packed)
    assert extract("--lines", lines, "--out", out, "--resume").exit_code == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == texts


def test_after_a_bad_file_the_message_says_how_to_continue(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    folder, out = tmp_path / "folder", tmp_path / "found.jsonl"
    folder.mkdir()
    (folder / "1.txt").write_text("A text.")
    (folder / "2.txt").write_bytes(b"caf\xe9")
    assert " ".join(extract(folder, "--out", out).stderr.split()) == (
        f"stopped after 1 document, kept in {out}.part; fix the error; then continue with the same command and --resume"
    )


def test_unreadable_inputs_are_skipped_reported_and_counted(extract, tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "found.jsonl"
    folder.mkdir()
    (folder / "1.txt").write_bytes(b"caf\xe9")
    (folder / "2.txt").write_text("Good.")
    (folder / "3.jsonl").write_text('{"text": 3}\nno JSON\n{"title": "no text"}\n{"text": "Good."}\n')
    (folder / "4.txt.gz").write_bytes(b"not packed")
    (folder / "5.jsonl").write_text('{"id": "x", "text": "Good.", "sentences": 5}\n')
    pq.write_table(pa.table({"text": [3, 4]}), folder / "6.parquet")
    ran = extract(folder, "--out", out, "--skip-errors", "--json")
    assert ran.exit_code == 0, ran.exception
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ["Good.", "Good."]
    skipped = [line for line in ran.stderr.splitlines() if line.startswith("skipped: ")]
    places = (
        "1.txt",
        "3.jsonl, line 1",
        "3.jsonl, line 2",
        "3.jsonl, line 3",
        "4.txt.gz",
        "5.jsonl, line 1",
        "6.parquet, row 1",
        "6.parquet, row 2",
    )
    for place, line in zip(places, skipped, strict=True):
        assert line.startswith(f"skipped: {folder / place}")
    assert json.loads(ran.stdout)["notes"] == {"line, row, file or folder that cannot be read, skipped": len(skipped)}


@pytest.mark.parametrize(
    ("name", "content", "options", "skipped"),
    [
        ("a.txt", b"one\ncaf\xe9\ntwo\n", ("--lines",), 1),
        ("a.csv", b"id,text\n1,one\n2\n3,two\n", (), 1),
        ("a.csv", b'id,text\n1,one\n2,two\n3,"three" x\n4,four\n', (), 1),
    ],
)
def test_of_a_file_only_lines_and_rows_that_cannot_be_read_are_skipped(
    name, content, options, skipped, extract, tmp_path
):
    file, out = tmp_path / name, tmp_path / "found.jsonl"
    file.write_bytes(content)
    ran = extract(file, *options, "--out", out, "--skip-errors")
    assert ran.exit_code == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ["one", "two"]
    assert ran.stderr.count("skipped: ") == skipped
    piped = extract(*(options or ("--field", "text")), "--skip-errors", stdin=content)
    assert [json.loads(line)["text"] for line in piped.stdout.splitlines()] == ["one", "two"]


def test_where_everything_would_be_skipped_the_command_is_wrong(extract, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "one"}\n{"text": "two"}\n')
    ran = extract(file, "--field", "abstract", "--skip-errors", "--out", tmp_path / "found.jsonl")
    assert "line 1 has no field 'abstract', only 'text'" in str(ran.exception)
    assert "skipped" not in ran.stderr
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("wrong", "given_up"), [(99, False), (100, True)])
def test_where_the_first_hundred_would_be_skipped_the_rest_is_not_read(wrong, given_up, extract, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"title": "one"}\n' * wrong + '{"text": "two"}\n{"title": "three"}\n')
    ran = extract(file, "--field", "text", "--skip-errors", "--out", tmp_path / "found.jsonl")
    if given_up:
        assert "line 1 has no field 'text', only 'title'" in str(ran.exception)
    skipped = [line for line in ran.stderr.splitlines() if line.startswith("skipped: ")]
    assert len(skipped) == (0 if given_up else wrong + 1)


def test_a_run_stopped_by_an_error_resumes_with_skip_errors(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.txt", tmp_path / "found.jsonl"
    lines.write_bytes(b"A line.\n" * 6 + b"caf\xe9\n" + b"Another line.\n")
    assert extract("--lines", lines, "--out", out).exit_code == 1
    assert extract("--lines", lines, "--out", out, "--resume", "--skip-errors").exit_code == 0
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == ["A line."] * 6 + ["Another line."]


def test_another_model_or_other_constraints_are_not_resumed(extract, random_model, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    model, types, lines = tmp_path / "model", tmp_path / "types.json", tmp_path / "lines.txt"
    shutil.copytree(random_model, model)
    labels = LabelSpace.load(model)
    pairs = [list(labels.entity_types[:2]), list(labels.entity_types[1:3])]
    types.write_text(json.dumps({labels.relation_types[0]: pairs}))
    lines.write_bytes(b"A line.\n" * 6 + b"caf\xe9\n")
    options = ("--lines", lines, "--out", tmp_path / "found.jsonl", "--model", model, "--constraints", types)
    assert "not UTF-8" in str(extract(*options).exception)
    lines.write_text("A line.\n" * 7)
    types.write_text(json.dumps({labels.relation_types[0]: pairs[:1]}))
    assert "was started with another constraints; resume with the same" in str(extract(*options, "--resume").exception)
    types.write_text(json.dumps({labels.relation_types[0]: pairs[::-1]}))  # the same, in another order
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "relation_odds": 0.5}))
    assert "was started with another model; resume with the same" in str(extract(*options, "--resume").exception)
    (model / "config.json").write_bytes((random_model / "config.json").read_bytes())
    assert extract(*options, "--resume").exit_code == 0


def test_another_input_is_not_resumed(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.jsonl", tmp_path / "found.jsonl"
    lines.write_text("".join(f'{{"id": "{i}", "text": "Line."}}\n' for i in range(6)) + "no JSON")
    assert "not valid JSON" in str(extract(lines, "--out", out).exception)
    ran = extract(lines, "--out", out, "--resume", "--min-score", 0.5)
    assert "started with another min-score" in str(ran.exception)
    ran = extract(lines, "--out", out, "--resume", "--types", "Method")
    assert "started with another type filter" in str(ran.exception)
    lines.write_text("".join(f'{{"id": "{i + 100}", "text": "Line."}}\n' for i in range(6)))
    assert "the input has changed" in str(extract(lines, "--out", out, "--resume").exception)
    lines.write_text('{"id": "0", "text": "Line."}\n')
    ran = extract(lines, "--out", out, "--resume")
    assert "goes on" not in ran.stderr
    message = str(ran.exception)
    assert re.search(r"document (\d) of it should be '\d'; delete .* to start again", message)


@pytest.mark.parametrize("hashed", [True, False])
def test_lines_that_were_changed_meanwhile_are_not_resumed(hashed, extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.txt", tmp_path / "found.jsonl"
    lines.write_bytes(b"A line.\n" * 6 + b"caf\xe9\n")
    assert "not UTF-8" in str(extract("--lines", lines, "--out", out).exception)
    lines.write_text("Another line.\n" * 6)
    if hashed:
        message = str(extract("--lines", lines, "--out", out, "--resume").exception)
        assert re.search(r"document (\d) of it, '.*/lines.txt:\1', has another text; delete .* to start again", message)
        lines.write_text("A line.\n" * 7)
    else:  # as earlier versions noted it
        note = tmp_path / "found.jsonl.part.json"
        note.write_text(
            json.dumps({key: value for key, value in json.loads(note.read_text()).items() if key != "hash"})
        )
    assert extract("--lines", lines, "--out", out, "--resume").exit_code == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
def test_killed_and_interrupted_no_line_is_lost_or_doubled(exported, tmp_path):
    lines, out, part = tmp_path / "lines.txt", tmp_path / "found.jsonl", tmp_path / "found.jsonl.part"
    texts = [f"Line {i} of a long file ." if i % 7 else "" for i in range(20_000)]
    lines.write_text("".join(f"{text}\n" for text in texts))
    command = [sys.executable, "-m", "unire", "extract", "--model", str(exported), "--device", "cpu"]
    command += ["--lines", str(lines), "--out", str(out), "--resume"]
    for kind, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_sigint)
        before = part.stat().st_mtime_ns if part.exists() else 0
        deadline = time.monotonic() + 120
        while not part.exists() or part.stat().st_size == 0 or part.stat().st_mtime_ns == before:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(kind)
        began = time.monotonic()
        _, stderr = process.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert process.returncode == status
        if kind != signal.SIGKILL:
            assert stderr.replace("\n", " ").count("; continue with the same command and --resume") == 1
            assert "Traceback" not in stderr
    assert 0 < json.loads(part.with_suffix(".part.json").read_text())["documents"] < len(texts)
    subprocess.run(command, check=True, capture_output=True)
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert [item["text"] for item in items] == texts
    assert [item["id"] for item in items] == [f"{lines}:{i}" for i in range(1, len(texts) + 1)]
    assert not part.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT here")
def test_ctrl_c_does_not_wait_for_an_input_that_says_nothing_more(exported, tmp_path):
    command = [sys.executable, "-m", "unire", "extract", "--model", str(exported), "--device", "cpu", "--lines"]
    out = tmp_path / "found.jsonl"
    part = out.with_name("found.jsonl.part")
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": hear_sigint}
    with subprocess.Popen([*command, "--out", out], **pipes) as process:
        process.stdin.write(b"A line.\n" * 3000)  # more than it reads at a time, so that some are written
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not part.exists() or not part.stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)  # to come to the end of what there is to read
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert b"error" not in process.stderr.read().lower()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT here")
def test_a_second_ctrl_c_shows_no_traceback(random_model, tmp_path):
    lines, out = tmp_path / "lines.txt", tmp_path / "found.jsonl"
    lines.write_text("A line of a long file .\n" * 80_000)
    command = [sys.executable, "-m", "unire", "extract", "--model", str(random_model), "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--lines", lines, "--out", out], stderr=subprocess.PIPE, preexec_fn=hear_sigint
    )
    part = out.with_name("found.jsonl.part")
    deadline = time.monotonic() + 120
    while not part.exists() or not part.stat().st_size:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    errors = process.stderr.read().decode()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "continue with the same command and --resume" in " ".join(errors.split())


@pytest.mark.slow
def test_a_line_that_was_piped_in_is_answered_before_the_next_one_comes(exported):
    command = [sys.executable, "-m", "unire", "extract", "--model", str(exported), "--device", "cpu", "--lines"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "--format", "jsonl"], **pipes) as process:
        for text in ("One line.", "Another one."):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        process.stdin.close()
        assert process.wait(60) == 0


def test_triples_are_resumed_under_one_head(extract, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    lines, out = tmp_path / "lines.txt", tmp_path / "found.csv"
    good = [f"Line number {i}." for i in range(6)]
    lines.write_bytes("\n".join(good[:-1]).encode() + b"\ncaf\xe9\n")
    assert extract("--lines", lines, "--out", out).exit_code == 1
    lines.write_text("\n".join(good))
    assert extract("--lines", lines, "--out", out, "--resume").exit_code == 0
    whole = tmp_path / "whole.csv"
    assert extract("--lines", lines, "--out", whole).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()


def test_ctrl_c_leaves_no_partial_graph_or_page(extract, tmp_path, monkeypatch):
    def stop(*arguments: object, **options: object):
        raise KeyboardInterrupt

    monkeypatch.setattr("unire.extractor.Extractor.annotate", stop)
    for name in ("graph.graphml", "page.html"):
        ran = extract(TEXT, "--out", tmp_path / name)
        assert ran.exit_code == 130
        assert "is written at the end" in ran.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []
