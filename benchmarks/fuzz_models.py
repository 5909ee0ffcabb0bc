"""Does every loader survive model folders that are broken or hostile? Mutated folders, loaded and used.

    python benchmarks/fuzz_models.py [--inputs 20000] [--seed 0] [--target onnx] [--file model.onnx]

Small models of several families are exported. Then one of their files is changed at random: bytes flipped, cut or
repeated; values of JSON files replaced by others that are huge, deep or of another type; nodes, attributes, tensors and
encodings of graphs changed; headers of weights rewritten. Each mutant is loaded in a process with limited memory, and
extracts from a sentence. Any outcome but success or a `UnireError` is a failure, and the folder is kept: another
exception, the end of the process, or more than five seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
from fuzz_formats import mutated
from helpers.tiny_encoders import tiny_encoder
from unire.errors import UnireError
from unire.export.export import export_onnx
from unire.extractor import Extractor
from unire.inference.onnx_check import OPERATORS
from unire.labels import LabelSpace
from unire.models.encoder import load_encoder
from unire.training.config import TrainingConfig
from unire.training.train import init_model

SECONDS = 5
MEMORY_BYTES = 3 * 2**30
"""Memory that a process may use in addition to that after its imports."""
FAMILIES = ("bert", "albert", "roberta", "deberta-v2")
SHARES = {"onnx": 0.6, "torch": 0.2, "encoder": 0.2}
"""How many of the inputs are loaded by onnxruntime, by PyTorch, and as an encoder for training."""
MAX_MESSAGE_CHARACTERS = 1000
FAILED = "failed"
SENTENCE = "We train a \N{LATIN SMALL LIGATURE FI}ne parser on the Penn Treebank (PTB), naïvely. 你好 \ufdfa"

Mutation = Callable[[bytes, random.Random], bytes]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 64, 255, 1000, 2**15, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63)),
    *(10**9, 10**30, 0.0, -0.5, 0.1, 1e-320, 1e38, 1e308, -1e308, 2.5),
    *("", "a", "\x1b]0;x\x07", "\ud800", "é" * 5000, "[UNK]", "[PAD]", "gelu", "bert", "albert", "../../x", "a/b"),
    *([], [0], [1, 2, 3], ["a"], [[]], {}, {"a": 1}, {"type": "Lowercase"}, {"String": "e"}, {"Regex": "(a*)*b"}),
    nested(40),
    nested(200),
]
STEPS: list[Any] = [
    *({"type": name} for name in ("NFKC", "NFKD", "NFC", "Lowercase", "StripAccents", "Nmt", "ByteLevel")),
    *({"type": name} for name in ("BertPreTokenizer", "Whitespace", "UnicodeScripts", "Punctuation", "Sequence")),
    {"type": "Replace", "pattern": {"String": "e"}, "content": "ee ee"},
    {"type": "Replace", "pattern": {"Regex": "."}, "content": "abcd"},
    {"type": "Prepend", "prepend": "▁" * 50},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Digits", "individual_digits": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Split", "pattern": {"Regex": "(.*)*x"}, "behavior": "Isolated", "invert": False},
    {"type": "FixedLength", "length": 0},
    {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="},
    {"type": "Precompiled", "precompiled_charsmap": "/////2FiY2Q="},
]


def mutate_json(raw: bytes, rng: random.Random) -> bytes:
    """Change, remove, double or move some values of a JSON file."""
    data = json.loads(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        owner, key = pick(data, rng)
        change = rng.random()
        if owner is None:
            continue
        if change < 0.55:
            owner[key] = deepcopy(rng.choice(VALUES))
        elif change < 0.65:
            owner[key] = deepcopy(rng.choice(STEPS))
        elif change < 0.72:
            steps = deepcopy(rng.choices(STEPS, k=rng.choice((1, 3, 12, 100))))
            owner[key] = {"type": "Sequence", rng.choice(("normalizers", "pretokenizers")): steps}
        elif change < 0.80:
            del owner[key]
        elif change < 0.88:
            other, place = pick(data, rng)
            owner[key] = owner[key] if other is None else deepcopy(other[place])
        elif isinstance(owner, list):
            owner.extend(deepcopy(owner[key : key + 3]) * rng.choice((1, 2, 10_000)))
        else:
            owner[str(rng.choice(VALUES))[:20]] = deepcopy(owner[key])
    text = json.dumps(data)
    if rng.random() < 0.05:  # a value twice under its key, or a number that is none
        text = text.replace(", ", f", {rng.choice(('NaN', '1e400', '-Infinity', '0' * 5000, '1' * 5000))}, ", 1)
    return text.encode()


def pick(data: Any, rng: random.Random) -> tuple[Any, Any]:
    """A random place in a JSON value: a list or an object, and a position or a key in it. Small parts are as likely."""
    owner, key = None, None
    while isinstance(data, (list, dict)) and data and (owner is None or rng.random() < 0.8):
        owner = data
        key = rng.randrange(len(data)) if isinstance(data, list) else rng.choice(list(data))
        data = data[key]
    return owner, key


def mutate_header(raw: bytes, rng: random.Random) -> bytes:
    """Change the header of a safetensors file."""
    end = 8 + int.from_bytes(raw[:8], "little")
    header = mutate_json(raw[8:end], rng)
    return len(header).to_bytes(8, "little") + header + raw[end:]


def mutate_numbers(raw: bytes, rng: random.Random) -> bytes:
    """Overwrite numbers of a safetensors file: NaN, infinities, or noise."""
    data = bytearray(raw)
    end = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(rng.choice((1, 10, 1000))):
        start = rng.randrange(end, len(data)) // 4 * 4
        data[start : start + 4] = rng.choice((b"\xff" * 4, b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", rng.randbytes(4)))
    return bytes(data[: len(raw)])


def mutate_graph(raw: bytes, rng: random.Random) -> bytes:
    """Change nodes, attributes, tensors or the interface of a graph."""
    model = onnx.load_from_string(raw)
    graph = model.graph
    names = [name for node in graph.node for name in (*node.input, *node.output)]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        node = rng.choice(graph.node)
        tensor = rng.choice(graph.initializer)
        value = rng.choice([*graph.input, *graph.output])
        change = rng.randrange(16)
        if change == 0:
            node.op_type = rng.choice(sorted(OPERATORS[node.domain]))
        elif change == 1:
            node.op_type = rng.choice(("Loop", "If", "Scan", "RandomUniform", "EPContext", "NonZero", "\x1b[31m"))
        elif change == 2 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(["", "nowhere", *names])
        elif change == 3 and node.input:
            del node.input[rng.randrange(len(node.input))]
        elif change == 4 and node.attribute:
            attribute = rng.choice(node.attribute)
            number = rng.choice((0, 1, -1, 2, 3, 7, 31, 1000, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)))
            if attribute.type == onnx.AttributeProto.INT:
                attribute.i = number
            elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
                attribute.ints[rng.randrange(len(attribute.ints))] = number
            else:
                attribute.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
        elif change == 5 and node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        elif change == 6:
            name = rng.choice(("axis", "to", "perm", "num_heads", "scale", "transA", "x"))
            node.attribute.add(name=name, type=2, i=rng.randrange(-3, 9))
        elif change == 7 and tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice((0, 1, 3, 32, 2**31, 2**40, -1))
        elif change == 8:
            tensor.data_type = rng.randrange(24)
        elif change == 9 and tensor.external_data:
            rng.choice(tensor.external_data).value = rng.choice(("0", "8", "-1", "9" * 20, "model.onnx", "x" * 100))
        elif change == 10 and tensor.raw_data:
            tensor.raw_data = rng.randbytes(len(tensor.raw_data))
        elif change == 11:
            rng.choice((graph.input, graph.output)).append(value)
        elif change == 12:
            value.name = rng.choice(("P", "words", "x", "input_ids", *names[:3]))
        elif change == 13:
            value.type.tensor_type.elem_type = rng.randrange(17)
        elif change == 14:
            rng.choice((graph.node.append, graph.node.remove))(node)
        elif change == 15 and tensor.raw_data and len(tensor.raw_data) % 8 == 0 and tensor.data_type == 7:
            number = rng.choice((0, 1, -1, 5, 10**6, 2**40, -(2**63)))
            tensor.raw_data = number.to_bytes(8, "little", signed=True) * (len(tensor.raw_data) // 8)
    return model.SerializeToString()


def mutate_encoding(raw: bytes, rng: random.Random) -> bytes:
    """Make a number of a protocol buffer longer than necessary, as a reader might not expect."""
    position = rng.randrange(min(len(raw), 4000))
    tail = rng.choice((b"\x80\x00", b"\x80\x80\x80\x80\x10", b"\x80\x80\x80\x80\x00", b"\x80" * 9 + b"\x01"))
    return raw[:position] + bytes([raw[position] | 0x80]) + tail[1:] + raw[position + 1 :]


MUTATIONS: dict[str, list[Mutation]] = {
    "config.json": [mutate_json, mutate_json, mutate_json, mutated],
    "labels.json": [mutate_json, mutated],
    "tokenizer.json": [mutate_json, mutate_json, mutate_json, mutated],
    "tokenizer_config.json": [mutate_json, mutated],
    "model.safetensors": [mutate_header, mutate_header, mutate_numbers, mutated],
    "model.onnx": [mutate_graph, mutate_graph, mutate_graph, mutate_graph, mutate_encoding, mutated],
}
WEIGHTS = {"config.json": 4, "labels.json": 1, "tokenizer.json": 4, "tokenizer_config.json": 1}
"""How often a file is changed, compared with others. The others count 3."""


def build_models(folder: Path, families: tuple[str, ...]) -> dict[str, list[Path]]:
    """The folders to mutate, by target."""
    transformers.logging.disable_progress_bar()
    labels = LabelSpace.load("conll04")
    targets: dict[str, list[Path]] = {"onnx": [], "torch": [], "encoder": []}
    for family in families:
        encoder = tiny_encoder(family, folder / family / "encoder", SENTENCE.split())
        model = init_model(str(encoder), labels, TrainingConfig(layout="shared", alpha=0.5, d=20))
        torch.nn.init.normal_(model.biaffine.U, std=0.1)
        signatures = tuple(("Peop", name, "Loc") for name in labels.relation_types)
        model.config = model.config.with_(signatures=signatures, constraints=True)
        model.save_pretrained(folder / family / "torch")
        export_onnx(folder / family / "torch", folder / family / "onnx")
        for target, folders in targets.items():
            folders.append(folder / family / target)
    return targets


def use(folder: Path, target: str) -> str:
    """Load a folder and use it; returns what happened."""
    try:
        if target == "encoder":
            load_encoder(folder)
        else:
            Extractor.load(folder, engine=target, device="cpu", threads=1).extract(SENTENCE).to_dict()
    except UnireError as error:
        if not str(error).isprintable() or len(str(error)) > MAX_MESSAGE_CHARACTERS:
            raise ValueError("the message has control characters, or is long") from error
        return "refused"
    return "used"


def work(pipe: Connection) -> None:
    """Use the folders that arrive."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # panics of tokenizers are printed
    while True:
        folder, target = pipe.recv()
        start = time.perf_counter()
        try:
            outcome = use(folder, target)
        except BaseException:
            outcome = traceback.format_exc()
        pipe.send((outcome, time.perf_counter() - start))


