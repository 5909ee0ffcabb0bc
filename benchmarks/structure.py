"""Measure how the package is built: modules, imports, and what a command crosses.

    python benchmarks/structure.py                                 # the code in src/
    python benchmarks/structure.py --baseline v0.1.0 --source src  # and a git revision

Prints a Markdown table with one column per source tree. The counts follow these rules:

- A module is a `.py` file, `__init__.py` included. Lines are all lines of the file.
- An import edge is a pair of modules of which one imports the other, at the top or inside a function.
- A module is a leaf of one importer if exactly one other module imports it.
- A run crosses a file if it calls a function that is defined there, in any thread. Lambdas and comprehensions do not
  count as functions. Code that runs because a module is imported does not count.
- A training step lasts from the end of one optimizer step to the end of the next.

Traced runs use the fixtures of tests/, a tiny random encoder and the bundled model `science`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FIXTURE = ROOT / "tests" / "fixtures" / "twenty.jsonl"
SENTENCE = "We train a parser on the Penn Treebank."
SMALL, LARGE = 60, 450
"""Lines of a module below and above which it counts as small and large."""


def measure_modules(package: Path) -> dict[str, str]:
    """Sizes of the modules and edges of the import graph."""
    files = {module_name(file, package): file for file in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in files.items()}
    sizes = [len(file.read_text(encoding="utf-8").splitlines()) for file in files.values()]
    edges = {(name, target) for name, tree in trees.items() for target in imported(tree, files) if target != name}
    importers = Counter(target for _, target in edges)
    functions = sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for tree in trees.values() for node in ast.walk(tree)
    )
    folders = {file.parent for file in files.values()}
    return {
        "packages": f"{len(folders):,}",
        "modules": f"{len(files):,}",
        "lines": f"{sum(sizes):,}",
        "lines per module, mean / median": f"{mean(sizes):.0f} / {median(sizes):.0f}",
        f"modules under {SMALL} lines": str(sum(size < SMALL for size in sizes)),
        f"modules over {LARGE} lines": str(sum(size > LARGE for size in sizes)),
        "functions": f"{functions:,}",
        "import edges": f"{len(edges):,}",
        "modules with one importer": str(sum(count == 1 for count in importers.values())),
    }


def module_name(file: Path, package: Path) -> str:
    return ".".join([package.name, *file.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")


def imported(tree: ast.Module, modules: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that `tree` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            children = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (child for child in children if child in modules)
            if not all(child in modules for child in children):
                yield node.module


class Tracer:
    """Records which functions of a package are called, in all threads, while it is on."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.on = False
        self.functions: set[tuple[str, int, str]] = set()
        self.changes = 0
        """How often the file of the called function differs from that of the call before."""
        self._last = ""

    def __enter__(self) -> Tracer:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(self.prefix):
            return
        if code.co_name.startswith("<") or self._is_importing(frame):
            return
        self.functions.add((code.co_filename, code.co_firstlineno, code.co_name))
        self.changes += code.co_filename != self._last
        self._last = code.co_filename

    def _is_importing(self, frame: FrameType | None) -> bool:
        """Whether a module of the package is being executed further up the stack."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self.prefix):
                return True
            frame = frame.f_back
        return False

    def result(self) -> dict[str, Any]:
        files = sorted({Path(file).relative_to(self.prefix).as_posix() for file, _, _ in self.functions})
        return {"files": files, "functions": len(self.functions), "changes": self.changes}


def trace(run: str, package: Path, folder: Path) -> dict[str, Any]:
    """Trace one of the runs in this process, whose `unire` must be that of `package`."""
    import unire

    if Path(unire.__file__).parent != package:
        raise SystemExit(f"{unire.__file__} is not in {package}")
    with Tracer(package) as tracer:
        RUNS[run](tracer, folder)
    return tracer.result()


def trace_extract(tracer: Tracer, folder: Path) -> None:
    tracer.on = True
    run_command("extract", SENTENCE, "--device", "cpu")


def trace_evaluate(tracer: Tracer, folder: Path) -> None:
    tracer.on = True
    run_command("evaluate", "--model", "science", "--data", FIXTURE, "--device", "cpu")


def trace_training_step(tracer: Tracer, folder: Path) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    sys.path.append(str(ROOT / "tests"))
    from helpers.tiny_encoders import tiny_encoder

    steps = 0

    def count_step(*arguments: object) -> None:
        nonlocal steps
        steps += 1
        tracer.on = steps == 2

    encoder = tiny_encoder("bert", folder / "encoder", SENTENCE.split())
    hook = register_optimizer_step_post_hook(count_step)
    options = ("--labels", "scierc", "--epochs", 1, "--batch-size", 8)
    run_command("train", "--encoder", encoder, "--data", FIXTURE, *options, "--out", folder / "model", "--json")
    hook.remove()


def run_command(*arguments: object) -> None:
    """Run the command as its entry point does, without its output."""
    from unire.__main__ import main

    sys.argv = ["unire", *map(str, arguments)]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.suppress(SystemExit):
        main()


RUNS: dict[str, Callable[[Tracer, Path], None]] = {
    "extract": trace_extract,
    "training step": trace_training_step,
    "evaluate": trace_evaluate,
}


def measure_runs(source: Path, *, list_files: bool) -> dict[str, str]:
    """Trace every run in a process of its own."""
    rows = {}
    for run in RUNS:
        command = [sys.executable, __file__, "--source", str(source), "--trace", run]
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(ran.stdout)
        rows[f"{run}: files / functions / changes of file"] = (
            f"{len(result['files'])} / {result['functions']} / {result['changes']:,}"
        )
        if list_files:
            print(f"{source}, {run}: {', '.join(result['files'])}\n", file=sys.stderr)
    return rows


def print_table(columns: Sequence[str], rows: Sequence[dict[str, str]]) -> None:
    print("| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name in dict.fromkeys(name for row in rows for name in row):
        print(f"| {name} |", " | ".join(row.get(name, "") for row in rows), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", default=[], help="Folder that holds the package.")
    parser.add_argument("--baseline", metavar="REF", action="append", default=[], help="A git revision, shown first.")
    parser.add_argument("--static", action="store_true", help="Trace no runs.")
    parser.add_argument("--list-files", action="store_true", help="List the files that the runs cross.")
    parser.add_argument("--trace", choices=list(RUNS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sources = [path.resolve() for path in asked.source] or ([] if asked.baseline else [ROOT / "src"])
    if asked.trace:
        with tempfile.TemporaryDirectory() as folder:
            result = trace(asked.trace, sources[0] / "unire", Path(folder))
        print(json.dumps(result))
        return
    from golden import source_of

    with contextlib.ExitStack() as stack:
        trees = {ref: stack.enter_context(source_of(None, ref)) for ref in asked.baseline}
        trees |= {os.path.relpath(source): source for source in sources}
        rows = []
        for tree in trees.values():
            runs = {} if asked.static else measure_runs(tree, list_files=asked.list_files)
            rows.append(measure_modules(tree / "unire") | runs)
    print_table(list(trees), rows)


if __name__ == "__main__":
    main()
