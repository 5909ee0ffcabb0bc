"""Stopped by a person, a queue or a container: what commands leave, and how they go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from helpers.accelerator import cpu_accelerator
from helpers.cli import command, result
from helpers.paths import TWENTY
from unire.config import ModelConfig
from unire.training import train as train_module
from unire.training.callbacks import SIGNALS, Interrupt
from unire.training.config import TrainingConfig
from unire.training.tasks import TableTask
from unire.training.train import init_model, train
from unire.training.trainer import Trainer

QUIET = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
ENDED = [143, -signal.SIGTERM]
"""To a shell the same; the last of several may come when all is saved and nobody answers any longer."""
MARKING = """
import os
from pathlib import Path
from unire.training.callbacks import Interrupt

def enter(self, enter=Interrupt.__enter__):
    enter(self)
    Path(__file__).with_name(str(os.getpid())).touch()
    return self

Interrupt.__enter__ = enter
"""
"""Python runs it at its start. All commands catch SIGTERM, so that this alone does not tell which of them train."""
TRAINING = ("--data", TWENTY, "--labels", "scierc", "--epochs", 12, "--batch-size", 4, "--window", 40)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_end_of_a_step(number):
    with Interrupt() as interrupt:
        assert not interrupt.pending
        signal.raise_signal(number)
        assert interrupt.pending
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupt.check()
    assert caught.value.args == (number,) == (interrupt.number,)


@pytest.mark.parametrize(
    ("first", "second", "at_once"),
    [
        (signal.SIGINT, signal.SIGINT, True),
        (signal.SIGTERM, signal.SIGTERM, False),
        (signal.SIGTERM, signal.SIGINT, False),
        (signal.SIGINT, signal.SIGTERM, False),
    ],
)
def test_only_a_second_ctrl_c_interrupts_at_once(first, second, at_once):
    heard = []
    with Interrupt() as interrupt:
        signal.raise_signal(first)
        try:
            signal.raise_signal(second)
        except KeyboardInterrupt:
            heard.append(second)
    assert bool(heard) == at_once
    assert interrupt.number == first


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_an_immediate_section_at_once(number):
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt), interrupt.immediate():
            signal.raise_signal(number)
        if number == signal.SIGTERM:
            signal.raise_signal(number)  # while it is being saved
        with pytest.raises(KeyboardInterrupt), interrupt.immediate():
            pytest.fail("what was heard before is not forgotten")


def test_earlier_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ValueError, match="stop"), Interrupt():  # noqa: PT012
        assert all(signal.getsignal(number) not in before for number in SIGNALS)
        raise ValueError("stop")
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_in_other_threads_signals_stay_what_they_are():
    seen = []

    def enter():
        with Interrupt() as interrupt:
            interrupt.check()
            seen.extend(signal.getsignal(number) for number in SIGNALS)

    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == before


# Commands


def stopped(
    line: Sequence[str], ready: Callable[[psutil.Process], bool], stop: Callable[[psutil.Process], None]
) -> subprocess.CompletedProcess[str]:
    """A command that is stopped once it is far enough."""
    with subprocess.Popen(line, **QUIET, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}) as process:
        deadline = time.monotonic() + 120
        while not ready(psutil.Process(process.pid)):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stop(psutil.Process(process.pid))
        printed, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(line, process.returncode, printed, errors)


def sent(number: int) -> Callable[[psutil.Process], None]:
    return lambda process: process.send_signal(number)


def sent_to_all(process: psutil.Process) -> None:
    """As Slurm does, and more than once."""
    everyone = (process, *process.children(recursive=True))
    for _ in range(3):
        for one in everyone:
            with suppress(psutil.NoSuchProcess):
                one.terminate()
        time.sleep(0.02)


def has_saved(folder: Path) -> Callable[[psutil.Process], bool]:
    return lambda process: any(folder.glob("step-*[0-9]"))


@pytest.fixture
def trains(tmp_path_factory, monkeypatch):
    """Whether a process trains, and lets signals wait for the end of a step."""
    marks = tmp_path_factory.mktemp("marks")
    (marks / "sitecustomize.py").write_text(MARKING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(marks), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return lambda process: (marks / str(process.pid)).exists()


@pytest.fixture(scope="module")
def words(encoder):
    return ("train", "--encoder", encoder, *TRAINING, "--dev", TWENTY, "--set", "evaluate_every=4")


@pytest.fixture(scope="module")
def straight(words, tmp_path_factory):
    """What a training prints that nobody stops."""
    return result(*words, "--out", tmp_path_factory.mktemp("straight") / "model")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "status"), [(sent(signal.SIGINT), [130]), (sent(signal.SIGTERM), [143]), (sent_to_all, ENDED)]
)
def test_a_training_that_is_stopped_resumes_and_ends_with_the_same_numbers(words, straight, tmp_path, stop, status):
    out, checkpoints = tmp_path / "model", tmp_path / "model.resume"
    line = command(*words, "--save-every-minutes", 0.0001, "--out", out, "--json")
    ran = stopped(line, has_saved(checkpoints), stop)
    assert ran.returncode in status, ran.stderr
    assert "Traceback" not in ran.stderr
    if status is not ENDED:
        summary = json.loads(ran.stdout)
        assert summary["interrupted"] is True
        assert len(summary["history"]) < len(straight["history"])
    assert ModelConfig.load(out).provenance["interrupted"]
    resumed = result(*words, "--out", out, "--resume")
    assert resumed["interrupted"] is False
    assert resumed["history"] == straight["history"]
    assert resumed["scores"] == straight["scores"]
    assert not checkpoints.exists()


@pytest.mark.slow
def test_a_distillation_outlives_what_its_workers_are_sent_too(random_model, encoder, tmp_path):
    words = ("distill", "--teacher", random_model, "--student", encoder, "--corpus", TWENTY, *TRAINING)
    words = (*(word for word in words if word not in ("--labels", "scierc")), "--soft-batch", 4, "--workers", 2)
    out = tmp_path / "student"
    line = command(*words, "--save-every-minutes", 0.0001, "--out", out, "--json")
    ran = stopped(line, has_saved(tmp_path / "student.resume"), sent_to_all)
    assert ran.returncode in ENDED, ran.stderr
    assert "Traceback" not in ran.stderr
    assert ModelConfig.load(out).provenance["interrupted"]
    assert not result(*words, "--out", out, "--resume")["interrupted"]


@pytest.mark.slow
def test_an_adaptation_that_is_stopped_goes_on(encoder, trains, tmp_path):
    (tmp_path / "corpus.txt").write_text("A parser of long sentences is tested here.\n" * 64, encoding="utf-8")
    words = ("adapt", "--encoder", encoder, "--corpus", tmp_path / "corpus.txt", "--out", tmp_path / "out")
    small = ("--length", 16, "--batch-tokens", 32)

    def takes_steps(process: psutil.Process) -> bool:
        return trains(process) and time.sleep(1) is None  # enough for many small steps

    ran = stopped(command(*words, *small, "--minutes", 5), takes_steps, sent(signal.SIGTERM))
    assert ran.returncode == 143, ran.stderr
    assert "interrupted; continue with --resume" in ran.stderr
    (checkpoint,) = (tmp_path / "out.resume").glob("step-*/state.json")
    (state,) = json.loads(checkpoint.read_text(encoding="utf-8"))["processes"]
    assert state["step"] > 0
    went_on = result(*words, *small, "--max-steps", state["step"] + 3, "--resume")
    assert went_on["steps"] == state["step"] + 3


@pytest.mark.slow
def test_a_stopped_study_keeps_the_state_of_its_trainings(encoder, trains, tmp_path):
    words = ("study", "beta2", "--encoder", encoder, *TRAINING[:4], "--dev", TWENTY, "--out", tmp_path, "--jobs", 2)
    settings = ("--epochs", 400, "--set", "evaluate_every=400", "--set", "batch_size=4")

    def training(process: psutil.Process) -> bool:
        cells = process.children()
        return len(cells) == 2 and all(map(trains, cells))

    ran = stopped(command(*words, *settings), training, sent_to_all)
    assert ran.returncode in ENDED, ran.stderr
    assert "Traceback" not in ran.stderr
    assert {path.name for path in (tmp_path / "models").iterdir()} == {
        f"{cell}-0{state}" for cell in ("default", "beta2=0.999") for state in ("", ".resume")
    }


# Long steps


class Stopping(TableTask):
    """Gets a signal in the middle of one of its long parts: a step of several batches, or the evaluation on dev."""

    part, number = "", 0

    def _backward_batch(self, tensors):
        if self.part == "forward":
            self._count()
        return super()._backward_batch(tensors)

    def score(self, documents):
        if self.part == "dev" and documents:
            next(iter(self.extractor.annotate(documents)))
            self._count()
        return super().score(documents)

    def steps(self, epoch, start):
        if self.part == "steps":
            self._count()
        return super().steps(epoch, start)

    def _count(self):
        Stopping.number -= 1
        if not Stopping.number:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(20)  # a long computation, which nothing ends but the signal


@pytest.mark.slow
@pytest.mark.parametrize(("part", "number"), [("forward", 12), ("dev", 2), ("steps", 2)])
def test_a_step_or_an_evaluation_that_is_stopped_in_the_middle_is_done_again(
    part, number, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    config = TrainingConfig.from_preset("paper", epochs=3, batch_size=10, window=40, max_pieces=150, lr=1e-3)
    options = {"dev": twenty[:5], "labels": scierc_labels, "config": config, "data": ["twenty"]}
    straight = train(encoder, twenty, out=tmp_path / "straight", **options)
    monkeypatch.setattr(train_module, "TableTask", Stopping)
    monkeypatch.setattr(Stopping, "part", part)
    monkeypatch.setattr(Stopping, "number", number)
    began = time.monotonic()
    stopped = train(encoder, twenty, out=tmp_path / "model", **options)
    assert time.monotonic() - began < 15
    assert stopped.stopped_by == signal.SIGTERM
    assert len(stopped.history) < 3
    assert ModelConfig.load(tmp_path / "model").provenance["interrupted"]
    resumed = train(encoder, twenty, out=tmp_path / "model", resume=True, **options)
    assert resumed.history == straight.history
    assert resumed.dev == straight.dev
    for name in ("model.safetensors", "labels.json", "tokenizer.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_signals_are_heard_while_gradients_are_computed(encoder, twenty, scierc_labels, monkeypatch):
    """PyTorch computes all of them in one call, which may take minutes."""
    model = init_model(str(encoder), scierc_labels, TrainingConfig())
    task = TableTask(model, twenty, [], TrainingConfig(), cpu_accelerator())
    trainer = Trainer(task)
    computed = []
    layers = model.encoder.encoder.layer
    layers[1].output.dense.weight.register_hook(lambda gradient: signal.raise_signal(signal.SIGTERM))
    layers[0].output.dense.weight.register_hook(lambda gradient: computed.append("layer 0"))
    with Interrupt() as interrupt, pytest.raises(KeyboardInterrupt):
        trainer.fit(interrupt)
    assert not computed
    assert interrupt.number == signal.SIGTERM


def test_the_random_state_of_an_interrupted_step_is_restored(few, scierc_labels, encoder):
    config = TrainingConfig(batch_size=8)
    task = TableTask(init_model(str(encoder), scierc_labels, config), few, [], config, cpu_accelerator())
    trainer = Trainer(task)
    random_state = torch.get_rng_state()
    with Interrupt() as interrupt, pytest.raises(KeyboardInterrupt), trainer._repeatable(interrupt):  # noqa: PT012
        torch.rand(3)
        task.loss_sums += 1
        signal.raise_signal(signal.SIGINT)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not task.loss_sums.any()
