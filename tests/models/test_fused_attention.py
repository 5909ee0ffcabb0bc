"""Fused attention: faster than transformers' own, and equal to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from helpers.tiny_encoders import tiny_encoder
from unire.models.batch import TensorBatch
from unire.models.fused_attention import freeze_position_bias, use_fast_attention
from unire.models.unire import encode_tokens

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog")


@pytest.fixture
def models(tmp_path: Path) -> tuple[nn.Module, nn.Module]:
    """As transformers computes it, and fused."""
    encoder = tiny_encoder("mpnet", tmp_path, WORDS)
    slow, fast = (transformers.AutoModel.from_pretrained(encoder).eval() for _ in range(2))
    use_fast_attention(fast)
    assert type(fast.encoder) is not type(slow.encoder)
    return slow, fast


@pytest.mark.parametrize("padded", [False, True])
def test_fused_mpnet_attention_gives_the_numbers_of_transformers(models, padded: bool) -> None:
    slow, fast = models
    ids = torch.randint(6, 20, (3, 50))
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask if padded else None}
    torch.testing.assert_close(slow(**inputs).last_hidden_state, fast(**inputs).last_hidden_state)


def test_the_position_bias_gets_the_gradient_it_would_get_from_transformers(models) -> None:
    gradients = []
    for model in models:
        torch.manual_seed(0)
        model(torch.randint(6, 20, (2, 40))).last_hidden_state[..., :5].exp().sum().backward()
        gradients.append(model.encoder.relative_attention_bias.weight.grad)
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_attention_weights_are_returned_on_request(models) -> None:
    ids = torch.randint(6, 20, (2, 10))
    slow, fast = (model(ids, output_attentions=True).attentions for model in models)
    torch.testing.assert_close(slow, fast)


def test_dropout_works_in_training_alone(models) -> None:
    _, fast = models
    for name, module in fast.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5 if name.endswith("attn.dropout") else 0.0
    ids = torch.randint(6, 20, (2, 10))
    assert torch.equal(fast(ids).last_hidden_state, fast(ids).last_hidden_state)
    fast.train()
    assert not torch.equal(fast(ids).last_hidden_state, fast(ids).last_hidden_state)


def test_positions_that_are_given_in_order_change_nothing(models) -> None:
    _, fast = models
    ids = torch.randint(6, 20, (2, 40))
    given = torch.arange(2, 42).expand(2, -1)  # MPNet counts from behind the padding id
    torch.testing.assert_close(fast(ids, position_ids=given).last_hidden_state, fast(ids).last_hidden_state)


@torch.no_grad()
def test_the_bias_follows_the_positions_that_are_given_and_not_the_order_of_the_tokens(models) -> None:
    slow, fast = models
    ids = torch.randint(6, 20, (2, 40))
    order = torch.randperm(40)
    shuffled = {"input_ids": ids[:, order], "position_ids": torch.arange(2, 42)[order].expand(2, -1)}
    found = fast(**shuffled).last_hidden_state
    torch.testing.assert_close(found, fast(ids).last_hidden_state[:, order], rtol=1e-4, atol=1e-5)
    assert (slow(**shuffled).last_hidden_state - found).abs().max() > 1e-2


@torch.no_grad()
def test_a_mask_per_token_is_respected(models) -> None:
    _, fast = models
    ids = torch.randint(6, 20, (1, 40))
    first_half = torch.arange(40) < 20
    apart = (first_half[:, None] == first_half).expand(1, 1, 40, 40)
    found = fast(ids, attention_mask=apart, position_ids=torch.arange(2, 42).unsqueeze(0)).last_hidden_state
    torch.testing.assert_close(found[:, :20], fast(ids[:, :20]).last_hidden_state, rtol=1e-4, atol=1e-5)
    assert (found - fast(ids).last_hidden_state).abs().max() > 1e-2


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_hidden_states_and_attentions_equal_those_of_transformers(models, asked: str) -> None:
    inputs = {"input_ids": torch.randint(6, 20, (2, 30)), asked: True}
    slow, fast = (model(**inputs) for model in models)
    torch.testing.assert_close(slow[0], fast[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slow[-1], fast[-1], rtol=1e-4, atol=1e-5)
    assert len(fast[-1]) > 1


def test_a_frozen_position_bias_gets_no_gradient(models) -> None:
    _, fast = models
    freeze_position_bias(fast)
    fast(torch.randint(6, 20, (2, 10))).last_hidden_state[..., :5].exp().sum().backward()
    assert fast.encoder.relative_attention_bias.weight.grad is None
    assert fast.embeddings.word_embeddings.weight.grad is not None


@pytest.mark.parametrize(("length", "learning", "used"), [(128, True, True), (64, True, False), (64, False, True)])
def test_gradients_come_from_cudnn_only_for_multiples_of_128_tokens(length: int, learning: bool, used: bool) -> None:
    class Watching(nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> BaseModelOutput:
            self.used = torch.backends.cuda.cudnn_sdp_enabled()
            return BaseModelOutput(last_hidden_state=torch.zeros(*input_ids.shape, 4))

    encoder, ids = Watching(), torch.zeros(2, length, dtype=torch.long)
    with torch.set_grad_enabled(learning):
        encode_tokens(encoder, TensorBatch(ids, torch.ones_like(ids), None, ids, ids))
    assert encoder.used == used
    assert torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("padded", [False, True])
def test_fast_attention_of_bert_gives_the_same_numbers(tmp_path: Path, attention: str, padded: bool) -> None:
    encoder = tiny_encoder("bert", tmp_path, WORDS)
    slow, fast = (
        transformers.AutoModel.from_pretrained(encoder, attn_implementation=attention).eval() for _ in range(2)
    )
    use_fast_attention(fast)
    ids = torch.randint(6, 20, (3, 50))
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask if padded else None, "token_type_ids": (ids > 12).long()}
    torch.testing.assert_close(slow(**inputs).last_hidden_state, fast(**inputs).last_hidden_state)


def test_encoders_that_are_fast_already_are_left_alone(tmp_path: Path) -> None:
    roberta = transformers.AutoModel.from_pretrained(tiny_encoder("roberta", tmp_path, WORDS))
    before = [type(module) for module in roberta.modules()]
    use_fast_attention(roberta)
    assert [type(module) for module in roberta.modules()] == before
