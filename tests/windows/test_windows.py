"""Windows: every word is read once, in every layout, with the context that the layout gives it."""

from __future__ import annotations

import itertools
import time
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.windows import (
    CONTROL,
    LAYOUTS,
    LETTERS,
    LONG,
    documents,
    first_token,
    in_sentences,
    only_window,
    spec_of,
    spellings,
    token_ids,
    window_builder,
)
from unire.config import Layout
from unire.documents import Document
from unire.errors import UnireError
from unire.windows import windows
from unire.windows.windows import InPlaceLayout, WindowBuilder, WindowGroup

# Every layout


@pytest.mark.slow
@pytest.mark.no_cover
@settings(max_examples=300, deadline=None)
@given(
    document=documents(),
    family=st.sampled_from(["bert", "mpnet", "roberta", "albert"]),
    layout=st.sampled_from(LAYOUTS),
    window=st.integers(0, 60),
    max_table=st.integers(1, 30),
    n_tokens=st.integers(1, 60),
)
def test_every_word_is_in_one_table_and_read_from_its_first_token(
    document, family, layout, window, max_table, n_tokens
):
    spec = spec_of(family)
    specials = len(spec.prefix) + len(spec.suffix) + (len(spec.middle) if layout == "released" else 0)
    max_tokens = n_tokens + specials
    groups = window_builder(family, max_tokens, layout=layout, window=window, max_table=max_table).build([document], 7)

    tables = [table for group in groups for table in group.table_spans]
    assert [word for table in tables for word in range(table.start, table.end)] == list(range(document.n_words))
    for table in tables:
        sentence = document.sentences[table.sentence]
        assert table.document == 7
        assert sentence.start <= table.start < table.end <= sentence.end
        assert table.end - table.start <= max_table

    expected = [first_token(word, family) for word in document.words]
    for group in groups:
        for window_ in group.windows:
            assert len(window_.tokens) <= max_tokens
            assert tuple(window_.tokens[: len(spec.prefix)]) == spec.prefix
            assert tuple(window_.tokens[-len(spec.suffix) :]) == spec.suffix
        read = [group.windows[w].tokens[position] for w, position in group.word_index]
        assert read == expected[group.table_spans[0].start : group.table_spans[-1].end]

    assert sum(group.split_sentences for group in groups) == sum(len(s) > max_table for s in document.sentences)
    pieceless = {"bert": {CONTROL, ""}, "mpnet": {CONTROL, ""}, "roberta": set(), "albert": {""}}[family]
    assert sum(group.unknown_words for group in groups) == sum(word in pieceless for word in document.words)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_and_sentences_without_words_have_no_tables(layout):
    assert window_builder(layout=layout).build([Document.from_words([])]) == []
    assert window_builder(layout=layout).build([Document.from_words([[], []])]) == []
    tables = [
        t
        for p in window_builder(layout=layout).build([Document.from_words([[], ["aa"], [], ["bb"]])])
        for t in p.table_spans
    ]
    assert [(table.sentence, table.start, table.end) for table in tables] == [(1, 0, 1), (3, 1, 2)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_a_window_every_sentence_is_read_alone(layout):
    groups = window_builder(layout=layout, window=0).build([in_sentences(3, 1, 2)])
    before = "[CLS] [SEP]" if layout == "released" else "[CLS]"
    assert [" ".join(only_window(group)) for group in groups] == [
        f"{before} aa ab ac [SEP]",
        f"{before} ad [SEP]",
        f"{before} ae af [SEP]",
    ]


# The layout of the paper


def test_in_place_each_side_gets_half_of_what_the_sentence_leaves():
    groups = window_builder(window=7).build([in_sentences(4, 2, 4)])
    assert only_window(groups[1]) == ["[CLS]", "ac", "ad", "ae", "af", "ag", "ah", "[SEP]"]
    assert groups[1].word_index.tolist() == [[0, 3], [0, 4]]
    assert groups[1].windows[0].segment_b_start == 8


def test_unused_context_of_one_side_is_not_given_to_the_other():
    groups = window_builder(window=6).build([in_sentences(2, 6)])
    assert only_window(groups[0]) == ["[CLS]", "aa", "ab", "ac", "ad", "[SEP]"]


def test_context_crosses_several_sentences():
    groups = window_builder(window=9).build([in_sentences(2, 2, 1, 2, 2)])
    assert only_window(groups[2]) == ["[CLS]", *LETTERS[:9], "[SEP]"]


def test_a_sentence_longer_than_the_window_has_no_context_and_keeps_its_words():
    groups = window_builder(window=3).build([in_sentences(2, 5, 2)])
    assert only_window(groups[1]) == ["[CLS]", *LETTERS[2:7], "[SEP]"]


def test_context_that_does_not_fit_is_trimmed_word_by_word_from_the_far_ends():
    # 12 tokens, two of them special, three of them the sentence: seven are left for context.
    groups = window_builder(max_tokens=12, window=100).build([in_sentences(20, 3, 20)])
    assert only_window(groups[1]) == ["[CLS]", *LETTERS[17:20], *LETTERS[20:23], *LETTERS[23:27], "[SEP]"]


def test_the_longer_side_is_trimmed_first():
    groups = window_builder(max_tokens=12, window=100).build([in_sentences(2, 3, 20)])
    assert only_window(groups[1]) == ["[CLS]", *LETTERS[:2], *LETTERS[2:5], *LETTERS[5:10], "[SEP]"]


# The layout of the released code


def test_released_moves_the_sentence_behind_its_context():
    groups = window_builder(layout="released", window=6).build([in_sentences(3, 2, 3)])
    assert only_window(groups[1]) == ["[CLS]", "ab", "ac", "af", "ag", "[SEP]", "ad", "ae", "[SEP]"]
    assert groups[1].windows[0].segment_b_start == 6
    assert groups[1].word_index.tolist() == [[0, 6], [0, 7]]


def test_released_uses_the_separators_of_the_encoder():
    groups = window_builder("mpnet", layout="released", window=6).build([in_sentences(3, 2, 3)])
    assert only_window(groups[1], "mpnet") == ["<s>", "ab", "ac", "af", "ag", "</s>", "</s>", "ad", "ae", "</s>"]


# The shared layout


def test_shared_windows_are_as_few_and_as_equal_as_can_be():
    groups = window_builder(max_tokens=512, layout="shared").build([in_sentences(*[26] * 20)])
    assert [len(group.windows[0].tokens) for group in groups] == [262, 262]
    assert [len(group.table_spans) for group in groups] == [10, 10]


def test_shared_windows_hold_the_text_once_and_in_order():
    document = in_sentences(*[7] * 30)
    groups = window_builder(max_tokens=52, layout="shared").build([document])
    assert [t for p in groups for t in only_window(p)[1:-1]] == list(document.words)


def test_the_shared_layout_ignores_the_window_size():
    document = in_sentences(*[7] * 30)
    for few, many in zip(*(window_builder(layout="shared", window=w).build([document]) for w in (1, 500)), strict=True):
        assert (few.windows[0].tokens == many.windows[0].tokens).all()


def test_shared_windows_close_before_their_padded_tables_outgrow_one_large_table():
    document = in_sentences(*[1] * 300, 200)
    groups = window_builder(max_tokens=8192, layout="shared").build([document])
    assert len(groups) > 1
    for group in groups:
        assert len(group.table_spans) * max(t.end - t.start for t in group.table_spans) ** 2 <= 512**2


# Long sentences and long words


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [11, 12, 13, 16, 23, 40, 100])
def test_a_sentence_longer_than_the_encoder_is_read_where_each_word_is_farthest_from_the_edges(layout, length):
    words = [LONG[i] if i % 3 == 2 else LETTERS[i] for i in range(length)]
    spelt = [spellings(token_ids(word)) for word in words]
    text = list(itertools.chain(*spelt))
    long = window_builder(max_tokens=16, layout=layout).build([Document.from_words([["aa"], words, ["bb"]])])[1]
    assert (len(long.windows) > 1, long.stitched_sentences) == (True, 1)

    head = 2 if layout == "released" else 1
    held = [spellings(window.tokens)[head:-1] for window in long.windows]
    begins = [text.index(tokens[0]) for tokens in held]
    for begin, tokens in zip(begins, held, strict=True):
        assert text[begin : begin + len(tokens)] == tokens

    for word, (window, position) in enumerate(long.word_index.tolist()):
        start = sum(map(len, spelt[:word]))
        end = start + len(spelt[word])
        depths = [min(start - b, b + len(tokens) - end) for b, tokens in zip(begins, held, strict=True)]
        assert depths[window] == max(depths) >= 0
        assert position == head + start - begins[window]


