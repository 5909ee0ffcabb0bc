"""A new head starts from what a trained model knows of labels that the user maps to its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unire.errors import UnireError
from unire.labels import LabelSpace
from unire.models.unire import UniRE
from unire.training.config import TrainingConfig
from unire.training.train import adopt_labels, init_model

CONFIG = TrainingConfig(d=12)


@pytest.fixture(scope="module")
def known(encoder, tmp_path_factory):
    model = init_model(str(encoder), LabelSpace(("Loc", "Peop", "Same"), ("Lives", "Loc")), CONFIG)
    torch.nn.init.normal_(model.biaffine.U)
    folder = tmp_path_factory.mktemp("known") / "model"
    model.save_pretrained(folder)
    return folder


def adopt(known, labels, label_map, config=CONFIG):
    model = init_model(str(known), labels, config)
    adopt_labels(model, known, label_map)
    return model, UniRE.from_pretrained(known)


def test_mapped_labels_and_those_of_the_same_name_start_from_the_known_ones(known):
    new = LabelSpace(("Place", "New", "Same"), ("At",))
    model, source = adopt(known, new, {"Place": "Loc", "At": "Lives"})
    mine, theirs = model.biaffine.U, source.biaffine.U
    at, lives = new.relation_id("At"), source.labels.relation_id("Lives")
    for number, other in ((0, 0), (1, 1), (3, 3), (at, lives)):  # ⊥, Place, Same, At
        assert torch.equal(mine[number], theirs[other])
    assert not mine[new.entity_id("New")].any()
    assert torch.equal(model.head_mlp.linear.weight, source.head_mlp.linear.weight)
    assert torch.equal(model.tail_mlp.norm.weight, source.tail_mlp.norm.weight)


def test_a_name_of_both_kinds_is_mapped_within_its_kind(known):
    model, source = adopt(known, LabelSpace(("A",), ("B",)), {"A": "Loc", "B": "Loc"})
    assert torch.equal(model.biaffine.U[1], source.biaffine.U[source.labels.entity_id("Loc")])
    assert torch.equal(model.biaffine.U[2], source.biaffine.U[source.labels.relation_id("Loc")])


def test_an_unknown_label_or_another_size_is_refused(known):
    labels = LabelSpace(("Place",))
    for label_map, config, message in (
        ({"Plaice": "Loc"}, CONFIG, "names 'Plaice', but the labels are Place"),
        ({"Place": "Lok"}, CONFIG, "names 'Lok', but .* has Loc, Peop"),
        ({"Place": "Lives"}, CONFIG, "joins 'Place' and 'Lives': an entity and a relation type"),
        ({"Place": "Loc"}, replace(CONFIG, d=13), "needs d = 12"),
    ):
        with pytest.raises(UnireError, match=message):
            adopt(known, labels, label_map, config)


def test_a_label_map_needs_a_trained_model(encoder):
    model = init_model(str(encoder), LabelSpace(("Place",)), CONFIG)
    with pytest.raises(UnireError, match="label map needs a trained model"):
        adopt_labels(model, encoder, {"Place": "Loc"})
