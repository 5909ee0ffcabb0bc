"""Distillation: the student learns what its teachers find, and nothing that it will be asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from typer.testing import CliRunner

from helpers.cli import command, result
from helpers.distillation import GOLD, quick, steps_of, taught
from helpers.interrupts import InterruptAfter
from helpers.paths import TWENTY
from unire import formats
from unire.cli.main import app
from unire.decoding.decoders import BoundaryDecoder
from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.tuning import sweep_alphas
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.models.cuda_graphs import GraphRunner
from unire.models.encoder import digest_weights, load_encoder
from unire.models.unire import UniRE
from unire.training import optimizer
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import TrainingConfig
from unire.training.distillation import batches
from unire.training.distillation.batches import LEAK
from unire.training.distillation.distill import DistillationTask, DistillConfig
from unire.training.distillation.teachers import TeacherEnsemble, align_labels, load_teachers
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.training.train import init_model, init_training, train
from unire.training.trainer import Trainer


def found(model: Path, documents: Sequence[Document]) -> dict[tuple, np.ndarray]:
    """The likeliest label of every cell, by table."""
    extractor = Extractor.load(model, device="cpu")
    return {
        (table.document, table.start): P[row, : len(table), : len(table)].argmax(-1).numpy()
        for batch, P in extractor.predict_tables(documents)
        for row, table in enumerate(batch.table_spans)
    }


def agreement(one: Path, other: Path, documents: Sequence[Document]) -> float:
    """The share of the cells that are something to either model in which both see the same."""
    a, b = (np.concatenate([t.flatten() for _, t in sorted(found(m, documents).items())]) for m in (one, other))
    something = (a != LabelSpace.NONE) | (b != LabelSpace.NONE)
    return float((a == b)[something].mean())


def distillation_task(teachers: Sequence[Path], student: Path, labels: LabelSpace, **changes) -> DistillationTask:
    config = quick(**changes)
    model, accelerator = init_training(student, GOLD, dev=(), labels=labels, config=config, data=())
    return DistillationTask(
        model,
        GOLD,
        (),
        config,
        accelerator,
        provider=TeacherEnsemble(load_teachers(teachers), UnlabelledCorpus.read([TWENTY]), [TWENTY.name]),
        overlap_filter=OverlapFilter(()),
        distillation=DistillConfig(soft_batch=10),
        workers=0,
    )


@pytest.mark.slow
def test_a_student_with_another_tokenizer_learns_what_its_teacher_finds(teacher, student_encoder, twenty, tmp_path):
    """From gold that holds nothing, which the teacher's tables outweigh."""
    untaught = train(
        student_encoder, GOLD, labels=LabelSpace.load("scierc"), config=quick(epochs=1), out=tmp_path / "untaught"
    )
    assert not untaught.interrupted
    assert agreement(teacher, tmp_path / "untaught", twenty) < 0.2
    config = quick(epochs=150)
    taught(
        [teacher],
        student_encoder,
        tmp_path / "s",
        config=config,
        distillation=DistillConfig(soft_batch=10, soft_weight=100),
    )
    assert agreement(teacher, tmp_path / "s", twenty) > 0.8


def test_a_trained_model_gives_a_student_its_encoder(teacher, encoder, tmp_path):
    student = taught([teacher], teacher, tmp_path / "student").model
    assert student.config.provenance["encoder"] == teacher.name
    assert student.config.spec == UniRE.from_pretrained(teacher).config.spec


@pytest.mark.parametrize("padding", ["exact", "packed"])
def test_the_targets_of_an_ensemble_are_the_mean_of_its_tables(
    padding, teacher, student_encoder, encoder, twenty, tmp_path
):
    """Of teachers with different tokenizers and layouts, each table where the student has it."""
    labels = LabelSpace.load("scierc")
    other = tmp_path / "other"
    train(student_encoder, twenty, labels=labels, config=quick(epochs=2, layout="shared"), out=other)
    ensemble = distillation_task([teacher, other], encoder, labels, max_pieces=200)
    ensemble.unlabelled.padding, ensemble.unlabelled.max_padding = padding, None
    expected = {}
    for path in (teacher, other):
        extractor = Extractor.load(path, device="cpu")
        for batch, P in extractor.predict_tables(twenty):
            for row, table in enumerate(batch.table_spans):
                key = (table.document, table.start)
                expected[key] = expected.get(key, 0) + P[row, : len(table), : len(table)] / 2
    matched = set()
    for step in steps_of(ensemble.unlabelled, 2):
        assert len(step.views) == 2  # the first teacher lays documents out as the student does
        assert len(step.views[0]) > 1
        for number, (batch, target) in enumerate(zip(step.views[0], ensemble.provider.targets(step)(), strict=True)):
            for row, table in enumerate(batch.table_spans):
                n = len(table)
                for view, places in zip(step.views, step.places, strict=True):
                    k, place = places[number][row]
                    assert view[k].table_spans[place] == table
                near = [key for key, P in expected.items() if P.shape[0] == n]
                matched |= {key for key in near if torch.allclose(target[row, :n, :n], expected[key], atol=1e-5)}
    assert matched == expected.keys()


