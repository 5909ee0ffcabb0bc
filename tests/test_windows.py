from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, processors

import unire.windows.pieces
from tiny import FAMILIES, tiny_encoder, tiny_tokenizer
from unire.documents import Document
from unire.exceptions import UnireError
from unire.windows import (
    EncoderSpec,
    Passage,
    Stretch,
    Window,
    Windower,
    batches,
    collate,
    in_batches,
    of_like_length,
)

LETTERS = [a + b for a in "abcdefghij" for b in "abcdefghij"]
"""A hundred words of one piece each, in every family."""
CONTROL = "\u0007"
"""A word of which BERT's normalizer leaves nothing."""
LONG = [word + "scientists" for word in LETTERS]
"""A hundred words of three pieces each."""
GENOME = "gattaca" * 300
ODD_WORDS = [CONTROL, "", "U.S.", "Jr.", "neuroscientists", "[SEP]", "</s>", "[UNK]", "Ünïcödé", "漢字", "-", GENOME]
WORDS = [*LETTERS, *LONG, "neuroscientists", "neuro", "U.S.", "Jr.", ".", ",", ";"]
LAYOUTS = ["in-place", "released", "shared"]


@cache
def tokenizer_of(family: str) -> Tokenizer:
    return tiny_tokenizer(family, WORDS)


def spec_of(family: str, max_pieces: int = 128) -> EncoderSpec:
    style, tokenizer = FAMILIES[family], tokenizer_of(family)
    return EncoderSpec.probe(
        tokenizer,
        max_pieces=max_pieces,
        token_types=style.token_types,
        pad_id=tokenizer.token_to_id(style.pad),
        unk_id=tokenizer.token_to_id(style.unk),
    )


def windower(family: str = "bert", max_pieces: int = 128, **options: object) -> Windower:
    return Windower(tokenizer_of(family), spec_of(family, max_pieces), **options)


@cache
def piece_ids(word: str, family: str = "bert") -> list[int]:
    """What a word should be spelt as, by the plainest means."""
    tokenizer = Tokenizer.from_str(tokenizer_of(family).to_str())
    tokenizer.encode_special_tokens = True
    text = f" {word}" if FAMILIES[family].pieces == "byte-level" else word
    return tokenizer.encode(text, add_special_tokens=False).ids or [tokenizer.token_to_id(FAMILIES[family].unk)]


def first_piece(word: str, family: str = "bert") -> int:
    return piece_ids(word, family)[0]


def tokens(pieces: np.ndarray, family: str = "bert") -> list[str]:
    return [tokenizer_of(family).id_to_token(int(piece)) for piece in pieces]


def only_window(passage: Passage, family: str = "bert") -> list[str]:
    (window,) = passage.windows
    return tokens(window.pieces, family)


def in_sentences(*lengths: int) -> Document:
    """A document whose sentences have so many one-piece words, all of them different for the first hundred."""
    words = itertools.cycle(LETTERS)
    return Document.from_words([list(itertools.islice(words, length)) for length in lengths])


# The encoder's specification


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
def test_probe_finds_the_special_pieces_of_every_family(family):
    spec = spec_of(family)
    assert tuple(" ".join(tokens(p, family)) for p in (spec.prefix, spec.middle, spec.suffix)) == SPECIALS[family]
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


def test_a_tokenizer_without_special_pieces_is_refused():
    data = json.loads(tokenizer_of("bert").to_str())
    data["post_processor"] = None
    with pytest.raises(UnireError, match="adds no special pieces"):
        EncoderSpec.probe(Tokenizer.from_str(json.dumps(data)), max_pieces=128, token_types=True, pad_id=0, unk_id=1)


def test_a_tokenizer_that_makes_no_pieces_is_refused():
    with pytest.raises(UnireError, match="makes no pieces"):
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


# Every layout


@st.composite
def documents(draw) -> Document:
    words = st.sampled_from([*LETTERS[:30], *ODD_WORDS, ".", ",", ";"])
    return Document.from_words(draw(st.lists(st.lists(words, max_size=25), max_size=8)))


