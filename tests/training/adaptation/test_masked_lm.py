"""Masked language modelling: what is hidden, what the loss is, and its task."""

from __future__ import annotations

import random
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers.tiny_encoders import FAMILIES, tiny_encoder, tiny_tokenizer
from unire.models.encoder import load_encoder
from unire.training.adaptation import masked_lm
from unire.training.adaptation.masked_lm import MaskedLM, MaskedLMTask, WholeWordMasking
from unire.training.callbacks import Interrupt
from unire.training.config import AdaptationConfig
from unire.training.optimizer import Schedule
from unire.training.trainer import Trainer

WORDS = ("the", "a", "red", "green", "enormous", "elephant", "grasshopper", "walks", "swims", "quickly", "tablecloths")
CPU = torch.device("cpu")
ROWS = np.arange(6, 70, dtype=np.int32).reshape(4, 16)


@pytest.fixture
def model(tmp_path: Path) -> MaskedLM:
    torch.manual_seed(0)
    encoder, _, _ = load_encoder(tiny_encoder("mpnet", tmp_path, WORDS))
    return MaskedLM(encoder, masking("mpnet"))


def masking(family: str = "bert", rate: float = 0.25) -> WholeWordMasking:
    tokenizer = tiny_tokenizer(family, WORDS)
    vocabulary = tokenizer.get_vocab()
    special = [vocabulary[token] for token in FAMILIES[family].specials]
    return WholeWordMasking(tokenizer, mask_id=vocabulary[FAMILIES[family].mask], special_ids=special, rate=rate)


def new_task(model: MaskedLM, **options) -> MaskedLMTask:
    return MaskedLMTask(model, AdaptationConfig(max_steps=1, lr=1e-3, warmup=0.5), CPU, **options)


def take_step(task: MaskedLMTask, rate: float) -> torch.Tensor:
    """A step of the trainer at a share of the peak rate, and its loss and accuracy."""
    trainer = Trainer(task)
    task.schedule.set = lambda fraction, step: Schedule.set(task.schedule, 0.5 * rate, step)
    trainer._take_step((0, ROWS), lambda: False, Interrupt())
    return task._outcomes[-1]


def count_calls(model: MaskedLM) -> list[int]:
    """Grows by the number of rows whenever the model is given some."""
    calls: list[int] = []
    model.register_forward_pre_hook(lambda _model, inputs: calls.append(len(inputs[0])))
    return calls


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_words_are_hidden_whole_but_for_one_word_of_a_row(family: str) -> None:
    text = " ".join(random.Random(1).choices(WORDS, k=40))
    encoding = tiny_tokenizer(family, WORDS).encode(text, add_special_tokens=False)
    ids, words = torch.tensor([encoding.ids] * 8), torch.tensor(encoding.word_ids)
    assert len(words) > len(words.unique()), "no word of several tokens: nothing is tested"
    _, positions, _ = masking(family)(ids)
    for row in positions:
        hidden = torch.zeros(len(words), dtype=torch.bool)
        hidden[row] = True
        parts = [hidden[words == word] for word in words.unique()]
        assert sum(bool(part.any()) and not bool(part.all()) for part in parts) <= 1


def test_every_row_loses_the_same_number_of_tokens_and_never_a_special_one() -> None:
    mask = masking(rate=0.25)
    ids = torch.randint(0, len(mask.special), (64, 40))
    ids[:, ::2] = torch.randint(5, len(mask.special), (64, 20))
    _, positions, tokens = mask(ids)
    assert positions.shape == (64, 10)
    assert all(len(row.unique()) == 10 for row in positions)
    assert not mask.special[tokens].any()
    assert torch.equal(tokens, ids.gather(1, positions))


def test_hidden_tokens_are_masked_replaced_or_kept_at_80_10_10() -> None:
    mask = masking(rate=0.5)
    ids = torch.full((400, 100), len(mask.special) - 1)
    shown, positions, _ = mask(ids)
    at = shown.gather(1, positions)
    assert (at == mask.mask_id).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (at == ids[0, 0]).float().mean().item() == pytest.approx(0.1, abs=0.02)
    untouched = torch.ones_like(ids, dtype=torch.bool).scatter(1, positions, False)
    assert torch.equal(shown[untouched], ids[untouched])