def test_windows_are_packed_only_if_all_models_support_it(teacher, encoder, encoders, twenty, tmp_path):
    labels = LabelSpace.load("scierc")
    train(encoders("deberta"), twenty, labels=labels, config=quick(epochs=1), out=tmp_path / "other")
    for teachers, padding in (([teacher], "packed"), ([teacher, tmp_path / "other"], "fixed")):
        batching = distillation_task(teachers, encoder, labels)._batching(capture=True)
        assert batching[0] == padding


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_after_a_failed_capture_text_is_no_longer_packed_and_none_is_lost(
    workers, failing_graph_capture, teacher, encoder, tmp_path, monkeypatch
):
    student = distillation_task([teacher], encoder, LabelSpace.load("scierc"), epochs=5)

    def tables_of(step):
        return {(table.document, table.start) for batch in step.views[0] for table in batch.table_spans}

    expected = list(map(tables_of, steps_of(student.unlabelled, 5)))
    device = student.accelerator.device
    student.workers = workers
    student.backward_batch = GraphRunner(student._backward_batch, device, capture=True)
    student.backward_soft_batch = GraphRunner(
        student._backward_soft_batch, device, capture=True, parent=student.backward_batch
    )
    for data in (student.data, student.unlabelled):
        data.padding, data.max_padding = student._batching(capture=True)
    read = []

    def soft_tensors(batch, target, kept, step):
        if batch is step.views[0][0]:
            read.append((batch.window_starts is not None, tables_of(step)))
        return DistillationTask._soft_tensors(student, batch, target, kept, step)

    monkeypatch.setattr(student, "_soft_tensors", soft_tensors)
    Trainer(student).fit(Interrupt())  # the gold of every epoch has one shape, which is to be captured in the second
    assert read == list(zip([True, True, False, False, False], expected, strict=True))
    assert student.unlabelled.padding == student.data.padding == "exact"


def test_without_dev_a_student_is_cut_where_it_finds_what_its_teachers_do(teacher, encoder, twenty, tmp_path):
    student = taught([teacher], encoder, tmp_path / "s", config=quick(epochs=8)).model
    tuned = Extractor.load(tmp_path / "s", device="cpu")
    expected = list(Extractor.load(teacher, device="cpu").annotate(twenty))
    totals = dict(
        zip(BoundaryDecoder.alpha_grid, (scores.ent_plus_rel for scores in sweep_alphas(tuned, expected)), strict=True)
    )
    assert max(totals.values()) > min(totals.values())
    assert totals[student.config.alpha] == max(totals.values())
    taught([teacher], encoder, tmp_path / "fixed", config=quick(epochs=1, tune_alpha=False))
    assert Extractor.load(tmp_path / "fixed").config.alpha == 1.4


def test_samples_are_short_and_a_broken_corpus_is_refused_before_training(teacher, encoder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A long text. " * 50 + "\n" + "One sentence here.\n" * 30, encoding="utf-8")
    some = UnlabelledCorpus.read([text]).sample(20, OverlapFilter(()))
    assert [len(document.sentences) for document in some] == [1] * 20
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(TWENTY.read_text(encoding="utf-8").splitlines(keepends=True)[:1]) + "{x\n", encoding="utf-8")
    with pytest.raises(UnireError, match="document 2 of the corpus: not valid JSON"):
        taught([teacher], encoder, tmp_path / "s", corpus=bad)


def test_labels_in_another_order_are_put_in_the_students(teacher, encoder, twenty, tmp_path, scierc_labels):
    turned = LabelSpace(scierc_labels.entity_types[::-1], scierc_labels.relation_types[::-1], scierc_labels.symmetric)
    order = align_labels(turned, scierc_labels, "teacher 'it'")
    assert [scierc_labels.names[i] for i in order] == list(turned.names)
    plain = distillation_task([teacher], encoder, scierc_labels)
    other = distillation_task([teacher], encoder, turned)
    (step,) = steps_of(plain.unlabelled, 1)
    assert torch.equal(other.provider.targets(step)()[0], plain.provider.targets(step)()[0][..., order])


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"entity_types": ("Task",), "generic": frozenset()}, "entity types"),
        ({"relation_types": ("COMPARE", "CONJUNCTION")}, "relation types"),
        ({"symmetric": frozenset()}, "symmetric relations"),
    ],
)
def test_a_teacher_with_other_labels_is_refused(changes, what, scierc_labels):
    with pytest.raises(UnireError, match=f"'large' and student do not have the same {what}"):
        align_labels(replace(scierc_labels, **changes), scierc_labels, "teacher 'large'")


