"""Extraction on a Ray cluster of this machine: is anything lost, and what does it cost?

    python benchmarks/ray_extraction.py kill SCIERC_TEST FOLDER [--sentences 100000] [--seconds 100]
    python benchmarks/ray_extraction.py speed SCIERC_TEST FOLDER [--sentences 6000]

`kill`: SciERC's test sentences of up to 20 words, repeated under ids of their own, half as JSON lines and half as
Parquet, are extracted by `unire extract --ray`. One of the workers is killed halfway through `--seconds`, and the command itself at their end.
Run it again until it comes to the end: then every id must be there, once, with exactly what the plain extractor finds
in that sentence.

`speed`: the plain command and `--ray`, from start to end on the same cores, and what each takes for one sentence: the
difference is its rate without the start.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from unire import Extractor, formats
from unire.formats import native
from unire.segment import segment
from unire.treebank import restored

COMMAND = (sys.executable, "-m", "unire", "extract")
LOCAL = ("--ray", "local")


def sentences_of(path: Path) -> list[str]:
    """The sentences of annotated documents, as ordinary text."""
    found = []
    for document in map(restored, formats.read(path)):
        whole = segment(document.text)
        found += [whole.text[s.offsets[0][0] : s.offsets[-1][1]] for s in whole.sentences]
    return found


def make_corpus(sentences: list[str], count: int, folder: Path) -> Path:
    """So many sentences under ids of their own, half of them as JSON lines and half as Parquet."""
    if not folder.exists():
        folder.mkdir(parents=True)
        rows = [{"id": f"sentence-{i:06}", "text": sentences[i % len(sentences)]} for i in range(count)]
        with (folder / "a.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows[: count // 2])
        table = pa.Table.from_pylist(rows[count // 2 :])
        pyarrow.parquet.write_table(table, folder / "b.parquet", row_group_size=10_000)
    return folder


# Killing


def kill_round(corpus: Path, out: Path, seconds: float) -> bool:
    """Start the command, or go on with it; kill a worker, then the command. Whether it came to its end before."""
    before = len(list(out.glob("*.parquet")))
    process = subprocess.Popen([*COMMAND, *LOCAL, str(corpus), "--out", str(out), "--resume"])
    started = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds / 2)
        print("it ended before a worker could be killed")
    if process.poll() is None and (workers := workers_of(process.pid)):
        os.kill(worker := random.choice(workers), signal.SIGKILL)
        print(f"worker {worker} of {len(workers)} killed after {time.monotonic() - started:.0f} s")
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0, started + seconds - time.monotonic()))
    if process.poll() is None:
        process.kill()
        process.wait()
        print(f"the command was killed after {time.monotonic() - started:.0f} s")
    now = len(list(out.glob("*.parquet")))
    print(f"{now} blocks are there, {now - before} of them new", flush=True)
    return process.returncode == 0


def workers_of(command: int) -> list[int]:
    """The processes that work for a cluster which the command started."""

    def parent(process: str) -> str:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]

    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            if b"MapWorker" in (entry / "cmdline").read_bytes() and parent(parent(entry.name)) == str(command):
                found.append(int(entry.name))
    return found


def check(out: Path, sentences: list[str], count: int) -> None:
    """Every id once, with what the plain extractor finds."""
    table = pyarrow.dataset.dataset(out, format="parquet").to_table()
    ids = table["id"].to_pylist()
    expected = {f"sentence-{i:06}" for i in range(count)}
    print(f"rows: {len(ids):,}; ids: {len(set(ids)):,}; missing: {len(expected - set(ids))}; ", end="")
    print(f"doubled: {len(ids) - len(set(ids))}; errors: {table.num_rows - table['error'].null_count}")
    assert len(ids) == len(set(ids))
    assert set(ids) == expected
    half = count // 2
    places = zip(ids, table["source"].to_pylist(), table["number"].to_pylist(), strict=True)
    for name, source, number in places:
        assert int(name.removeprefix("sentence-")) == number - 1 + (half if source.endswith(".parquet") else 0)
    extractor = Extractor.load("science", device="cpu")
    plain = {item["text"]: found_in(item) for d in extractor.extract(sentences) for item in native.to_json(d)}
    differing = sum(found_in(row) != plain[row["text"]] for batch in table.to_batches() for row in batch.to_pylist())
    print(f"rows that differ from what the plain extractor finds: {differing}")
    assert not differing


def found_in(row: dict[str, Any]) -> list[Any]:
    entities = [(e["char_start"], e["char_end"], e["label"], e["score"]) for e in row["entities"]]
    return [entities, [(r["head"], r["tail"], r["label"], r["score"]) for r in row["relations"]]]


# Speed


def seconds_of(*arguments: object) -> float:
    started = time.perf_counter()
    subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True)
    return time.perf_counter() - started


def speed(sentences: list[str], count: int, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    one = make_corpus(sentences, 2, folder / "one") / "a.jsonl"
    many = make_corpus(sentences, 2 * count, folder / "many") / "a.jsonl"
    took = {
        (way, name): seconds_of(*options, corpus, "--out", folder / f"{way}-{name}{suffix}")
        for name, corpus in (("one", one), ("many", many))
        for way, options, suffix in (("plain", (), ".parquet"), ("ray", LOCAL, ""))
    }
    rates = {}
    for way in ("plain", "ray"):
        start, whole = took[way, "one"], took[way, "many"]
        rates[way] = count / whole, (count - 1) / (whole - start)
        print(f"{way:6} {whole:6.1f} s for {count:,} sentences, {start:5.1f} s for one: ", end="")
        print(f"{rates[way][0]:6.1f} sentences/s with the start, {rates[way][1]:6.1f} without")
    with_start, without = (ray / plain for ray, plain in zip(rates["ray"], rates["plain"], strict=True))
    print(f"ray against plain: {with_start:.2f} with the start, {without:.2f} without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "speed"))
    parser.add_argument("data", type=Path, help="SciERC's test set")
    parser.add_argument("folder", type=Path, help="for the corpus and what is found in it")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--seconds", type=float, default=100)
    arguments = parser.parse_args()
    sentences = sentences_of(arguments.data)
    if arguments.what == "speed":
        speed(sentences, arguments.sentences or 6000, arguments.folder)
        return
    sentences = [sentence for sentence in sentences if len(sentence.split()) <= 20]
    count = arguments.sentences or 100_000
    corpus = make_corpus(sentences, count, arguments.folder / "corpus")
    if not kill_round(corpus, arguments.folder / "found", arguments.seconds):
        sys.exit("not at the end yet: run it again")
    check(arguments.folder / "found", sentences, count)


if __name__ == "__main__":
    main()
