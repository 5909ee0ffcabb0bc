"""Processes that get in each other's way, or are killed: what they leave must be complete, and the same as ever.

    scenario = scenarios(folder)["train"]
    exercise(scenario, folder / "kills", kills=3, seed=0)

A `Scenario` is a command and what it writes. `exercise` runs it once without interruption, and once with `kill -9` at
random points, after each of which the command is run again. Both must leave the same, and nothing else.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from helpers.paths import ROOT, TWENTY
from helpers.tiny_encoders import tiny_encoder

Loaded = TypeVar("Loaded")


# Loading while saving

SAVER = """
import sys
from pathlib import Path
from unire.hub.model_dir import copy_model
target, count, *versions = sys.argv[1:]
for number in range(int(count)):
    copy_model(Path(versions[number % len(versions)]), Path(target))
"""


def load_while_saving(
    versions: Sequence[Path], target: Path, saves: int, load: Callable[[Path], Loaded]
) -> list[Loaded]:
    """Load a model again and again while another process saves it, each time another version.

    Args:
        versions: Folders of models.
        target: The folder that they are saved to, which must be a model.
        saves: How often.
        load: Loads it; fails if the model is incomplete, or of two versions.

    Returns:
        What was loaded, every time.
    """
    words = [sys.executable, "-c", SAVER, str(target), str(saves), *map(str, versions)]
    loaded = []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as saver:
        try:
            while saver.poll() is None:
                loaded.append(load(target))
        except BaseException:
            saver.kill()
            raise
        failed = saver.stderr.read()
    assert saver.returncode == 0, f"a save failed: {failed}"
    return loaded


# Kills

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
COUNTED = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "ftruncate")
"""Operations of the file system. A process is killed before one of them, or reports how many there were."""
PRELUDE = f"""
import os, signal, sys
left, process = int(sys.argv.pop(1)), os.getpid()
done = 0
def counted(operation):
    def call(*arguments, **options):
        global done
        if os.getpid() == process:
            done += 1
            if done == left:
                os.kill(process, signal.SIGKILL)
        return operation(*arguments, **options)
    return call
for name in {COUNTED}:
    setattr(os, name, counted(getattr(os, name)))
try:
    exec(sys.argv.pop(1))
finally:
    if not left:
        print("\\noperations:", done)
