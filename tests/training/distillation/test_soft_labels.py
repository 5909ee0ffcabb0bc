"""Stored soft labels equal what the teachers would compute, for every student."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from helpers.distillation import quick, steps_of, taught
from helpers.interrupts import InterruptAfter
from helpers.paths import TWENTY
from helpers.teachers import turned
from unire.cli.main import app
from unire.config import ModelConfig
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.models.cuda_graphs import GraphRunner
from unire.models.unire import UniRE
from unire.training.callbacks import SIGNALS
from unire.training.distillation import teach as teaching
from unire.training.distillation.batches import LEAK, DistillationBatches
from unire.training.distillation.batches import SPLIT_DIFFERENTLY as SPLIT_BY_STUDENT
from unire.training.distillation.distill import DistillConfig
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teach import SPLIT_DIFFERENTLY, teach
from unire.training.distillation.teachers import SoftLabelProvider, TeacherEnsemble, load_teachers
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.training.train import init_model, train


def asked(*teachers: Path, corpus: Path = TWENTY) -> TeacherEnsemble:
    return TeacherEnsemble(load_teachers(teachers), UnlabelledCorpus.read([corpus]), [corpus.name])


def targets(provider: SoftLabelProvider, student: UniRE, steps: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a student is given of every sentence of its first steps, and what it is to find there.

    Every provider gets the same sentences in the same order.
    """
    beside = GraphRunner(lambda tensors: tensors["x"], torch.device("cpu"), capture=False)
    own = Extractor(None, student.tokenizer, student.config, student.labels).window_builder  # type: ignore[arg-type]
    window_builders = [own, *provider.start(student, beside, bf16=False)]
    options = {"overlap_filter": OverlapFilter(()), "size": 8, "config": quick(max_pieces=200), "index": provider.index}
    return [
        tuple(table_of[row, : len(table), : len(table)] for table_of in (target, provider.distribution(target)))
        for step in steps_of(DistillationBatches(provider.texts, window_builders, **options), steps)
        for batch, target in zip(step.views[0], provider.targets(step)(), strict=True)
        for row, table in enumerate(batch.table_spans)
    ]


# What is in them


@pytest.mark.parametrize("several", [False, True])
def test_soft_labels_hold_what_the_teachers_would_say(teacher, other, encoder, scierc_labels, several, tmp_path):
    """To half of 1/255, also for a student of another order of labels, however the text is cut into chunks."""
    teachers = [teacher, other] if several else [teacher]
    for labels in (scierc_labels, turned(scierc_labels)):
        student = init_model(str(encoder), labels, quick())
        expected = targets(asked(*teachers), student)
        out = tmp_path / f"soft-{labels.entity_types[0]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(teaching, "CHUNK_CHARACTERS", 300)
            teach(teachers, [TWENTY], out, device="cpu")
        found = targets(SoftLabelStore(out), student)
        assert len(found) == len(expected) >= 20
        for (stored, read), (_, exact) in zip(found, expected, strict=True):
            assert stored.dtype == torch.uint8
            if labels == scierc_labels:
                torch.testing.assert_close(stored / 255, exact, atol=0.5001 / 255, rtol=0)
            torch.testing.assert_close(read, exact, atol=2 / 255, rtol=0)
            torch.testing.assert_close(read.sum(-1), torch.ones(read.shape[:2]))


def test_soft_labels_record_teachers_corpus_and_decoder(soft_labels, teacher, other, twenty, scierc_labels):
    read = SoftLabelStore(soft_labels)
    assert read.labels == scierc_labels
    assert [about["name"] for about in read.teachers] == ["teacher", "other"]
    assert read.corpus == ["twenty.jsonl"]
    assert (read.decoder, read.alpha) == ("split", round((ModelConfig.load(teacher).alpha + 1.0) / 2, 3))
    assert [document.words for document in read.texts] == [document.words for document in twenty]
    assert not any(document.entities for document in read.texts)
    size = (soft_labels / "tables.bin").stat().st_size
    cells = sum(len(sentence) ** 2 for document in twenty for sentence in document.sentences)
    assert size == cells * len(scierc_labels)