class Worker:
    """A process that uses folders. A new one is started if it ends."""

    def __init__(self) -> None:
        self.process: Any = None

    def use(self, folder: Path, target: str) -> tuple[str, float]:
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("fork").Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        self.pipe.send((folder, target))
        try:
            if self.pipe.poll(2 * SECONDS):
                return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            self.process = None
            return f"the process ended with {code}", 0.0
        self.stop()
        return "the process did not answer", 2.0 * SECONDS

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def mutate_folder(source: Path, target: Path, rng: random.Random, only: str | None) -> str:
    """Copy a folder with one file changed; returns its name."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    names = sorted(file.name for file in source.iterdir() if file.name in MUTATIONS and only in (None, file.name))
    (changed,) = rng.choices(names, [WEIGHTS.get(name, 3) for name in names])
    for file in source.iterdir():
        if file.name != changed:
            os.link(file, target / file.name)
    (target / changed).write_bytes(rng.choice(MUTATIONS[changed])((source / changed).read_bytes(), rng))
    return changed


def fuzz(
    target: str,
    sources: list[Path],
    inputs: int,
    rng: random.Random,
    folder: Path,
    only: str | None,
    max_seconds: float,
) -> tuple[Counter[str], float]:
    """Use mutants of some folders; returns the outcomes by file, and the longest time."""
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    worker = Worker()
    mutant = folder / "mutant"
    try:
        for _ in range(inputs):
            changed = mutate_folder(rng.choice(sources), mutant, rng, only)
            outcome, seconds = worker.use(mutant, target)
            slowest = max(slowest, seconds)
            if outcome not in ("used", "refused") or seconds > max_seconds:
                kept = Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-"))
                shutil.copytree(mutant, kept, dirs_exist_ok=True)
                print(f"{outcome}\n{seconds:.1f} s with another {changed}; the folder is kept as {kept}", flush=True)
                outcome = FAILED
            outcomes[f"{changed} {outcome}"] += 1
    finally:
        worker.stop()
    return outcomes, slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=list(SHARES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the longest time that an input may take")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--file", choices=list(MUTATIONS), help="change this file only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = build_models(folder, (options.family,) if options.family else FAMILIES)
        shares = {options.target: 1.0} if options.target else SHARES
        for target, share in shares.items():
            start = time.perf_counter()
            rng = random.Random(f"{options.seed} {target}")
            outcomes, slowest = fuzz(
                target, targets[target], round(options.inputs * share), rng, folder, options.file, options.seconds
            )
            print(
                f"{target:8} {outcomes.total():7,} inputs {time.perf_counter() - start:6.0f} s, "
                f"the slowest {slowest:.2f} s  {dict(sorted(outcomes.items()))}",
                flush=True,
            )
            total += outcomes
    n_failed = sum(count for what, count in total.items() if what.endswith(FAILED))
    sys.exit(
        f"{n_failed} of {total.total():,} inputs failed"
        if n_failed
        else print(f"{total.total():,} inputs: no exception but our own, no crash, none over {options.seconds} s")
    )


if __name__ == "__main__":
    main()
