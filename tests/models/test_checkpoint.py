"""Checkpoints: whole or not there, and clear words for everything that can be wrong with one."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from unire.errors import UnireError
from unire.models import checkpoint
from unire.models.unire import UniRE
from unire.training.config import TrainingConfig
from unire.training.train import init_model


@pytest.fixture(scope="session")
def model(encoder, scierc_labels) -> UniRE:
    model = init_model(str(encoder), scierc_labels, TrainingConfig(), ["twenty.jsonl"])
    torch.nn.init.normal_(model.biaffine.U)
    return model.eval()


@pytest.fixture
def folder(model, tmp_path) -> Path:
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_model_comes_back_the_same(model, folder):
    loaded = UniRE.from_pretrained(folder)
    assert loaded.labels == model.labels
    assert loaded.config.to_dict() == model.config.to_dict()
    assert loaded.tokenizer.to_str() == model.tokenizer.to_str()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_the_folder_holds_what_it_should_and_no_pickle(folder):
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md",
        "config.json",
        "labels.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    card = (folder / "README.md").read_text()
    assert "twenty.jsonl" in card
    assert "COMPARE" in card
    assert str(Path.home()) not in (folder / "config.json").read_text()


def test_the_card_says_what_text_an_adapted_encoder_has_read(encoder, scierc_labels, tmp_path):
    adapted = shutil.copytree(encoder, tmp_path / "adapted")
    record = {"encoder": "mpnet", "corpus": ["science.txt"], "tokens": 285_000_000}
    (adapted / "adaptation.json").write_text(json.dumps(record))
    init_model(str(adapted), scierc_labels, TrainingConfig()).save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "adapted (mpnet, adapted on 285M tokens of science.txt)" in card


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"encoder": "mpnet", "corpus": [1], "tokens": 2}'])
def test_a_damaged_record_of_an_adaptation_gets_one_sentence(text, encoder, scierc_labels, tmp_path):
    adapted = shutil.copytree(encoder, tmp_path / "adapted")
    (adapted / "adaptation.json").write_text(text)
    with pytest.raises(UnireError, match=r"adaptation.json' is not a record of `adapt`, or is damaged; delete it if"):
        init_model(str(adapted), scierc_labels, TrainingConfig())


def test_saving_over_a_model_replaces_it(model, folder):
    changed = UniRE.from_pretrained(folder)
    changed.config = changed.config.with_(alpha=0.9)
    changed.save_pretrained(folder)
    assert UniRE.from_pretrained(folder).config.alpha == 0.9
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_full_disk_while_saving_keeps_the_old_model_and_leaves_no_rubbish(model, folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UnireError, match="No space left on device"):
        model.save_pretrained(folder)
    monkeypatch.undo()
    assert UniRE.from_pretrained(folder).config.alpha == model.config.alpha
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_missing_tensor_is_named(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["biaffine.U"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UnireError, match=r"lacks the tensor 'biaffine\.U'"):
        UniRE.from_pretrained(folder)


def test_a_foreign_tensor_and_a_wrong_shape_are_named(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "extra": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(UnireError, match="unknown tensor 'extra'"):
        UniRE.from_pretrained(folder)
    save_file({**tensors, "biaffine.U": torch.zeros(2, 2, 2)}, folder / "model.safetensors")
    with pytest.raises(UnireError, match="wrong shape"):
        UniRE.from_pretrained(folder)


def test_truncated_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(UnireError, match="truncated"):
        UniRE.from_pretrained(folder)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", '{"model_type": "bert"}', "not a unire model"),
        ("config.json", "{", "cannot be read"),
        ("config.json", "[]", "not a unire model"),
        ("config.json", '{"format": "unire", "format_version": 99}', "upgrade unire"),
        ("config.json", '{"format": "unire", "format_version": 1}', "incomplete"),
        ("labels.json", "{}", "entity_types"),
        ("tokenizer.json", "{}", "tokenizer.json"),
    ],
)
def test_a_foreign_newer_or_broken_folder_gets_one_sentence(folder, file, text, message):
    (folder / file).write_text(text)
    with pytest.raises(UnireError, match=message) as caught:
        UniRE.from_pretrained(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["config.json", "labels.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_gets_one_sentence(folder, file):
    (folder / file).unlink()
    with pytest.raises(UnireError):
        UniRE.from_pretrained(folder)


def test_a_config_of_an_unknown_encoder_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["encoder"]["model_type"] = "no-such-thing"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnireError, match="not one that transformers knows"):
        UniRE.from_pretrained(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UnireError, match="no model folder"):
        UniRE.from_pretrained(tmp_path / "nowhere")