@settings(max_examples=300, deadline=None)
@given(
    document=documents(),
    family=st.sampled_from(["bert", "mpnet", "roberta", "albert"]),
    layout=st.sampled_from(LAYOUTS),
    window=st.integers(0, 60),
    max_table=st.integers(1, 30),
    room=st.integers(1, 60),
)
def test_every_word_is_in_one_table_and_read_from_its_first_piece(document, family, layout, window, max_table, room):
    spec = spec_of(family)
    specials = len(spec.prefix) + len(spec.suffix) + (len(spec.middle) if layout == "released" else 0)
    max_pieces = room + specials
    passages = windower(family, max_pieces, layout=layout, window=window, max_table=max_table).passages(document, 7)

    tables = [table for passage in passages for table in passage.tables]
    assert [word for table in tables for word in range(table.start, table.end)] == list(range(document.n_words))
    for table in tables:
        sentence = document.sentences[table.sentence]
        assert table.document == 7
        assert sentence.start <= table.start < table.end <= sentence.end
        assert table.end - table.start <= max_table

    expected = [first_piece(word, family) for word in document.words]
    for passage in passages:
        for window_ in passage.windows:
            assert len(window_.pieces) <= max_pieces
            assert tuple(window_.pieces[: len(spec.prefix)]) == spec.prefix
            assert tuple(window_.pieces[-len(spec.suffix) :]) == spec.suffix
        read = [passage.windows[w].pieces[position] for w, position in passage.reads]
        assert read == expected[passage.tables[0].start : passage.tables[-1].end]

    assert sum(passage.split for passage in passages) == sum(len(s) > max_table for s in document.sentences)
    pieceless = {"bert": {CONTROL, ""}, "mpnet": {CONTROL, ""}, "roberta": set(), "albert": {""}}[family]
    assert sum(passage.unknown_words for passage in passages) == sum(word in pieceless for word in document.words)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(documents(), max_size=6),
    layout=st.sampled_from(LAYOUTS),
    max_table=st.integers(1, 30),
    max_cells=st.integers(1, 2000),
    max_pieces=st.integers(1, 500),
    rounded=st.sampled_from(["not", "slices"]),
)
def test_batches_hold_every_passage_once_within_both_bounds(texts, layout, max_table, max_cells, max_pieces, rounded):
    layouter = windower(max_pieces=40, layout=layout, window=20, max_table=max_table)
    passages = [passage for i, text in enumerate(texts) for passage in layouter.passages(text, i)]
    batches = list(in_batches(iter(passages), max_cells=max_cells, max_pieces=max_pieces))
    assert sorted(map(id, itertools.chain(*batches))) == sorted(map(id, passages))
    for group in batches:
        batch = collate(group, layouter.spec, rounded=rounded)
        assert sorted(map(hash, batch.tables)) == sorted(hash(table) for p in group for table in p.tables)
        assert rounded == "not" or all(isinstance(alike, slice) for alike, _ in of_like_length(batch.lengths))
        n_tables, longest = batch.words.shape
        if len(group) > 1:
            assert n_tables * longest**2 <= max_cells
            assert rounded == "slices" or batch.input_ids.size <= max_pieces
        read = np.concatenate([batch.input_ids[rows, :n].reshape(-1) for rows, n in batch.slices])[batch.words]
        for table, length, pieces, indices in zip(batch.tables, batch.lengths, read, batch.words, strict=True):
            words = texts[table.document].words[table.start : table.end]
            assert pieces[:length].tolist() == [first_piece(word) for word in words]
            assert not indices[length:].any()
        assert (batch.input_ids[batch.attention_mask == 0] == layouter.spec.pad_id).all()
        windows = [window for passage in group for window in passage.windows]
        spare = len(batch.input_ids) - len(windows)
        assert 0 <= spare <= (len(windows) / 2 if rounded == "slices" else 0)
        assert batch.input_ids.shape[1] <= layouter.spec.max_pieces
        assert batch.attention_mask.sum() == sum(len(window.pieces) for window in windows) + spare


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_and_sentences_without_words_have_no_tables(layout):
    assert windower(layout=layout).passages(Document.from_words([])) == []
    assert windower(layout=layout).passages(Document.from_words([[], []])) == []
    tables = [
        t for p in windower(layout=layout).passages(Document.from_words([[], ["aa"], [], ["bb"]])) for t in p.tables
    ]
    assert [(table.sentence, table.start, table.end) for table in tables] == [(1, 0, 1), (3, 1, 2)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_a_window_every_sentence_is_read_alone(layout):
    passages = windower(layout=layout, window=0).passages(in_sentences(3, 1, 2))
    before = "[CLS] [SEP]" if layout == "released" else "[CLS]"
    assert [" ".join(only_window(passage)) for passage in passages] == [
        f"{before} aa ab ac [SEP]",
        f"{before} ad [SEP]",
        f"{before} ae af [SEP]",
    ]


# The layout of the paper


def test_in_place_each_side_gets_half_of_what_the_sentence_leaves():
    passages = windower(window=7).passages(in_sentences(4, 2, 4))
    assert only_window(passages[1]) == ["[CLS]", "ac", "ad", "ae", "af", "ag", "ah", "[SEP]"]
    assert passages[1].reads.tolist() == [[0, 3], [0, 4]]
    assert passages[1].windows[0].second == 8


def test_what_one_side_cannot_use_is_not_given_to_the_other():
    passages = windower(window=6).passages(in_sentences(2, 6))
    assert only_window(passages[0]) == ["[CLS]", "aa", "ab", "ac", "ad", "[SEP]"]


def test_context_crosses_several_sentences():
    passages = windower(window=9).passages(in_sentences(2, 2, 1, 2, 2))
    assert only_window(passages[2]) == ["[CLS]", *LETTERS[:9], "[SEP]"]


def test_a_sentence_longer_than_the_window_has_no_context_and_keeps_its_words():
    passages = windower(window=3).passages(in_sentences(2, 5, 2))
    assert only_window(passages[1]) == ["[CLS]", *LETTERS[2:7], "[SEP]"]


def test_context_that_does_not_fit_is_trimmed_word_by_word_from_the_far_ends():
    # 12 pieces, two of them special, three of them the sentence: seven are left for context.
    passages = windower(max_pieces=12, window=100).passages(in_sentences(20, 3, 20))
    assert only_window(passages[1]) == ["[CLS]", *LETTERS[17:20], *LETTERS[20:23], *LETTERS[23:27], "[SEP]"]


def test_the_longer_side_is_trimmed_first():
    passages = windower(max_pieces=12, window=100).passages(in_sentences(2, 3, 20))
    assert only_window(passages[1]) == ["[CLS]", *LETTERS[:2], *LETTERS[2:5], *LETTERS[5:10], "[SEP]"]


# The layout of the released code


def test_released_moves_the_sentence_behind_its_context():
    passages = windower(layout="released", window=6).passages(in_sentences(3, 2, 3))
    assert only_window(passages[1]) == ["[CLS]", "ab", "ac", "af", "ag", "[SEP]", "ad", "ae", "[SEP]"]
    assert passages[1].windows[0].second == 6
    assert passages[1].reads.tolist() == [[0, 6], [0, 7]]


def test_released_uses_the_separators_of_the_encoder():
    passages = windower("mpnet", layout="released", window=6).passages(in_sentences(3, 2, 3))
    assert only_window(passages[1], "mpnet") == ["<s>", "ab", "ac", "af", "ag", "</s>", "</s>", "ad", "ae", "</s>"]


def test_token_types_are_one_from_the_sentence_to_the_end_and_zero_on_padding():
    layouter = windower(layout="released", window=4)
    batch = collate(layouter.passages(in_sentences(2, 3)), layouter.spec)
    assert batch.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]
    shorter = collate(layouter.passages(in_sentences(1, 3)), layouter.spec)
    assert shorter.attention_mask.tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert shorter.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1]]


