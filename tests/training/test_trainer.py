"""Training: it learns, it resumes, it repeats itself, and it says what it could not hold."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.accelerator import cpu_accelerator
from helpers.cli import command, result
from helpers.distillation import taught
from helpers.interrupts import InterruptAfter
from helpers.paths import TWENTY
from unire.analysis.splits import draw_folds, split_folds
from unire.calibration import Calibration
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.models import checkpoint
from unire.models.cuda_graphs import GraphRunner
from unire.models.encoder import load_encoder, supports_position_ids
from unire.training.callbacks import SIGNALS, Callback, Interrupt
from unire.training.config import TrainingConfig
from unire.training.cross_validation import cross_validate
from unire.training.optimizer import TrainingBudget, build_schedule, rate_at
from unire.training.tasks import TableTask, to_tensors
from unire.training.train import init_model, train
from unire.training.trainer import Trainer
from unire.utils import has_bf16
from unire.windows.collator import Batch

QUICK = {"lr": 1e-3, "head_lr": 3e-3, "mlp_dropout": 0.0, "logit_dropout": 0.0, "evaluate_after": 0}


def quick(**changes) -> TrainingConfig:
    return TrainingConfig.from_preset("paper", **{**QUICK, "epochs": 2, "batch_size": 8, "window": 40, **changes})


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("layout", ["in-place", "released", "shared"])
def test_a_tiny_encoder_overfits_twenty_sentences(
    preset, layout, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    monkeypatch.setattr(Trainer, "_out_of_patience", lambda trainer: trainer.state.best == 2.0)  # of 1 for each F1
    quick = {**QUICK, "lr": 6e-4, "head_lr": 1e-3, "evaluate_after": 50, "evaluate_every": 10}
    config = TrainingConfig.from_preset(preset, **quick, layout=layout, epochs=250, batch_size=5, window=60)
    trained = train(encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "model")
    assert trained.dev is not None
    assert (trained.dev.entities.f1, trained.dev.relations.f1) == (1.0, 1.0)

    reloaded = Extractor.load(tmp_path / "model", device="cpu")
    assert reloaded.config.layout == layout
    again = score(twenty, reloaded.annotate(twenty), scierc_labels)
    assert (again.entities.f1, again.relations.f1) == (1.0, 1.0)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(twenty, scierc_labels, encoder, tmp_path):
    runs = [
        train(encoder, twenty, dev=twenty[:2], labels=scierc_labels, config=quick(), out=tmp_path / name).history
        for name in ("first", "second")
    ]
    assert runs[0] == runs[1]
    other = train(encoder, twenty, labels=scierc_labels, config=quick(seed=1), out=tmp_path / "third").history
    assert other[0]["loss"] != runs[0][0]["loss"]


@pytest.mark.slow
def test_a_step_computed_in_parts_has_the_gradients_of_the_whole(twenty, scierc_labels, encoder, tmp_path):
    still = {"mlp_dropout": 0.0, "logit_dropout": 0.0, "epochs": 3, "batch_size": 20}
    whole, parts = (
        train(
            encoder, twenty, labels=scierc_labels, config=quick(**still, max_pieces=bound), out=tmp_path / f"m{bound}"
        ).history
        for bound in (100_000, 150)
    )
    for a, b in zip(whole, parts, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=2e-3)


PACKABLE = ("bert", "mpnet", "roberta", "electra", "albert")
"""Families of encoders that take position ids."""


@pytest.mark.parametrize("preset", ["paper", "released"])  # with means over sentences, and over all cells
@pytest.mark.parametrize("family", PACKABLE)
def test_a_step_has_the_same_losses_and_gradients_however_its_windows_are_batched(
    family, preset, twenty, scierc_labels, encoders, tmp_path
):
    config = TrainingConfig.from_preset(preset, **QUICK, batch_size=8, window=10)
    model = init_model(encoders(family), scierc_labels, config)
    assert supports_position_ids(model.encoder)
    torch.manual_seed(0)
    model.biaffine.U.data.normal_(std=0.1)
    task = TableTask(model, twenty, [], config, cpu_accelerator())
    model.eval()  # no dropout inside the encoder
    groups = task.data.steps(0)[0]

    def computed(padding, max_padding) -> tuple[torch.Tensor, torch.Tensor, list[Batch]]:
        task.data.padding, task.data.max_padding = padding, max_padding
        step = task.data.step(groups)
        losses = sum(task.backward_batch(to_tensors(batch, step, task.config)) for batch in step.batches)
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        task.optimizer.zero_grad()
        return losses, gradients, [gold.batch for gold in step.batches]

    losses, gradients, (plain,) = computed("exact", None)
    for way in (("fixed", None), ("packed", None), ("exact", 0)):
        other_losses, other_gradients, batches = computed(*way)
        assert torch.allclose(other_losses, losses, rtol=1e-5), way
        assert (other_gradients - gradients).norm() < 1e-4 * gradients.norm(), way
        sizes = [batch.input_ids.size for batch in batches]
        if way == ("fixed", None):
            assert batches[0].input_ids.shape[1] % 32 == 0
            assert sizes[0] > plain.input_ids.size
        elif way == ("packed", None):
            assert len(batches[0].input_ids) < len(plain.input_ids)
        else:
            assert len(batches) > 1
            assert sum(sizes) < plain.input_ids.size


@pytest.mark.parametrize(
    ("family", "recorded", "batching"),
    [
        ("bert", True, ("packed", None)),
        ("deberta", True, ("fixed", 1024)),  # whose attention goes by the order of tokens
        ("modernbert", True, ("fixed", 1024)),
        ("bert", False, ("exact", 64)),  # on a CPU, where every token of padding takes its time
    ],
)
def test_windows_are_packed_with_graph_capture_and_a_supported_encoder(
    family, recorded, batching, few, scierc_labels, encoders, tmp_path
):
    config = quick()
    model = init_model(encoders(family), scierc_labels, config)
    assert TableTask(model, few, [], config, cpu_accelerator())._batching(recorded) == batching


def test_windows_are_packed_no_more_from_the_epoch_on_before_which_capturing_has_failed(
    failing_graph_capture, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    config = quick(epochs=3, batch_size=1)
    model = init_model(encoder, scierc_labels, config)
    task = TableTask(model, twenty[:1] * 2, [], config, cpu_accelerator())
    task.backward_batch = GraphRunner(task._backward_batch, task.accelerator.device, capture=True)
    trainer = Trainer(task)
    packed = {}

    def backward(step, out_of_time):
        packed.setdefault(trainer.state.epoch, set()).update(
            gold.batch.window_starts is not None for gold in step.batches
        )
        TableTask.backward(task, step, out_of_time)

    monkeypatch.setattr(task, "backward", backward)
    trainer.fit(Interrupt())
    assert packed == {0: {True}, 1: {False}, 2: {False}}
    assert (task.data.padding, task.data.max_padding) == task._batching(capture=False)


def test_position_ids_need_fused_attention_and_a_known_encoder(encoders):
    model, _, _ = load_encoder(encoders("bert"))
    assert supports_position_ids(model)
    model.config._attn_implementation = "eager"
    assert not supports_position_ids(model)
    model.config.model_type, model.config._attn_implementation = "convbert", "sdpa"  # nobody has looked at it
    assert not supports_position_ids(model)


@pytest.mark.slow
def test_a_killed_training_resumes_and_ends_with_the_same_numbers(twenty, scierc_labels, encoder, tmp_path):
    """The state is saved before every step; the process is killed from outside at a moment it does not choose."""
    words = (
        *("train", "--encoder", encoder, "--data", TWENTY, "--dev", TWENTY, "--labels", "scierc", "--epochs", 12),
        *("--batch-size", 8, "--lr", 0.002, "--window", 40, "--set", "evaluate_every=3", "--save-every-minutes", 0),
    )
    out = tmp_path / "killed"
    process = subprocess.Popen(command(*words, "--out", out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    checkpoints = out.with_name("killed.resume")
    while (
        len(list(checkpoints.glob("step-*[0-9]"))) == 0 or max(checkpoints.glob("step-*[0-9]")).name < "step-000000005"
    ):
        assert process.poll() is None, "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()

    expected = result(*words, "--out", tmp_path / "straight")
    found = result(*words, "--out", out, "--resume")
    assert found["history"] == expected["history"]
    assert found["scores"] == expected["scores"]
    assert not checkpoints.exists()


@pytest.mark.slow
def test_ctrl_c_leaves_a_usable_model_and_a_state_to_resume(twenty, scierc_labels, encoder, tmp_path):
    config = quick(epochs=4)
    straight = train(encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "straight")
    stopped = train(
        encoder,
        twenty,
        dev=twenty,
        labels=scierc_labels,
        config=config,
        out=tmp_path / "stopped",
        callbacks=[InterruptAfter(2)],
    )
    assert stopped.interrupted
    assert len(stopped.history) == 2
    document = Extractor.load(tmp_path / "stopped", device="cpu").extract_words([["A", "parser", "is", "tested"]])
    assert document.words == ("A", "parser", "is", "tested")
    resumed = train(
        encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "stopped", resume=True
    )
    assert not resumed.interrupted
    assert resumed.history == straight.history


class InterruptAt(Callback):
    """Presses Ctrl-C after the last step of an epoch (from 0), or before the first step of all (`None`)."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_begin(self, info):
        if self.epoch is None:
            signal.raise_signal(signal.SIGINT)

    def on_step_end(self, state):
        if (state.epoch, state.position) == (self.epoch, state.epoch_steps):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [None, 0, 1])
