"""Plain text as packed rows."""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.tiny_encoders import tiny_tokenizer
from unire.config import EncoderSpec
from unire.errors import UnireError
from unire.segmentation import LETTER, segment
from unire.training.adaptation import packed_corpus as corpus_module
from unire.training.adaptation.packed_corpus import PackedCorpus
from unire.windows.tokenizer import WordTokenizer

WORDS = ("the", "a", "red", "green", "enormous", "elephant", "grasshopper", "walks", "swims", "quickly", "tablecloths")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred documents of different lengths."""
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(5, 30))) for _ in range(200)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def packed(file: Path, *, length: int = 16, seed: int = 0) -> PackedCorpus:
    tokenizer = tiny_tokenizer("bert", WORDS)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    return PackedCorpus([file], tokenizer, prefix=(cls,), suffix=(sep,), length=length, seed=seed)


def pass_of(rows: PackedCorpus) -> int:
    """Rows of one pass; asking for far too many waits for the end of the text."""
    rows.rows(10_000, 1)
    assert rows.pass_rows is not None
    return rows.pass_rows


def test_a_pass_holds_every_document_once_in_an_order_that_the_seed_decides(corpus: Path) -> None:
    def documents(seed: int) -> list[tuple[int, ...]]:
        with packed(corpus, seed=seed) as rows:
            body = rows.rows(0, pass_of(rows))[:, 1:-1].flatten()
        sep = rows.suffix[0]
        found = [tuple(part[part != sep]) for part in np.split(body, np.flatnonzero(body == sep))]
        return found[:200]  # the last row repeats its own text to be full

    tokenizer = tiny_tokenizer("bert", WORDS)
    lines = corpus.read_text(encoding="utf-8").splitlines()
    expected = sorted(tuple(tokenizer.encode(line, add_special_tokens=False).ids) for line in lines)
    first = documents(seed=0)
    assert sorted(first) == expected
    assert documents(seed=0) == first
    assert documents(seed=1) != first
    assert sorted(documents(seed=1)) == expected


def test_every_row_is_full_and_framed(corpus: Path) -> None:
    with packed(corpus) as rows:
        block = rows.rows(0, 3 * pass_of(rows))
    assert set(block[:, 0]) == set(rows.prefix)
    assert set(block[:, -1]) == set(rows.suffix)
    assert tiny_tokenizer("bert", WORDS).token_to_id("[PAD]") not in block


def test_later_passes_have_the_same_rows_in_other_orders(corpus: Path) -> None:
    with packed(corpus) as rows:
        n = pass_of(rows)
        passes = rows.rows(0, 3 * n).reshape(3, n, -1)
    assert len({block.tobytes() for block in passes}) == 3
    assert len({tuple(sorted(row.tobytes() for row in block)) for block in passes}) == 1


def test_a_row_is_the_same_however_it_is_asked_for(corpus: Path) -> None:
    with packed(corpus) as rows:
        early = rows.rows(0, 5)
        n = pass_of(rows)
        whole = rows.rows(0, 2 * n)
        assert np.array_equal(early, whole[:5])
        assert np.array_equal(rows.rows(n - 3, 6), whole[n - 3 : n + 3])


def test_text_that_does_not_fit_into_memory_is_read_in_shards(corpus: Path, monkeypatch) -> None:
    with packed(corpus) as rows:
        expected = np.bincount(rows.rows(0, pass_of(rows)).flatten())
    monkeypatch.setattr(corpus_module, "SHARD_CHARACTERS", 500)
    monkeypatch.setattr(corpus_module, "CHUNK_DOCUMENTS", 3)
    with packed(corpus) as rows:
        found = np.bincount(rows.rows(0, pass_of(rows)).flatten())
    assert np.abs(found - expected).max() <= 16  # but for what the last row repeats


def test_text_shorter_than_a_row_is_repeated_in_it(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("the red\n", encoding="utf-8")
    with packed(path, length=11) as rows:
        cls, sep = rows.prefix[0], rows.suffix[0]
        the, red = tiny_tokenizer("bert", WORDS).encode("the red", add_special_tokens=False).ids
        assert rows.rows(0, 1).tolist() == [[cls, *[the, red, sep] * 3, sep]]


def test_a_corpus_without_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("\n \n", encoding="utf-8")
    with packed(path) as rows, pytest.raises(UnireError, match=r"empty\.txt' contains no text"):
        rows.rows(0, 1)


def test_a_closed_corpus_stops_reading(tmp_path: Path) -> None:
    path = tmp_path / "pipe.txt"
    path.write_text("the red\n" * 300_000, encoding="utf-8")
    with packed(path) as rows:
        pass
    assert rows.pass_rows is None


def marked_tokenizer() -> Tokenizer:
    tokenizer = tiny_tokenizer("bert", WORDS)
    tokenizer.add_tokens(["[unused0]", "[unused1]"])
    return tokenizer


def marked_tokens(text: str, tmp_path: Path) -> list[int]:
    """The tokens of a text, read as a corpus with case marks."""
    tokenizer = marked_tokenizer()
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    frame = {"prefix": (), "suffix": (tokenizer.token_to_id("[SEP]"),)}
    marks = tuple(tokenizer.token_to_id(f"[unused{n}]") for n in range(2))
    with PackedCorpus([tmp_path / "text.txt"], tokenizer, **frame, length=8, case_marks=marks) as rows:
        tokens = rows.rows(0, pass_of(rows))[:, :-1].flatten().tolist()
    return tokens[: tokens.index(frame["suffix"][0])]


def tokens_of_windows(text: str) -> list[int]:
    """The tokens of the same text where it is segmented for a model."""
    tokenizer = marked_tokenizer()
    spec = EncoderSpec.probe(tokenizer, pad_id=0, unk_id=1, max_pieces=128, token_types=True)
    words = WordTokenizer(tokenizer, spec.with_case_marks(tokenizer), max_word_tokens=32)
    return words(segment(text).words).ids.tolist()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Red (GREEN) red, A 3D", "red [unused0] ( green [unused1] ) red , a [unused0] 3 ##d"),
        ("the U.S. red", "the u . s . [unused1] red"),
        ("Red-Green, red-Green", "red - green [unused0] , red - green"),
        ("A. Red's", "a . [unused1] red [unused0] ' s"),
    ],
)
def test_case_marks_stand_behind_words_that_begin_with_a_capital(text: str, tokens: str, tmp_path: Path) -> None:
    assert " ".join(map(marked_tokenizer().id_to_token, marked_tokens(text, tmp_path))) == tokens


ODD = (
    *("the", "red,", "Red", "GREEN", "green.", "U.S.", "U.S.-led", "Jean-Luc", "mid-March", "and/Or", "A/B", "AT&T"),
    *("O'Brien", "Smith's", "BBC's", "Don't", "CAN'T", "Cannot", "Mr.", "Corp.", "J. Smith", "Ph.D.", "iPhone", "3D"),
    *("(Red)", "'Red'", "red--Green", "#P", "$US", "US$5", "C++", "www.Red.org", "…", "Élan", "Ⓑ"),
)


@given(st.lists(st.sampled_from(ODD), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_corpus_marks_the_words_that_windows_mark(words: list[str]) -> None:
    with TemporaryDirectory() as folder:
        assert marked_tokens(" ".join(words), Path(folder)) == tokens_of_windows(" ".join(words))


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_corpus_marks_the_capitals_that_windows_mark_in_every_script(tmp_path: Path) -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    cased = [c for c in characters if (c.isupper() or c.islower() or c.istitle()) and not unicodedata.combining(c)]
    letters = [c for c in cased if re.match(LETTER, c)]
    assert {*"AaÉéΩωЖжǅⅫ𝐁"} <= {*letters}
    assert {*"Ⓑⓑ🅰"} <= {*cased} - {*letters}  # to a segmenter these are symbols, each a word of its own
    forms = ("{}", "{}x", "{}X", "x{}", "3{}", "_{}", "{}\u0301x", "{}\u0301X", "x\u0301{}")
    text = " ".join([*(form.format(c) for c in letters for form in forms), *(c for c in cased if c not in letters)])
    assert marked_tokens(text, tmp_path) == tokens_of_windows(text)
