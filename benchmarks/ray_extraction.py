"""Extraction on a Ray cluster of this machine: is anything lost, and what does it cost?

    python benchmarks/ray_extraction.py kill SCIERC FOLDER [--count 100000] [--model science]
    python benchmarks/ray_extraction.py nodes SCIERC FOLDER [--count 20000] [--model science]
    python benchmarks/ray_extraction.py speed SCIERC FOLDER [--count 3000] [--model science]

`kill`: SciERC's sentences of up to 20 words, repeated under ids of their own, half as JSON lines and half as Parquet,
are extracted by `unire extract --ray`. At a quarter of the blocks a worker is killed, at half the command itself. It is
resumed, loses another worker at three quarters, and comes to its end. Then every id must be there, once, with what the
plain command finds in the same corpus, and no block may be processed twice.

`nodes`: the same on a cluster of nodes with a core each, all on this machine. After a quarter of the blocks, one of two
nodes fails. After half of them, another joins, which must get a worker.

`speed`: the plain command and `--ray`, both writing Parquet, from start to end on the same cores, for a number
of SciERC's abstracts and for a single one. The difference gives the rate without the start, by the clock and by CPU
seconds of all processes. CPU time of other processes is printed, because it slows both.
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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from unire import Document, formats
from unire.integrations.ray.shards import plan_shards, stamp_files
from unire.segmentation import detokenize, segment
from unire.sources import TextSources

COMMAND = (sys.executable, "-m", "unire", "extract")
LOCAL = ("--ray", "local")
CORES = len(os.sched_getaffinity(0))


def abstracts_of(path: Path) -> list[Document]:
    """Annotated documents as ordinary text, split into sentences again."""
    return [segment(detokenize(document).text) for document in formats.read(path)]


def short_sentences(abstracts: list[Document]) -> list[str]:
    found = [
        document.text[sentence.offsets[0][0] : sentence.offsets[-1][1]]
        for document in abstracts
        for sentence in document.sentences
    ]
    return [sentence for sentence in found if len(sentence.split()) <= 20]


def make_corpus(sentences: list[str], count: int, folder: Path) -> Path:
    """Sentences with unique ids, half of them as JSON lines and half as Parquet."""
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


def kill(corpus: Path, out: Path, model: str) -> None:
    """Run the command, kill a worker and then the command; resume it, and kill a worker again."""
    blocks = blocks_of(corpus)
    command, started = start(corpus, out, model), time.perf_counter()
    wait_for(blocks // 4, command, out)
    kill_worker(command)
    wait_for(blocks // 2, command, out)
    family = family_of(command.pid)
    command.kill()
    command.wait()
    before, took = written(out), time.perf_counter() - started
    print(f"the command was killed after {took:.0f} s; {len(before)} blocks are there", flush=True)
    command, started = start(corpus, out, model), time.perf_counter()
    wait_for(3 * blocks // 4, command, out)
    kill_worker(command)
    assert command.wait() == 0
    print(f"it came to its end after another {time.perf_counter() - started:.0f} s")
    after = written(out)
    again = sum(before[name] != after[name] for name in before)
    print(f"{len(after)} blocks are there, {len(after) - len(before)} of them new; done again: {again}", flush=True)
    assert len(after) == blocks
    assert not again
    deadline = time.monotonic() + 60  # Ray's processes look for those that started them every now and then
    while any(Path(f"/proc/{process}").exists() for process in family):
        assert time.monotonic() < deadline, "it has left processes behind"
        time.sleep(0.1)


def nodes(corpus: Path, out: Path, model: str) -> None:
    """Run the command on a cluster that loses a node, and then gets another."""
    from ray.cluster_utils import Cluster

    blocks = blocks_of(corpus)
    node = {"num_cpus": 1, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    first = cluster.add_node(**node)
    command = start(corpus, out, model, cluster.address)
    wait_for(blocks // 4, command, out)
    assert workers_of(raylet_of(first))
    cluster.remove_node(first, allow_graceful=False)
    print("one of two nodes was killed", flush=True)
    wait_for(blocks // 2, command, out)
    second, joined = cluster.add_node(**node), time.perf_counter()
    while not workers_of(raylet_of(second)):
        assert command.poll() is None, "it ended before the node that joined had a worker"
        time.sleep(0.2)
    at, after = len(written(out)), time.perf_counter() - joined
    print(f"another joined, and had a worker after {after:.0f} s, with {at} blocks there", flush=True)
    assert command.wait() == 0
    cluster.shutdown()
    assert len(written(out)) == blocks


def raylet_of(node: Any) -> int:
    """The process under which the workers of a node run."""
    return int(node.all_processes["raylet"][0].process.pid)


def blocks_of(corpus: Path) -> int:
    inputs = TextSources([str(corpus)])
    blocks = len(plan_shards(inputs, stamp_files(inputs)))
    print(f"{blocks} blocks, on {CORES} cores", flush=True)
    return blocks


def start(corpus: Path, out: Path, model: str, address: str = "local") -> subprocess.Popen[bytes]:
    options = ("--model", model, "--ray", address, "--out", str(out), "--resume")
    return subprocess.Popen([*COMMAND, *options, str(corpus)])


def written(out: Path) -> dict[str, int]:
    """Blocks that are there, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}


