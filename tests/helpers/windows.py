"""Windows of tiny encoders, and words whose tokens are known."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.tiny_encoders import FAMILIES, tiny_tokenizer
from unire.config import EncoderSpec
from unire.documents import Document
from unire.windows import windows
from unire.windows.windows import WindowBuilder, WindowGroup

LETTERS = [a + b for a in "abcdefghij" for b in "abcdefghij"]
"""A hundred words of one token each, in every family."""
CONTROL = "\u0007"
"""A word of which BERT's normalizer leaves nothing."""
LONG = [word + "scientists" for word in LETTERS]
"""A hundred words of three tokens each."""
GENOME = "gattaca" * 300
ODD_WORDS = [CONTROL, "", "U.S.", "Jr.", "neuroscientists", "[SEP]", "</s>", "[UNK]", "Ünïcödé", "漢字", "-", GENOME]
WORDS = [*LETTERS, *LONG, "neuroscientists", "neuro", "U.S.", "Jr.", ".", ",", ";"]
LAYOUTS = list(windows.LAYOUTS)


@cache
def tokenizer_of(family: str) -> Tokenizer:
    return tiny_tokenizer(family, WORDS)


def spec_of(family: str, max_tokens: int = 128) -> EncoderSpec:
    style, tokenizer = FAMILIES[family], tokenizer_of(family)
    return EncoderSpec.probe(
        tokenizer,
        max_pieces=max_tokens,
        token_types=style.token_types,
        pad_id=tokenizer.token_to_id(style.pad),
        unk_id=tokenizer.token_to_id(style.unk),
    )


def window_builder(family: str = "bert", max_tokens: int = 128, **options: object) -> WindowBuilder:
    return WindowBuilder(tokenizer_of(family), spec_of(family, max_tokens), **options)


@cache
def token_ids(word: str, family: str = "bert") -> list[int]:
    """What a word should be spelt as, by the plainest means."""
    tokenizer = Tokenizer.from_str(tokenizer_of(family).to_str())
    tokenizer.encode_special_tokens = True
    text = f" {word}" if FAMILIES[family].tokens == "byte-level" else word
    return tokenizer.encode(text, add_special_tokens=False).ids or [tokenizer.token_to_id(FAMILIES[family].unk)]


def first_token(word: str, family: str = "bert") -> int:
    return token_ids(word, family)[0]


def spellings(tokens: np.ndarray, family: str = "bert") -> list[str]:
    return [tokenizer_of(family).id_to_token(int(token)) for token in tokens]


def only_window(group: WindowGroup, family: str = "bert") -> list[str]:
    (window,) = group.windows
    return spellings(window.tokens, family)


def in_sentences(*lengths: int) -> Document:
    """A document whose sentences have so many one-token words, all of them different for the first hundred."""
    words = itertools.cycle(LETTERS)
    return Document.from_words([list(itertools.islice(words, length)) for length in lengths])


@st.composite
def documents(draw) -> Document:
    words = st.sampled_from([*LETTERS[:30], *ODD_WORDS, ".", ",", ";"])
    return Document.from_words(draw(st.lists(st.lists(words, max_size=25), max_size=8)))
