"""Coverage-guided fuzzing (atheris) of what reads the files and the requests of strangers.

    pip install atheris
    TMPDIR=/dev/shm python benchmarks/fuzz_coverage.py [--seconds 60] [--targets onnx http ...] [--seed 0]

Each target runs for this time in its own process. libFuzzer changes valid inputs so that they reach new lines of
unire. Any exception but `UnireError`, an input that takes more than five seconds, or more than 2 GiB of memory is a
failure, and libFuzzer keeps the input. `benchmarks/fuzz_formats.py`, `fuzz_models.py` and `fuzz_http.py` change more at
random, and use what they load.

- A format, or `texts`: its readers. The first byte of an input chooses the file, and whether the rest is packed.
- `annotate`: the tasks of `unire annotate suggest`, as its tools give them back.
- `graph`: the files of a knowledge graph, all of which is then read.
- `package`: the metadata of an installed package with a model.
- `onnx`, `safetensors`, `config`, `labels`, `tokenizer`: the checks of a file of a model folder.
- `http`: bytes that a connection of `unire serve` receives, up to the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

SECONDS = 5
MEGABYTES = 2048
HERE = "--here"
"""The first argument of a process that fuzzes a single target. unire must not be imported before it is instrumented."""
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]
MODEL_FILES = {
    "onnx": "model.onnx",
    "safetensors": "model.safetensors",
    "config": "config.json",
    "labels": "labels.json",
    "tokenizer": "tokenizer.json",
}

Target = tuple[Callable[[bytes], object], list[bytes]]
"""What an input is given to, and valid inputs."""


def make_readers(name: str, folder: Path) -> Target:
    """The readers of a format."""
    from fuzz_formats import TEXTS, read_annotated, read_texts, write_fixture

    fixture = folder / name
    write_fixture(name, fixture)
    files = sorted(file for file in fixture.rglob("*") if file.is_file()) if fixture.is_dir() else [fixture]
    originals = [file.read_bytes() for file in files]
    read = read_texts if name == TEXTS else read_annotated(name)
    pack, unpack = (zlib.compress, zlib.decompress) if name == "spacy" else (gzip.compress, gzip.decompress)
    is_packed = [name == "spacy" or file.suffix == ".gz" for file in files]

    def use(data: bytes) -> None:
        if not data:
            return
        i = data[0] // 2 % len(files)
        files[i].write_bytes(pack(data[1:]) if data[0] % 2 and is_packed[i] else data[1:])
        try:
            read(files[i] if name == TEXTS else fixture, random.Random(data[0]), [])
        finally:
            files[i].write_bytes(originals[i])

    seeds = [bytes([2 * i]) + raw for i, raw in enumerate(originals)]
    return use, [*seeds, *(bytes([2 * i + 1]) + unpack(raw) for i, raw in enumerate(originals) if is_packed[i])]


def make_tasks(folder: Path) -> Target:
    """The readers of what annotation tools make of suggestions. The first byte of an input chooses the tool."""
    from fuzz_formats import DOCUMENTS, read_annotated
    from unire.suggestions import Suggestion, write_tasks

    tools, files = ("labelstudio", "prodigy"), [folder / "tasks.json", folder / "tasks.jsonl"]
    for tool, file in zip(tools, files, strict=True):
        write_tasks([Suggestion(document, 1.0) for document in DOCUMENTS], file, tool)
    seeds = [bytes([i]) + file.read_bytes() for i, file in enumerate(files)]
    readers = [read_annotated(tool) for tool in tools]

    def use(data: bytes) -> None:
        if data:
            i = data[0] % len(tools)
            files[i].write_bytes(data[1:])
            readers[i](files[i], random.Random(data[0]), [])

    return use, seeds


def make_graph(folder: Path) -> Target:
    """A knowledge graph in a folder. The first byte of an input chooses the file."""
    from fuzz_formats import DOCUMENTS
    from unire import formats
    from unire.graph import KnowledgeGraph, build_graph

    formats.write(DOCUMENTS, folder / "found.jsonl")
    build_graph([folder / "found.jsonl"], folder / "graph")
    files = sorted(file for file in (folder / "graph").glob("*.*") if file.is_file())
    originals = [file.read_bytes() for file in files]

    def use(data: bytes) -> None:
        if not data:
            return
        i = data[0] % len(files)
        files[i].write_bytes(data[1:])
        try:
            with KnowledgeGraph.open(folder / "graph") as graph:
                for node in graph.iter_nodes():
                    graph.neighbours(node.id, 2)
                for _ in (*graph.iter_edges(), *graph.iter_evidence(), *graph.iter_merges(), graph.symmetric):
                    pass
                graph.find("a")
                graph.statistics()
        finally:
            files[i].write_bytes(originals[i])

    return use, [bytes([i]) + raw for i, raw in enumerate(originals)]


def make_package(folder: Path) -> Target:
    """The metadata of installed packages with models. The first byte of an input chooses the file."""
    from unire.pretrained import find_packages

    info = folder / "unire_model_seas-1.0.dist-info"
    files = [info / name for name in ("entry_points.txt", "METADATA", "RECORD", "WHEEL")]
    info.mkdir()
    (folder / "unire_model_seas").mkdir()
    (folder / "unire_model_seas" / "config.json").write_text("{}")
    originals = [
        b"[unire_models]\nseas = unire_model_seas\n",
        b"Metadata-Version: 2.1\nName: unire-model-seas\nVersion: 1.0\n",
        b"unire_model_seas/config.json,sha256=x,2\n",
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    ]

    def use(data: bytes) -> None:
        if data:
            for file, raw in zip(files, originals, strict=True):
                file.write_bytes(raw)
            files[data[0] % len(files)].write_bytes(data[1:])
            find_packages([str(folder)])

    return use, [bytes([i]) + raw for i, raw in enumerate(originals)]


def make_check(name: str, folder: Path) -> Target:
    """The check of a file of a model folder."""
    from fuzz_models import build_models
    from unire.config import ModelConfig
    from unire.inference.onnx_check import check_graph
    from unire.labels import LabelSpace
    from unire.model_files import check_tokenizer_file, read_tensor_locations

    (model,) = build_models(folder, ("bert",))["onnx"]
    path = model / MODEL_FILES[name]
    checks: dict[str, Callable[[], object]] = {
        "onnx": lambda: check_graph(model),
        "safetensors": lambda: read_tensor_locations(path),
        "config": lambda: ModelConfig.load(model),
        "labels": lambda: LabelSpace.load(model),
        "tokenizer": lambda: check_tokenizer_file(path),
    }

    def use(data: bytes) -> None:
        path.write_bytes(data)
        checks[name]()

    return use, [path.read_bytes()]


def make_connections(folder: Path) -> Target:
    """A server whose connections are pairs of sockets in this process."""
    from helpers.http_fuzz import SEEDS
    from unire.extractor import Extractor
    from unire.serving.app import make_app
    from unire.serving.limits import ServingLimits
    from unire.serving.server import Server

    app = make_app(Extractor.load("science"), "science", limits=ServingLimits(linger_seconds=1, timeout_seconds=2))
    server = Server(app)
    server.config.load()
    loop = asyncio.new_event_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))

    async def send(data: bytes) -> bytes:
        ours, theirs = socket.socketpair()
        connection = partial(
            server.config.http_protocol_class, config=server.config, server_state=server.server_state, app_state={}
        )
        await loop.connect_accepted_socket(connection, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            writer.write(data)
            writer.write_eof()
            return await reader.read()
        finally:
            writer.close()

    def use(data: bytes) -> None:
        answer = loop.run_until_complete(send(data))
        if complaints:
            raise AssertionError(complaints)
        if (wrong := re.search(rb"HTTP/1\.1 5\d\d", answer)) or b"Traceback" in answer:
            raise AssertionError(f"{wrong}: {answer[:300]!r}")

    return use, SEEDS


MAKERS = {"http": make_connections, "graph": make_graph, "annotate": make_tasks, "package": make_package}
"""What makes a target that is neither a format nor a file of a model folder."""


def fuzz(name: str, seconds: int, seed: int) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["unire", "h11"]):
        from unire.errors import UnireError

        folder, kept = Path(tempfile.mkdtemp()), Path.cwd()
        os.chdir(folder)
        if name in MAKERS:
            use, seeds = MAKERS[name](folder)
        elif name in MODEL_FILES:
            use, seeds = make_check(name, folder)
        else:
            use, seeds = make_readers(name, folder)

    def run(data: bytes) -> None:
        with suppress(UnireError):
            use(data)

    corpus = folder / "corpus"
    corpus.mkdir()
    for i, data in enumerate(seeds):
        (corpus / str(i)).write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-seed={seed + 1}"]
    options += [f"-max_len={max(4096, *(2 * len(data) for data in seeds))}", f"-artifact_prefix={kept}/fuzz-{name}-"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], run)
    atheris.Fuzz()


def main() -> int:
    from fuzz_formats import TEXTS
    from unire import formats

    targets = [TEXTS, *formats.FORMATS, *MODEL_FILES, *MAKERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", choices=targets, default=targets, metavar="TARGET")
    given = parser.parse_args()
    total, failed = 0, []
    for name in given.targets:
        began = time.monotonic()
        command = [sys.executable, __file__, HERE, name, str(given.seconds), str(given.seed)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        runs = [int(count) for count in re.findall(r"^(?:Done |#)(\d+)", done.stderr, re.MULTILINE)]
        covered = re.findall(r"cov: (\d+)", done.stderr)
        total += max(runs, default=0)
        print(
            f"{name:15} {max(runs, default=0):9,} inputs {time.monotonic() - began:5.0f} s, "
            f"{covered[0] if covered else 0} → {covered[-1] if covered else 0} branches, "
            f"{'ok' if done.returncode == 0 else 'FAILED'}",
            flush=True,
        )
        if done.returncode:
            failed.append(name)
            error = max(0, done.stderr.find("Uncaught Python exception"))
            print(done.stderr[error : error + 3000] or done.stdout[-1000:], done.stderr[-500:], flush=True)
    print(f"{total:,} inputs in all; failed: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == [HERE]:
        fuzz(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(main())