def test_an_interrupt_before_the_first_or_after_the_last_step_loses_no_epoch(
    epoch, few, scierc_labels, encoder, tmp_path
):
    how = {"dev": few, "labels": scierc_labels, "config": quick(epochs=2)}
    straight = train(encoder, few, out=tmp_path / "straight", **how)
    stopped = train(encoder, few, out=tmp_path / "stopped", callbacks=[InterruptAt(epoch)], **how)
    assert stopped.interrupted
    resumed = train(encoder, few, out=tmp_path / "stopped", resume=True, **how)
    assert [record["epoch"] for record in resumed.history] == [1, 2]
    assert resumed.history == straight.history


def test_a_state_without_a_newer_setting_resumes_with_its_default(few, scierc_labels, encoder, tmp_path):
    out = tmp_path / "model"
    train(encoder, few, labels=scierc_labels, config=quick(), out=out, callbacks=[InterruptAfter(1)])
    (record,) = tmp_path.glob("model.resume/*/state.json")
    state = json.loads(record.read_text(encoding="utf-8"))
    del state["settings"]["keep_head"], state["settings"]["clip"]
    record.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(UnireError, match="another clip"):
        train(encoder, few, labels=scierc_labels, config=quick(clip=1.0), out=out, resume=True)
    assert not train(encoder, few, labels=scierc_labels, config=quick(), out=out, resume=True).interrupted