"""
COMMAND = "from unire.__main__ import main; sys.argv[0] = 'unire'; main()"
"""The program of a scenario whose arguments are those of the command `unire`."""
MAX_SECONDS = 240.0
ORPHAN_SECONDS = 30.0
"""Processes that a killed one has started must have ended after this time."""


@dataclass(frozen=True)
class Scenario:
    """A command that writes to `out`, which is one of its arguments as `OUT`."""

    name: str
    arguments: str
    """Without spaces in any of them."""
    program: str = COMMAND
    resumes: Callable[[Path], bool] = lambda out: False
    """Whether the command gets `--resume`, given what is there."""
    finished: Callable[[Path], bool] = lambda out: False
    """Whether there is nothing left to do, although the process was killed."""
    out: str = "out"
    volatile: str = r"(?!)"
    """What differs from run to run, as a pattern; such as times."""
    read: Callable[[Path], bytes] = Path.read_bytes
    """The content of a file that must be the same."""
    victims: tuple[str, ...] = ("self",)
    """Whom to kill at a random time: the process, or one below it with this in its command line."""
    check: Callable[[Path], None] = lambda out: None
    """Fails if what a killed process has left is not usable."""
    by_operation: float = 0.5
    """Share of the kills that come before an operation of the file system, and not at a random time."""

    def contents(self, out: Path) -> dict[str, bytes]:
        """What the command has written, by path, without what differs by design."""
        files = [out] if out.is_file() else sorted(path for path in out.rglob("*") if path.is_file())
        pattern = re.compile(self.volatile.encode())
        return {str(path.relative_to(out.parent)): pattern.sub(b"", self.read(path)) for path in files}


@dataclass
class Outcome:
    """What became of a scenario."""

    kills: int = 0
    runs: int = 0
    resumed: int = 0
    """Runs that found what an earlier one had left."""
    identical: bool = False
    problems: list[str] = field(default_factory=list)


def exercise(
    scenario: Scenario, folder: Path, *, kills: int, seed: int, kills_per_run: int = 5, seconds: float = 1e9
) -> Outcome:
    """Run a scenario until it has been killed so many times; compare every result with that of an undisturbed run.

    Args:
        scenario: What to run.
        folder: Where; made if it is not there.
        kills: How often to kill.
        seed: Of the points at which.
        kills_per_run: After so many kills the command may finish.
        seconds: After this time it is not started again.

    Returns:
        The numbers, and everything that was not as it should be.
    """
    chance, outcome = random.Random(f"{seed} {scenario.name}"), Outcome()
    straight = folder / "straight" / scenario.out
    folder.mkdir(parents=True)
    began = time.monotonic()
    ran = _start(scenario, straight, 0)
    printed, errors = ran.communicate(timeout=MAX_SECONDS)
    straight_seconds = time.monotonic() - began
    assert ran.returncode == 0, errors
    operations = int(printed.rpartition("operations:")[2])
    expected = scenario.contents(straight)
    assert expected
    outcome.identical = True
    number = 0
    while outcome.kills < kills and time.monotonic() - began < seconds:
        number += 1
        out = folder / str(number) / scenario.out
        wanted = outcome.kills + min(kills_per_run, kills - outcome.kills)
        at_peace = _run_to_the_end(scenario, out, wanted, outcome, chance, straight_seconds, operations)
        found = scenario.contents(out)
        if found != expected:
            outcome.identical = False
            names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
            outcome.problems.append(f"run {number}: {', '.join(names)} differ")
        left = sorted(path.name for path in out.parent.iterdir() if path != out) if at_peace else []
        if left:
            outcome.problems.append(f"run {number}: left {', '.join(left)}")
        if found == expected and not left:
            shutil.rmtree(out.parent)
    return outcome


def _run_to_the_end(
    scenario: Scenario, out: Path, wanted: int, outcome: Outcome, chance: random.Random, seconds: float, operations: int
) -> bool:
    """Whether the last process was not killed, so that it could clean up."""
    while not scenario.finished(out):
        kill = outcome.kills < wanted
        by_operation = kill and chance.random() < scenario.by_operation
        outcome.runs += 1
        outcome.resumed += out.parent.exists() and any(out.parent.iterdir())
        process = _start(scenario, out, chance.randint(1, operations) if by_operation else -1)
        family = psutil.Process(process.pid)
        below = []
        if kill and not by_operation:
            try:
                process.wait(chance.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                below = _children(family)
                outcome.kills += _kill(family, chance.choice(scenario.victims))
        _, errors = process.communicate(timeout=MAX_SECONDS)
        outcome.kills += by_operation and process.returncode == -signal.SIGKILL
        if process.returncode:
            scenario.check(out)
        _, alive = psutil.wait_procs([*below, *_in_session(process.pid)], ORPHAN_SECONDS)
        if alive:
            outcome.problems.append(f"{len(alive)} processes outlived it: {_command(alive[0])[:4]}")
        if process.returncode == 0:
            return True
        if process.returncode != -signal.SIGKILL and scenario.victims == ("self",):
            raise AssertionError(f"{scenario.name} failed: {errors}")
    return False


def _start(scenario: Scenario, out: Path, kill_before: int) -> subprocess.Popen[str]:
    arguments = [str(out) if word == "OUT" else word for word in scenario.arguments.split()]
    more = ["--resume"] if scenario.resumes(out) else []
    words = [sys.executable, "-c", PRELUDE, str(kill_before), scenario.program, *arguments, *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, env=ENVIRONMENT, start_new_session=True, **pipes)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _in_session(leader: int) -> list[psutil.Process]:
    """What a process that has ended has started, and is still running."""
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _kill(process: psutil.Process, victim: str) -> bool:
    """Kill a process, or one below it."""
    chosen = [process]
    if victim != "self":
        chosen = [child for child in _children(process) if victim in " ".join(_command(child))]
    if not chosen:
        return False
    chosen[0].kill()
    return True


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


# Scenarios

TIMES = r'"(seconds|tokens_per_second)": [\d.e+-]+'
"""Times in the configurations and records of trainings: all that differs between two runs."""


def build_inputs(folder: Path) -> dict[str, str]:
    """Make what the scenarios read, unless it is there: tiny models, texts, soft labels and a graph."""
    if not (folder / "graph" / "graph.json").exists():
        _make_inputs(folder)
    folders = ("encoder", "model", "exported", "soft", "markers", "texts", "graph")
    return {name: str(folder / name) for name in folders} | {
        "lines": str(folder / "lines.txt"),
        "few": str(folder / "few.txt"),
        "found": str(folder / "found.jsonl"),
    }


def _make_inputs(folder: Path) -> None:
    import torch

    from unire import formats
    from unire.export.export import export_onnx
    from unire.graph import build_graph
    from unire.labels import LabelSpace
    from unire.training.config import TrainingConfig, marker_config
    from unire.training.distillation.teach import teach
    from unire.training.markers.train import train_markers
    from unire.training.train import init_model

    folder.mkdir(parents=True, exist_ok=True)
    documents = list(formats.read(TWENTY))
    labels = LabelSpace.load("scierc")
    encoder = tiny_encoder("bert", folder / "encoder", {word for document in documents for word in document.words})
    torch.manual_seed(0)
    model = init_model(str(encoder), labels, TrainingConfig(max_table=64, alpha=0.5))
    torch.nn.init.normal_(model.biaffine.U, std=0.05)
    model.save_pretrained(folder / "model")
    export_onnx(folder / "model", folder / "exported")
    sentences = [" ".join(sentence.words) for document in documents for sentence in document.sentences]
    lines = [f"{sentence} {number}" for number in range(120) for sentence in sentences]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "few.txt").write_text("".join(f"{line}\n" for line in lines[:600]), encoding="utf-8")
    (folder / "texts").mkdir()
    for number in range(400):
        (folder / "texts" / f"{number}.txt").write_text("\n".join(lines[5 * number : 5 * number + 5]), encoding="utf-8")
    teach([folder / "model"], [folder / "few.txt"], folder / "soft", device="cpu")
    train_markers(encoder, documents, folder / "markers", labels=labels, config=marker_config(epochs=1), device="cpu")
    formats.write(documents, folder / "found.jsonl")
    build_graph([folder / "found.jsonl"], folder / "graph")


ADAPT = """
from unire.training.adaptation.adapt import AdaptationConfig, adapt
config = AdaptationConfig(max_steps=60, length=32, batch_tokens=256)
encoder, corpus, out, resume = *sys.argv[1:4], "--resume" in sys.argv
adapt(encoder, [corpus], out, config, resume=resume, save_every_minutes=0.0, device="cpu")
"""
MARKERS = """
from unire import formats
from unire.labels import LabelSpace
from unire.training.config import marker_config
from unire.training.markers.train import train_markers
documents = list(formats.read(sys.argv[2]))
options = {"labels": LabelSpace.load("scierc"), "config": marker_config(epochs=4, batch_size=4), "device": "cpu"}
resume = "--resume" in sys.argv
train_markers(sys.argv[1], documents, sys.argv[3], dev=documents, save_every_minutes=0.0, resume=resume, **options)
"""
SAVE = """
from pathlib import Path
from unire.hub.model_dir import copy_model
for number in range(40):
    copy_model(Path(sys.argv[1 + number % 2]), Path(sys.argv[3]))
