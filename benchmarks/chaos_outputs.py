"""Does every command that writes fail well? Each one runs under full disks, missing rights, closed streams and more.

    python benchmarks/chaos_outputs.py [--commands extract] [--faults "disk full"] [--keep]

Some faults need root (small file systems are mounted) or the program `faketime`; the others run without. Each command
first runs without a fault. With a fault, it must either succeed with the same output, or fail with one sentence and
without a traceback. An output of an earlier run must stay as it is until it is replaced, and nothing half written may
stay behind, except what can be resumed. Afterwards, the same command must succeed without the fault, with `--resume`
if something can be resumed, and give the same output.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.faults import C_LOCALE, FAULTS, NO_FAULT, Fault, Outcome
from helpers.paths import FIXTURES
from helpers.tiny_encoders import tiny_encoder
from unire import formats
from unire.cli.main import BROKEN_PIPE

OLD = b"an earlier output\n"
TEXT = "We train a parser on the Penn Treebank.\nIt is évalué on the BNC \U0001f600.\n\x9b31mred\n"
SUFFIXES = {"parquet": ".parquet", "spacy": ".spacy", "html": ".html", "graphml": ".graphml"}
TEXT_FORMATS = ("text", "tables", "jsonl", "csv", "tsv", "entities-csv", "entities-tsv", "graphml", "cypher", "html")


@dataclass(frozen=True)
class Command:
    name: str
    arguments: tuple[str, ...]
    """The words; `{out}` is the output, `{given}` the folder with what was prepared."""
    out: str | None = "out"
    """The name of the output; `None` for standard output."""
    folder: bool = False
    exact: bool = True
    """Whether two runs give the same bytes."""
    shown: bool = False
    """Whether it prints for people."""

    def words(self, given: Path, folder: Path) -> list[str]:
        out = "" if self.out is None else str(folder / self.out)
        return [word.format(out=out, given=given) for word in self.arguments]


def list_commands() -> list[Command]:
    def write(name: str, *arguments: str, out: str = "out", folder: bool = False, exact: bool = True) -> Command:
        return Command(name, (*arguments, "{out}"), out, folder, exact)

    extract = ("extract", "--lines", "{given}/texts.txt")
    commands = [
        Command("extract to stdout", (*extract, "--format", "jsonl"), None),
        Command("extract text to stdout", (*extract, "--format", "text"), None),
        Command("extract csv to stdout", (*extract, "--format", "csv"), None),
        Command("extract html to stdout", (*extract, "--format", "html"), None),
        Command("data convert to stdout", ("data", "convert", "{given}/data.jsonl", "--out", "-"), None),
        Command("data stats", ("data", "stats", "{given}/data.jsonl"), None, shown=True),
        Command("data stats --json", ("data", "stats", "{given}/data.jsonl", "--json"), None),
        Command("data check", ("data", "check", "{given}/data.jsonl"), None, shown=True),
        Command("data show", ("data", "show", "{given}/data.jsonl"), None, shown=True),
        Command("models", ("models",), None, shown=True),
        Command("help", ("--help",), None, shown=True),
        write("data stats --plot", "data", "stats", "{given}/data.jsonl", "--plot", out="a.svg", exact=False),
        write("data show --html", "data", "show", "{given}/data.jsonl", "--html", out="a.html"),
        write("data split --folds", "data", "split", "{given}/data.jsonl", "--folds", "2", "--out", out="folds.json"),
        write("data split", "data", "split", "{given}/data.jsonl", "--out", folder=True),
        write("evaluate --predictions", "evaluate", "-m", "science", "--data", "{given}/data.jsonl", "--predictions"),
    ]
    for name in (*TEXT_FORMATS, *formats.WRITABLE):
        folder = name in formats.FORMATS and formats.FORMATS[name].folder
        commands.append(
            write(
                f"extract {name}",
                *extract,
                "--format",
                name,
                "--out",
                out="out" + SUFFIXES.get(name, ""),
                folder=folder,
            )
        )
    commands += [
        write(
            f"convert {name}",
            "data",
            "convert",
            "{given}/data.jsonl",
            "--to",
            name,
            "--out",
            folder=formats.FORMATS[name].folder,
        )
        for name in formats.WRITABLE
    ]
    graph = ("graph", "export", "{given}/graph", "--out")
    suggest = ("annotate", "suggest", "--lines", "{given}/texts.txt", "--count", "2", "--out", "{out}", "--format")
    package = ("--name", "seas", "--version", "1.0", "--licence", "mit", "--out")
    commands += [
        Command("graph stats", ("graph", "stats", "{given}/graph"), None, shown=True),
        write("graph build", "graph", "build", "{given}/data.jsonl", "--workers", "1", "--out", folder=True),
        write("graph export to Neo4j", *graph, folder=True),
        *(write(f"graph export {suffix}", *graph, out=f"a.{suffix}") for suffix in ("graphml", "html", "ttl")),
        Command("annotate suggest brat", (*suggest, "brat"), folder=True),
        *(Command(f"annotate suggest {tool}", (*suggest, tool)) for tool in ("labelstudio", "prodigy")),
        write("data labels", "data", "labels", "{given}/data.jsonl", "--out", out="labels.json"),
        write("package", "package", "science", *package, folder=True),
    ]
    train = ("--encoder", "{given}/encoder", "--data", "{given}/data.jsonl", "--epochs", "1")
    study = ("--data", "{given}/data.jsonl", "--out")
    commands += [
        write("train", "train", *train, "--out", folder=True, exact=False),
        write("train --dev", "train", *train, "--dev", "{given}/data.jsonl", "--out", folder=True, exact=False),
        write(
            "train --tensorboard", "train", *train, "--out", "{given}/never", "--tensorboard", folder=True, exact=False
        ),
        write("train --folds", "train", *train, "--folds", "2", "--out", folder=True, exact=False),
        write(
            "adapt",
            "adapt",
            "--encoder",
            "{given}/encoder",
            "--corpus",
            "{given}/texts.txt",
            "--max-steps",
            "2",
            "--length",
            "16",
            "--batch-tokens",
            "64",
            "--out",
            folder=True,
            exact=False,
        ),
        write("markers", "markers", *train, "--out", folder=True, exact=False),
        write("export", "export", "{given}/model", "--out", folder=True, exact=False),
        write(
            "calibrate", "calibrate", "{given}/model", "--data", "{given}/data.jsonl", "--out", folder=True, exact=False
        ),
        write("teach", "teach", "--corpus", "{given}/texts.txt", "--teacher", "{given}/model", "--out", folder=True),
        write(
            "relabel", "relabel", "--soft-labels", "{given}/soft", "--markers", "{given}/markers", "--out", folder=True
        ),
        write(
            "distill",
            "distill",
            "--data",
            "{given}/data.jsonl",
            "--epochs",
            "1",
            "--student",
            "{given}/encoder",
            "--soft-labels",
            "{given}/soft",
            "--workers",
            "0",
            "--out",
            folder=True,
            exact=False,
        ),
        write("study threshold", "study", "threshold", "-m", "{given}/model", *study, folder=True),
        write("study errors", "study", "errors", "{given}/model", *study, folder=True),
        write(
            "study speed", "study", "speed", "--rounds", "1", "-m", "{given}/model", *study, folder=True, exact=False
        ),
        write("study compare", "study", "compare", "{given}/model", "{given}/model", *study, folder=True),
        write(
            "study dropout",
            "study",
            "dropout",
            *train,
            "--dev",
            "{given}/data.jsonl",
            "--out",
            folder=True,
            exact=False,
        ),
    ]
    return commands


def prepare(given: Path) -> None:
    """Data, an encoder and models."""
    given.mkdir()
    (given / "texts.txt").write_text(TEXT, encoding="utf-8")
    documents = list(formats.read(FIXTURES / "twenty.jsonl"))
    formats.write(documents[:6], given / "data.jsonl")
    words = {word for document in documents for word in document.words}
    tiny_encoder("bert", given / "encoder", words)
    labels = ("--labels", "scierc", "--encoder", given / "encoder", "--data", given / "data.jsonl", "--epochs", "1")
    for words_ in (
        ("train", *labels, "--out", given / "model"),
        ("markers", *labels, "--out", given / "markers"),
        ("teach", "--corpus", given / "texts.txt", "--teacher", given / "model", "--out", given / "soft"),
        ("graph", "build", given / "data.jsonl", "--out", given / "graph"),
    ):
        ran = NO_FAULT.run(words_)
        assert ran.status == 0, ran.errors


def read_output(command: Command, folder: Path, ran: Outcome) -> object:
    """What the command wrote, so that two runs can be compared; `None` if there is nothing."""
    if command.out is None:
        return ran.output
    out = folder / command.out
    if not out.exists():
        return None
    if out.is_file():
        return out.read_bytes() if command.exact else True
    files = {str(file.relative_to(out)): file for file in sorted(out.rglob("*")) if file.is_file()}
    return {name: file.read_bytes() if command.exact else True for name, file in files.items()} or None


def check(command: Command, fault: Fault, given: Path, work: Path, expected: object) -> Iterator[str]:
    """Run a command under a fault and again without it, and yield what is wrong."""
    with fault.folder(work) as folder:
        replaces = command.out is not None and not command.folder
        if replaces:
            (folder / str(command.out)).write_bytes(OLD)
        with fault.at(folder):
            ran = fault.run(command.words(given, folder))
        found = read_output(command, folder, ran)
        if complaint := ran.complaint(heard=2 not in (*fault.closed, *fault.broken)):
            yield complaint
        may_lack = fault.hits in ("files", "memory", "stdout") or (fault.broken and ran.status == BROKEN_PIPE)
        lacks_stdout = fault.hits == "stdout" and command.out is None
        # an odd terminal or locale shows tables for people in another way
        is_shown_otherwise = fault.terminal or (fault is C_LOCALE and command.shown)
        if ran.status == 0 and (lacks_stdout or (found != expected and not is_shown_otherwise)):
            yield "status 0, but another output, or none"
        if ran.status and not may_lack:
            yield f"fails: {ran.errors[-300:]!r}"
        if replaces and found not in (OLD, expected):
            yield "the earlier output is gone"
        if left := [file.name for file in folder.glob(".*") if file.suffix in (".partial", ".previous")]:
            yield f"left behind: {left}"
        if command.out is None or found == expected:
            return
        resume = ["--resume"] if "--resume" in ran.errors else []
        again = NO_FAULT.run([*command.words(given, folder), *resume]) if ran.status else ran
        if again.status:
            yield f"cannot be run again: {again.errors[-300:]!r} after {ran.errors[-300:]!r}"
        elif (found := read_output(command, folder, again)) != expected:
            yield f"another output when run again: {_describe(found)} instead of {_describe(expected)}"


def _describe(output: object) -> str:
    return str(sorted(output) if isinstance(output, dict) else output)[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--commands", default="", help="only commands with this in their name")
    parser.add_argument("--faults", default="", help="only faults with this in their name")
    parser.add_argument("--keep", action="store_true", help="keep the folder with what was prepared")
    options = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="chaos-"))
    given = work / "given"
    began = time.monotonic()
    counts: Counter[str] = Counter()
    try:
        prepare(given)
        for command in list_commands():
            if options.commands not in command.name:
                continue
            with NO_FAULT.folder(work) as folder:
                ran = NO_FAULT.run(command.words(given, folder))
                expected = read_output(command, folder, ran)
            if ran.status or not expected:
                print(f"{command.name}: fails without a fault: {ran.errors[-300:]!r}", flush=True)
                counts["problems"] += 1
                continue
            for fault in FAULTS:
                if options.faults not in fault.name or not fault.available:
                    counts["left out"] += not fault.available
                    continue
                counts["runs"] += 1
                for problem in check(command, fault, given, work, expected):
                    counts["problems"] += 1
                    print(f"{command.name} | {fault.name} | {problem}", flush=True)
            shutil.rmtree(given / "never", ignore_errors=True)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{dict(counts)} in {time.monotonic() - began:.0f} s")
    return int(counts["problems"] > 0)


if __name__ == "__main__":
    sys.exit(main())
