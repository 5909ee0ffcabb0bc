"""Golden outputs: make them with one version of the code, and compare them with those of another.

    python benchmarks/golden.py make golden/old --baseline v0.1.0 --data DATA --encoder DIR
    python benchmarks/golden.py make golden/new --source src --data DATA --encoder DIR
    python benchmarks/golden.py compare golden/old golden/new

`make` runs the command line (`python -m unire …`) of the code in `--source`, or of a git revision (`--baseline`). It
uses one thread, the CPU and fixed seeds. So two runs of the same code on the same machine give the same digits.
`compare` lists every difference and exits with status 1 if there is one. Timings, dates and absolute paths are not
compared. Values that only the second folder has are listed, but they are not failures.

DATA holds `scierc/{train,dev,test}.json` (DyGIE's format) and `conll04/{train,dev,test}.json` (SpERT's format). By
default it is the environment variable `UNIRE_DATA`. DIR is a small pretrained encoder in Hugging Face's layout, for
example MiniLM-L6-H384.

Run some parts only with `--only science,train-paper`. Parts that they need are run too, unless they exist. `parts`
lists all of them. To check that checkpoints of the old code still work, let the new code read them:

    python benchmarks/golden.py make golden/read --checkpoints golden/old --only export,distill-stored …
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

SEED = "3"
VOLATILE = re.compile(r"(^|_)(seconds|minutes|time|date|speed|megabytes)($|_)|_per_second$|^(out|unire)$")
"""Keys that are not compared: timings, dates, output paths, the version of the package."""
ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip
FULL = ("--format", "unire", "--device", "cpu")
"""Options that write scores with all their digits."""
TEACHABLE = "science"
"""The encoder of short trainings. A bundled one learns enough in a few steps that dev scores are above zero."""
SHOWN = 12
"""Differences that are printed per part."""


@dataclass(frozen=True)
class Part:
    """One golden output: a function that runs commands, and the parts whose files it reads."""

    run: Callable[[Workshop, Path], dict[str, Any]]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workshop:
    """Where the parts are made, and with which code."""

    out: Path
    source: Path
    data: Path
    encoder: Path
    checkpoints: Path | None

    def unire(self, folder: Path, *arguments: object) -> str:
        """Run one command in `folder` and return what it prints to standard output."""
        environment = os.environ | {
            "PYTHONPATH": str(self.source),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        command = [sys.executable, "-m", "unire", *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\nfailed with status {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout

    def json(self, folder: Path, *arguments: object) -> Any:
        """Run one command with `--json`."""
        return json.loads(self.unire(folder, *arguments, "--json"))

    def needed(self, part: str, name: str) -> Path:
        """A file or folder that another part has made."""
        return (self.checkpoints or self.out) / "work" / part / name

    def soft_labels(self, folder: Path) -> str:
        """The option for stored soft labels, by its current name or its old one."""
        return "--soft-labels" if "--soft-labels" in self.unire(folder, "distill", "--help") else "--lessons"


# Inputs


def scierc(data: Path, split: str, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
    with (data / "scierc" / f"{split}.json").open(encoding="utf-8") as file:
        return [json.loads(line) for line in islice(file, start, stop)]


def raw_texts(data: Path, name: str) -> Iterator[tuple[str, str]]:
    """The ids and texts of a test set, as ordinary prose: without Treebank escapes and spaces before punctuation."""
    if name == "scierc":
        for document in scierc(data, "test"):
            yield document["doc_key"], " ".join(map(prose, document["sentences"]))
    else:
        for number, sentence in enumerate(json.loads((data / name / "test.json").read_text(encoding="utf-8"))):
            yield str(number), prose(sentence["tokens"])


def prose(words: list[str]) -> str:
    text = " ".join(ESCAPES.get(word, word) for word in words)
    return re.sub(r"([(\[{]) ", r"\1", re.sub(r" ([.,;:?!%)\]}]|'s\b|n't\b)", r"\1", text))


def write_lines(path: Path, items: list[Any]) -> Path:
    lines = (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in items)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def small_data(shop: Workshop, folder: Path, *, train: int = 12) -> list[object]:
    """Options for a few documents of SciERC to train on, and others as dev and test."""
    write_lines(folder / "train.json", scierc(shop.data, "train", 0, train))
    write_lines(folder / "dev.json", scierc(shop.data, "dev", 0, 6))
    write_lines(folder / "test.json", scierc(shop.data, "test", 0, 4))
    return ["--data", "train.json", "--dev", "dev.json"]


def corpus(shop: Workshop, folder: Path) -> Path:
    """Unlabelled text: abstracts that no other part trains on, one per line."""
    documents = scierc(shop.data, "train", 100, 116)
    return write_lines(folder / "corpus.txt", [" ".join(map(prose, each["sentences"])) for each in documents])


# What is kept of the outputs


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def files(folder: Path) -> dict[str, Any]:
    """The contents of a folder of our own: JSON as it is, tensors by name, kind and digest, the rest by digest.

    The model card and the ONNX graph are listed only. The card is prose, and the graph names internals.
    """
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".json" and path.name != "tokenizer.json":
            found[name] = json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".jsonl":
            found[name] = lines(path)
        elif path.suffix == ".safetensors":
            found[name] = tensors(path)
        elif path.suffix in (".md", ".onnx"):
            found[name] = "present"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def tensors(path: Path) -> dict[str, Any]:
    found = {}
    with safe_open(path, "np") as file:
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            digest = hashlib.sha256(np.ascontiguousarray(tensor).tobytes()).hexdigest()[:16]
            total = float(np.sum(tensor, dtype=np.float64))
            found[name] = {"shape": list(tensor.shape), "kind": str(tensor.dtype), "digest": digest, "sum": total}
    return found


# The parts


def bundled(model: str) -> Part:
    """Predictions of a bundled model on both test sets, from words and from raw text, and its scores."""

    def run(shop: Workshop, folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, form in (("scierc", "dygie"), ("conll04", "spert")):
            test = shop.data / name / "test.json"
            words, prose = folder / f"{name}-words.jsonl", folder / f"{name}-text.jsonl"
            shop.unire(folder, "extract", test, "--model", model, "--from", form, "--out", words, *FULL)
            texts = [{"id": key, "text": text} for key, text in raw_texts(shop.data, name)]
            given = write_lines(folder / f"{name}-raw.jsonl", texts)
            shop.unire(folder, "extract", given, "--model", model, "--out", prose, *FULL)
            found |= {f"{name} from words": lines(words), f"{name} from text": lines(prose)}
        own = shop.data / {"science": "scierc", "news": "conll04"}[model] / "test.json"
        scoring = ["evaluate", "--model", model, "--data", own, "--device", "cpu"]
        found["scores"] = shop.json(folder, *scoring, "--all-protocols", "--reliability", "--bootstrap", 50)
        for decoder in ("split", "hard", "likely"):
            found[f"scores of {decoder}"] = shop.json(folder, *scoring, "--decoder", decoder)
        return found

    return Part(run)


def outputs(shop: Workshop, folder: Path) -> dict[str, Any]:
    """A few texts in every output format that is text, byte for byte."""
    texts = [text for _, text in islice(raw_texts(shop.data, "scierc"), 5)]
    given = write_lines(folder / "texts.txt", texts)
    extract = ["extract", "--lines", given, "--device", "cpu", "--min-score", 0.3]
    formats = (
        "text", "tables", "jsonl", "csv", "tsv", "entities-csv", "entities-tsv", "graphml", "cypher", "unire", "dygie",
        "spert", "unire-released", "conll04", "labelstudio", "prodigy",
    )  # fmt: skip
    found = {}
    for form in formats:
        out = folder / f"{form}.out"
        shop.unire(folder, *extract, "--format", form, "--out", out)
        found[form] = out.read_text(encoding="utf-8").splitlines()
    return found


def training(preset: str, *, own: bool = False) -> Part:
    """The history, the scores and the weights of a short training, on a bundled encoder or (`own`) on `--encoder`."""

    def run(shop: Workshop, folder: Path) -> dict[str, Any]:
        data = small_data(shop, folder)
        options = ["--preset", preset, "--epochs", 3, "--batch-size", 8, "--lr", 1e-4, "--head-lr", 2e-3]
        options += ["--set", "evaluate_after=0", "--set", "evaluate_every=1", "--seed", SEED, "--labels", "scierc"]
        train = [
            "train",
            "--encoder",
            shop.encoder if own else TEACHABLE,
            *data,
            "--test",
            "test.json",
            "--out",
            "model",
        ]
        return {"result": shop.json(folder, *train, *options), "model": files(folder / "model")}

    return Part(run)


def further(shop: Workshop, folder: Path) -> dict[str, Any]:
    """A bundled model that is trained further: the teacher and the exported model of other parts."""
    data = small_data(shop, folder)
    options = ["--keep-head", "--epochs", 1, "--batch-size", 8, "--set", "evaluate_after=0", "--seed", SEED]
    result = shop.json(folder, "train", "--encoder", "science", *data, "--out", "model", *options)
    return {"result": result, "model": files(folder / "model"), "predictions": predicted(shop, folder, "model")}


def predicted(shop: Workshop, folder: Path, model: object) -> list[Any]:
    write_lines(folder / "some.json", scierc(shop.data, "test", 0, 20))
    out = folder / "predicted.jsonl"
    shop.unire(folder, "extract", "some.json", "--from", "dygie", "--model", model, "--out", out, *FULL)
    return lines(out)


def export(shop: Workshop, folder: Path) -> dict[str, Any]:
    """An int8 export, and what it predicts in onnxruntime."""
    test = write_lines(folder / "test.json", scierc(shop.data, "test", 0, 4)).name
    result = shop.json(folder, "export", shop.needed("further", "model"), "--out", "model", "--test", test)
    return {"result": result, "model": files(folder / "model"), "predictions": predicted(shop, folder, "model")}


def teach(shop: Workshop, folder: Path) -> dict[str, Any]:
    """Soft labels of one teacher."""
    teacher = ["--teacher", shop.needed("further", "model"), "--corpus", corpus(shop, folder).name]
    result = shop.json(folder, "teach", *teacher, "--out", "soft", "--device", "cpu")
    return {"result": result, "soft labels": files(folder / "soft")}


def distillation(*, stored: bool, relabelled: bool = False) -> Part:
    """A short distillation, from stored soft labels or from the teacher itself."""
    origin = "relabel" if relabelled else "teach"

    def run(shop: Workshop, folder: Path) -> dict[str, Any]:
        if stored:
            source = [shop.soft_labels(folder), shop.needed(origin, "soft")]
        else:
            source = ["--teacher", shop.needed("further", "model"), "--corpus", corpus(shop, folder).name]
        options = ["--epochs", 2, "--batch-size", 16, "--soft-batch", 16, "--lr", 1e-4, "--head-lr", 2e-3]
        options += ["--set", "evaluate_after=0", "--set", "evaluate_every=1", "--seed", SEED, "--workers", 1]
        data = small_data(shop, folder)
        result = shop.json(folder, "distill", *source, "--student", TEACHABLE, *data, "--out", "model", *options)
        return {"result": result, "model": files(folder / "model")}

    return Part(run, (origin,) if stored else ("further",))


def adapt(shop: Workshop, folder: Path) -> dict[str, Any]:
    """A few steps of masked-language-model adaptation."""
    options = ["--max-steps", 3, "--length", 128, "--batch-tokens", 2048, "--seed", SEED, "--device", "cpu"]
    given = ["--encoder", shop.encoder, "--corpus", corpus(shop, folder).name]
    result = shop.json(folder, "adapt", *given, "--out", "encoder", *options)
    return {"result": result, "encoder": files(folder / "encoder")}


def markers(*, exact: bool) -> Part:
    """A short training of a marker model."""

    def run(shop: Workshop, folder: Path) -> dict[str, Any]:
        data = small_data(shop, folder, train=6 if exact else 12)
        options = ["--epochs", 1 if exact else 2, "--seed", SEED, "--labels", "scierc", "--device", "cpu"]
        options += ["--batch-size", 16, "--lr", 1e-4, *(["--exact"] if exact else [])]
        result = shop.json(folder, "markers", "--encoder", TEACHABLE, *data, "--out", "model", *options)
        return {"result": result, "model": files(folder / "model")}

    return Part(run)


def relabel(shop: Workshop, folder: Path) -> dict[str, Any]:
    """Soft labels whose relations a marker model has relabelled."""
    given = [shop.soft_labels(folder), shop.needed("teach", "soft"), "--markers", shop.needed("markers", "model")]
    result = shop.json(folder, "relabel", *given, "--out", "soft", "--device", "cpu")
    return {"result": result, "soft labels": files(folder / "soft")}


PARTS = {
    "further": Part(further),
    "science": bundled("science"),
    "news": bundled("news"),
    "outputs": Part(outputs),
    "train-paper": training("paper"),
    "train-released": training("released"),
    "train-best": training("best"),
    "train-encoder": training("best", own=True),
    "markers": markers(exact=False),
    "markers-exact": markers(exact=True),
    "export": Part(export, ("further",)),
    "teach": Part(teach, ("further",)),
    "distill-stored": distillation(stored=True),
    "distill-direct": distillation(stored=False),
    "adapt": Part(adapt),
    "relabel": Part(relabel, ("teach", "markers")),
    "distill-relabelled": distillation(stored=True, relabelled=True),
}
"""In an order in which every part comes after those that it needs."""


# Making


def make(shop: Workshop, only: list[str], jobs: int) -> None:
    if not only and shop.out.exists() and any(shop.out.iterdir()):
        raise SystemExit(f"{shop.out} is not empty; give a new folder, or name parts with --only")
    wanted = set(only or PARTS)
    if not shop.checkpoints:
        for name in reversed(PARTS):
            if name in wanted:
                wanted |= {need for need in PARTS[name].needs if not (shop.out / f"{need}.json").exists()}
    failed = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        running: dict[str, Future[None]] = {}

        def one(name: str) -> None:
            for need in PARTS[name].needs:
                if need in running:
                    running[need].result()
            if failed.is_set():
                return
            began = time.monotonic()
            try:
                make_part(shop, name)
            except BaseException:
                failed.set()
                raise
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)

        for name in PARTS:
            if name in wanted:
                running[name] = pool.submit(one, name)
    for future in running.values():
        future.result()


def make_part(shop: Workshop, name: str) -> None:
    folder, record = shop.out / "work" / name, shop.out / f"{name}.json"
    record.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = plain(PARTS[name].run(shop, folder), shop)
    temporary = record.with_suffix(".part")
    temporary.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(record)


def plain(value: Any, shop: Workshop) -> Any:
    """The value without timings, dates and absolute paths."""
    if isinstance(value, dict):
        return {key: plain(item, shop) for key, item in value.items() if not VOLATILE.search(key)}
    if isinstance(value, list):
        return [plain(item, shop) for item in value]
    if isinstance(value, str):
        for path, name in (
            (shop.checkpoints, "OUT"), (shop.out, "OUT"), (shop.data, "DATA"), (shop.encoder, "ENCODER"),
        ):  # fmt: skip
            value = value.replace(str(path), name) if path else value
    return value


@contextmanager
def source_of(source: Path | None, baseline: str | None) -> Iterator[Path]:
    """The folder of the code: `source`, or that of a temporary worktree of a git revision."""
    if baseline is None:
        yield (source or Path(__file__).parents[1] / "src").resolve()
        return
    repository = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(repository), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), baseline], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


# Comparing


def compare(first: Path, second: Path, only: list[str], tolerance: float) -> bool:
    """Print how two folders differ; whether they are equal."""
    equal = True
    names = only or [name for name in PARTS if any((folder / f"{name}.json").exists() for folder in (first, second))]
    if not names:
        raise SystemExit(f"{first} and {second} hold no golden outputs")
    for name in names:
        missing = [str(folder) for folder in (first, second) if not (folder / f"{name}.json").exists()]
        if missing:
            print(f"{name}: MISSING in {' and '.join(missing)}")
            equal = False
            continue
        a, b = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for folder in (first, second))
        changes, additions, count = [], [], 0
        for place, old, new in differences(a, b, name, tolerance):
            if old is ABSENT:
                additions.append(place)
            else:
                count += 1
                changes.append(f"  {place}: {shown(old)} → {shown(new)}")
        print(f"{name}: {f'{count} DIFFERENCES' if count else 'equal'}")
        for change in changes[:SHOWN]:
            print(change)
        if count > SHOWN:
            print(f"  … and {count - SHOWN} more")
        if additions:
            print(f"  only in {second}: {', '.join(additions[:SHOWN])}{' …' if len(additions) > SHOWN else ''}")
        equal = equal and not count
    return equal


ABSENT = object()


def differences(a: Any, b: Any, place: str, tolerance: float) -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON values differ, with both values; `ABSENT` where one has none."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            old, new = a.get(key, ABSENT), b.get(key, ABSENT)
            if old is ABSENT or new is ABSENT:
                yield f"{place} / {key}", old, new
            else:
                yield from differences(old, new, f"{place} / {key}", tolerance)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for position, (old, new) in enumerate(zip(a, b, strict=True)):
            yield from differences(old, new, f"{place} / {position}", tolerance)
    elif a != b and not (
        tolerance
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in (a, b))
        and abs(a - b) <= tolerance
    ):
        yield place, a, b


def shown(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        text = f"{len(value)} items {text}"
    return text if len(text) <= 120 else f"{text[:117]}..."


def names(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="Make golden outputs.")
    making.add_argument("out", type=Path, help="Folder for the outputs.")
    code = making.add_mutually_exclusive_group()
    code.add_argument("--source", type=Path, help="Folder that holds the package. [default: src of this repository]")
    code.add_argument("--baseline", metavar="REF", help="Use the code of a git revision, in a temporary worktree.")
    making.add_argument("--data", type=Path, default=os.environ.get("UNIRE_DATA"), help="Data sets. [UNIRE_DATA]")
    making.add_argument("--encoder", type=Path, required=True, help="Small pretrained encoder.")
    making.add_argument("--only", type=names, default=[], metavar="A,B", help="Make these parts only.")
    making.add_argument("--jobs", type=int, default=2, help="Parts that run at the same time. [default: 2]")
    making.add_argument("--checkpoints", type=Path, metavar="DIR", help="Read the models of other golden outputs.")
    comparing = commands.add_parser("compare", help="Compare two folders; exit status 1 if they differ.")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--only", type=names, default=[], metavar="A,B", help="Compare these parts only.")
    comparing.add_argument("--tolerance", type=float, default=0.0, help="Largest difference of numbers. [default: 0]")
    commands.add_parser("parts", help="List the parts.")
    asked = parser.parse_args()
    if asked.command == "parts":
        for name, part in PARTS.items():
            print(name, f"(needs {', '.join(part.needs)})" if part.needs else "")
    elif asked.command == "compare":
        sys.exit(0 if compare(asked.first, asked.second, asked.only, asked.tolerance) else 1)
    else:
        if asked.data is None:
            parser.error("give --data, or set UNIRE_DATA")
        with source_of(asked.source, asked.baseline) as source:
            if not (source / "unire").is_dir():
                parser.error(f"{source} does not hold the package unire")
            others = asked.checkpoints and asked.checkpoints.resolve()
            shop = Workshop(asked.out.resolve(), source, asked.data.resolve(), asked.encoder.resolve(), others)
            make(shop, asked.only, asked.jobs)


if __name__ == "__main__":
    main()
