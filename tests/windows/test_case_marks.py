"""Case marks: tokens after a word that show its capitals to an uncased encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.tiny_encoders import FAMILIES, tiny_tokenizer
from unire import Document, Extractor, LabelSpace, TrainingConfig
from unire.config import EncoderSpec, ModelConfig
from unire.errors import UnireError
from unire.export.export import compare_engines, export_onnx
from unire.training.train import init_model
from unire.windows.tokenizer import WordTokenizer
from unire.windows.windows import WindowBuilder

CONTROL = "\u0007"
"""A word of which BERT's normalizer leaves nothing."""
WORDS = ["ada", "lives", "in", "london", "usa", "neuroscientists"]
GENOME = "GATTACA" * 12
"""Of BERT's longest words, those of up to a hundred letters, all tokens are there."""


def marked_tokenizer(family: str = "bert") -> Tokenizer:
    """With unused tokens, of which real vocabularies of BERT's kind have hundreds."""
    tokenizer = tiny_tokenizer(family, WORDS)
    tokenizer.add_special_tokens(["[unused3]", "[unused7]", "[unused9]"])
    return tokenizer


def spec_of(tokenizer: Tokenizer, family: str = "bert", max_tokens: int = 128) -> EncoderSpec:
    style = FAMILIES[family]
    pad, unk = (tokenizer.token_to_id(token) for token in (style.pad, style.unk))
    return EncoderSpec.probe(
        tokenizer, max_pieces=max_tokens, token_types=style.token_types, pad_id=pad, unk_id=unk
    ).with_case_marks(tokenizer)


TOKENIZER = marked_tokenizer()
SPEC = spec_of(TOKENIZER)


def spelt(word: str, longest: int = 32) -> list[str]:
    tokens = WordTokenizer(TOKENIZER, SPEC, longest)([word])
    return [TOKENIZER.id_to_token(int(token)) for token in tokens.ids]


@pytest.mark.parametrize(
    ("word", "tokens"),
    [
        ("ada", "ada"),
        ("Ada", "ada [unused3]"),
        ("USA", "usa [unused7]"),
        ("A", "a [unused3]"),
        ("U.S", "u . s [unused7]"),
        ("iPhone", "i ##p ##h ##o ##n ##e"),
        ("3D", "3 ##d"),
        ("-LRB-", "("),
        ("Neuroscientists", "neuro ##scien ##tists [unused3]"),
        ("[unused3]", "[ u ##n ##u ##s ##e ##d ##3 ]"),
    ],
)
def test_a_word_has_its_tokens_and_then_the_mark_of_its_capitals(word, tokens):
    assert " ".join(spelt(word)) == tokens


def test_a_very_long_word_keeps_its_case_mark_and_its_length_limit():
    assert len(spelt(GENOME, longest=8)) == 8
    assert spelt(GENOME, longest=8)[-1] == "[unused7]"
    assert spelt(GENOME, longest=2) == [spelt(GENOME)[0], "[unused7]"]
    assert spelt(GENOME, longest=1) == [spelt(GENOME)[0]]  # the first token is what is read


def test_a_word_without_a_token_is_the_unknown_one_and_has_no_mark():
    tokens = WordTokenizer(TOKENIZER, SPEC, 8)([CONTROL, "", "Ada"])
    assert tokens.unknown.tolist() == [True, True, False]
    assert tokens.ids.tolist()[:2] == [SPEC.unk_id] * 2


def test_without_marks_capitals_make_no_difference():
    plain = EncoderSpec.from_dict({**SPEC.to_dict(), "case_marks": []})
    found = WordTokenizer(TOKENIZER, plain, 8)(["ada", "Ada", "ADA"])
    assert found.bounds.tolist() == [0, 1, 2, 3]
    assert len(set(found.ids.tolist())) == 1


words = st.sampled_from(
    [*WORDS, *map(str.title, WORDS), *map(str.upper, WORDS), CONTROL, "U.S.", "漢字", GENOME, 25 * GENOME, "."]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    sentences=st.lists(st.lists(words, max_size=12), max_size=5),
    layout=st.sampled_from(["in-place", "released", "shared"]),
    window=st.integers(0, 40),
    max_table=st.integers(1, 15),
    max_tokens=st.integers(4, 60),
)
def test_in_every_layout_each_word_is_read_from_its_first_token(sentences, layout, window, max_table, max_tokens):
    spec = spec_of(TOKENIZER, max_tokens=max_tokens)
    document = Document.from_words(sentences)
    window_builder = WindowBuilder(TOKENIZER, spec, layout=layout, window=window, max_table=max_table)
    first = [WordTokenizer(TOKENIZER, SPEC, 1)([word]).ids[0] for word in document.words]
    seen = 0
    for group in window_builder.build([document]):
        assert all(len(part.tokens) <= max_tokens for part in group.windows)
        read = [group.windows[w].tokens[position] for w, position in group.word_index]
        assert read == first[group.table_spans[0].start : group.table_spans[-1].end]
        assert not set(read) & set(spec.case_marks)
        seen += len(read)
    assert seen == document.n_words


def test_marks_survive_json_and_an_older_specification_has_none():
    assert EncoderSpec.from_dict(json.loads(json.dumps(SPEC.to_dict()))) == SPEC
    older = {key: value for key, value in SPEC.to_dict().items() if key != "case_marks"}
    assert EncoderSpec.from_dict(older).case_marks == ()


def test_an_encoder_without_unused_tokens_is_refused_with_one_sentence(encoder, scierc_labels):
    with pytest.raises(UnireError, match=r"case marks need two unused tokens \(\[unused0\], …\)") as caught:
        init_model(str(encoder), scierc_labels, TrainingConfig(case_marks=True))
    assert "\n" not in str(caught.value)


def write_marked(encoder: Path, labels: LabelSpace, folder: Path) -> None:
    """A random model with case marks, in full precision for both engines."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder)
    tokenizer.add_tokens(["[unused0]", "[unused1]"], special_tokens=True)
    torch.manual_seed(0)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    for saved in (tokenizer, model):
        saved.save_pretrained(folder / "encoder")
    ours = init_model(str(folder / "encoder"), labels, TrainingConfig(case_marks=True, alpha=0.5))
    torch.nn.init.normal_(ours.biaffine.U, std=0.1)
    ours.save_pretrained(folder / "model")
    export_onnx(folder / "model", folder / "exported", precision="fp32")


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_checkpoint_keeps_its_marks_and_both_engines_see_them(encoder, scierc_labels, twenty, tmp_path):
    write_marked(encoder, scierc_labels, tmp_path)
    spec = ModelConfig.load(tmp_path / "model").spec
    assert len(spec.case_marks) == 2
    assert ModelConfig.load(tmp_path / "exported").spec == spec
    cased = twenty[:3]
    lower = [Document.from_words([[w.lower() for w in s.words] for s in document.sentences]) for document in cased]
    both = [Extractor.load(tmp_path / "exported", engine=engine, device="cpu") for engine in ("torch", "onnx")]
    for documents in (cased, lower):
        assert compare_engines(*both, documents).difference < 1e-3
    ((batch, P),), ((plain, Q),) = (list(both[1].predict_tables(documents)) for documents in (cased, lower))
    assert np.isin(spec.case_marks, batch.input_ids).any()
    assert not np.isin(spec.case_marks, plain.input_ids).any()
    assert (batch.lengths == plain.lengths).all()
    n = batch.lengths[0]
    assert np.abs(P[0, :n, :n] - Q[0, :n, :n]).max() > 0.01