def test_teachers_with_different_labels_are_refused_before_gold_is_checked(teacher, encoder, twenty, tmp_path):
    news = init_model(str(encoder), LabelSpace.load("conll04"), quick())
    news.save_pretrained(tmp_path / "news")
    for teachers in ([tmp_path / "news", teacher], [teacher, tmp_path / "news"]):
        names = f"teacher '{teachers[1].name}' and teacher '{teachers[0].name}'"
        with pytest.raises(UnireError, match=f"{names} do not have the same entity types .* of one label space"):
            taught(teachers, encoder, tmp_path / "s", documents=twenty, dev=twenty)


def test_text_of_dev_and_test_is_left_out_and_counted(teacher, encoder, twenty, tmp_path):
    """Even where it comes as raw text, with a title before it."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"A title. {' '.join(document.words)}" for document in twenty), encoding="utf-8")
    trained = taught([teacher], encoder, tmp_path / "s", corpus, dev=twenty[:2], test=twenty[2:3])
    assert trained.notes[LEAK] == 3
    with pytest.raises(UnireError, match="no document of the corpus"):
        taught([teacher], encoder, tmp_path / "t", corpus, dev=twenty)


def test_teachers_and_corpus_are_recorded_in_the_provenance(teacher, encoder, tmp_path):
    taught([teacher, teacher], encoder, tmp_path / "s")
    made = UniRE.from_pretrained(tmp_path / "s").config.provenance["distillation"]
    assert [t["name"] for t in made["teachers"]] == ["teacher", "teacher"]
    assert made["corpus"] == ["twenty.jsonl"]
    assert (made["sentences"], made["distinct"]) == (31, 20)  # three steps of whole documents: a pass and a half
    card = (tmp_path / "s" / "README.md").read_text(encoding="utf-8")
    assert "| teachers | teacher (bert), teacher (bert) |" in card
    assert "| unlabelled text | 20 sentences of twenty.jsonl, 1.6 times |" in card


def test_distill_prints_teachers_skipped_sentences_and_scores(teacher, encoder, tmp_path):
    dev = tmp_path / "dev.jsonl"
    formats.write(list(formats.read(TWENTY))[:1], dev)
    arguments = [
        *("distill", "--teacher", teacher, "--student", encoder, "--corpus", TWENTY, "--data", TWENTY, "--dev", dev),
        *("--epochs", "1", "--soft-batch", "6", "--workers", "0", "--out", tmp_path / "s"),
    ]
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    assert "7 unlabelled documents, teachers: teacher" in ran.output
    assert f"1 × {LEAK}" in ran.output
    assert "Entities" in ran.output


@pytest.mark.slow
def test_ctrl_c_ends_distill_with_status_130(teacher, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("unire.cli.distill.new_callbacks", lambda json, tensorboard: [InterruptAfter(1)])
    arguments = [
        *("distill", "--teacher", teacher, "--student", encoder, "--corpus", TWENTY, "--data", TWENTY),
        *("--epochs", "3", "--workers", "1", "--json", "--out", tmp_path / "s"),
    ]
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == 130
    printed = json.loads(ran.stdout)
    assert printed["interrupted"]
    assert printed["encoder_weights"] == digest_weights(
        load_encoder(encoder)[0]
    )  # which encoder it was, by name or not


def test_several_processes_cannot_share_a_clock(teacher, encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnireError, match="one process, but 2 were started; give epochs"):
        taught([teacher], encoder, tmp_path / "s", distillation=DistillConfig(minutes=1.0))


# As any training


@pytest.mark.slow
def test_ctrl_c_leaves_a_model_and_a_state_to_resume(teacher, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_DOCUMENTS", 3)
    config = quick(epochs=6, mlp_dropout=0.2)
    straight = taught([teacher], encoder, tmp_path / "straight", config=config)
    out = tmp_path / "stopped"
    stopped = taught([teacher], encoder, out, config=config, callbacks=[InterruptAfter(2)])
    assert stopped.interrupted
    assert Extractor.load(out, device="cpu").config.provenance["distillation"]["sentences"] > 0
    other = DistillConfig(soft_batch=10, soft_weight=2.0)
    with pytest.raises(UnireError, match="another soft weight"):
        taught([teacher], encoder, out, config=config, distillation=other, resume=True)
    resumed = taught([teacher], encoder, out, config=config, resume=True)
    assert resumed.history == straight.history
    assert resumed.notes == straight.notes
    for a, b in zip(resumed.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(a, b)
    read = [t.model.config.provenance["distillation"]["sentences"] for t in (resumed, straight)]
    assert read[0] == read[1]


@pytest.mark.slow
def test_a_killed_distillation_resumes_and_ends_with_the_same_numbers(teacher, encoder, tmp_path):
    """By the command, with a process that makes chunks ahead, as without either."""
    words = (
        *("distill", "--teacher", teacher, "--student", encoder, "--corpus", TWENTY, "--data", TWENTY, "--epochs", 8),
        *(
            "--save-every-minutes",
            0,
            "--batch-size",
            8,
            "--soft-batch",
            6,
            "--lr",
            0.002,
            "--window",
            40,
            "--preset",
            "best",
        ),
    )
    out, checkpoints = tmp_path / "killed", tmp_path / "killed.resume"
    process = subprocess.Popen(command(*words, "--out", out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while max(checkpoints.glob("step-*[0-9]"), default=Path("step-0")).name < "step-000000005":
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = result(*words, "--out", out, "--resume")
    straight = taught(
        [teacher],
        encoder,
        tmp_path / "straight",
        documents=list(formats.read(TWENTY)),
        config=TrainingConfig.from_preset("best", lr=0.002, window=40, epochs=8, batch_size=8),
        distillation=DistillConfig(soft_batch=6),
    )
    assert found["history"] == straight.history
    assert found["distillation"] == straight.model.config.provenance["distillation"]
    assert not checkpoints.exists()


FULL_QUEUE = """
import itertools, os, signal
from torch.utils.data import DataLoader
from unire.training.distillation.batches import _start_worker
class Large:
    def __getitem__(self, number):
        return bytes(2**20)
