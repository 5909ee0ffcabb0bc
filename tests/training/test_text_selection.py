"""Which texts of a corpus read most like some others."""

from __future__ import annotations

import pytest

from unire.errors import UnireError
from unire.training.text_corpus import SHORTEST, select_similar

PARSING = "we parse sentences with a grammar and a chart parser for natural language "
COOKING = "we boil the soup with an onion and a carrot for the evening guests "


def test_texts_with_the_words_of_the_others_are_nearest_and_keep_their_order():
    corpus = [COOKING * 5, PARSING * 5, COOKING * 6, PARSING * 4]
    assert select_similar(corpus, [PARSING], 2) == [corpus[1], corpus[3]]
    assert select_similar(corpus, [COOKING], 2) == [corpus[0], corpus[2]]


def test_a_mixed_text_lies_between():
    mixed = PARSING * 3 + COOKING * 3
    assert select_similar([COOKING * 5, mixed, PARSING * 5], [PARSING], 2) == [mixed, PARSING * 5]


def test_texts_too_short_to_be_judged_come_last():
    short = " ".join(PARSING.split()[: SHORTEST // 4])
    assert select_similar([short, COOKING * 5], [PARSING], 1) == [COOKING * 5]


def test_texts_without_words_are_like_nothing():
    with pytest.raises(UnireError, match="there are no words of the letters a to z in the texts"):
        select_similar([PARSING], ["Он живёт в Москве", ""], 1)