def test_resuming_with_other_settings_is_refused(twenty, scierc_labels, encoder, tmp_path):
    out = tmp_path / "model"
    train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, callbacks=[InterruptAfter(1)])
    with pytest.raises(UnireError, match="another lr"):
        train(encoder, twenty, labels=scierc_labels, config=quick(lr=1.0), out=out, resume=True)
    with pytest.raises(UnireError, match="nothing to resume"):
        train(encoder, twenty, labels=scierc_labels, config=quick(), out=tmp_path / "other", resume=True)


@pytest.mark.parametrize("damage", ["", "{}", '{"processes": [{"epok": 1}], "settings": {}}'])
def test_a_damaged_state_gets_one_sentence(damage, twenty, scierc_labels, encoder, tmp_path):
    out = tmp_path / "model"
    train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, callbacks=[InterruptAfter(1)])
    checkpoint = next((tmp_path / "model.resume").iterdir())
    (checkpoint / "state.json").write_text(damage)
    with pytest.raises(UnireError, match="is damaged") as caught:
        train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, resume=True)
    assert "\n" not in str(caught.value)


def test_an_unfinished_training_is_not_restarted_without_resume(twenty, scierc_labels, encoder, tmp_path):
    out = tmp_path / "model"
    train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, callbacks=[InterruptAfter(1)])
    with pytest.raises(UnireError, match="unfinished training"):
        train(encoder, twenty, labels=scierc_labels, config=quick(), out=out)