options = {"batch_size": None, "num_workers": 2, "worker_init_fn": _start_worker}
loader = iter(DataLoader(Large(), sampler=itertools.count(), **options))
next(loader)
print(*(worker.pid for worker in loader._workers), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_alive(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL here")
def test_workers_end_with_a_killed_process_even_if_their_queue_is_full():
    killed = subprocess.Popen([sys.executable, "-c", FULL_QUEUE], stdout=subprocess.PIPE, text=True)
    numbers = [int(number) for number in killed.stdout.readline().split()]
    assert killed.wait(60) == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while alive := [number for number in numbers if is_alive(number)]:
        if time.monotonic() > deadline:
            for number in alive:
                psutil.Process(number).kill()
            pytest.fail(f"{len(alive)} workers are alive")
        time.sleep(0.1)


@pytest.mark.slow
def test_timed_distillation_ends_with_an_evaluated_epoch_and_a_low_rate(teacher, encoder, twenty, tmp_path):
    soft = DistillConfig(soft_batch=10, minutes=0.02)
    config = quick(epochs=10_000, evaluate_after=9_999)
    trained = taught([teacher], encoder, tmp_path / "s", config=config, distillation=soft, dev=GOLD)
    assert 1 <= len(trained.history) < 10_000
    assert "dev" in trained.history[-1]  # the last epoch is looked at, whenever it comes
    assert trained.dev is not None


def test_time_before_an_interruption_counts_after_resume(teacher, encoder, twenty, tmp_path, monkeypatch):
    """Two minutes, with twenty seconds for loading the teachers and ten for every step."""
    now = [1000.0]
    monkeypatch.setattr(optimizer, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def load(teachers):
        now[0] += 20
        return load_teachers(teachers)

    monkeypatch.setattr("unire.training.distillation.distill.load_teachers", load)

    class Slow(Callback):
        steps = 0

        def on_step_end(self, state):
            now[0] += 10
            Slow.steps += 1
            if Slow.steps == 4:
                signal.raise_signal(signal.SIGINT)

    how = {"documents": twenty, "config": quick(epochs=1000, batch_size=2)}
    how |= {"distillation": DistillConfig(soft_batch=10, minutes=2), "callbacks": [Slow()]}
    stopped = taught([teacher], encoder, tmp_path / "s", **how)
    assert (stopped.interrupted, stopped.history) == (True, [])
    assert stopped.model.config.provenance["seconds"] == 20 + 4 * 10
    resumed = taught([teacher], encoder, tmp_path / "s", **how, resume=True)
    assert len(resumed.history) == 1  # the time ends in the first epoch
    assert resumed.model.config.provenance["seconds"] == 2 * 20 + Slow.steps * 10
