"""Words as tokens: every word is split the same way in any text, in any thread and at any length."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer

import unire.windows.tokenizer
from helpers.tiny_encoders import FAMILIES
from helpers.windows import (
    CONTROL,
    GENOME,
    LAYOUTS,
    LETTERS,
    LONG,
    first_token,
    in_sentences,
    only_window,
    spec_of,
    tokenizer_of,
    window_builder,
)
from unire.config import EncoderSpec
from unire.documents import Document
from unire.windows.windows import WindowBuilder


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_very_long_word_keeps_its_first_token_and_at_most_half_the_window(family, layout):
    document = Document.from_words([["aa", "gattaca" * 1500, "bb"]])
    (group,) = window_builder(family, layout=layout).build([document])
    (window,) = group.windows
    assert len(window.tokens) < 128 // 2
    assert window.tokens[group.word_index[:, 1]].tolist() == [first_token(word, family) for word in document.words]


def test_a_word_without_a_token_is_read_as_the_unknown_one_and_counted_where_it_is_read():
    groups = window_builder().build([Document.from_words([["aa", CONTROL, "\ufe0f"], ["bb"]])])
    assert only_window(groups[0]) == ["[CLS]", "aa", "[UNK]", "[UNK]", "bb", "[SEP]"]
    assert [group.unknown_words for group in groups] == [2, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_half_a_surrogate_pair_is_read_as_a_question_mark(family):
    half, mark = (window_builder(family).build([Document.from_words([["aa", word]])])[0] for word in ("\ud83d", "?"))
    assert half.windows[0].tokens.tolist() == mark.windows[0].tokens.tolist()


@pytest.mark.parametrize("family", ["bert", "deberta", "albert"])
def test_the_name_of_a_special_token_in_a_text_is_only_text(family):
    builder = window_builder(family)
    (group,) = builder.build([Document.from_words([["aa", "[SEP]", "bb"]])])
    inside = group.windows[0].tokens[1:-1]
    assert builder.spec.suffix[0] not in inside


def test_padding_and_truncation_in_a_tokenizer_file_are_ignored():
    tokenizer = Tokenizer.from_str(tokenizer_of("bert").to_str())
    tokenizer.enable_padding(length=32)
    tokenizer.enable_truncation(max_length=2)
    spec = EncoderSpec.probe(tokenizer, max_pieces=128, token_types=True, pad_id=0, unk_id=1)
    assert spec == spec_of("bert")
    (group,) = WindowBuilder(tokenizer, spec).build([Document.from_words([["neuroscientists", "aa"]])])
    assert only_window(group) == ["[CLS]", "neuro", "##scien", "##tists", "aa", "[SEP]"]
    assert (tokenizer.padding["length"], tokenizer.truncation["max_length"]) == (32, 2), (
        "the caller's is left as it was"
    )


def test_the_cache_of_words_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    document = in_sentences(40, 40, 20, 30)
    expected = [group.windows[0].tokens.tolist() for group in window_builder().build([document])]
    monkeypatch.setattr(unire.windows.tokenizer, "MAX_CACHED_WORDS", 10)
    forgetful = window_builder()
    for _ in range(2):
        assert [group.windows[0].tokens.tolist() for group in forgetful.build([document])] == expected
    forgetful.build([Document.from_words([["neuroscientists", "never", "seen"]])])
    assert len(forgetful.tokenize._cache.positions) == 3


def test_threads_that_learn_words_at_once_spell_them_alike(monkeypatch):
    monkeypatch.setattr(unire.windows.tokenizer, "MAX_CACHED_WORDS", 50)
    tokenize = window_builder().tokenize
    texts = [[*LETTERS[k : k + 20], *LONG[5 * k : 5 * k + 9], GENOME] for k in range(20)]
    expected = [[token for word in words for token in window_builder().tokenize([word]).ids] for words in texts]
    with ThreadPoolExecutor(4) as threads:
        assert [tokens.ids.tolist() for tokens in threads.map(tokenize, 10 * texts)] == 10 * expected


def test_a_thread_that_spells_new_words_does_not_hold_up_others(monkeypatch):
    tokenize = window_builder().tokenize
    expected = tokenize(LETTERS).ids.tolist()
    original = tokenize._tokenize
    held = threading.Event()
    monkeypatch.setattr(tokenize, "_tokenize", lambda words: held.wait(30) and original(words))
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(tokenize, LONG)
        try:
            assert threads.submit(tokenize, LETTERS).result(10).ids.tolist() == expected
            assert not slow.done()
        finally:
            held.set()
    assert slow.result().ids.tolist() == window_builder().tokenize(LONG).ids.tolist()


def test_words_are_spelt_alike_after_learning_was_interrupted(monkeypatch):
    tokenize = window_builder().tokenize

    def interrupted(words):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokenize._cache, "_bounds", SimpleNamespace(append=interrupted))
        with pytest.raises(KeyboardInterrupt):
            tokenize(LETTERS)
    assert tokenize(LONG).ids.tolist() == window_builder().tokenize(LONG).ids.tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_while_a_thread_learns_words_does_not_wait_for_it():
    tokenize = window_builder().tokenize
    expected = tokenize(LETTERS).ids.tolist()
    with tokenize._lock:
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(tokenize(LETTERS).ids.tolist() != expected)
    assert os.waitpid(child, 0)[1] == 0


def test_a_very_long_word_is_spelt_and_not_remembered():
    builder = window_builder()
    document = Document.from_words([["aa", "bb" * 1000, "aa"]])
    first, second = (builder.build([document])[0].windows[0].tokens.tolist() for _ in range(2))
    assert first == second
    assert list(builder.tokenize._cache.positions) == ["aa"]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_an_escaped_word_is_spelt_as_the_character_that_it_stands_for(family):
    def tokens(*words: str) -> list[int]:
        (group,) = window_builder(family).build([Document.from_words([words])])
        return group.windows[0].tokens.tolist()

    assert tokens("aa", "-LRB-", "``", "-RRB-", "''") == tokens("aa", "(", '"', ")", '"')
