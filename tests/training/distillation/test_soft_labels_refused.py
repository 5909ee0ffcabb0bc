"""Incomplete, damaged or unsuitable soft labels are refused, and none are left half written."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path

import numpy as np
import pytest

from helpers.distillation import taught
from helpers.paths import TWENTY
from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.training.callbacks import SIGNALS, Callback
from unire.training.distillation import soft_labels as storage
from unire.training.distillation import teach as teaching
from unire.training.distillation.distill import distill
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teach import teach


@pytest.mark.slow
def test_soft_labels_of_other_labels_are_refused(soft_labels, encoder, tmp_path):
    labels = LabelSpace.load("conll04")
    with pytest.raises(UnireError, match=r"soft labels 'twenty\.soft' and student do not have the same entity types"):
        taught([], encoder, tmp_path / "s", soft_labels=soft_labels, labels=labels)
    with pytest.raises(UnireError, match="teacher 'news' and teacher 'science' do not have the same entity types"):
        teach(["science", "news"], [TWENTY], tmp_path / "l", device="cpu")


def test_soft_labels_and_teachers_are_not_given_together_and_one_of_them_is(soft_labels, encoder, teacher, tmp_path):
    student = {"student": encoder, "documents": [], "out": tmp_path / "s"}
    with pytest.raises(UnireError, match="one or the other"):
        distill(**student, soft_labels=soft_labels, teachers=[teacher])
    with pytest.raises(UnireError, match="one or the other"):
        distill(**student, soft_labels=soft_labels, corpus=[TWENTY])
    with pytest.raises(UnireError, match="no teacher; give trained models and a corpus, or stored soft labels"):
        distill(**student)
    with pytest.raises(UnireError, match="no unlabelled corpus"):
        distill(**student, teachers=[teacher])


def test_a_folder_that_holds_no_soft_labels_is_refused(encoder, teacher, tmp_path):
    for folder in (tmp_path / "nowhere", teacher, TWENTY):
        with pytest.raises(UnireError, match=r"there are no soft labels in .*; create them with unire teach"):
            SoftLabelStore(folder)


@pytest.mark.parametrize("name", ["documents.jsonl", "examples.jsonl", "index.npy", "tables.bin"])
def test_soft_labels_that_are_not_whole_are_refused(copied, name):
    (copied / name).write_bytes((copied / name).read_bytes()[:-1])
    with pytest.raises(UnireError, match=rf"are incomplete: {name} has [\d,]+ bytes; create the soft labels again"):
        SoftLabelStore(copied)
    (copied / name).unlink()
    with pytest.raises(UnireError, match=f"are incomplete: {name} has 0 bytes"):
        SoftLabelStore(copied)


def change(folder: Path, **facts: object) -> None:
    file = folder / "lessons.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | facts), encoding="utf-8")


def test_soft_labels_of_another_version_or_with_invalid_metadata_are_refused(copied):
    change(copied, labels={"entity_types": ["A"]})
    with pytest.raises(UnireError, match=r"damaged \(index\.npy does not fit"):
        SoftLabelStore(copied)
    change(copied, labels=None)
    with pytest.raises(UnireError, match="label space"):
        SoftLabelStore(copied)
    change(copied, version=2)
    with pytest.raises(UnireError, match="have version 2, not 1; create the soft labels again"):
        SoftLabelStore(copied)
    for broken in ("[1]", "{", "{}"):
        (copied / "lessons.json").write_text(broken, encoding="utf-8")
        with pytest.raises(UnireError, match=r"lessons\.json' cannot be read"):
            SoftLabelStore(copied)


@pytest.mark.parametrize("place", [(0, 3), (3, 0), (5, 2), (19, 1)])
def test_an_index_that_points_elsewhere_is_refused(copied, place):
    rows = np.load(copied / "index.npy")
    rows[place] += 10**6
    np.save(copied / "index.npy", rows)
    with pytest.raises(UnireError, match=r"damaged \(index\.npy does not fit"):
        SoftLabelStore(copied)


def test_an_index_that_would_have_to_be_run_is_refused(copied):
    np.save(copied / "index.npy", np.array([print] * 4, object), allow_pickle=True)
    change(copied, bytes={file.name: file.stat().st_size for file in copied.iterdir()})
    with pytest.raises(UnireError, match="damaged"):
        SoftLabelStore(copied)


def test_an_existing_folder_is_not_overwritten(soft_labels, teacher, tmp_path):
    for there, what in ((soft_labels, "already exists and holds .*"), (TWENTY, "is a file")):
        with pytest.raises(UnireError, match=f"{what}; pass a new folder"):
            teach([teacher], [TWENTY], there, device="cpu")
    assert teach([teacher], [TWENTY], tmp_path, device="cpu").documents  # there was nothing in it


def test_a_corpus_without_words_is_refused(teacher, tmp_path):
    wordless = tmp_path / "wordless.jsonl"
    formats.write([Document.from_words([[]])], wordless)
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    for corpus, what in ((wordless, "has words"), (tmp_path / "empty.txt", "no text"), (tmp_path / "no", "no corpus")):
        with pytest.raises(UnireError, match=what):
            teach([teacher], [corpus], tmp_path / "soft_labels", device="cpu")
    with pytest.raises(UnireError, match="no teacher"):
        teach([], [TWENTY], tmp_path / "soft_labels", device="cpu")
    assert {file.name for file in tmp_path.iterdir()} == {"wordless.jsonl", "empty.txt"}


@pytest.mark.parametrize("number", SIGNALS)
def test_a_failed_or_stopped_run_leaves_no_output(teacher, tmp_path, monkeypatch, number):
    monkeypatch.setattr(teaching, "CHUNK_CHARACTERS", 300)

    class Interrupting(Callback):
        def on_documents_labelled(self, done, total):
            assert (0 < done < total) == (total == 7)
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt, match=str(int(number))):
        teach([teacher], [TWENTY], tmp_path / "soft_labels", device="cpu", callbacks=[Interrupting()])
    assert not list(tmp_path.iterdir())

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.np, "save", full)
    with pytest.raises(UnireError, match=r"cannot be written to .*: No space left on device"):
        teach([teacher], [TWENTY], tmp_path / "soft_labels", device="cpu")
    assert not list(tmp_path.iterdir())


def test_teaching_says_that_it_runs_in_one_process(teacher, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnireError, match="teaching runs in one process, but 2 were started"):
        teach([teacher], [TWENTY], tmp_path / "soft_labels")