def test_overlapping_windows_overlap_by_about_half():
    (long,) = window_builder(max_tokens=22, max_table=1000).build([in_sentences(100)])
    begins = [LETTERS.index(spellings(window.tokens)[1]) for window in long.windows]
    assert begins == [0, 10, 20, 30, 40, 50, 60, 70, 80]


def test_a_sentence_that_just_fits_the_encoder_is_not_stitched():
    fits, stitched = (window_builder(max_tokens=22).build([in_sentences(n)])[0] for n in (20, 21))
    assert (len(fits.windows), fits.stitched_sentences) == (1, 0)
    assert (len(stitched.windows), stitched.stitched_sentences) == (2, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sentence_of_two_thousand_words_is_split_and_stitched_and_counted_once(layout):
    groups = window_builder(layout=layout).build([in_sentences(5, 2000, 5)])
    parts = [table for group in groups for table in group.table_spans if table.sentence == 1]
    assert [part.end - part.start for part in parts] == [500] * 4
    assert sum(group.split_sentences for group in groups) == 1
    assert sum(group.stitched_sentences for group in groups) == 1


def sizes(groups: list[WindowGroup]) -> list[int]:
    return [table.end - table.start for group in groups for table in group.table_spans]


def test_a_long_sentence_is_split_after_the_full_stop_nearest_to_its_middle():
    words = ["aa"] * 40
    words[4] = words[17] = words[23] = "."
    words[19] = ","
    assert sizes(window_builder(max_table=30).build([Document.from_words([words])])) == [18, 22]


def test_a_long_sentence_without_a_full_stop_is_split_after_a_comma():
    words = ["aa"] * 40
    words[14] = ","
    assert sizes(window_builder(max_table=30).build([Document.from_words([words])])) == [15, 25]


def test_a_long_sentence_without_any_stop_in_reach_is_split_evenly():
    words = ["aa"] * 41
    words[3] = words[35] = "."
    assert sizes(window_builder(max_table=30).build([Document.from_words([words])])) == [21, 20]


def test_parts_of_a_sentence_are_context_to_each_other():
    groups = window_builder(window=7, max_table=3).build([in_sentences(9)])
    assert only_window(groups[1]) == ["[CLS]", *LETTERS[1:8], "[SEP]"]


def test_a_layout_that_is_registered_can_be_chosen(monkeypatch):
    class LeftLayout(InPlaceLayout):
        def find_context(self, tokens, words, fits):
            left, _ = super().find_context(tokens, words, fits)
            return left, words.end

    assert set(windows.LAYOUTS) == set(get_args(Layout))
    monkeypatch.setitem(windows.LAYOUTS, "left", LeftLayout)
    document = in_sentences(5, 5, 5)
    both, left = (window_builder(layout=layout).build([document]) for layout in ("in-place", "left"))
    assert [len(group.windows[0].tokens) for group in both] == [17, 17, 17]
    assert [len(group.windows[0].tokens) for group in left] == [7, 12, 17]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layout": "sideways"}, "unknown window layout 'sideways'; give one of in-place, released, shared"),
        ({"window": -1}, "a window of -1 words"),
        ({"max_table": 0}, "tables of 0"),
        ({"max_tokens": 2}, "too short for special tokens and words"),
        ({"max_tokens": 3, "layout": "released"}, "too short for special tokens and words"),
    ],
)
def test_invalid_window_options_are_refused(options, sentence):
    with pytest.raises(UnireError, match=sentence):
        window_builder(**options)


# Speed


def seconds(builder: WindowBuilder, document: Document) -> float:
    """The faster of two, with a warm cache."""
    builder.build([document])
    times = []
    for _ in range(2):
        start = time.perf_counter()
        builder.build([document])
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.no_cover
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_abstract_takes_well_under_a_millisecond_per_sentence(layout):
    assert seconds(window_builder(max_tokens=512, layout=layout), in_sentences(*[25] * 8)) < 8e-3


@pytest.mark.no_cover
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [[25] * 4000, [100_000]], ids=["sentences", "one sentence"])
def test_a_document_of_a_hundred_thousand_words_takes_no_quadratic_time(layout, lengths):
    assert seconds(window_builder(max_tokens=512, layout=layout), in_sentences(*lengths)) < 5
