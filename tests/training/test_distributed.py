"""Training in several processes: the same result as one process, with every launcher and after every stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer
from typer.testing import CliRunner

from helpers.paths import TWENTY
from unire import Extractor, UnireError, formats, score
from unire.cli.main import app
from unire.cli.training_options import distributed_errors
from unire.config import ModelConfig
from unire.documents import Document
from unire.training.adaptation.adapt import adapt
from unire.training.callbacks import SIGNALS
from unire.training.config import AdaptationConfig

LAUNCHERS = {
    "accelerate launch": ["accelerate.commands.launch", "--main_process_port=0", "--multi_gpu", "--num_processes", "2"],
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
}
"""With two processes, and on a port that is free."""
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def command(launcher: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", *LAUNCHERS[launcher], "-m", "unire", *map(str, arguments)]


def run(launcher: str, *arguments: object) -> dict[str, Any]:
    """What a command prints, which must be one JSON object, however many processes ran it."""
    ran = subprocess.run(
        command(launcher, *arguments, "--json"), capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def run_alone(*arguments: object) -> dict[str, Any]:
    """What the same command prints in one process, which is that of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        ran = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    if isinstance(ran.exception, UnireError):
        raise ran.exception
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return json.loads(ran.stdout)


def training(encoder: Path, *more: object) -> tuple[object, ...]:
    return (
        *("train", "--encoder", encoder, "--data", TWENTY, "--dev", TWENTY, "--labels", "scierc"),
        *("--preset", "paper", "--batch-size", 8, "--window", 40, *more),
    )


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_processes_train_as_one(launcher: str, encoder: Path, twenty: list[Document], tmp_path: Path):
    """The same effective batch, the same evaluation, one checkpoint.

    With an ε that keeps Adam from making whole steps of what is only rounding.
    """
    formats.write(twenty[:1], tmp_path / "one.jsonl", "unire")  # fewer documents than processes
    exactly = ("--set", "mlp_dropout=0", "--set", "logit_dropout=0", "--set", "eps=1e-3")
    until_it_finds_something = ("--epochs", 25, "--lr", 0.01, "--set", "evaluate_every=5")
    arguments = training(encoder, *exactly, *until_it_finds_something, "--test", tmp_path / "one.jsonl")
    alone = run_alone(*arguments, "--out", tmp_path / "alone")
    together = run(launcher, *arguments, "--out", tmp_path / "together")
    for a, b in zip(alone["history"][:3], together["history"][:3], strict=True):  # before roundings add up
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
    assert len(twenty) % 2, "an odd number of documents cannot be dealt evenly"
    extractor = Extractor.load(tmp_path / "together", device="cpu")
    for split, documents in (("dev", twenty), ("test", twenty[:1])):
        counts = score(documents, extractor.annotate(documents), extractor.labels).to_dict()
        assert together["scores"][split] == counts  # to the digit
        assert counts["entities"]["predicted"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "together", "one.jsonl"}


@pytest.mark.slow
def test_processes_that_are_stopped_resume_and_end_with_the_same_numbers(encoder: Path, tmp_path: Path):
    """Dropout and all, with states saved by the clocks of processes that do not agree on the time.

    The launcher passes on what it is sent; SIGTERM a queue may have sent to everyone before.
    """
    often = ("--set", "evaluate_every=3", "--save-every-minutes", 0.002)
    arguments = training(encoder, "--epochs", 12, "--lr", 0.002, *often)
    straight = run("torchrun", *arguments, "--out", tmp_path / "straight")
    out, checkpoints = tmp_path / "stopped", tmp_path / "stopped.resume"
    resume: tuple[str, ...] = ()
    for number in SIGNALS:
        line = command("torchrun", *arguments, "--out", out, *resume)
        before = set(checkpoints.glob("step-*[0-9]"))
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        deadline = time.monotonic() + 120
        while set(checkpoints.glob("step-*[0-9]")) <= before:
            assert process.poll() is None, "the training ended before it could be stopped"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        launcher = psutil.Process(process.pid)
        for one in (*(launcher.children(recursive=True) if number == signal.SIGTERM else ()), launcher):
            one.send_signal(number)
        process.wait(60)
        assert ModelConfig.load(out).provenance["interrupted"]
        resume = ("--resume",)
    with pytest.raises(UnireError, match="was started with 2 processes, not 1; resume with the same number"):
        run_alone(*arguments, "--out", out, "--resume")
    resumed = run("torchrun", *arguments, "--out", out, *resume)
    assert resumed["history"] == straight["history"]
    assert resumed["scores"] == straight["scores"]
    assert not checkpoints.exists()