def wait_for(blocks: int, command: subprocess.Popen[bytes], out: Path) -> None:
    while len(written(out)) < blocks:
        assert command.poll() is None, "it ended before anything could be killed"
        time.sleep(0.2)


def kill_worker(command: subprocess.Popen[bytes]) -> None:
    workers = workers_of(command.pid)
    worker = random.choice(workers)
    memory = Path(f"/proc/{worker}/status").read_text().split("VmRSS:")[1].split()[0]
    os.kill(worker, signal.SIGKILL)
    print(f"one of {len(workers)} workers, with {int(memory) // 1000} MB, was killed", flush=True)


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
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descends(process: int) -> bool:
        while process != command and process in parents:
            process = parents[process]
        return process == command

    return {process: seconds[process] for process in parents if descends(process)}


def check(out: Path, corpus: Path, count: int, model: str) -> None:
    """Every id once, with what the plain command finds."""
    table = pyarrow.dataset.dataset(out, format="parquet").to_table()
    ids = table["id"].to_pylist()
    expected = {f"sentence-{i:06}" for i in range(count)}
    print(f"rows: {len(ids):,}; ids: {len(set(ids)):,}; missing: {len(expected - set(ids))}; ", end="")
    print(f"doubled: {len(ids) - len(set(ids))}; errors: {table.num_rows - table['error'].null_count}", flush=True)
    assert len(ids) == len(set(ids))
    assert set(ids) == expected
    half = count // 2
    places = zip(ids, table["source"].to_pylist(), table["number"].to_pylist(), strict=True)
    for name, source, number in places:
        assert int(name.removeprefix("sentence-")) == number - 1 + (half if source.endswith(".parquet") else 0)
    path = out.with_name("plain.parquet")
    print(f"the plain command took {Took.by('--model', model, corpus, '--out', path).wall:.0f} s")
    plain = pyarrow.parquet.read_table(path)
    found = table.select(plain.column_names).sort_by("id").to_batches(max_chunksize=1000)
    both = zip(rows_of(found), rows_of(plain.sort_by("id").to_batches(max_chunksize=1000)), strict=True)
    differing, n_entities, n_relations = 0, 0, 0
    for row, other in both:
        differing += row != other
        n_entities += len(other["entities"])
        n_relations += len(other["relations"])
    print(f"it found {n_entities:,} entities and {n_relations:,} relations; rows that differ from its: {differing}")
    assert not differing


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    return (row for batch in batches for row in batch.to_pylist())


# Speed


class Took(NamedTuple):
    """Seconds of a command, and CPU seconds of all its processes: these hardly depend on what else a machine does."""

    wall: float
    cpu: float
    others: float
    """CPU seconds of all other processes meanwhile."""

    @classmethod
    def by(cls, *arguments: object) -> Took:
        started, busy = time.perf_counter(), busy_seconds()
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        cpu: dict[int, float] = {}
        while process.poll() is None:
            cpu |= family_of(process.pid)
            time.sleep(0.1)
        assert process.returncode == 0
        own = sum(cpu.values())
        return cls(time.perf_counter() - started, own, max(0.0, busy_seconds() - busy - own))

    def __str__(self) -> str:
        return f"{self.wall:.1f} s and {self.cpu:.1f} CPU s (others {self.others:.1f})"


def busy_seconds() -> float:
    """CPU seconds of the whole machine since it started: all but idle ones."""
    ticks = [int(tick) for tick in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


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
        rates[way] = [count / whole.wall, *((count - 1) / (b - a) for a, b in zip(one[:2], whole[:2], strict=True))]
        print(f"{way}: {whole}; for a single one {one}")
        named_rates = zip(("with the start", "without", "without, per CPU second"), rates[way], strict=True)
        print("  abstracts/s", *(f"{name}: {rate:.1f}" for name, rate in named_rates), sep="; ", flush=True)
    print("ray against plain", *(f"{ray / plain:.2f}" for ray, plain in zip(rates["ray"], rates["plain"], strict=True)))
    print(f"ten million abstracts: {10**7 / rates['ray'][1] * CORES / 3600:.0f} core-hours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "nodes", "speed"))
    parser.add_argument("data", type=Path, help="a part of SciERC")
    parser.add_argument("folder", type=Path, help="for the corpus and what is found in it")
    parser.add_argument("--count", type=int, help="of sentences to kill for, or of abstracts to be fast with")
    parser.add_argument("--model", default="science")
    arguments = parser.parse_args()
    abstracts = abstracts_of(arguments.data)
    if arguments.what == "speed":
        speed(abstracts, arguments.count or 3000, arguments.folder, arguments.model)
        return
    count = arguments.count or {"kill": 100_000, "nodes": 20_000}[arguments.what]
    sentences = short_sentences(abstracts)
    print(f"{count:,} sentences, {len(set(sentences)):,} different ones among them")
    corpus, out = make_corpus(sentences, count, arguments.folder / "corpus"), arguments.folder / "found"
    (kill if arguments.what == "kill" else nodes)(corpus, out, arguments.model)
    check(out, corpus, count, arguments.model)


if __name__ == "__main__":
    main()