def test_there_are_no_token_types_where_the_encoder_has_none():
    layouter = windower("roberta", layout="released")
    assert collate(layouter.passages(in_sentences(2, 3)), layouter.spec).token_type_ids is None


# The shared layout


def test_shared_windows_are_as_few_and_as_equal_as_can_be():
    passages = windower(max_pieces=512, layout="shared").passages(in_sentences(*[26] * 20))
    assert [len(passage.windows[0].pieces) for passage in passages] == [262, 262]
    assert [len(passage.tables) for passage in passages] == [10, 10]


def test_shared_windows_hold_the_text_once_and_in_order():
    document = in_sentences(*[7] * 30)
    passages = windower(max_pieces=52, layout="shared").passages(document)
    assert [t for p in passages for t in only_window(p)[1:-1]] == list(document.words)


def test_the_size_of_a_window_means_nothing_to_shared_ones():
    document = in_sentences(*[7] * 30)
    for few, many in zip(*(windower(layout="shared", window=w).passages(document) for w in (1, 500)), strict=True):
        assert (few.windows[0].pieces == many.windows[0].pieces).all()


def test_shared_windows_close_before_their_padded_tables_outgrow_one_large_table():
    document = in_sentences(*[1] * 300, 200)
    passages = windower(max_pieces=8192, layout="shared").passages(document)
    assert len(passages) > 1
    for passage in passages:
        assert len(passage.tables) * max(t.end - t.start for t in passage.tables) ** 2 <= 512**2