def test_the_examples_of_soft_labels_are_what_each_teacher_finds(soft_labels, teacher, other):
    def key(document: Document) -> tuple[object, ...]:
        return document.words, [(e.span, e.label) for e in document.entities], len(document.relations)

    providers = SoftLabelStore(soft_labels), asked(teacher, other)
    beside = GraphRunner(lambda tensors: tensors["x"], torch.device("cpu"), capture=False)
    providers[1].start(UniRE.from_pretrained(teacher), beside, bf16=False)
    found, expected = ([key(d) for d in provider.examples(OverlapFilter(()))()] for provider in providers)
    assert found == expected
    assert len(found) == 14
    first = next(iter(UnlabelledCorpus.read([TWENTY])))
    assert len(SoftLabelStore(soft_labels).examples(OverlapFilter([first.text]))()) == 12


def test_a_sentence_that_teachers_split_otherwise_is_left_out_and_counted(teacher, encoder, twenty, tmp_path):
    narrow = tmp_path / "narrow"
    config = quick(epochs=1, max_table=6)
    train(encoder, twenty, labels=LabelSpace.load("scierc"), config=config, out=narrow)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one two three four five six seven eight . A short one .\n", encoding="utf-8")
    arguments = (
        "teach",
        "--teacher",
        teacher,
        "--teacher",
        narrow,
        "--corpus",
        corpus,
        "--out",
        tmp_path / "soft_labels",
    )
    ran = run(*arguments, "--device", "cpu", "--json")
    written = json.loads(ran.stdout)
    assert written["notes"] == {SPLIT_DIFFERENTLY: 1}
    assert (written["tables"], written["words"]) == (1, 4)
    trained = taught(
        [], encoder, tmp_path / "s", soft_labels=tmp_path / "soft_labels"
    )  # whose sentence of nine words is whole
    assert trained.notes[SPLIT_BY_STUDENT] == 1
    assert trained.model.config.provenance["distillation"]["sentences"] == 3