def test_resuming_with_other_data_is_refused(twenty, scierc_labels, encoder, tmp_path):
    out = tmp_path / "model"
    train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, callbacks=[InterruptAfter(1)])
    with pytest.raises(UnireError, match="another training data"):
        train(encoder, twenty[1:], labels=scierc_labels, config=quick(), out=out, resume=True)
    with pytest.raises(UnireError, match="another training data"):  # the same documents, split in another way
        train(encoder, twenty[:-1], dev=twenty[-1:], labels=scierc_labels, config=quick(), out=out, resume=True)


def test_a_full_disk_while_saving_the_state_keeps_the_one_before(twenty, scierc_labels, encoder, tmp_path, monkeypatch):
    class FillDisk(Callback):
        def on_epoch_end(self, record):
            if record["epoch"] == 2:
                monkeypatch.setattr(checkpoint, "save_file", full)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "model"
    with pytest.raises(UnireError, match="No space left on device; the checkpoint before it is kept"):
        train(
            encoder, twenty, labels=scierc_labels, config=quick(), out=out, callbacks=[FillDisk()], save_every_epochs=1
        )
    monkeypatch.undo()
    resumed = train(encoder, twenty, labels=scierc_labels, config=quick(), out=out, resume=True)
    assert len(resumed.history) == 2