# Long sentences and long words


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [11, 12, 13, 16, 23, 40, 100])
def test_a_sentence_longer_than_the_encoder_is_read_where_each_word_is_farthest_from_the_edges(layout, length):
    words = [LONG[i] if i % 3 == 2 else LETTERS[i] for i in range(length)]
    spelt = [tokens(piece_ids(word)) for word in words]
    text = list(itertools.chain(*spelt))
    long = windower(max_pieces=16, layout=layout).passages(Document.from_words([["aa"], words, ["bb"]]))[1]
    assert (len(long.windows) > 1, long.stitched) == (True, 1)

    head = 2 if layout == "released" else 1
    held = [tokens(window.pieces)[head:-1] for window in long.windows]
    begins = [text.index(pieces[0]) for pieces in held]
    for begin, pieces in zip(begins, held, strict=True):
        assert text[begin : begin + len(pieces)] == pieces

    for word, (window, position) in enumerate(long.reads.tolist()):
        start = sum(map(len, spelt[:word]))
        end = start + len(spelt[word])
        depths = [min(start - b, b + len(pieces) - end) for b, pieces in zip(begins, held, strict=True)]
        assert depths[window] == max(depths) >= 0
        assert position == head + start - begins[window]


def test_overlapping_windows_overlap_by_about_half():
    (long,) = windower(max_pieces=22, max_table=1000).passages(in_sentences(100))
    begins = [LETTERS.index(tokens(window.pieces)[1]) for window in long.windows]
    assert begins == [0, 10, 20, 30, 40, 50, 60, 70, 80]