FAILS = """
import sys
from unire.cli.main import app
from unire.training.tasks import TableTask

def fail(task, tune=TableTask.tune):
    if not task.accelerator.is_main_process:
        raise RuntimeError("out of memory")
    tune(task)

TableTask.tune = fail
app(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_failure_after_the_weights_are_saved_needs_no_new_training(encoder: Path, tmp_path: Path):
    (tmp_path / "fails.py").write_text(FAILS)
    out, checkpoints = tmp_path / "model", tmp_path / "model.resume"
    arguments = tuple(map(str, training(encoder, "--epochs", 2, "--out", out)))
    line = [*command("torchrun")[:-2], str(tmp_path / "fails.py"), *arguments]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert ran.returncode != 0
    assert "out of memory" in ran.stderr
    assert ModelConfig.load(out).provenance["interrupted"]
    (state,) = checkpoints.glob("step-*[0-9]/state.json")
    before = json.loads(state.read_text())["processes"][0]
    assert before["epoch"] == 2
    assert run("torchrun", *arguments, "--resume")["history"] == before["history"]
    assert "interrupted" not in ModelConfig.load(out).provenance
    assert not checkpoints.exists()


@pytest.mark.slow
def test_several_processes_print_an_error_once(encoder: Path, tmp_path: Path):
    (tmp_path / "bad.jsonl").write_text("no JSON\n")
    arguments = ("train", "--encoder", encoder, "--data", tmp_path / "bad.jsonl", "--out", tmp_path / "out")
    ran = subprocess.run(command("torchrun", *arguments), capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert ran.returncode != 0
    assert ran.stderr.count("error: ") == 1, ran.stderr
    assert "bad.jsonl" in ran.stderr


@pytest.mark.parametrize(("rank", "waited"), [(None, []), ("0", []), ("1", [10.0])])
def test_other_ranks_wait_before_they_report_an_error(monkeypatch, rank, waited):
    """With its own error, if nobody has ended it by then: one that fails alone must not do so silently."""
    slept: list[float] = []
    monkeypatch.setattr("unire.cli.training_options.time.sleep", slept.append)
    if rank:
        monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(UnireError, match="wrong here"), distributed_errors():
        raise UnireError("wrong here")
    assert slept == waited


LEFT = """
import sys
from pathlib import Path
from unire.cli.main import app

app(sys.argv[1:], standalone_mode=False)
threads = sorted((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir())
sys.stdout.write(f"threads: {' '.join(threads)}\\n")  # in one token, for the other process writes too
"""


@pytest.fixture(scope="module")
def folds(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What two processes wrote of two folds, and printed: their result, and the threads that each had at the end."""
    folder = tmp_path_factory.mktemp("folds")
    (folder / "left.py").write_text(LEFT)
    arguments = ("train", "--encoder", encoder, "--data", TWENTY, "--labels", "scierc", "--epochs", 1, "--window", 40)
    script = (*command("torchrun")[:-2], folder / "left.py")
    line = (*script, *arguments, "--folds", 2, "--out", folder / "folds", "--json")
    ran = subprocess.run(list(map(str, line)), capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert ran.returncode == 0, ran.stderr
    return folder / "folds", ran.stdout


@pytest.mark.slow
def test_two_processes_take_the_folds_one_after_the_other(folds: tuple[Path, str]):
    written, printed = folds
    (result,) = [json.loads(line) for line in printed.splitlines() if not line.startswith("threads: ")]
    assert len(result["folds"]) == 2
    assert sorted(path.name for path in written.iterdir()) == ["fold-01", "fold-02"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are looked for in /proc")
@pytest.mark.slow
def test_no_thread_still_talks_to_other_processes_when_python_ends(folds: tuple[Path, str]):
    """Or it may crash: it lets go of tensors, which are Python's, when it is given the time to."""
    left = [line for line in folds[1].splitlines() if line.startswith("threads: ")]
    assert len(left) == 2
    assert all("python" in line for line in left)
    assert not any("gloo" in line for line in left)


@pytest.mark.slow
@pytest.mark.parametrize("end", [None, typer.Exit(130)])
def test_the_process_group_is_destroyed_after_every_end(monkeypatch, end):
    left: list[bool] = []
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: left.append(True))
    with pytest.raises(typer.Exit) if end else nullcontext(), distributed_errors():
        if end:
            raise end
    assert left == [True]


@pytest.mark.slow
def test_two_processes_distil_twice_the_text_of_one(random_model: Path, encoder: Path, tmp_path: Path):
    (tmp_path / "corpus.txt").write_text("A parser of long sentences is tested here.\n" * 64)
    arguments = (
        *("distill", "--teacher", random_model, "--student", encoder, "--corpus", tmp_path / "corpus.txt"),
        *("--data", TWENTY, "--epochs", 2, "--batch-size", 8, "--soft-batch", 4, "--workers", 0),
    )
    alone = run_alone(*arguments, "--out", tmp_path / "alone")
    together = run("torchrun", *arguments, "--out", tmp_path / "together")
    for name, result in (("alone", alone), ("together", together)):
        assert ModelConfig.load(tmp_path / name).provenance["distillation"] == result["distillation"]
    assert together["distillation"]["sentences"] == 2 * alone["distillation"]["sentences"] > 0


def test_adaptation_says_that_it_runs_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnireError, match="adaptation runs in one process, but 2 were started"):
        adapt("bert", ["corpus.txt"], tmp_path / "out", AdaptationConfig(max_steps=1))
    assert not (tmp_path / "out").exists()