def test_raw_text_is_stored_with_its_characters(teacher, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("It can't parse.  Really?\n\n(One\u2028line.)\nThe end\n", encoding="utf-8")
    teach([teacher], [corpus], tmp_path / "l", documents=2, device="cpu")
    assert list(SoftLabelStore(tmp_path / "l").texts) == list(UnlabelledCorpus.read([corpus], 2))
    assert [len(SoftLabelStore(tmp_path / "l", limit).texts) for limit in (None, 1)] == [2, 1]


# Learning from them


def test_a_student_of_soft_labels_learns_what_a_student_of_the_teachers_does(
    soft_labels, teacher, other, encoder, tmp_path
):
    config = quick(epochs=4, mlp_dropout=0.2)
    by_teachers = taught([teacher, other], encoder, tmp_path / "a", config=config)
    by_soft_labels = taught([], encoder, tmp_path / "b", config=config, soft_labels=soft_labels)
    for one, two in zip(by_teachers.history, by_soft_labels.history, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=0.02)
    assert by_soft_labels.history != by_teachers.history  # bytes are not the very numbers
    assert by_soft_labels.notes == by_teachers.notes
    made = [trained.model.config.provenance["distillation"] for trained in (by_teachers, by_soft_labels)]
    assert made[0] == made[1]
    assert "teacher (bert), other (roberta)" in (tmp_path / "b" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_resumed_training_on_soft_labels_equals_an_uninterrupted_one(soft_labels, encoder, teacher, tmp_path):
    config = quick(epochs=6, mlp_dropout=0.2)
    straight = taught([], encoder, tmp_path / "straight", config=config, soft_labels=soft_labels)
    out = tmp_path / "stopped"
    assert taught([], encoder, out, config=config, soft_labels=soft_labels, callbacks=[InterruptAfter(2)]).interrupted
    with pytest.raises(UnireError, match="started with another"):
        taught([teacher], encoder, out, config=config, resume=True)
    elsewhere = shutil.copytree(soft_labels, tmp_path / "elsewhere")
    resumed = taught([], encoder, out, config=config, soft_labels=elsewhere, resume=True, workers=1)
    assert resumed.history == straight.history
    for a, b in zip(resumed.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_resuming_with_other_soft_labels_of_the_same_name_is_refused(soft_labels, teacher, encoder, tmp_path):
    others = tmp_path / soft_labels.name
    teach([teacher], [TWENTY], others, device="cpu")
    facts = json.loads((others / "lessons.json").read_text(encoding="utf-8"))
    original = json.loads((soft_labels / "lessons.json").read_text(encoding="utf-8"))
    (others / "lessons.json").write_text(json.dumps(facts | {"teachers": original["teachers"]}), encoding="utf-8")
    config = quick(epochs=3)
    assert taught(
        [], encoder, tmp_path / "s", config=config, soft_labels=soft_labels, callbacks=[InterruptAfter(1)]
    ).interrupted
    with pytest.raises(UnireError, match="started with another soft labels"):
        taught([], encoder, tmp_path / "s", config=config, soft_labels=others, resume=True)


@pytest.mark.slow
def test_several_students_share_soft_labels_and_leave_them_as_they_are(soft_labels, encoder, student_encoder, tmp_path):
    before = {file.name: file.read_bytes() for file in soft_labels.iterdir()}
    for number, student in enumerate((encoder, student_encoder)):
        config = quick(epochs=20, seed=number)
        trained = taught([], student, tmp_path / str(number), config=config, soft_labels=soft_labels)
        assert trained.history[-1]["loss"]["distillation"] < trained.history[0]["loss"]["distillation"]
    assert {file.name: file.read_bytes() for file in soft_labels.iterdir()} == before


def test_text_of_dev_and_test_is_not_learnt_from_soft_labels(soft_labels, encoder, twenty, tmp_path):
    trained = taught([], encoder, tmp_path / "s", soft_labels=soft_labels, dev=twenty[:2], test=twenty[2:3])
    assert trained.notes[LEAK] == 3
    with pytest.raises(UnireError, match="no document of the corpus"):
        taught([], encoder, tmp_path / "t", soft_labels=soft_labels, dev=twenty)


def test_the_number_of_soft_label_documents_can_be_limited(soft_labels, encoder, twenty, tmp_path):
    soft = DistillConfig(soft_batch=100, documents=2)
    made = taught([], encoder, tmp_path / "s", soft_labels=soft_labels, distillation=soft).model.config.provenance
    assert made["distillation"]["sentences"] == 3 * sum(len(document.sentences) for document in twenty[:2])


# By command


def run(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_commands_teach_and_learn(teacher, encoder, tmp_path):
    ran = run("teach", "--teacher", teacher, "--corpus", TWENTY, "--out", tmp_path / "l", "--documents", 5)
    assert ran.exit_code == 0, ran.output
    assert re.search(
        rf"of 5 documents in \d+ s; soft labels of 0\.0 MB in {re.escape(str(tmp_path / 'l'))}", ran.output
    )
    ran = run("teach", "--teacher", teacher, "--corpus", TWENTY, "--out", tmp_path / "all", "--json")
    assert json.loads(ran.stdout) | {"seconds": 0} == {
        "out": str(tmp_path / "all"),
        "documents": 7,
        "tables": 20,
        "words": 214,
        "bytes": (tmp_path / "all" / "tables.bin").stat().st_size,
        "seconds": 0,
        "notes": {},
    }
    arguments = ("--student", encoder, "--data", TWENTY, "--epochs", 1, "--workers", 0, "--out", tmp_path / "s")
    ran = run("distill", "--soft-labels", tmp_path / "l", *arguments)
    assert ran.exit_code == 0, ran.output
    assert "5 unlabelled documents, teachers: teacher" in ran.output


@pytest.mark.parametrize("number", SIGNALS)
def test_the_command_says_that_it_was_stopped(teacher, tmp_path, monkeypatch, number):
    def interrupted(*arguments, **more):
        raise KeyboardInterrupt(number)

    monkeypatch.setattr(teaching, "teach", interrupted)
    ran = run("teach", "--teacher", teacher, "--corpus", TWENTY, "--out", tmp_path / "l")
    assert ran.exit_code == 128 + number
    assert "interrupted; nothing was saved" in ran.output