def test_a_sentence_of_exactly_the_room_of_the_encoder_is_not_stitched():
    fits, stitched = (windower(max_pieces=22).passages(in_sentences(n))[0] for n in (20, 21))
    assert (len(fits.windows), fits.stitched) == (1, 0)
    assert (len(stitched.windows), stitched.stitched) == (2, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sentence_of_two_thousand_words_is_split_and_stitched_and_counted_once(layout):
    passages = windower(layout=layout).passages(in_sentences(5, 2000, 5))
    parts = [table for passage in passages for table in passage.tables if table.sentence == 1]
    assert [part.end - part.start for part in parts] == [500] * 4
    assert sum(passage.split for passage in passages) == 1
    assert sum(passage.stitched for passage in passages) == 1


def sizes(passages: list[Passage]) -> list[int]:
    return [table.end - table.start for passage in passages for table in passage.tables]


def test_a_long_sentence_is_split_after_the_full_stop_nearest_to_its_middle():
    words = ["aa"] * 40
    words[4] = words[17] = words[23] = "."
    words[19] = ","
    assert sizes(windower(max_table=30).passages(Document.from_words([words]))) == [18, 22]


def test_a_long_sentence_without_a_full_stop_is_split_after_a_comma():
    words = ["aa"] * 40
    words[14] = ","
    assert sizes(windower(max_table=30).passages(Document.from_words([words]))) == [15, 25]


def test_a_long_sentence_without_any_stop_in_reach_is_split_evenly():
    words = ["aa"] * 41
    words[3] = words[35] = "."
    assert sizes(windower(max_table=30).passages(Document.from_words([words]))) == [21, 20]


def test_parts_of_a_sentence_are_context_to_each_other():
    passages = windower(window=7, max_table=3).passages(in_sentences(9))
    assert only_window(passages[1]) == ["[CLS]", *LETTERS[1:8], "[SEP]"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_monstrous_word_keeps_its_first_piece_and_leaves_room_for_others(family, layout):
    document = Document.from_words([["aa", "gattaca" * 1500, "bb"]])
    (passage,) = windower(family, layout=layout).passages(document)
    (window,) = passage.windows
    assert len(window.pieces) < 128 // 2
    assert window.pieces[passage.reads[:, 1]].tolist() == [first_piece(word, family) for word in document.words]


def test_a_word_without_a_piece_is_read_as_the_unknown_one_and_counted_where_it_is_read():
    passages = windower().passages(Document.from_words([["aa", CONTROL, "\ufe0f"], ["bb"]]))
    assert only_window(passages[0]) == ["[CLS]", "aa", "[UNK]", "[UNK]", "bb", "[SEP]"]
    assert [passage.unknown_words for passage in passages] == [2, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_half_a_surrogate_pair_is_read_as_a_question_mark(family):
    half, mark = (windower(family).passages(Document.from_words([["aa", word]]))[0] for word in ("\ud83d", "?"))
    assert half.windows[0].pieces.tolist() == mark.windows[0].pieces.tolist()


@pytest.mark.parametrize("family", ["bert", "deberta", "albert"])
def test_the_name_of_a_special_piece_in_a_text_is_only_text(family):
    layouter = windower(family)
    (passage,) = layouter.passages(Document.from_words([["aa", "[SEP]", "bb"]]))
    inside = passage.windows[0].pieces[1:-1]
    assert layouter.spec.suffix[0] not in inside


def test_padding_and_truncation_in_a_tokenizer_file_do_not_bite():
    tokenizer = Tokenizer.from_str(tokenizer_of("bert").to_str())
    tokenizer.enable_padding(length=32)
    tokenizer.enable_truncation(max_length=2)
    spec = EncoderSpec.probe(tokenizer, max_pieces=128, token_types=True, pad_id=0, unk_id=1)
    assert spec == spec_of("bert")
    (passage,) = Windower(tokenizer, spec).passages(Document.from_words([["neuroscientists", "aa"]]))
    assert only_window(passage) == ["[CLS]", "neuro", "##scien", "##tists", "aa", "[SEP]"]
    assert (tokenizer.padding["length"], tokenizer.truncation["max_length"]) == (32, 2), (
        "the caller's is left as it was"
    )


def test_the_cache_of_words_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    document = in_sentences(40, 40, 20, 30)
    expected = [passage.windows[0].pieces.tolist() for passage in windower().passages(document)]
    monkeypatch.setattr(unire.windows.pieces, "CACHED_WORDS", 10)
    forgetful = windower()
    for _ in range(2):
        assert [passage.windows[0].pieces.tolist() for passage in forgetful.passages(document)] == expected
    forgetful.passages(Document.from_words([["neuroscientists", "never", "seen"]]))
    assert len(forgetful.tokenize._known.places) == 3


def test_threads_that_learn_words_at_once_spell_them_alike(monkeypatch):
    monkeypatch.setattr(unire.windows.pieces, "CACHED_WORDS", 50)
    tokenize = windower().tokenize
    texts = [[*LETTERS[k : k + 20], *LONG[5 * k : 5 * k + 9], GENOME] for k in range(20)]
    expected = [[piece for word in words for piece in windower().tokenize([word]).ids] for words in texts]
    with ThreadPoolExecutor(4) as threads:
        assert [pieces.ids.tolist() for pieces in threads.map(tokenize, 10 * texts)] == 10 * expected


def test_a_thread_that_spells_new_words_does_not_hold_up_others(monkeypatch):
    tokenize = windower().tokenize
    expected = tokenize(LETTERS).ids.tolist()
    spell = tokenize._spelt
    held = threading.Event()
    monkeypatch.setattr(tokenize, "_spelt", lambda words: held.wait(30) and spell(words))
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(tokenize, LONG)
        try:
            assert threads.submit(tokenize, LETTERS).result(10).ids.tolist() == expected
            assert not slow.done()
        finally:
            held.set()
    assert slow.result().ids.tolist() == windower().tokenize(LONG).ids.tolist()


def test_words_are_spelt_alike_after_learning_was_interrupted(monkeypatch):
    tokenize = windower().tokenize

    def interrupted(words):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokenize._known, "_bounds", SimpleNamespace(append=interrupted))
        with pytest.raises(KeyboardInterrupt):
            tokenize(LETTERS)
    assert tokenize(LONG).ids.tolist() == windower().tokenize(LONG).ids.tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_while_a_thread_learns_words_does_not_wait_for_it():
    tokenize = windower().tokenize
    expected = tokenize(LETTERS).ids.tolist()
    with tokenize._lock:
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(tokenize(LETTERS).ids.tolist() != expected)
    assert os.waitpid(child, 0)[1] == 0


def test_a_very_long_word_is_spelt_and_not_remembered():
    layouter = windower()
    document = Document.from_words([["aa", "bb" * 1000, "aa"]])
    first, second = (layouter.passages(document)[0].windows[0].pieces.tolist() for _ in range(2))
    assert first == second
    assert list(layouter.tokenize._known.places) == ["aa"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layout": "sideways"}, "no window layout 'sideways'; there are in-place, released, shared"),
        ({"window": -1}, "a window of -1 words"),
        ({"max_table": 0}, "tables of 0"),
        ({"max_pieces": 2}, "no room for words"),
        ({"max_pieces": 3, "layout": "released"}, "no room for words"),
    ],
)
def test_impossible_wishes_are_refused(options, sentence):
    with pytest.raises(UnireError, match=sentence):
        windower(**options)


# Batches


@given(st.lists(st.integers(1, 200), min_size=1, max_size=300))
@example([40] * 40)  # the last slice, of few windows, is wider than the first
def test_slices_hold_every_window_once_and_their_shapes_are_few(sizes):
    spec = windower(max_pieces=200).spec
    window = [Window(np.ones(size, np.int64), size) for size in sizes]
    passages = [
        Passage((each,), (Stretch(0, k, k, k + 1),), np.zeros((1, 2), np.int64)) for k, each in enumerate(window)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "SLICE", 1024)
        (together,) = in_batches(passages, max_cells=10**6, max_pieces=10**6)
        batch = collate(together, spec, rounded="slices")
    rows = [range(some.start, some.stop) for some, _ in batch.slices]
    assert list(itertools.chain(*rows)) == list(range(len(batch.input_ids)))
    for some, n in batch.slices:
        assert batch.sizes[some].max() <= n <= batch.input_ids.shape[1] <= spec.max_pieces
        assert n % 16 == 0 or n == spec.max_pieces
    full = [(some.stop - some.start, n) for some, n in batch.slices[:-1]]
    assert all(n_windows & (n_windows - 1) == 0 and n_windows * n <= 1024 for n_windows, n in full)
    assert len({n_windows for n_windows, n in full if n == full[0][1]}) <= 1
    assert batch.sizes.sum() == sum(sizes) + len(batch.sizes) - len(sizes)  # only the last slice is filled up


def test_batches_are_formed_by_length():
    passages = [p for i in range(50) for p in windower(window=0).passages(in_sentences(1 + i % 2 * 49), i)]
    batches = list(in_batches(passages, max_cells=10**6, max_pieces=25 * 52))
    assert [{len(p.windows[0].pieces) for p in batch} for batch in batches] == [{52}, {3}]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=50))
