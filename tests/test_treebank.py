"""Treebank words and ordinary text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire import formats
from unire.documents import Document
from unire.segmentation import SPELLINGS, detokenize, normalize_word


@pytest.mark.parametrize(
    ("escaped", "expected"),
    [
        *[("-LRB-", "("), ("-RSB-", "]"), ("-LCB-", "{"), ("``", '"'), ("''", '"'), ("`", "'"), ("“", '"')],
        *[("1\\/2", "1/2"), (";-RRB-", ";)"), ("’s", "'s"), ("LRB", "LRB"), ("state-of-the-art", "state-of-the-art")],
    ],
)
def test_an_escape_is_the_character_that_it_stands_for(escaped, expected):
    assert normalize_word(escaped) == expected


def test_a_plain_word_stays_plain():
    assert all(normalize_word(normalize_word(word)) == normalize_word(word) for word in SPELLINGS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("A parser -LRB- fast , 90 % -RRB- .", "A parser (fast, 90%)."),
        ("They do n't and can not use Smith 's `` new '' one .", "They don't and cannot use Smith's \"new\" one."),
        ("Data with '' straight '' quotes .", 'Data with "straight" quotes.'),
        ("the ` flat ' list of users ' terms : a ; b ?", "the 'flat' list of users' terms: a; b?"),
        ("culture - and domain -- as it is -LSB- 3 -RSB- .", "culture - and domain -- as it is [3]."),
        ("nouns , verbs , etc. .", "nouns, verbs, etc."),
    ],
)
def test_a_sentence_is_written_as_people_write(words, text):
    assert detokenize(Document.from_words([words.split()])).text == text


def test_sentences_follow_each_other_and_annotation_stays_where_it_was():
    document = Document.from_words(
        [["We", "parse", "-LRB-", "Penn", "-RRB-", "."], [], ["It", "works", "."]],
        entities=[(2, 5, "Material", 0.5), (6, 7, "Generic")],
        relations=[(1, 0, "USED-FOR", 0.25)],
        id="a",
    )
    text = detokenize(document)
    assert text.text == "We parse (Penn). It works."
    assert [(e.text, e.label, e.score) for e in text.entities] == [("(Penn)", "Material", 0.5), ("It", "Generic", None)]
    assert [(r.head.text, r.tail.text, r.score) for r in text.relations] == [("It", "(Penn)", 0.25)]
    assert [len(sentence) for sentence in text.sentences] == [6, 0, 3]
    assert text.id == "a"


WORDS = st.lists(st.sampled_from([*SPELLINGS, "a", "b-c", ".", ",", "n't", "'s", "can", "not", "etc."]), max_size=8)


@given(st.lists(WORDS, max_size=4))
def test_every_restored_word_is_the_text_at_its_place(sentences):
    document = detokenize(Document.from_words(sentences))
    assert [document.text[start:end] for start, end in document.offsets] == list(document.words)
    assert [len(sentence) for sentence in document.sentences] == [len(words) for words in sentences]


def test_no_escape_is_left_in_scierc(data_folder):
    for document in formats.read(data_folder / "scierc" / "test.json"):
        text = detokenize(document).text
        assert not any(escape in text for escape in ("-LRB-", "-RSB-", "``", "''", " , ", " . "))
