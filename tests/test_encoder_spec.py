"""What windows must know of an encoder: probed from its tokenizer, kept as JSON."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, processors

from helpers.tiny_encoders import FAMILIES
from helpers.windows import spec_of, spellings, tokenizer_of
from unire.config import EncoderSpec
from unire.errors import UnireError

SPECIALS = {
    "bert": ("[CLS]", "[SEP]", "[SEP]"),
    "electra": ("[CLS]", "[SEP]", "[SEP]"),
    "mpnet": ("<s>", "</s> </s>", "</s>"),
    "roberta": ("<s>", "</s> </s>", "</s>"),
    "deberta": ("[CLS]", "[SEP]", "[SEP]"),
    "modernbert": ("[CLS]", "[SEP]", "[SEP]"),
    "albert": ("[CLS]", "[SEP]", "[SEP]"),
    "deberta-v2": ("[CLS]", "[SEP]", "[SEP]"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_probe_finds_the_special_tokens_of_every_family(family):
    spec = spec_of(family)
    assert tuple(" ".join(spellings(p, family)) for p in (spec.prefix, spec.middle, spec.suffix)) == SPECIALS[family]
    assert spec.prefix_space == (family in {"roberta", "deberta", "modernbert"})


def test_a_byte_level_tokenizer_that_adds_the_space_itself_needs_none_from_us():
    data = json.loads(tokenizer_of("roberta").to_str())
    data["pre_tokenizer"]["add_prefix_space"] = True
    spec = EncoderSpec.probe(
        Tokenizer.from_str(json.dumps(data)), max_pieces=128, token_types=False, pad_id=1, unk_id=3
    )
    assert not spec.prefix_space


def test_without_a_template_for_pairs_the_first_text_ends_as_a_single_one():
    tokenizer = Tokenizer.from_str(tokenizer_of("bert").to_str())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    spec = EncoderSpec.probe(tokenizer, max_pieces=128, token_types=True, pad_id=0, unk_id=1)
    assert (spec.prefix, spec.middle, spec.suffix) == ((2,), (3,), (3,))


def test_a_tokenizer_without_special_tokens_is_refused():
    data = json.loads(tokenizer_of("bert").to_str())
    data["post_processor"] = None
    with pytest.raises(UnireError, match="adds no special tokens"):
        EncoderSpec.probe(Tokenizer.from_str(json.dumps(data)), max_pieces=128, token_types=True, pad_id=0, unk_id=1)


def test_a_tokenizer_that_makes_no_tokens_is_refused():
    with pytest.raises(UnireError, match="returns no tokens"):
        EncoderSpec.probe(Tokenizer(models.BPE()), max_pieces=128, token_types=True, pad_id=0, unk_id=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_specification_survives_json(family):
    spec = spec_of(family)
    assert EncoderSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize("change", [{"prefix": None}, {"prefix": ["x"]}, "missing"])
def test_a_damaged_specification_gives_one_sentence(change):
    data = spec_of("bert").to_dict()
    data = {"prefix": []} if change == "missing" else data | change
    with pytest.raises(UnireError, match="JSON object with prefix, middle"):
        EncoderSpec.from_dict(data)
