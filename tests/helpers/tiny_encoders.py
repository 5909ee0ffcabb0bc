"""Tiny random encoders, built on the fly: every test that needs an encoder takes one from here.

    tokenizer = tiny_tokenizer("roberta", words)                  # a `tokenizers.Tokenizer`; no torch
    folder = tiny_encoder("roberta", tmp_path / "encoder", words)  # a Hugging Face folder with model and tokenizer

They have their family's shape (special tokens, template, kind of tokens, token types, how positions are counted) and
nothing of its knowledge.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

CHUNK = 5
"""Words of up to so many characters (bytes, in byte-level tokenizers) are one token, longer ones are several."""


@dataclass(frozen=True)
class Family:
    """What makes an encoder a BERT, a RoBERTa, ..."""

    tokens: Literal["wordpiece", "byte-level", "unigram"]
    specials: tuple[str, ...]
    """In the order of their ids, which are the first of the vocabulary."""
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    pad: str = "[PAD]"
    unk: str = "[UNK]"
    mask: str = "[MASK]"
    double_sep: bool = False
    """Two separators between the texts of a pair."""
    token_types: bool = False
    position_offset: int = 0
    """Positions that `max_position_embeddings` counts and no token can have."""
    config: dict[str, Any] = field(default_factory=dict)


BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_NAMES = {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
DEBERTA_CONFIG = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}

FAMILIES = {
    "bert": Family("wordpiece", BERT_SPECIALS, token_types=True),
    "electra": Family("wordpiece", BERT_SPECIALS, token_types=True, config={"embedding_size": 16}),
    "mpnet": Family(
        "wordpiece",
        ("<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"),
        **ROBERTA_NAMES,
        double_sep=True,
        position_offset=2,
    ),
    "roberta": Family(
        "byte-level",
        ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        **ROBERTA_NAMES,
        unk="<unk>",
        double_sep=True,
        position_offset=2,
        config={"type_vocab_size": 1},
    ),
    "deberta": Family("byte-level", ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), config=DEBERTA_CONFIG),
    "modernbert": Family(
        "byte-level",
        ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"),
        config={"global_attn_every_n_layers": 2, "local_attention": 32},
    ),
    "albert": Family(
        "unigram",
        ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        pad="<pad>",
        unk="<unk>",
        token_types=True,
        config={"embedding_size": 16},
    ),
    "deberta-v2": Family("unigram", ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"), config=DEBERTA_CONFIG),
}


def tiny_tokenizer(family: str, words: Iterable[str]) -> Tokenizer:
    """A tokenizer of the kind that `family` uses, which knows the tokens of `words` and all of ASCII."""
    style = FAMILIES[family]
    words = sorted({*words, *string.ascii_letters, *string.digits, *string.punctuation})
    tokenizer = {"wordpiece": _wordpiece, "byte-level": _byte_level, "unigram": _unigram}[style.tokens](style, words)
    tokenizer.add_special_tokens(list(style.specials))
    cls, sep = ((token, tokenizer.token_to_id(token)) for token in (style.cls, style.sep))
    if style.double_sep:
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=False)
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{style.cls} $A {style.sep}",
            pair=f"{style.cls} $A {style.sep} $B:1 {style.sep}:1",
            special_tokens=[cls, sep],
        )
    return tokenizer


def tiny_encoder(family: str, folder: Path, words: Iterable[str], seed: int = 0, max_positions: int = 128) -> Path:
    """Save a random encoder of two layers and 32 dimensions with its tokenizer; `transformers` can load both.

    Args:
        family: One of `FAMILIES`.
        folder: Where to save; made if it is not there.
        words: What the tokenizer must know.
        seed: Of the weights.
        max_positions: The longest input in tokens, special ones included.
    """
    import torch
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    style = FAMILIES[family]
    tokenizer = tiny_tokenizer(family, words)
    ids = {name: tokenizer.token_to_id(getattr(style, name)) for name in ("cls", "sep", "pad")}
    config = AutoConfig.for_model(
        family,
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=max_positions + style.position_offset,
        # Large enough that two random layers tell words apart, and can be overfitted.
        initializer_range=0.3,
        # Dropout takes more from 32 dimensions than from 768.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=ids["pad"],
        bos_token_id=ids["cls"],
        cls_token_id=ids["cls"],
        eos_token_id=ids["sep"],
        sep_token_id=ids["sep"],
        **style.config,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        AutoModel.from_config(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{f"{name}_token": getattr(style, name) for name in ("cls", "sep", "pad", "unk", "mask")},
        model_max_length=max_positions,
        model_input_names=["input_ids", *(["token_type_ids"] if style.token_types else []), "attention_mask"],
    ).save_pretrained(folder)
    return Path(folder)


def _wordpiece(style: Family, words: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({}, unk_token=style.unk))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    first, later = _chunks(tokenizer, words)
    vocabulary = [*style.specials, *first, *(f"##{chunk}" for chunk in later)]
    tokenizer.model = models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token=style.unk)
    return tokenizer


def _unigram(style: Family, words: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    first, later = _chunks(tokenizer, words)
    # The fewest tokens win: all cost the same, but for the characters that fill the gaps.
    scores = {token: -5.0 if len(token) > 1 else -10.0 for token in sorted({"▁", *first, *later})}
    vocabulary = [*((token, 0.0) for token in style.specials), *scores.items()]
    tokenizer.model = models.Unigram(vocabulary, unk_id=style.specials.index(style.unk), byte_fallback=False)
    return tokenizer


def _byte_level(style: Family, words: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    first, later = _chunks(tokenizer, [f" {word}" for word in words])
    # Every chunk grows from the left, byte by byte; those that begin a word come first.
    merges = list(dict.fromkeys((chunk[:i], chunk[i]) for chunk in (*first, *later) for i in range(1, len(chunk))))
    vocabulary = [*style.specials, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    tokenizer.model = models.BPE({token: i for i, token in enumerate(vocabulary)}, merges)
    return tokenizer


def _chunks(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tokens that begin a word and those that go on with it: its chunks, and every single character."""
    first: set[str] = set()
    later: set[str] = set()
    for word in words:
        text = tokenizer.normalizer.normalize_str(word) if tokenizer.normalizer else word
        for token, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
            head = CHUNK + token.startswith(("▁", "Ġ"))
            first |= {token[:head], *token}
            later |= {*(token[i : i + CHUNK] for i in range(head, len(token), CHUNK)), *token}
    return sorted(first), sorted(later)
