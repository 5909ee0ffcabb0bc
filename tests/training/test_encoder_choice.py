"""Without an encoder, training starts from the bundled model whose vectors suit the data best."""

from __future__ import annotations

import pytest

from unire.documents import Document
from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.training import encoder_choice
from unire.training.config import TrainingConfig
from unire.training.encoder_choice import choose_encoder
from unire.training.train import init_model, train


@pytest.fixture
def models(scierc_labels, encoder, tmp_path):
    """Two models of random weights; the vectors of one are all but zero."""
    paths = []
    for name, scale in (("blind", 0.0), ("seeing", 1.0)):
        model = init_model(str(encoder), scierc_labels, TrainingConfig())
        for parameter in model.encoder.parameters():
            parameter.data *= scale
        model.save_pretrained(tmp_path / name)
        paths.append(str(tmp_path / name))
    return paths


def test_the_model_whose_vectors_tell_types_apart_is_chosen(twenty, models):
    choice = choose_encoder(twenty, twenty[:4], models)
    blind, seeing = models
    assert choice.name == seeing
    assert choice.f1[seeing] > choice.f1[blind]
    assert choose_encoder(twenty, (), models).name == seeing
    assert choose_encoder(twenty[:1], (), models).f1.keys() == set(models)


def test_the_word_of_a_nested_entity_has_the_type_of_the_inner_one():
    inner, outer = (3, 4, "Loc"), (1, 4, "Org")
    for entities in ([inner, outer], [outer, inner]):
        document = Document.from_words([["the", "Bank", "of", "America"], ["closed"]], entities)
        labels = LabelSpace(("Loc", "Org"))
        assert encoder_choice._word_labels(document, labels).tolist() == [0, 2, 2, 1, 0]


def test_a_training_without_an_encoder_records_the_choice(few, scierc_labels, models, tmp_path, monkeypatch):
    monkeypatch.setattr(encoder_choice.pretrained, "names", lambda: tuple(models))
    config = TrainingConfig(epochs=1, d=8, decoder="split")
    result = train(None, few, labels=scierc_labels, config=config, out=tmp_path / "out")
    provenance = result.model.config.provenance
    assert provenance["encoder"] == "seeing"
    assert set(provenance["encoder_choice"]) == set(models)


def test_a_kept_head_and_a_label_map_need_the_name_of_a_model(few, tmp_path):
    for options in ({"config": TrainingConfig(keep_head=True)}, {"label_map": {"Task": "Task"}}):
        with pytest.raises(UnireError, match="give an encoder"):
            train(None, few, out=tmp_path / "out", **options)
    for documents, names, message in ((few, [], "no bundled model"), ([], ["x"], "holds no words")):
        with pytest.raises(UnireError, match=message):
            choose_encoder(documents, (), names)