@pytest.mark.parametrize(("wanted", "odds"), [(True, 3.0), (False, 1.0)])
def test_relation_odds_are_tuned_on_dev_if_that_is_wanted(
    wanted, odds, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    seen = []
    monkeypatch.setattr(
        "unire.evaluation.tuning.tune_relation_odds",
        lambda extractor, documents, **options: seen.append(documents) or 3.0,
    )
    how = {"dev": twenty[:5], "labels": scierc_labels, "config": quick(epochs=1, tune_odds=wanted)}
    trained = train(encoder, twenty, out=tmp_path / "model", **how)
    assert seen == [twenty[:5]] * wanted
    assert trained.model.config.relation_odds == odds
    assert Extractor.load(tmp_path / "model", device="cpu").config.relation_odds == odds


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_finishing_it_keeps_the_trained_model_and_finishes_later(
    number, twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    def interrupted(*args, **options):
        signal.raise_signal(number)

    how = {"dev": twenty, "test": twenty, "labels": scierc_labels, "config": quick()}
    monkeypatch.setattr("unire.training.tasks.tune_config", interrupted)
    trained = train(encoder, twenty, out=tmp_path / "model", **how)
    assert trained.stopped_by == number
    assert trained.interrupted
    assert Extractor.load(tmp_path / "model", device="cpu").config.provenance["epochs"] > 0
    monkeypatch.undo()
    finished = train(encoder, twenty, out=tmp_path / "model", resume=True, **how)
    straight = train(encoder, twenty, out=tmp_path / "straight", **how)
    assert not finished.interrupted
    assert finished.history == straight.history
    assert finished.test == straight.test
    assert finished.model.config.alpha == straight.model.config.alpha
    for a, b in zip(finished.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not (tmp_path / "model.resume").exists()


def test_callbacks_get_on_train_end_even_after_an_error(twenty, scierc_labels, encoder, tmp_path):
    closed = []

    class Closing(Callback):
        def on_epoch_end(self, record):
            raise UnireError("stop")

        def on_train_end(self):
            closed.append(True)

    with pytest.raises(UnireError, match="stop"):
        train(encoder, twenty, labels=scierc_labels, config=quick(), out=tmp_path / "m", callbacks=[Closing()])
    assert closed


def test_where_a_model_cannot_be_written_is_known_before_training(twenty, encoder, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("x")
    for out, message in ((file, "is a file"), (precious, "thesis.txt"), (encoder, "special|vocab|tokenizer_config")):
        with pytest.raises(UnireError, match=message):
            train(encoder, twenty, config=quick(), out=out)
    assert (precious / "thesis.txt").read_text() == "x"
    with pytest.raises(UnireError, match="cannot be written"):
        train(encoder, twenty, config=quick(), out="/proc/nothing/here")


def test_finished_folds_of_another_run_are_not_mixed_in(twenty, scierc_labels, encoder, tmp_path):
    folds = list(split_folds(twenty, draw_folds(twenty, 2), dev_fraction=0.3))
    options = {"out": tmp_path, "labels": scierc_labels}
    first = cross_validate(encoder, folds, config=quick(epochs=1), **options)
    assert cross_validate(encoder, folds, config=quick(epochs=1), resume=True, **options) == first
    with pytest.raises(UnireError, match="another config"):
        cross_validate(encoder, folds, config=quick(epochs=2), resume=True, **options)
    with pytest.raises(UnireError, match="another data"):
        cross_validate(encoder, folds[::-1], config=quick(epochs=1), resume=True, **options)


def test_training_stops_when_patience_is_at_an_end(twenty, scierc_labels, encoder, tmp_path):
    config = quick(epochs=50, patience=3, lr=1e-9, head_lr=1e-9)
    trained = train(encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "model")
    assert len(trained.history) == 1 + 3  # the first epoch is the best there is


def test_annotation_that_a_table_cannot_hold_is_counted(encoder, tmp_path):
    document = Document.from_words(
        [["a", "b", "c", "d"]],
        entities=[(0, 3, "X"), (1, 2, "X"), (3, 4, "X")],
        relations=[(1, 2, "r"), (0, 2, "r"), (0, 2, "s")],
    )
    trained = train(encoder, [document], config=quick(), out=tmp_path / "model")
    assert {reason: n for reason, n in trained.notes.items() if n} == {
        "entity overlaps a longer one": 1,
        "relation whose argument is not in the table": 1,
        "relation between two entities that already have one": 1,
    }


def test_a_sentence_of_two_thousand_words_is_split_stitched_counted_and_trained_on(encoder, tmp_path):
    words = [f"w{i}" for i in range(2000)]
    long = Document.from_words([words], entities=[(0, 1, "X"), (510, 514, "X"), (1999, 2000, "X")])
    trained = train(encoder, [long], config=quick(epochs=1), out=tmp_path / "model")
    assert trained.notes["sentence larger than a table, split"] == 1
    assert trained.notes["sentence longer than the encoder, stitched"] > 0
    found = next(Extractor.load(tmp_path / "model", device="cpu").annotate([long]))
    assert found.words == tuple(words)


def test_data_without_an_entity_is_refused(teacher, encoder, tmp_path):
    nothing = [Document.from_words([["Nothing", "is", "found", "here", "."]])]
    with pytest.raises(UnireError, match=r"^there are no entity types to learn; give annotated data"):
        train(encoder, nothing, out=tmp_path / "model")
    with pytest.raises(UnireError, match=r"^there are no entity types to learn"):
        taught([teacher], encoder, tmp_path / "student", labels=LabelSpace.learn(nothing))


def test_unknown_labels_are_refused_before_training(twenty, encoder, tmp_path):
    with pytest.raises(UnireError, match="unknown entity type"):
        train(encoder, twenty, labels=LabelSpace(("Task",)), config=quick(), out=tmp_path / "model")
    with pytest.raises(UnireError, match="no words"):
        train(encoder, [Document.from_words([[]])], labels=LabelSpace(("Task",)), config=quick(), out=tmp_path / "m")


def test_a_diverged_training_says_so(twenty, scierc_labels, encoder, tmp_path):
    with pytest.raises(UnireError, match="not a number"):
        train(
            encoder, twenty, labels=scierc_labels, config=quick(lr=1e30, head_lr=1e30, epochs=5), out=tmp_path / "model"
        )


def test_layers_learn_more_slowly_the_deeper_they_lie(encoder, twenty, scierc_labels):
    from unire.training.optimizer import build_optimizer

    config = quick(lr=1.0, head_lr=3.0, layer_decay=0.5)
    model = init_model(str(encoder), scierc_labels, config, [])
    optimizer = build_optimizer(model, config)
    rates = {id(p): group["peak"] for group in optimizer.param_groups for p in group["params"]}
    by_name = {name: rates[id(p)] for name, p in model.named_parameters()}
    assert by_name["encoder.encoder.layer.1.output.dense.weight"] == 1.0
    assert by_name["encoder.encoder.layer.0.output.dense.weight"] == 0.5
    assert by_name["encoder.embeddings.word_embeddings.weight"] == 1.0
    assert by_name["biaffine.U"] == 3.0


def test_without_bias_correction_adamw_is_adamw_without_bias_correction():
    """Against the update written out by hand."""
    config = TrainingConfig.from_preset("released", lr=0.1, weight_decay=0.01, warmup=0.0, eps=1e-3)
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = torch.optim.AdamW([{"params": [parameter], "peak": 0.1}], betas=(0.9, 0.9))
    schedule = build_schedule(optimizer, config)
    x, m, v = parameter.detach().numpy().copy(), np.zeros(2), np.zeros(2)
    for step in range(1, 6):
        progress = step / 10
        gradient = np.array([0.3 * step, -0.2])
        parameter.grad = torch.tensor(gradient)
        schedule.set(progress, step)
        optimizer.step()
        rate = 0.1 * rate_at(progress, warmup=0.0)
        m = 0.9 * m + 0.1 * gradient
        v = 0.9 * v + 0.1 * gradient**2
        x = x - rate * 0.01 * x - rate * m / (np.sqrt(v) + 1e-3)
        assert parameter.detach().numpy() == pytest.approx(x, rel=1e-9)


def test_the_rate_rises_to_its_peak_and_falls_to_zero():
    rates = [rate_at(done, warmup=0.2) for done in (0, 0.1, 0.2, 0.6, 1.0, 1.1)]
    assert rates == pytest.approx([0, 0.5, 1, 0.5, 0, 0])


def test_presets_are_data_and_settings_are_checked():
    assert asdict(TrainingConfig.from_preset("released"))["implication"] == "sum"
    with pytest.raises(UnireError, match="unknown preset"):
        TrainingConfig.from_preset("best-ever")
    with pytest.raises(UnireError, match="unknown training setting"):
        TrainingConfig.from_preset("paper", rate=1)
    with pytest.raises(UnireError, match=" must be "):
        TrainingConfig.from_preset("paper", epochs=0)
    for wrong in ({"epochs": "abc"}, {"window": 1.5}, {"bf16": "maybe"}, {"layout": "upside-down"}, {"symmetry": 1}):
        with pytest.raises(UnireError, match=" must be "):
            TrainingConfig.from_preset("paper", **wrong)
    assert TrainingConfig.from_preset("paper", lr=1, head_lr=None, bf16=False).lr == 1


@pytest.mark.slow
def test_a_model_that_is_trained_further_keeps_its_head_and_reads_as_it_did(twenty, scierc_labels, encoder, tmp_path):
    config = quick(layout="shared", d=40, window=30, decoder="likely", alpha=0.75, tune_alpha=False, constraints=True)
    train(encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "model")

    config = TrainingConfig.further(tmp_path / "model", "best", lr=1e-9, head_lr=1e-9, epochs=1)
    assert (config.preset, config.layout, config.d, config.window) == ("best", "shared", 40, 30)
    assert (config.decoder, config.alpha, config.mlp_dropout) == ("likely", 0.75, 0.0)
    assert TrainingConfig.further(tmp_path / "model", window=50).window == 50
    # fewer types than the model knows: its labels are taken, and not those of the data
    trained = train(tmp_path / "model", twenty[:1], config=config, out=tmp_path / "further")
    assert trained.model.labels == scierc_labels
    other = train(
        tmp_path / "model", twenty[:1], dev=twenty, config=replace(config, decoder="split"), out=tmp_path / "other"
    )
    assert not any("never be found" in note for note in other.notes)

    before, after = (Extractor.load(tmp_path / name, device="cpu") for name in ("model", "further"))
    for name in ("alpha", "constraints", "signatures", "calibration"):
        assert getattr(after.config, name) == getattr(before.config, name), name
    assert before.config.signatures != LabelSpace.collect_signatures(twenty[:1])
    assert before.config.calibration != Calibration()
    tables = [[P for _, P in extractor.predict_tables(twenty)] for extractor in (before, after)]
    assert all(np.allclose(one, other, atol=1e-3) for one, other in zip(*tables, strict=True))


def test_a_head_is_kept_with_its_own_labels_and_size_alone(few, scierc_labels, encoder, tmp_path):
    train(encoder, few, labels=scierc_labels, config=quick(d=40, epochs=1), out=tmp_path / "model")
    config = TrainingConfig.further(tmp_path / "model", epochs=1)
    others = LabelSpace(("Thing",), ("of",))
    for labels, changes, sentence in (
        (others, {}, "keep_head=True needs the labels of"),
        (None, {"d": 50}, "keep_head=True needs d = 40"),
    ):
        with pytest.raises(UnireError, match=sentence):
            train(tmp_path / "model", few, labels=labels, config=replace(config, **changes), out=tmp_path / "further")
    with pytest.raises(UnireError, match="not a unire model"):
        TrainingConfig.further(encoder)


@pytest.mark.parametrize(("after", "every"), [(0, 1), (0, 3), (4, 1), (5, 5), (4, 5), (9, 4)])
def test_without_a_time_limit_dev_is_scored_in_every_nth_epoch(few, scierc_labels, encoder, after, every):
    config = quick(epochs=20, evaluate_after=after, evaluate_every=every)
    model = init_model(str(encoder), scierc_labels, config)
    trainer = Trainer(TableTask(model, few, few, config, cpu_accelerator()))
    scored = []
    for epoch in range(1, 21):
        trainer.state.epoch, trainer.state.fraction = epoch, epoch / 20
        if trainer._evaluation_due():
            scored.append(epoch)
        trainer.state.progress = trainer._progress()
    assert scored == [epoch for epoch in range(1, 21) if epoch > after and epoch % every == 0]


def test_a_time_limit_ends_the_training_within_an_epoch_and_scores_dev(
    twenty, scierc_labels, encoder, tmp_path, monkeypatch
):
    """One minute, three seconds of which are reserved, with five seconds for every step."""
    now = [1000.0]
    monkeypatch.setattr("unire.training.optimizer.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(Callback):
        steps = 0

        def on_step_end(self, state):
            now[0] += 5
            self.steps += 1

    slow = Slow()
    config = quick(epochs=500, batch_size=2, evaluate_after=400, evaluate_every=50)
    options = {"labels": scierc_labels, "config": config, "callbacks": [slow]}
    trained = train(encoder, twenty, dev=twenty, out=tmp_path / "model", minutes=1, **options)
    assert slow.steps == 12
    assert [record["epoch"] for record in trained.history if "dev" in record] == [len(trained.history)]
    assert trained.dev is not None


def test_with_a_time_limit_dev_is_scored_at_the_same_shares_of_the_training(few, scierc_labels, encoder):
    config = quick(epochs=60, evaluate_after=29, evaluate_every=5)
    model = init_model(str(encoder), scierc_labels, config)
    trainer = Trainer(TableTask(model, few, few, config, cpu_accelerator()), budget=TrainingBudget(10, epochs=60))
    scored = []
    for epoch in range(1, 13):  # there is time for 12 epochs instead of 60
        trainer.state.epoch, trainer.state.fraction = epoch, epoch / 12
        if trainer._evaluation_due():
            scored.append(epoch)
        trainer.state.progress = trainer._progress()
    assert scored == [6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("minutes", [0, -1, float("nan")])
def test_a_time_limit_must_be_positive(twenty, encoder, tmp_path, minutes):
    with pytest.raises(UnireError, match="minutes must be"):
        train(encoder, twenty, out=tmp_path / "model", minutes=minutes)


@pytest.mark.slow
@pytest.mark.skipif(not has_bf16("cpu"), reason="this CPU does not compute in bf16")
def test_a_cpu_trains_in_bf16_if_asked_to(twenty, scierc_labels, encoder, tmp_path):
    losses = []
    for bf16 in (None, False, True):
        trained = train(encoder, twenty, labels=scierc_labels, config=quick(bf16=bf16), out=tmp_path / f"model-{bf16}")
        losses.append(trained.history[-1]["loss"])
    assert losses[0] == losses[1] != losses[2]
    assert losses[2]["entry"] == pytest.approx(losses[0]["entry"], rel=0.05)


def test_bf16_without_hardware_for_it_is_refused(twenty, scierc_labels, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.training.trainer.has_bf16", lambda kind: False)
    with pytest.raises(UnireError, match="bf16 = true needs a GPU or a CPU that supports bf16"):
        train(encoder, twenty, labels=scierc_labels, config=quick(bf16=True), out=tmp_path / "model")
