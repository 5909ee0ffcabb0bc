"""Frozen layers: what they compute for a window does not change, is kept, and is not computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from unire.errors import UnireError
from unire.models.encoder import load_encoder
from unire.models.frozen_layers import FrozenLayers, list_layers
from unire.training.config import TrainingConfig
from unire.training.train import train

IDS = torch.arange(5, 35).view(3, 10)
MASK = torch.ones_like(IDS)
MASK[1, 6:] = 0


def vectors(encoder: nn.Module, rows: slice = slice(None)) -> Tensor:
    """The vectors of all tokens that are no padding."""
    hidden: Tensor = encoder(input_ids=IDS[rows], attention_mask=MASK[rows]).last_hidden_state
    return hidden[MASK[rows].bool()]


@contextmanager
def counted_calls(layer: nn.Module) -> Iterator[list[None]]:
    calls: list[None] = []
    hook = layer.attention.register_forward_hook(lambda *_: calls.append(None))
    yield calls
    hook.remove()


@pytest.fixture(params=["bert", "roberta", "mpnet", "electra"])
def model(request: pytest.FixtureRequest, encoders) -> nn.Module:
    model = load_encoder(encoders(request.param))[0].eval()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.3
    return model


def test_known_windows_give_the_same_vectors_and_skip_the_layers(model: nn.Module) -> None:
    expected = vectors(model)
    frozen = FrozenLayers(model, 0.5)
    with counted_calls(frozen.layers[0]) as calls:
        torch.testing.assert_close(vectors(model), expected, rtol=0, atol=0)
        assert len(calls) == 1
        for rows in (slice(0, 3), slice(1, 2), slice(0, 2)):  # other batches of the same windows
            wanted = torch.cat(expected.split(MASK.sum(1).tolist())[rows])
            torch.testing.assert_close(vectors(model, rows), wanted, rtol=1e-5, atol=1e-6)
        assert len(calls) == 1


def test_dropout_is_active_in_the_trained_layers_only(model: nn.Module) -> None:
    expected = vectors(model)
    FrozenLayers(model, 0.5)
    model.train()
    assert not torch.allclose(vectors(model), expected)
    model.eval()
    torch.testing.assert_close(vectors(model), expected, rtol=1e-5, atol=1e-6)  # what was kept had no dropout


def test_windows_beyond_the_memory_limit_are_computed_each_time(model: nn.Module) -> None:
    expected = vectors(model)
    frozen = FrozenLayers(model, 0.5, max_bytes=0)
    with counted_calls(frozen.layers[0]) as calls:
        for _ in range(2):
            torch.testing.assert_close(vectors(model), expected, rtol=0, atol=0)
    assert len(calls) == 2


def test_closing_makes_everything_trainable_again(model: nn.Module) -> None:
    before = [parameter.requires_grad for parameter in model.parameters()]
    frozen = FrozenLayers(model, 0.5)
    assert [parameter.requires_grad for parameter in model.parameters()] != before
    vectors(model)
    frozen.close()
    assert [parameter.requires_grad for parameter in model.parameters()] == before
    with counted_calls(frozen.layers[0]) as calls:
        vectors(model)
    assert len(calls) == 1


def test_an_encoder_without_a_list_of_layers_is_refused(encoders) -> None:
    with pytest.raises(UnireError, match="encoders of the type 'albert' have no layers that can be frozen"):
        FrozenLayers(load_encoder(encoders("albert"))[0], 0.5)


def test_training_changes_the_upper_layers_and_the_head_only(twenty, scierc_labels, encoder, tmp_path) -> None:
    config = TrainingConfig.from_preset("best", epochs=2, batch_size=8, lr=1e-2, frozen=0.5)
    trained = train(encoder, twenty, dev=twenty, labels=scierc_labels, config=config, out=tmp_path / "model")
    start = load_encoder(encoder)[0]
    n_frozen = len(list_layers(start)) // 2
    for name, parameter in start.named_parameters():
        after = trained.model.encoder.get_parameter(name)
        is_frozen = "embeddings" in name or any(f"layer.{place}." in name for place in range(n_frozen))
        assert torch.equal(parameter, after) == is_frozen, name
        assert after.requires_grad
