"""Self-training: the second model learns from text that the first has labelled, and the better one is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unire.errors import UnireError
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.training import self_training
from unire.training.config import TrainingConfig
from unire.training.self_training import self_train, teacher_folder

CONFIG = TrainingConfig(epochs=1, batch_size=4, d=8, window=20, evaluate_after=0)


@pytest.fixture
def texts(twenty, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(" ".join(document.words) + "\n" for document in twenty[4:]), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("better", ["first", "second"])
def test_the_model_that_is_better_on_dev_is_kept(better, twenty, scierc_labels, encoder, texts, tmp_path, monkeypatch):
    out = tmp_path / "model"
    distill, seen = self_training.distill, {}

    def watched(student, documents, **options):
        seen.update(options)
        return distill(student, documents, **options)

    if better == "first":  # than a model that was trained for one epoch
        perfect = score(twenty[:2], twenty[:2], scierc_labels)
        monkeypatch.setattr(self_training, "_score", lambda folder, documents: perfect)
    monkeypatch.setattr(self_training, "distill", watched)
    trained = self_train(
        str(encoder), twenty[:4], unlabelled=[texts], dev=twenty[:2], labels=scierc_labels, config=CONFIG, out=out
    )
    assert seen["teachers"] == [teacher_folder(out)]
    assert seen["distillation"].soft_batch == 8
    assert not teacher_folder(out).exists()
    provenance = Extractor.load(out, device="cpu").config.provenance
    assert ("distillation" in provenance) is (better == "second")
    assert trained.model.config.provenance == provenance


def test_a_kept_head_is_refused(few, tmp_path):
    with pytest.raises(UnireError, match="starts a new head twice"):
        self_train(None, few, unlabelled=["x"], config=replace(CONFIG, keep_head=True), out=tmp_path / "out")
