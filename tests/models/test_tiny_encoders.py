"""The tiny encoders of tests: they load as any other does, and read words alike in any batch."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from helpers.tiny_encoders import FAMILIES, tiny_encoder
from helpers.windows import LETTERS, WORDS, in_sentences, spec_of, tokenizer_of
from unire.documents import Document
from unire.windows.collator import collate
from unire.windows.windows import WindowBuilder, WindowGroup


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tiny_encoder_loads_everywhere_and_reads_words_alike_in_any_batch(family, tmp_path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_encoder(family, tmp_path / "encoder", WORDS)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.get_vocab() == tokenizer_of(family).get_vocab()
    assert (
        AutoTokenizer.from_pretrained(folder)("aa neuro", "bb")["input_ids"] == tokenizer.encode("aa neuro", "bb").ids
    )

    model = AutoModel.from_pretrained(folder).eval()
    assert model.config.hidden_size == 32
    spec = spec_of(family)
    assert spec.pad_id == model.config.pad_token_id
    assert spec.token_types == ((getattr(model.config, "type_vocab_size", 0) or 0) > 1)

    def vectors(groups: list[WindowGroup]) -> list[torch.Tensor]:
        batch = collate(groups, spec)
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if spec.token_types:
            inputs["token_type_ids"] = batch.token_type_ids
        with torch.no_grad():
            states = model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).last_hidden_state
        words = states.flatten(0, 1)[torch.from_numpy(batch.words)]
        return [row[:length] for row, length in zip(words, batch.lengths.tolist(), strict=True)]

    builder = WindowBuilder(tokenizer, spec, layout="released", window=20)
    groups = builder.build([Document.from_words([LETTERS[:5], ["neuroscientists", "U.S."], LETTERS[5:30]])])
    together = vectors(groups)
    for group, expected in zip(groups, together, strict=True):
        torch.testing.assert_close(vectors([group])[0], expected, rtol=1e-4, atol=1e-4)
    (full,) = builder.build([in_sentences(spec.max_pieces - 4)])
    assert torch.isfinite(vectors([full])[0]).all()


def test_a_tiny_encoder_is_the_same_for_the_same_seed(tmp_path):
    import torch

    state = torch.random.get_rng_state()
    weights = [
        (tiny_encoder("bert", tmp_path / str(i), WORDS, seed=seed) / "model.safetensors").read_bytes()
        for i, seed in enumerate((1, 1, 2))
    ]
    assert weights[0] == weights[1] != weights[2]
    assert torch.equal(torch.random.get_rng_state(), state)
