"""Selecting the texts of a corpus that are most similar to others."""

from __future__ import annotations

import sys

import pytest

from helpers.paths import ROOT
from unire.errors import UnireError

PARSING = "we parse sentences with a grammar and a chart parser for natural language "
COOKING = "we boil the soup with an onion and a carrot for the evening guests "


@pytest.fixture
def script(monkeypatch):
    """The recipe as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    import select_similar

    yield select_similar
    for name in ("select_similar", "script"):
        sys.modules.pop(name)


def test_texts_with_the_words_of_the_others_are_selected_and_keep_their_order(script):
    corpus = [COOKING * 5, PARSING * 5, COOKING * 6, PARSING * 4]
    assert script.select_similar(corpus, [PARSING], 2) == [corpus[1], corpus[3]]
    assert script.select_similar(corpus, [COOKING], 2) == [corpus[0], corpus[2]]


def test_a_mixed_text_lies_between(script):
    mixed = PARSING * 3 + COOKING * 3
    assert script.select_similar([COOKING * 5, mixed, PARSING * 5], [PARSING], 2) == [mixed, PARSING * 5]


def test_texts_that_are_too_short_come_last(script):
    short = " ".join(PARSING.split()[: script.MIN_WORDS // 4])
    assert script.select_similar([short, COOKING * 5], [PARSING], 1) == [COOKING * 5]


def test_texts_without_words_are_similar_to_nothing(script):
    with pytest.raises(UnireError, match="there are no words of the letters a to z in the texts"):
        script.select_similar([PARSING], ["Он живёт в Москве", ""], 1)