def test_the_loss_is_the_cross_entropy_over_the_real_vocabulary(model: MaskedLM) -> None:
    head, embeddings = model.head, model.encoder.get_input_embeddings().weight
    assert len(embeddings) % 64, "nothing is padded: nothing is tested"
    nn.init.normal_(head.bias)
    vectors, positions = torch.randn(2, 9, 32), torch.tensor([[1, 5, 3], [8, 0, 2]])
    tokens = torch.randint(len(embeddings), (2, 3))
    loss, accuracy = head(vectors, positions, tokens, embeddings)
    chosen = torch.stack([vectors[row, at] for row in range(2) for at in positions[row]])
    logits = head.norm(nn.functional.gelu(head.dense(chosen))) @ embeddings.T + head.bias
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, tokens.flatten()))
    assert accuracy.item() == pytest.approx((logits.argmax(-1) == tokens.flatten()).float().mean().item())
    loss.backward()
    assert head.bias.grad.isfinite().all()


def test_the_position_bias_stays_as_it_is_and_the_rest_learns(model: MaskedLM) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    take_step(new_task(model), 1.0)
    same = {name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])}
    assert same == {"encoder.encoder.relative_attention_bias.weight"}


def test_a_step_at_rate_zero_changes_nothing(model: MaskedLM) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    take_step(new_task(model), 0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_seed_of_a_step_decides_the_masked_tokens(model: MaskedLM) -> None:
    trainer = new_task(model)
    first, again, other = (trainer.find_gradients(ROWS, seed)[0][0].item() for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("part", [1, 16, 40, 48])
def test_a_step_in_parts_is_the_step_at_once(model: MaskedLM, part: int) -> None:
    whole, parts = (new_task(deepcopy(model), max_tokens=part) for part in (1000, part))
    calls = count_calls(parts.model)
    torch.testing.assert_close(take_step(parts, 1.0), take_step(whole, 1.0))
    assert len(calls) == {1: 4, 16: 4, 40: 2, 48: 2}[part]
    for ours, theirs in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_shortened_step_equals_a_step_on_the_rows_it_read(model: MaskedLM) -> None:
    model.masking.forward = lambda ids: (ids, torch.tensor([[3, 5]] * len(ids)), ids[:, [3, 5]])  # as for other rows
    cut, fewer = (new_task(deepcopy(model), max_tokens=16) for _ in range(2))
    asked = iter([False, False, True])
    outcome, read = cut.find_gradients(ROWS, 0, asked.__next__)
    expected, _ = fewer.find_gradients(ROWS[:3], 0)
    assert read == 3
    torch.testing.assert_close(outcome, expected)
    gradients = [[p.grad for p in trainer.model.parameters() if p.grad is not None] for trainer in (cut, fewer)]
    torch.testing.assert_close(*gradients)


def test_the_first_part_is_read_even_when_there_is_no_time(model: MaskedLM) -> None:
    assert new_task(model, max_tokens=16).find_gradients(ROWS, 0, lambda: True)[1] == 1


def test_a_cpu_takes_its_steps_in_parts_and_needs_no_warming_up(model: MaskedLM) -> None:
    calls = count_calls(model)
    trainer = new_task(model)
    trainer.warm_up(256, 64)
    assert not calls
    trainer.find_gradients(np.full((17, 64), 7, np.int32), 0)
    assert calls == [8, 8, 1]


def test_all_parts_of_the_model_are_compiled(model: MaskedLM, monkeypatch) -> None:
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiled.append(function.__self__) or function)
    new_task(model, compiled=True)
    assert compiled == [model.encoder.embeddings, *model.encoder.encoder.layer, model.head]


def test_a_model_that_cannot_be_compiled_is_trained_without(model: MaskedLM, monkeypatch, caplog) -> None:
    def broken(*_args, **_kwargs):
        raise RuntimeError("no compiler here\nand more")

    monkeypatch.setattr(torch, "compile", lambda _function, **_: broken)
    trainer = new_task(model, compiled=True)
    trainer.warm_up(4, 16)
    assert "which failed: no compiler here" in caplog.text
    assert take_step(trainer, 1.0).isfinite().all()


def test_an_error_that_compiling_has_no_part_in_is_not_hidden(model: MaskedLM, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with pytest.raises(IndexError):
        new_task(model, compiled=True).warm_up(4, 1000)  # longer than the encoder can read


def test_narrow_layer_norms_hand_on_bfloat16(model: MaskedLM) -> None:
    masked_lm._narrow_norms(model)
    assert model.encoder.embeddings(torch.randint(6, 20, (2, 8))).dtype == torch.bfloat16
