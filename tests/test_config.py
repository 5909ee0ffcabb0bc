"""config.json: what a damaged one is answered with, and that an older one is still read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from unire.calibration import Calibration, CalibrationCurve
from unire.config import EncoderSpec, HeadConfig, ModelConfig, check_alpha
from unire.errors import UnireError, fits
from unire.models.encoder import build_encoder

SPEC = EncoderSpec((1,), (2,), (2,), pad_id=0, unk_id=3, max_pieces=128, token_types=True, prefix_space=False)


def written(**changes: object) -> dict[str, Any]:
    return ModelConfig(SPEC, {"model_type": "bert"}).to_dict() | changes


def test_settings_come_back_as_they_were_written():
    settings = ModelConfig(SPEC, {"model_type": "bert"}, HeadConfig(20, 0.1), "shared", 0, 64, "hard", 1)
    settings = settings.with_(signatures=(("Peop", "Work_For", "Org"),), constraints=True, provenance={"seed": 3})
    settings = settings.with_(calibration=Calibration(CalibrationCurve(0.25, -1.5), CalibrationCurve(2, 0.5)))
    assert ModelConfig.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_unknown_settings_of_another_version_are_ignored():
    head = {"d": 20, "mlp_dropout": 0.1, "logit_dropout": 0.2}
    assert ModelConfig.from_dict(written(head=head, future=1)).head == HeadConfig(20, 0.1)


def test_an_older_model_is_not_calibrated_and_keeps_to_signatures_where_it_has_any():
    older = {key: value for key, value in written().items() if key not in ("calibration", "constraints")}
    assert ModelConfig.from_dict(older).calibration == Calibration()
    assert not ModelConfig.from_dict(older).constraints
    assert ModelConfig.from_dict({**older, "signatures": [["Peop", "Work_For", "Org"]]}).constraints


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": "x"}, "format_version"),
        ({"format_version": None}, "format_version"),
        ({"encoder": None}, "encoder is not an object"),
        ({"head": None}, "head is not an object"),
        ({"spec": []}, "spec is not an object"),
        ({"spec": {**SPEC.to_dict(), "max_pieces": "x"}}, "max_pieces must be a whole number, not 'x'"),
        ({"spec": {**SPEC.to_dict(), "prefix": 1}}, "description of an encoder"),
        ({"alpha": "x"}, "alpha must be a number, not 'x'"),
        ({"alpha": None}, "alpha must be a number, not None"),
        ({"alpha": 0}, "alpha must be above 0, not 0"),
        ({"window": "a"}, "window must be a whole number, not 'a'"),
        ({"layout": "sideways"}, "layout must be one of in-place, released, shared, not 'sideways'"),
        ({"decoder": 1}, "decoder must be a text, not 1"),
        ({"provenance": "x"}, "provenance must be an object, not 'x'"),
        ({"head": {"d": "x"}}, "head setting d must be a whole number, not 'x'"),
        ({"head": {"d": 0}}, "head setting d must be 1 or more and at most 4096, not 0"),
        ({"head": {"mlp_dropout": 1}}, "mlp_dropout must be 0 or more and below 1, not 1"),
        ({"signatures": 3}, "signatures is not a list of lists"),
        ({"signatures": ["abc"]}, "signatures is not a list of lists"),
        ({"signatures": [["Method", "USED-FOR"]]}, "signatures must be a list, each part a list of 3, not"),
        ({"constraints": "on"}, "constraints must be true or false, not 'on'"),
        ({"calibration": []}, "calibration is not an object"),
        ({"calibration": {"entities": 1}}, "calibration of entities is not an object"),
        ({"calibration": {"entities": {"slope": -1}}}, "slope must be above 0, not -1"),
        ({"calibration": {"relations": {"slope": "x"}}}, "calibration setting slope must be a number, not 'x'"),
    ],
)
def test_an_invalid_value_gets_one_sentence_with_the_name_of_the_folder(changes, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(written(**changes)))
    with pytest.raises(UnireError, match=f"model folder '.*' cannot be used: .*{message}") as caught:
        ModelConfig.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "hidden_size": -32, "num_attention_heads": 2},
        {"model_type": "bert", "hidden_size": "x"},
        {"model_type": "bert", "num_attention_heads": 0},
        {"model_type": None},
        {1: 2},
        {},
    ],
)
def test_an_encoder_that_cannot_be_built_gets_one_sentence(config):
    with pytest.raises(UnireError, match="not one that transformers knows") as caught:
        build_encoder(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf")])
def test_a_threshold_that_cannot_cut_is_refused(alpha):
    with pytest.raises(UnireError, match="alpha"):
        check_alpha(alpha)
    with pytest.raises(UnireError, match="alpha"):
        ModelConfig(SPEC, {}).with_(alpha=alpha)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (int, (0, -3), (1.0, True, "1", None)),
        (float, (0, 0.5), (True, "1", None)),
        (bool, (True, False), (0, 1, None)),
        (str, ("", "a"), (1, None)),
        (float | None, (None, 1, 1.5), ("x", False)),
        (Literal["a", "b"], ("a", "b"), ("c", None, ["a"])),
        (tuple[int, ...], ((), (1, 2)), ([1], (1, "2"), 1)),
        (tuple[int, str], ((1, "2"),), ((), (1,), ("1", "2"), (1, "2", "3"))),
        (tuple[tuple[int, int], ...], ((), ((1, 2), (3, 4))), (((1, 2), (3,)), (1, 2))),
        (Mapping[str, Any], ({}, {"a": 1}), (None, [], "a")),
    ],
)
def test_values_fit_their_own_kind_and_no_other(kind, right, wrong):
    assert all(fits(value, kind) for value in right)
    assert not any(fits(value, kind) for value in wrong)
