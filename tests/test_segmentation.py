"""Raw text into sentences and words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unire import formats
from unire.segmentation import detokenize, find_line_ends, segment


def words(text: str) -> str:
    return " ".join(segment(text).words)


def sentences(text: str) -> list[str]:
    return [text[s.offsets[0][0] : s.offsets[-1][1]] for s in segment(text).sentences]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We don't, can't and cannot.", "We do n't , ca n't and can not ."),
        ("Smith's users’ (or “his”) O'Brien", "Smith 's users ’ ( or “ his ” ) O'Brien"),
        ("She'll say they've 'won'.", "She 'll say they 've ' won ' ."),
        ("a state-of-the-art, Kullback–Leibler and/or Q&A", "a state-of-the-art , Kullback–Leibler and/or Q&A"),
        ("culture- and (VSM)-based", "culture - and ( VSM ) - based"),
        ("It fell -3.5% to $1,000,000.50 at 10:30.", "It fell -3.5 % to $1,000,000.50 at 10:30 ."),
        ("p<.01 and x=2; #P in the '90s", "p < .01 and x = 2 ; #P in the '90s"),
        ("[1,2] and 97,5%", "[ 1 , 2 ] and 97 , 5 %"),
        ("Dr. Smith of U.S. Steel Inc. et al. vs. J. R. Jones", "Dr. Smith of U.S. Steel Inc. et al. vs. J. R. Jones"),
        ("a U.S.-style force (e.g., i.i.d. samples)", "a U.S.-style force ( e.g. , i.i.d. samples )"),
        ("the U.S.-led, New York-based firm", "the U.S. - led , New York - based firm"),
        ("Xi'an-born; lithium-induced", "Xi'an - born ; lithium - induced"),
        (
            "a rule-based, X-based, K-means and Stratford-upon-Avon",
            "a rule-based , X-based , K-means and Stratford-upon-Avon",
        ),
        ("O’Brien, Hawai‘i, D´Angelo, Côte d'Ivoire-based", "O’Brien , Hawai‘i , D´Angelo , Côte d'Ivoire - based"),
        ("See https://a.b/c?d=(e)&f, or www.x.org.", "See https://a.b/c?d=(e)&f , or www.x.org ."),
        ("mail a.b@c.org; C++ and STR2+", "mail a.b@c.org ; C++ and STR2 +"),
        ("wait... what -- or—what?!", "wait ... what -- or — what ? !"),
        ("``quoted'' words", "`` quoted '' words"),
        ("A CRF -LRB- 2001 -RRB-, a -LSB- b -RSB-.", "A CRF -LRB- 2001 -RRB- , a -LSB- b -RSB- ."),
        ("\ufeffWe read\ufeff \ufeffit", "We read it"),
        ("x ≤ y → z∈S", "x ≤ y → z ∈ S"),
        ("nai\u0308ve Schrödinger हिन्दी", "nai\u0308ve Schrödinger हिन्दी"),
        ("good👍🏽 👩‍💻!", "good 👍🏽 👩‍💻 !"),
        ("مرحبا، كيف حالك؟", "مرحبا ، كيف حالك ؟"),
        ("a\x00b \x00", "a\x00b \x00"),
        ("a\u00a0b\u2003c\u3000d\u2028e", "a b c d e"),
    ],
)
def test_words_are_the_treebanks(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["It rained.", "We left!", "Why?", "(2) We stayed."],
        ["He won by 3.5 points.", "4D radar came.", "iPhones sell."],
        ["Methods, e.g. parsing, i.e. Penn trees, were used (see Fig. 3 and Eq. 4)."],
        ["Dr. A. B. Smith met Sen. Jones of the U.S. Senate in Washington D.C. on Nov. 3."],
        ["He lives in the U.S.", "The other does not."],
        ["We parse nouns, verbs, etc.", "However, it fails."],
        ["Vitamin C.", "The end."],
        ["Bus No. 7 came.", "No.", "It left."],
        ["Brown et al. [3] and Smith et al. (2001) agree.", "We do not."],
        ['"It rained," he said.', '"We left."', "(They stayed.)", "“Why?”", "Nobody knows."],
        ['"Why?" he asked.', "No one... knew."],
        ["It stopped...", "Then it went on."],
        ["雨が降った。", "寒い！", "「なぜ？」", "終わり"],
    ],
)
def test_sentences_end_where_they_end(expected):
    glue = "" if "雨" in expected[0] else " "
    assert sentences(glue.join(expected)) == expected


def test_an_empty_line_ends_a_sentence_and_a_line_end_does_not():
    assert sentences("A Title\n\nA text that\ngoes on\r\n\r\nand on\n \t\nA list") == [
        *("A Title", "A text that\ngoes on", "and on", "A list"),
    ]
    assert sentences("two\r\rthree") == ["two", "three"]


def test_a_full_stop_that_ends_more_than_an_abbreviation_is_a_word():
    assert words("Nouns, etc.") == "Nouns , etc ."
    assert words("Vitamin C. The end.") == "Vitamin C . The end ."
    assert words("He left the U.S. It rained.") == "He left the U.S. It rained ."


def test_no_text_has_no_words():
    for text in ("", " ", "\n\n\t\u3000"):
        document = segment(text, id="x")
        assert (document.text, document.id, document.words, document.sentences) == (text, "x", (), ())


TEXTS = st.text(max_size=80) | st.lists(
    st.sampled_from(
        [
            *[
                "a",
                "Bc",
                "can",
                "cannot",
                "n't",
                "'",
                "’",
                "s",
                ".",
                "..",
                ",",
                "-",
                "--",
                "(",
                ")",
                '"',
                "``",
                "''",
                "!",
            ],
            *[
                "1",
                "000",
                "$",
                "#",
                "etc.",
                "U.S.",
                "Dr.",
                "The",
                "http://",
                "www.",
                "@",
                "/",
                "&",
                "+",
                "。",
                "」",
                "…",
            ],
            *[
                " ",
                "  ",
                "\n",
                "\n\n",
                "\r\n",
                "\x00",
                "\u200d",
                "\ufe0f",
                "👍",
                "\u0301",
                "é",
                "\u202e",
                "א",
                "\ud800",
            ],
        ]
    ),
    max_size=40,
).map("".join)


@given(TEXTS)
def test_words_and_sentences_take_the_text_apart_without_loss(text):
    document = segment(text)
    assert document.text == text
    end = 0
    for word, (start, next_end) in zip(document.words, document.offsets, strict=True):
        assert word == text[start:next_end]
        assert start >= end
        assert not text[end:start].strip()
        assert word
        assert word == "".join(word.split())
        end = next_end
    assert not text[end:].strip()
    start = 0
    for sentence in document.sentences:
        assert sentence.start == start
        assert sentence.words
        start = sentence.end
    assert start == len(document.words)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("part", ["word ", "word"])
def test_a_line_of_five_megabytes_without_a_full_stop_is_a_sentence(part):
    document = segment(part * 1_000_000)
    assert len(document.sentences) == 1
    assert document.offsets[-1][1] == len(document.text.rstrip())


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(
    "part",
    [".", "' ", "'a", "a.", "A. ", "http://", "www.,", "-", "1,000,", "$", "can", "\n ", "\r\n", "é)", "n't", "The. ("],
)
def test_time_grows_with_the_text_and_no_faster(part):
    """If it grew with the square of the length, this would take many minutes."""
    text = part * (500_000 // len(part))
    began = time.perf_counter()
    document = segment(text)
    assert time.perf_counter() - began < 20
    assert sum(end - start for start, end in document.offsets) == sum(map(len, text.split()))


def test_scierc_from_raw_text_has_the_words_and_sentences_of_scierc(data_folder):
    right, given_, found, lost = 0, 0, 0, 0
    for gold in map(detokenize, formats.read(data_folder / "scierc" / "test.json")):
        document = segment(gold.text)
        right += len(set(gold.offsets) & set(document.offsets))
        given_, found = given_ + len(gold.words), found + len(document.words)
        starts, ends = ({offset[side] for offset in document.offsets} for side in (0, 1))
        lost += sum(e.char_start not in starts or e.char_end not in ends for e in gold.entities)
    assert 2 * right / (given_ + found) > 0.999
    assert lost == 0


WRAPPED = """We train a chart parser on the sections of the
Penn Treebank that others use, and compare it with a tagger,
Marie says. It is fast and
Peter likes it."""
TITLE = (
    "Relation extraction with tables\nWe fill a table for every sentence, which is fast, and decode it. "
    + "It works. " * 9
)
ITEMS = "Drugs at admission:\n- aspirin 100 mg in the morning and in the evening with some water\n- ibuprofen 400 mg"
NUMBERED = "The aims of this work are\n1. to find relations between the entities of a long text\n2) to be fast"
SHORT = "Marie Curie, Paris\nNiels Bohr, Copenhagen\nLise Meitner, Berlin"


@pytest.mark.parametrize(
    ("text", "ends", "sentences"),
    [(WRAPPED, 0, 2), (TITLE, 1, 11), (ITEMS, 2, 3), (NUMBERED, 2, 3), (SHORT, 2, 3), ("We met\nBob.", 0, 1)],
)
def test_a_line_end_ends_a_sentence_only_where_lines_are_clearly_titles_or_items(text, ends, sentences):
    assert len(find_line_ends(text)) == ends
    assert len(segment(text).sentences) == sentences
    assert find_line_ends(text, False) == frozenset()
    assert find_line_ends(text, True) == {i for i, character in enumerate(text) if character == "\n"}


def test_every_line_end_ends_a_sentence_if_asked_for():
    document = segment("We met Bob\r\nand Ada\n\nin Rome.", line_breaks=True)
    assert [" ".join(sentence.words) for sentence in document.sentences] == ["We met Bob", "and Ada", "in Rome ."]