def test_tables_of_like_length_are_grouped_and_none_is_lost(lengths):
    everything = np.arange(len(lengths))
    groups = [(everything[group].tolist(), n) for group, n in of_like_length(np.array(lengths))]
    assert sorted(i for group, _ in groups for i in group) == [i for i, n in enumerate(lengths) if n]
    for group, n in groups:
        assert max(lengths[i] for i in group) == n
        assert n <= 32 or min(lengths[i] for i in group) > n / 2


# Speed


def seconds(layouter: Windower, document: Document) -> float:
    """The faster of two, with a warm cache."""
    layouter.passages(document)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        layouter.passages(document)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_abstract_takes_well_under_a_millisecond_per_sentence(layout):
    assert seconds(windower(max_pieces=512, layout=layout), in_sentences(*[25] * 8)) < 8e-3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [[25] * 4000, [100_000]], ids=["sentences", "one sentence"])
def test_a_document_of_a_hundred_thousand_words_takes_no_quadratic_time(layout, lengths):
    assert seconds(windower(max_pieces=512, layout=layout), in_sentences(*lengths)) < 5


# Real models, tiny


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

    def vectors(passages: list[Passage]) -> list[torch.Tensor]:
        batch = collate(passages, spec)
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if spec.token_types:
            inputs["token_type_ids"] = batch.token_type_ids
        with torch.no_grad():
            states = model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).last_hidden_state
        words = states.flatten(0, 1)[torch.from_numpy(batch.words)]
        return [row[:length] for row, length in zip(words, batch.lengths.tolist(), strict=True)]

    layouter = Windower(tokenizer, spec, layout="released", window=20)
    passages = layouter.passages(Document.from_words([LETTERS[:5], ["neuroscientists", "U.S."], LETTERS[5:30]]))
    together = vectors(passages)
    for passage, expected in zip(passages, together, strict=True):
        torch.testing.assert_close(vectors([passage])[0], expected, rtol=1e-4, atol=1e-4)
    (full,) = layouter.passages(in_sentences(spec.max_pieces - 4))
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


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_an_escaped_word_is_spelt_as_the_character_that_it_stands_for(family):
    def pieces(*words: str) -> list[int]:
        (passage,) = windower(family).passages(Document.from_words([words]))
        return passage.windows[0].pieces.tolist()

    assert pieces("aa", "-LRB-", "``", "-RRB-", "''") == pieces("aa", "(", '"', ")", '"')
