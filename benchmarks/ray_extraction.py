"""Extraction on a Ray cluster of this machine: is anything lost, and what does it cost?

    python benchmarks/ray_extraction.py kill SCIERC_TEST FOLDER [--count 100000] [--seconds 150] [--model science]
    python benchmarks/ray_extraction.py speed SCIERC_TEST FOLDER [--count 800] [--model science]

`kill`: SciERC's test sentences of up to 20 words, repeated under ids of their own, half as JSON lines and half as
Parquet, are extracted by `unire extract --ray`. One of the workers is killed halfway through `--seconds`, and the
command itself at their end. Run it again until it comes to the end: then every id must be there, once, with exactly
what the plain extractor finds in that sentence.

`speed`: the plain command and `--ray`, both writing Parquet, from start to end on the same cores, for so many of
SciERC's test abstracts and for a single one: the difference is the rate without the start, by the clock and by CPU
seconds of all processes.
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
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from unire import Document, Extractor, formats
from unire.formats import native
from unire.segment import segment
from unire.treebank import restored

COMMAND = (sys.executable, "-m", "unire", "extract")
LOCAL = ("--ray", "local")
CORES = len(os.sched_getaffinity(0))


def abstracts_of(path: Path) -> list[Document]:
    """Annotated documents as ordinary text, split into sentences again."""
    return [segment(restored(document).text) for document in formats.read(path)]


def short_sentences(abstracts: list[Document]) -> list[str]:
    found = [
        document.text[sentence.offsets[0][0] : sentence.offsets[-1][1]]
        for document in abstracts
        for sentence in document.sentences
    ]
    return [sentence for sentence in found if len(sentence.split()) <= 20]


def make_corpus(sentences: list[str], count: int, folder: Path) -> Path:
    """So many sentences under ids of their own, half of them as JSON lines and half as Parquet."""
    if not folder.exists():
        folder.mkdir(parents=True)
        rows = [{"id": f"sentence-{i:06}", "text": sentences[i % len(sentences)]} for i in range(count)]
        write_lines(rows[: count // 2], folder / "a.jsonl")
        table = pa.Table.from_pylist(rows[count // 2 :])
        pyarrow.parquet.write_table(table, folder / "b.parquet", row_group_size=10_000)
    return folder


def write_lines(rows: Iterable[dict[str, str]], path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


# Killing


def kill_round(corpus: Path, out: Path, seconds: float, model: str) -> bool:
    """Start the command, or go on with it; kill a worker, then the command. Whether it came to its end before."""
    before = len(list(out.glob("*.parquet")))
    process = subprocess.Popen([*COMMAND, "--model", model, *LOCAL, str(corpus), "--out", str(out), "--resume"])
    started = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds / 2)
        print("it ended before a worker could be killed")
    if process.poll() is None and (workers := workers_of(process.pid)):
        worker = random.choice(workers)
        memory = Path(f"/proc/{worker}/status").read_text().split("VmRSS:")[1].split()[0]
        os.kill(worker, signal.SIGKILL)
        after = time.monotonic() - started
        print(f"one of {len(workers)} workers, with {int(memory) // 1000} MB, was killed after {after:.0f} s")
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
    found = []
    for process in family_of(command):
        with suppress(OSError):
            if b"MapWorker" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def family_of(command: int) -> dict[int, float]:
    """A process and all that it started, directly or not, and the CPU seconds of each."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            said = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(said[1])
            seconds[int(entry.name)] = (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")

    def descends(process: int) -> bool:
        while process != command and process in parents:
            process = parents[process]
        return process == command

    return {process: seconds[process] for process in parents if descends(process)}


def check(out: Path, sentences: list[str], count: int, model: str) -> None:
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
    extractor = Extractor.load(model, device="cpu")
    plain = {item["text"]: found_in(item) for d in extractor.extract(sentences) for item in native.to_json(d)}
    differing = sum(found_in(row) != plain[row["text"]] for batch in table.to_batches() for row in batch.to_pylist())
    print(f"rows that differ from what the plain extractor finds: {differing}")
    assert not differing


def found_in(row: dict[str, Any]) -> list[Any]:
    entities = [(e["char_start"], e["char_end"], e["label"], e["score"]) for e in row["entities"]]
    return [entities, [(r["head"], r["tail"], r["label"], r["score"]) for r in row["relations"]]]


# Speed


class Took(NamedTuple):
    """Seconds of a command, and CPU seconds of all its processes: these hardly depend on what else a machine does."""

    wall: float
    cpu: float

    @classmethod
    def by(cls, *arguments: object) -> Took:
        started = time.perf_counter()
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        cpu: dict[int, float] = {}
        while process.poll() is None:
            cpu |= family_of(process.pid)
            time.sleep(0.1)
        assert process.returncode == 0
        return cls(time.perf_counter() - started, sum(cpu.values()))


def speed(abstracts: list[Document], count: int, folder: Path, model: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = [{"text": abstracts[i % len(abstracts)].text} for i in range(count)]
    n_sentences = sum(len(abstracts[i % len(abstracts)].sentences) for i in range(count))
    files = [write_lines(some, folder / name) for some, name in ((rows[:1], "one.jsonl"), (rows, "all.jsonl"))]
    print(f"{count:,} abstracts of {n_sentences:,} sentences, on {CORES} cores")
    rates = {}
    for way, options, suffix in (("plain", (), ".parquet"), ("ray", LOCAL, "")):
        one, whole = (
            Took.by("--model", model, *options, file, "--out", folder / f"{file.stem}-by-{way}{suffix}")
            for file in files
        )
        rates[way] = [count / whole.wall, *((count - 1) / (b - a) for a, b in zip(one, whole, strict=True))]
        print(f"{way}: {whole.wall:.1f} s and {whole.cpu:.1f} CPU s;", end=" ")
        print(f"for a single one {one.wall:.1f} s and {one.cpu:.1f} CPU s")
        told = zip(("with the start", "without", "without, per CPU second"), rates[way], strict=True)
        print("  abstracts/s", *(f"{name}: {rate:.1f}" for name, rate in told), sep="; ", flush=True)
    print("ray against plain", *(f"{ray / plain:.2f}" for ray, plain in zip(rates["ray"], rates["plain"], strict=True)))
    print(f"ten million abstracts: {10**7 / rates['ray'][1] * CORES / 3600:.0f} core-hours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "speed"))
    parser.add_argument("data", type=Path, help="SciERC's test set")
    parser.add_argument("folder", type=Path, help="for the corpus and what is found in it")
    parser.add_argument("--count", type=int, help="of sentences to kill for, or of abstracts to be fast with")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--model", default="science")
    arguments = parser.parse_args()
    abstracts = abstracts_of(arguments.data)
    if arguments.what == "speed":
        speed(abstracts, arguments.count or 800, arguments.folder, arguments.model)
        return
    sentences, count = short_sentences(abstracts), arguments.count or 100_000
    corpus = make_corpus(sentences, count, arguments.folder / "corpus")
    if not kill_round(corpus, arguments.folder / "found", arguments.seconds, arguments.model):
        sys.exit("not at the end yet: run it again")
    check(arguments.folder / "found", sentences, count, arguments.model)


if __name__ == "__main__":
    main()