"""


def scenarios(inputs: dict[str, str]) -> dict[str, Scenario]:
    """All scenarios, by name."""
    from unire.files import read_folder
    from unire.hub.model_dir import fingerprint
    from unire.training.resume import has_checkpoint, is_finished

    def is_trained(out: Path) -> bool:
        return is_finished(out) and not has_checkpoint(out)

    def is_written(out: Path) -> bool:
        return out.exists() and not has_checkpoint(out)

    versions = [inputs["exported"], inputs["model"]]
    fingerprints = [fingerprint(Path(version)) for version in versions]

    def check_saved(out: Path) -> None:
        with read_folder(out) as folder:
            assert not folder.exists() or fingerprint(out) in fingerprints

    extract = f"extract --model {inputs['exported']} --out OUT"
    data = f"--data {TWENTY} --epochs 6 --batch-size 4 --window 40 --save-every-minutes 0.00001 --json --out OUT"
    student = f"distill --student {inputs['encoder']} {data} --soft-batch 4"
    training = {"resumes": has_checkpoint, "finished": is_trained, "volatile": TIMES}
    adapting = {"resumes": has_checkpoint, "finished": is_written, "volatile": TIMES}
    writing = {"finished": Path.exists, "volatile": TIMES}
    listed = [
        Scenario("extract", f"{extract} --lines {inputs['lines']} --resume", out="out.jsonl"),
        Scenario("extract csv", f"{extract} --lines {inputs['few']} --resume", out="out.csv"),
        Scenario("extract folder", f"{extract} {inputs['texts']} --resume", out="out.jsonl"),
        Scenario("extract graph", f"{extract} --lines {inputs['few']}", out="out.graphml"),
        Scenario("extract brat", f"{extract} --lines {inputs['few']} --format brat", finished=Path.exists),
        Scenario(
            "ray",
            f"{extract} --ray local --lines {inputs['lines']} --workers 2 --resume",
            read=_read_rows,
            victims=("self", "MapWorker", "raylet"),
            by_operation=0.0,
        ),
        Scenario("train", f"train --encoder {inputs['encoder']} {data} --dev {TWENTY} --labels scierc", **training),
        Scenario("distill", f"{student} --teacher {inputs['model']} --corpus {inputs['few']} --workers 2", **training),
        Scenario("distill soft labels", f"{student} --soft-labels {inputs['soft']} --workers 1", **training),
        Scenario("adapt", f"{inputs['encoder']} {inputs['few']} OUT", ADAPT, **adapting),
        Scenario("markers", f"{inputs['encoder']} {TWENTY} OUT", MARKERS, **adapting),
        Scenario("teach", f"teach --teacher {inputs['model']} --corpus {inputs['few']} --out OUT", **writing),
        Scenario(
            "relabel",
            f"relabel --soft-labels {inputs['soft']} --markers {inputs['markers']} --device cpu --out OUT",
            **writing,
        ),
        Scenario("export", f"export {inputs['model']} --out OUT", **writing),
        Scenario("package", f"package {inputs['exported']} --name seas --version 1.0 --licence mit --out OUT"),
        Scenario("graph build", f"graph build {inputs['found']} --workers 1 --out OUT --resume"),
        Scenario("graph export", f"graph export {inputs['graph']} --out OUT", finished=Path.exists),
        Scenario("save", f"{versions[0]} {versions[1]} OUT", SAVE, check=check_saved),
    ]
    return {scenario.name: scenario for scenario in listed}


def _read_rows(path: Path) -> bytes:
    """The rows of a Parquet file. Its metadata counts the workers that were killed."""
    from pyarrow import parquet

    if path.suffix != ".parquet":
        return path.read_bytes()
    return json.dumps(parquet.read_table(path).to_pylist(), sort_keys=True).encode()
