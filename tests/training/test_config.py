"""Training settings: impossible values are refused in one sentence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from unire.documents import Document
from unire.errors import UnireError
from unire.training import trainer
from unire.training.config import TrainingConfig
from unire.training.optimizer import build_optimizer
from unire.training.train import init_model, limit_dev
from unire.training.trainer import use_bf16


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "lr": (0, -1e-5, math.inf, math.nan),
        "head_lr": (0, -1.0, math.inf, math.nan),
        "layer_decay": (0, 1.1, math.nan),
        "beta1": (-0.1, 1, 1.5, math.nan),
        "beta2": (-0.1, 1, 1.5, math.nan),
        "eps": (-1, 0, math.inf, math.nan),
        "weight_decay": (-1, math.inf, math.nan),
        "clip": (0, math.inf, math.nan),
        "warmup": (-0.1, 1, math.nan),
        "mlp_dropout": (-0.1, 1, math.nan),
        "logit_dropout": (-0.1, 1, math.nan),
        "alpha": (0, -1.4, math.inf, math.nan),
        "seed": (-1, 99_999_999_999),
        "epochs": (0,),
        "batch_size": (0,),
        "d": (0,),
        "window": (-1,),
        "max_table": (0,),
        "max_cells": (0,),
        "max_pieces": (0,),
        "evaluate_after": (-1,),
        "evaluate_every": (0,),
        "patience": (0,),
    }.items(),
)
def test_a_number_out_of_range_is_refused_by_name(name, values):
    for value in values:
        with pytest.raises(UnireError, match=rf"{name} must be (above )?([01]|finite).*, not {value!r}"):
            TrainingConfig(**{name: value})


def test_a_refusal_says_what_would_be_taken():
    for wrong, wanted in (
        ({"epochs": 0}, "1 or more"),
        ({"lr": 0.0}, "above 0"),
        ({"lr": math.inf}, "finite"),
        ({"warmup": 1}, "0 or more and below 1"),
        ({"layer_decay": 1.5}, "above 0 and at most 1"),
    ):
        with pytest.raises(UnireError, match=f"must be {wanted}, not "):
            TrainingConfig(**wrong)


def test_numbers_at_the_edge_of_their_range_are_taken():
    edge = {"beta1": 0, "beta2": 0.0, "weight_decay": 0, "warmup": 0, "seed": 2**32 - 1, "evaluate_after": 0}
    assert TrainingConfig(**edge).seed == 2**32 - 1


@pytest.mark.parametrize(
    "wrong", [{"lr": "5e-5"}, {"epochs": 1.5}, {"epochs": True}, {"symmetry": 1}, {"seed": None}, {"preset": 3}]
)
def test_a_value_of_the_wrong_kind_is_refused_however_it_is_given(wrong):
    with pytest.raises(UnireError, match=r" must be (a|one|true)"):
        TrainingConfig(**wrong)


def test_a_value_of_the_wrong_kind_is_answered_with_the_right_one():
    for wrong, wanted in (
        ({"epochs": "ten"}, "a whole number"),
        ({"lr": "fast"}, "a number"),
        ({"head_lr": "fast"}, "a number or null"),
        ({"symmetry": "True"}, "true or false"),
        ({"bf16": 1}, "true or false or 'auto' or null"),
        ({"preset": 3}, "a text"),
        ({"implication": "min"}, "one of max, sum, none"),
    ):
        with pytest.raises(UnireError, match=f"must be {wanted}, not "):
            TrainingConfig(**wrong)


def test_a_preset_is_not_a_setting():
    with pytest.raises(UnireError, match="preset="):
        TrainingConfig.from_preset("paper", preset="released")


@pytest.mark.parametrize(("head_lr", "expected"), [(None, 1e-3), (1e-2, 1e-2)])
def test_the_head_learns_at_its_own_rate_or_the_encoders(head_lr, expected, encoder, scierc_labels):
    config = TrainingConfig(lr=1e-3, head_lr=head_lr)
    model = init_model(str(encoder), scierc_labels, config)
    rates = {id(p): group["lr"] for group in build_optimizer(model, config).param_groups for p in group["params"]}
    assert rates[id(model.biaffine.U)] == expected


def test_the_default_preset_is_that_of_the_machine(monkeypatch):
    for has_gpu, preset in ((True, "best"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert TrainingConfig.from_preset(epochs=3) == TrainingConfig.from_preset(preset, epochs=3)
        assert TrainingConfig.from_preset("paper").preset == "paper"


def test_bf16_is_used_on_a_cpu_that_has_it_only_if_asked(monkeypatch):
    cpu, config = torch.device("cpu"), TrainingConfig()
    for has_bf16 in (True, False):
        monkeypatch.setattr(trainer, "has_bf16", lambda kind, has_bf16=has_bf16: has_bf16)
        assert use_bf16(replace(config, bf16="auto"), cpu) is has_bf16
        assert not any(use_bf16(replace(config, bf16=off), cpu) for off in (None, False))
    with pytest.raises(UnireError, match="needs a GPU or a CPU that supports bf16"):
        use_bf16(replace(config, bf16=True), cpu)


def test_a_time_limit_uses_a_random_part_of_a_large_dev_set():
    dev = [Document.from_words([["a"]] * 4, id=str(number)) for number in range(10)]
    part, n_omitted = limit_dev(dev, 9, seed=0)
    assert (len(part), n_omitted) == (3, 28)
    assert [document.id for document in part] == sorted(document.id for document in part)
    assert limit_dev(dev, 9, seed=1)[0] != part == limit_dev(dev, 9, seed=0)[0]
    assert limit_dev(dev, 40, seed=0) == (dev, 0)
    assert limit_dev([], 40, seed=0) == ([], 0)
