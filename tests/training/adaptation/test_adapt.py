"""Adaptation: the loss falls, the encoder is saved, and an interrupted run goes on."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
import typer
from typer.testing import CliRunner

from helpers.tiny_encoders import tiny_encoder
from unire.cli.adapt import adapt as command
from unire.errors import UnireError
from unire.models.encoder import load_encoder, load_tokenizer
from unire.training import optimizer, trainer
from unire.training.adaptation import adapt as adapt_module
from unire.training.adaptation import masked_lm
from unire.training.adaptation.adapt import adapt
from unire.training.adaptation.masked_lm import MaskedLMTask
from unire.training.callbacks import Callback
from unire.training.config import AdaptationConfig, TrainingConfig
from unire.training.resume import has_checkpoint
from unire.training.train import init_model

WORDS = ("the", "a", "red", "green", "enormous", "elephant", "grasshopper", "walks", "swims", "quickly", "tablecloths")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that say one word over and over, so that a hidden token can be read off its neighbours."""
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(" ".join([draw.choice(WORDS)] * 12) for _ in range(400)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder("mpnet", tmp_path_factory.mktemp("encoder"), WORDS)


def small(**settings: Any) -> AdaptationConfig:
    return AdaptationConfig(**{"length": 32, "batch_tokens": 512, "lr": 3e-3, **settings})


class InterruptAt(Callback):
    """Presses Ctrl-C after a step, and keeps what is logged."""

    def __init__(self, step: int = -1) -> None:
        self.step = step
        self.logged: list[Mapping[str, float]] = []

    def on_log(self, metrics: Mapping[str, float]) -> None:
        self.logged.append(metrics)
        if metrics["steps"] == self.step:
            signal.raise_signal(signal.SIGINT)


def state_of(out: Path) -> dict[str, Any]:
    """The state in the only checkpoint of an interrupted adaptation."""
    (file,) = out.with_name(f"{out.name}.resume").glob("step-*[0-9]/state.json")
    (state,) = json.loads(file.read_text(encoding="utf-8"))["processes"]
    return state


def interrupt_in_part(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt the training while it computes part `number` of all parts of steps."""
    parts, backward = itertools.count(1), MaskedLMTask._backward

    def interrupted(self: MaskedLMTask, *arguments: Any) -> torch.Tensor:
        if next(parts) == number:
            signal.raise_signal(signal.SIGINT)
        return backward(self, *arguments)

    monkeypatch.setattr(MaskedLMTask, "_backward", interrupted)


def kill_while_replacing(folder: Path) -> None:
    """Have a process begin to replace a folder, and kill it once the old one is moved aside."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from unire.files import replace_atomically\n"
        "rename = Path.rename\n"
        "def killed(source, target):\n"
        "    rename(source, target)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.rename = killed\n"
        "with replace_atomically(sys.argv[1], directory=True):\n"
        "    pass\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(folder)], check=False).returncode == -signal.SIGKILL
    assert not folder.exists()


def assert_same(*folders: Path) -> None:
    ours, theirs = (transformers.AutoModel.from_pretrained(folder) for folder in folders)
    ours.pooler = theirs.pooler = None  # made up by transformers
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, theirs.state_dict()[name])


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("family", ["mpnet", "bert", "roberta"])
def test_the_loss_falls_and_the_saved_encoder_loads(family: str, corpus: Path, tmp_path: Path) -> None:
    start, out = tiny_encoder(family, tmp_path / "start", WORDS), tmp_path / "out"
    report = adapt(start, [corpus], out, small(max_steps=80), device="cpu")
    assert report.loss_end < report.loss_start - 1.5
    assert report.accuracy_end > 0.15  # always naming the most frequent token gives half of that
    assert (report.steps, report.tokens) == (80, 80 * 512)
    assert report.passes is not None
    assert report.passes > 1
    old, new = (transformers.AutoModel.from_pretrained(folder) for folder in (start, out))
    assert type(new) is type(old)
    assert not torch.equal(old.get_input_embeddings().weight, new.get_input_embeddings().weight)
    old, new = (transformers.AutoTokenizer.from_pretrained(folder) for folder in (start, out))
    assert old("The enormous grasshopper").input_ids == new("The enormous grasshopper").input_ids
    written = json.loads((out / "adaptation.json").read_text(encoding="utf-8"))
    assert (written["corpus"], written["config"]["max_steps"], written["steps"]) == (["text.txt"], 80, 80)
    assert not out.with_name("out.resume").exists()


@pytest.mark.parametrize("at", [4, 12, 20])
def test_a_resumed_run_equals_an_uninterrupted_one(encoder, corpus, tmp_path, monkeypatch, at: int) -> None:
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    straight = adapt(encoder, [corpus], tmp_path / "straight", small(max_steps=20), device="cpu")
    task: Any = (encoder, [corpus], tmp_path / "resumed", small(max_steps=20))
    with pytest.raises(KeyboardInterrupt):
        adapt(*task, device="cpu", callbacks=[InterruptAt(at)])
    seen = InterruptAt()
    resumed = adapt(*task, device="cpu", resume=True, callbacks=[seen])
    assert seen.logged[0]["steps"] == min(at + 1, 20)
    assert resumed.loss_start == straight.loss_start
    assert (resumed.steps, resumed.tokens, resumed.loss_end) == (straight.steps, straight.tokens, straight.loss_end)
    assert_same(tmp_path / "resumed", tmp_path / "straight")


def test_a_checkpoint_that_a_killed_process_left_aside_is_found(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    task: Any = (encoder, [corpus], tmp_path / "out", small(max_steps=4))
    with pytest.raises(KeyboardInterrupt):
        adapt(*task, device="cpu", callbacks=[InterruptAt(2)])
    checkpoint = tmp_path / "out.resume" / "step-000000002"
    kill_while_replacing(checkpoint)
    assert has_checkpoint(tmp_path / "out")
    with pytest.raises(UnireError, match=r"there is an unfinished training in .*; pass resume=True"):
        adapt(*task, device="cpu")
    assert not checkpoint.exists()
    adapt(*task, device="cpu", resume=True)
    assert not checkpoint.parent.exists()
    adapt(encoder, [corpus], tmp_path / "straight", small(max_steps=4), device="cpu")
    assert_same(tmp_path / "out", tmp_path / "straight")


def test_an_interrupted_step_is_repeated_on_resume(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(masked_lm, "MAX_CPU_TOKENS", 128)
    adapt(encoder, [corpus], tmp_path / "straight", small(max_steps=3), device="cpu")
    task: Any = (encoder, [corpus], tmp_path / "resumed", small(max_steps=3))
    with monkeypatch.context() as patch:
        interrupt_in_part(6, patch)  # a step has four
        with pytest.raises(KeyboardInterrupt):
            adapt(*task, device="cpu")
    assert state_of(tmp_path / "resumed")["step"] == 1
    adapt(*task, device="cpu", resume=True)
    assert_same(tmp_path / "resumed", tmp_path / "straight")


def test_a_short_run_reports_the_loss_of_its_first_and_second_half(encoder, corpus, tmp_path, monkeypatch) -> None:
    losses = iter([9.0, 7.0, 6.0, 5.0, 4.0])
    monkeypatch.setattr(
        MaskedLMTask, "find_gradients", lambda _, rows, *__: (torch.tensor([next(losses), 0.5]), len(rows))
    )
    report = adapt(encoder, [corpus], tmp_path / "out", small(max_steps=5), device="cpu")
    assert (report.loss_start, report.loss_end) == (8.0, 4.5)


def test_the_state_is_saved_on_the_way(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    out, saved = tmp_path / "out", []

    class Look(Callback):
        def on_log(self, metrics: Mapping[str, float]) -> None:
            if has_checkpoint(out):
                saved.append(state_of(out)["step"])

    adapt(encoder, [corpus], out, small(max_steps=4), device="cpu", callbacks=[Look()], save_every_minutes=0)
    assert saved == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_timed_run_ends_in_time_with_a_rate_that_fell_to_zero(encoder, corpus, tmp_path, monkeypatch) -> None:
    rates: list[float] = []
    set_rate = optimizer.Schedule.set

    def noted(self: optimizer.Schedule, fraction: float, step: int) -> None:
        set_rate(self, fraction, step)
        rates.append(self.optimizer.param_groups[0]["lr"] / self.optimizer.param_groups[0]["peak"])

    monkeypatch.setattr(optimizer.Schedule, "set", noted)
    ticks = itertools.count(step=0.01)  # every look at the clock takes a hundredth of a second
    monkeypatch.setattr(optimizer, "time", SimpleNamespace(monotonic=ticks.__next__))
    report = adapt(encoder, [corpus], tmp_path / "out", small(minutes=0.1), device="cpu")
    assert 5.5 < report.seconds < 6
    top = rates.index(max(rates))
    assert rates == sorted(rates[:top]) + sorted(rates[top:], reverse=True)
    assert rates[top] > 0.9
    assert rates[-1] < 0.1


def test_a_step_that_would_take_all_the_time_and_more_is_cut_short(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(masked_lm, "MAX_CPU_TOKENS", 32)
    ticks = itertools.count(step=0.1)
    monkeypatch.setattr(optimizer, "time", SimpleNamespace(monotonic=ticks.__next__))
    report = adapt(encoder, [corpus], tmp_path / "out", small(minutes=0.1, batch_tokens=32 * 90), device="cpu")
    assert 5.5 < report.seconds < 7  # after the time there are some more looks
    assert report.steps == 1
    assert 32 * 30 < report.tokens < 32 * 60
    old, new = (transformers.AutoModel.from_pretrained(folder) for folder in (encoder, tmp_path / "out"))
    assert not torch.equal(old.get_input_embeddings().weight, new.get_input_embeddings().weight)


def test_a_single_step_is_a_step(encoder, corpus, tmp_path, capfd) -> None:
    adapt(encoder, [corpus], tmp_path / "out", small(max_steps=1), device="cpu")
    assert capfd.readouterr().err == ""  # nor do others show how they save
    old, new = (transformers.AutoModel.from_pretrained(folder) for folder in (encoder, tmp_path / "out"))
    assert not torch.equal(old.get_input_embeddings().weight, new.get_input_embeddings().weight)


def test_a_batch_suits_its_device_unless_it_is_given() -> None:
    def batch(device: str, **settings: Any) -> tuple[int | None, int]:
        config = AdaptationConfig(max_steps=1, **settings).on(torch.device(device))
        return config.batch_tokens, config.rows

    assert batch("cuda") == (65_536, 256)
    assert batch("cpu") == (4_096, 16)
    assert batch("cpu", batch_tokens=700) == (700, 2)
    assert batch("cpu", length=8_192) == (8_192, 1)


def test_a_run_whose_time_is_over_before_the_first_step_says_so(encoder, corpus, tmp_path) -> None:
    with pytest.raises(UnireError, match="limit was reached before the first step"):
        adapt(encoder, [corpus], tmp_path / "out", small(minutes=1e-6), device="cpu")


def test_a_run_that_diverges_is_not_saved(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(MaskedLMTask, "find_gradients", lambda *_: (torch.tensor([float("nan"), 0.0]), 16))
    with pytest.raises(UnireError, match="diverged at step 3; lower the learning rate"):
        adapt(encoder, [corpus], tmp_path / "out", small(max_steps=3), device="cpu")
    assert not (tmp_path / "out").exists()


def test_invalid_arguments_are_refused_at_once(encoder, corpus, tmp_path) -> None:
    config = small(max_steps=1)
    with pytest.raises(UnireError, match="no corpus;"):
        adapt(encoder, [], tmp_path / "out", config)
    with pytest.raises(UnireError, match=r"no corpus file .*nowhere\.txt"):
        adapt(encoder, [tmp_path / "nowhere.txt"], tmp_path / "out", config)
    with pytest.raises(UnireError, match=r"already exists and holds .*; pass a new folder$"):
        adapt(encoder, [corpus], encoder, config)
    (tmp_path / "stopped.resume" / "step-000000001").mkdir(parents=True)
    with pytest.raises(
        UnireError, match=r"there is an unfinished training in .*; pass resume=True, or delete the folder$"
    ):
        adapt(encoder, [corpus], tmp_path / "stopped", config)
    with pytest.raises(UnireError, match="is a file; pass a new folder"):
        adapt(encoder, [corpus], corpus, config)
    with pytest.raises(UnireError, match=r"cannot be written to .*: Not a directory"):
        adapt(encoder, [corpus], corpus / "out", config)
    with pytest.raises(UnireError, match="there is nothing to resume"):
        adapt(encoder, [corpus], tmp_path / "out", config, resume=True)
    with pytest.raises(UnireError, match="reads at most 128 tokens"):
        adapt(encoder, [corpus], tmp_path / "out", AdaptationConfig(max_steps=1, length=100_000))
    with pytest.raises(UnireError, match="cannot use the device 'abacus'"):
        adapt(encoder, [corpus], tmp_path / "out", config, device="abacus")
    assert not (tmp_path / "out").exists()


def test_a_corpus_without_text_is_refused_before_anything_is_loaded(encoder, tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(adapt_module, "load_encoder")
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UnireError, match=r"empty\.txt' contains no text; check the files"):
        adapt(encoder, [tmp_path / "empty.txt"], tmp_path / "out", small(max_steps=1), device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("family", ["mpnet", "bert", "roberta"])
def test_adapting_a_saved_model_equals_adapting_its_encoder(family: str, corpus: Path, scierc_labels, tmp_path) -> None:
    start, model, out = tiny_encoder(family, tmp_path / "start", WORDS), tmp_path / "model", tmp_path / "out"
    init_model(str(start), scierc_labels, TrainingConfig()).save_pretrained(model)
    expected = adapt(start, [corpus], tmp_path / "expected", small(max_steps=3), device="cpu")
    assert adapt(model, [corpus], out, small(max_steps=3), device="cpu").loss_end == expected.loss_end
    (_, _, spec), (_, _, again) = load_encoder(start), load_encoder(out)
    assert again == spec


def test_the_bundled_model_has_a_mask_token() -> None:
    tokenizer = load_tokenizer("science")
    assert (tokenizer.mask_token, tokenizer.pad_token, len(tokenizer.all_special_ids)) == ("[MASK]", "[PAD]", 5)


def test_an_encoder_without_a_mask_token_is_refused(encoder, corpus, tmp_path) -> None:
    maskless = shutil.copytree(encoder, tmp_path / "maskless")
    config = json.loads((maskless / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["mask_token"]
    (maskless / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UnireError, match="no mask token"):
        adapt(maskless, [corpus], tmp_path / "out", small(max_steps=1))


@pytest.mark.parametrize("name", ["out/notes.txt", "out.resume/notes.txt"])
def test_a_file_of_the_user_is_not_replaced(name, encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    task: Any = (encoder, [corpus], tmp_path / "out", small(max_steps=2))
    with pytest.raises(KeyboardInterrupt):
        adapt(*task, device="cpu", callbacks=[InterruptAt(1)])
    notes = tmp_path / name
    notes.parent.mkdir(exist_ok=True)
    notes.touch()
    with pytest.raises(UnireError, match=r"holds 'notes\.txt'"):
        adapt(*task, device="cpu", resume=True)
    notes.unlink()
    assert adapt(*task, device="cpu", resume=True).steps == 2


@pytest.fixture
def interrupted(encoder, corpus, tmp_path, monkeypatch) -> tuple[Any, ...]:
    """An adaptation that was interrupted after the first of two steps."""
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    task = (encoder, [corpus], tmp_path / "out", small(max_steps=2))
    with pytest.raises(KeyboardInterrupt):
        adapt(*task, device="cpu", callbacks=[InterruptAt(1)])
    return task


def test_a_resumed_run_must_have_the_same_settings(interrupted) -> None:
    *task, _ = interrupted
    with pytest.raises(UnireError, match=r"was started with another seed \(0, now 1\)"):
        adapt(*task, small(max_steps=2, seed=1), device="cpu", resume=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "'processes'"),
        ('{"processes": [{"mood": 1}], "settings": {}}', "'mood'"),
        ('{"processes": [{}], "settings": []}', "not a mapping"),
    ],
)
def test_a_state_that_is_damaged_or_of_another_version_is_refused_in_a_sentence(
    interrupted, tmp_path, text: str, reason: str
) -> None:
    (tmp_path / "out.resume" / "step-000000001" / "state.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnireError, match=r"damaged, or of another version \(.*\); start a new training") as caught:
        adapt(*interrupted, device="cpu", resume=True)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_state_without_a_setting_that_there_is_now_or_with_one_that_is_gone_is_refused(interrupted, tmp_path) -> None:
    file = tmp_path / "out.resume" / "step-000000001" / "state.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    without = {name: value for name, value in record["settings"].items() if name != "warmup"}
    for settings, name in ((record["settings"] | {"flavour": 1}, "flavour"), (without, "warmup")):
        file.write_text(json.dumps(record | {"settings": settings}), encoding="utf-8")
        with pytest.raises(UnireError, match=f"was started with another {name}"):
            adapt(*interrupted, device="cpu", resume=True)


def test_tensors_that_are_damaged_are_refused_in_a_sentence(interrupted, tmp_path) -> None:
    checkpoint = tmp_path / "out.resume" / "step-000000001"
    shutil.copy(checkpoint / "optimizer.safetensors", checkpoint / "model.safetensors")
    with pytest.raises(UnireError, match=r"damaged, or of another version \(Error"):
        adapt(*interrupted, device="cpu", resume=True)
    (checkpoint / "model.safetensors").write_bytes(b"")
    with pytest.raises(UnireError, match="missing, truncated or not a safetensors file"):
        adapt(*interrupted, device="cpu", resume=True)


def test_a_full_disk_is_one_sentence(encoder, corpus, tmp_path, monkeypatch) -> None:
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    with pytest.raises(UnireError, match="could not be written: No space left"):
        adapt(encoder, [corpus], tmp_path / "out", small(max_steps=1), device="cpu")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"max_steps": 0}, {"minutes": -1}, {"max_steps": 1, "mask_rate": 0.9}]
    + [{"max_steps": 1, "seed": seed} for seed in (-1, 2**32)],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UnireError, match="adaptation"):
        AdaptationConfig(**wrong)


def test_a_batch_of_less_than_a_row_is_refused_by_both_names() -> None:
    with pytest.raises(UnireError, match=r"batch_tokens must be at least the length, 128, not 64"):
        AdaptationConfig(max_steps=1, batch_tokens=64, length=128)


def test_a_share_of_a_row_that_is_less_than_a_token_is_refused_by_both_names() -> None:
    with pytest.raises(UnireError, match=r"mask_rate must mask at least 1 token of the length, 16, not 0\.02"):
        AdaptationConfig(max_steps=1, mask_rate=0.02, length=16)
    AdaptationConfig(max_steps=1, mask_rate=0.04, length=16)


def test_the_command_shows_progress_or_prints_json(encoder, corpus, tmp_path) -> None:
    app = typer.Typer()
    app.command()(command)
    options = ["--encoder", encoder, "--corpus", corpus, "--max-steps", 2, "--length", 32, "--batch-tokens", 64]
    run = partial(CliRunner().invoke, app)
    shown = run([str(option) for option in [*options, "--out", tmp_path / "shown", "--device", "cpu"]])
    assert shown.exit_code == 0
    assert "tokens/s" in shown.stdout
    printed = run([str(option) for option in [*options, "--out", tmp_path / "json", "--device", "cpu", "--json"]])
    assert json.loads(printed.stdout)["steps"] == 2


def test_an_interrupted_command_says_how_to_go_on(encoder, corpus, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "LOG_SECONDS", 0.0)
    monkeypatch.setattr("unire.cli.adapt._Bar.on_log", lambda _bar, metrics: InterruptAt(1).on_log(metrics))
    app = typer.Typer()
    app.command()(command)
    options = ["--encoder", encoder, "--corpus", corpus, "--out", tmp_path / "out", "--max-steps", 2, "--length", 32]
    stopped = CliRunner().invoke(app, [str(option) for option in [*options, "--batch-tokens", 64, "--device", "cpu"]])
    assert stopped.exit_code == 130
    assert "continue with --resume" in stopped.stderr


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "old folder"])
@pytest.mark.parametrize("when", ["loading", "first step"])
def test_a_command_that_is_interrupted_before_its_first_step_says_that_nothing_was_kept(
    encoder, corpus, tmp_path, monkeypatch, when: str, there: bool
) -> None:
    out = tmp_path / "new" / "out"
    if there:
        out.mkdir(parents=True)
    if when == "loading":
        monkeypatch.setattr(adapt_module, "load_encoder", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    else:
        monkeypatch.setattr(masked_lm, "MAX_CPU_TOKENS", 32)
        interrupt_in_part(2, monkeypatch)
    app = typer.Typer()
    app.command()(command)
    options = ["--encoder", encoder, "--corpus", corpus, "--out", out, "--max-steps", 2, "--length", 32]
    stopped = CliRunner().invoke(app, [str(option) for option in [*options, "--batch-tokens", 256, "--device", "cpu"]])
    assert stopped.exit_code == 130
    assert "interrupted; nothing was saved" in stopped.stderr
    assert "--resume" not in stopped.stderr
    assert out.parent.exists() == there
    assert not there or not [*out.iterdir()]
