"""The user's object."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from unire import Document, Extractor
from unire.decoding import decoders
from unire.errors import UnireError
from unire.inference.engine import PendingTables
from unire.inference.streaming import Prefetcher, chunk_weight
from unire.inference.torch_engine import choose_device
from unire.segmentation import segment


@pytest.fixture(scope="module")
def folder(random_model) -> Path:
    return random_model


def test_four_threads_find_what_one_finds(folder, twenty):
    extractor = Extractor.load(folder, device="cpu")
    expected = list(extractor.annotate(twenty))
    assert any(document.entities for document in expected)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: list(extractor.annotate(twenty)), range(8)):
            assert found == expected


def test_a_text_gives_a_document_a_list_a_list_and_a_stream_a_stream(folder):
    extractor = Extractor.load(folder, device="cpu")
    texts = ["We present (a) parser. It isn't new!", "", " \n", "Results: 3.5%"]
    one, several, streamed = extractor.extract(texts[0]), extractor.extract(texts), extractor.extract(iter(texts))
    assert isinstance(one, Document)
    assert one.words[:6] == ("We", "present", "(", "a", ")", "parser")
    assert isinstance(several, list)
    assert several[0] == one
    assert [document.text for document in several] == texts
    assert not isinstance(streamed, list)
    assert list(streamed) == several
    assert extractor.extract(tuple(texts)) == several
    assert one.entities
    for entity in one.entities:
        assert one.text[entity.char_start : entity.char_end] == entity.text
        assert 0 <= entity.score <= 1


def test_empty_inputs_give_empty_results(folder):
    extractor = Extractor.load(folder, device="cpu")
    assert extractor.extract([]) == []
    assert list(extractor.extract(iter([]))) == []
    assert extractor.extract("") == Document("")
    assert extractor.extract(" \n\t").entities == ()


@pytest.mark.parametrize("text", ["\x00", "👍 👩‍💻", "שלום, עולם.", "a\x00b \ud800 c", "\u200b", "word" * 5000])
def test_odd_texts_keep_their_offsets(folder, text):
    document = Extractor.load(folder, device="cpu").extract(text)
    assert document.text == text
    assert all(text[e.char_start : e.char_end] == e.text for e in document.entities)


def test_something_that_is_no_text_is_refused(folder):
    extractor = Extractor.load(folder, device="cpu")
    with pytest.raises(UnireError, match="position 0 is bytes; decode"):
        extractor.extract([b"a"])


def test_a_stream_is_read_as_it_is_taken(folder, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 4 * 128)
    taken = []
    stream = Extractor.load(folder, device="cpu").extract(taken.append(i) or f"word {i}" for i in range(1000))
    assert not taken
    assert next(stream).text == "word 0"
    assert len(taken) < 100
    assert [document.text for document in stream] == [f"word {i}" for i in range(1, 1000)]


def test_a_chunk_ends_with_its_characters_too(folder, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 2 * 128)
    texts = ["a b", "c", "", "d e f g", "h"]
    assert [document.text for document in Extractor.load(folder, device="cpu").extract(texts)] == texts


def test_the_engine_has_batches_left_while_the_next_chunk_is_laid_out(folder, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 8 * 128)
    extractor = Extractor.load(folder, device="cpu")
    extractor.engine.max_batch_tokens = 8  # two documents
    start, build = extractor.engine.start, extractor.window_builder.build
    in_flight: list[str] = []
    counts = []

    def start_counted(batch):
        in_flight.append("batch")
        started = start(batch)
        return PendingTables(lambda: in_flight.pop() and started.result())

    def build_counted(chunk, first_index):
        counts.append(len(in_flight))
        return build(chunk, first_index)

    monkeypatch.setattr(extractor.engine, "start", start_counted)
    monkeypatch.setattr(extractor.window_builder, "build", build_counted)
    assert len(extractor.extract([f"word {i}" for i in range(64)])) == 64
    assert len(counts) == 8
    assert min(counts[1:]) >= 2


def test_an_error_in_the_stream_reaches_the_caller(folder):
    def texts():
        yield "a"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(Extractor.load(folder, device="cpu").extract(texts()))


def test_results_before_an_error_are_yielded_before_it_is_raised(folder):
    def texts():
        yield from (f"word {i}" for i in range(100))
        raise OSError("gone")

    stream = Extractor.load(folder, device="cpu").extract(texts())
    assert [next(stream).text for _ in range(100)] == [f"word {i}" for i in range(100)]
    with pytest.raises(OSError, match="gone"):
        next(stream)


def test_a_generator_runs_in_the_calling_thread(folder):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table texts (text)")
    connection.executemany("insert into texts values (?)", [("a b",), ("c",)])
    rows = connection.execute("select text from texts")
    assert [d.text for d in Extractor.load(folder, device="cpu").extract(text for (text,) in rows)] == ["a b", "c"]


def test_a_slow_stream_is_answered_as_it_comes(folder):
    let = threading.Event()

    def documents():
        yield segment("a b")
        let.wait(10)
        yield segment("c")

    stream = Extractor.load(folder, device="cpu").annotate(Prefetcher(documents(), chunk_weight, 1000))
    assert next(stream).text == "a b"
    assert not let.is_set()
    let.set()
    assert [document.text for document in stream] == ["c"]


def test_closing_a_stream_early_cancels_its_batches(folder):
    extractor = Extractor.load(folder, device="cpu")
    cancelled = []
    start = extractor.engine.start
    extractor.engine.start = lambda batch: PendingTables(start(batch).result, lambda: cancelled.append(batch))
    extractor.engine.max_cells = 1  # so that every sentence is a batch
    stream = extractor.extract(f"word {i}" for i in range(100))
    next(stream)
    stream.close()
    assert len(cancelled) in (2, 3)


def test_on_batch_sees_every_table_with_the_position_of_its_document_in_the_stream(folder, twenty, monkeypatch):
    monkeypatch.setattr("unire.inference.streaming.CHUNK_CHARACTERS", 4 * 128)
    extractor = Extractor.load(folder, device="cpu")
    documents = [Document(""), *twenty, Document("")]
    words: Counter[int] = Counter()

    def count(batch, P):
        assert P.shape[:3] == (*batch.words.shape, batch.words.shape[1])
        for table in batch.table_spans:
            words[table.document] += len(table)

    assert len(list(extractor.annotate(documents, on_batch=count))) == len(documents)
    assert words == {i: document.n_words for i, document in enumerate(documents) if document.n_words}


def test_an_error_of_on_batch_stops_extraction_and_cancels_started_batches(folder):
    class UnwantedError(Exception):
        pass

    def refuse(batch, P):
        raise UnwantedError

    extractor = Extractor.load(folder, device="cpu")
    cancelled = []
    start = extractor.engine.start
    extractor.engine.start = lambda batch: PendingTables(start(batch).result, lambda: cancelled.append(batch))
    extractor.engine.max_cells = 1  # so that every sentence is a batch
    with pytest.raises(UnwantedError):
        extractor.extract([f"word {i}" for i in range(100)], on_batch=refuse)
    assert len(cancelled) == 2


def test_an_engine_yields_the_results_before_an_error(folder):
    extractor = Extractor.load(folder, device="cpu")
    batch = next(extractor.build_batches([segment("a b")]))

    def batches():
        yield batch
        yield batch
        raise OSError("gone")

    results = extractor.engine.run(batches())
    assert [next(results)[0] for _ in range(2)] == [batch, batch]
    with pytest.raises(OSError, match="gone"):
        next(results)


@pytest.mark.parametrize("sentences", ["ab", ["We train", "x"], [[1]], [["a", None]]])
def test_invalid_words_are_refused(folder, sentences):
    with pytest.raises(UnireError, match="a sentence is a list of words"):
        Extractor.load(folder, device="cpu").extract_words(sentences)


@pytest.mark.parametrize("texts", [b"abc", None, 3])
def test_an_invalid_text_is_refused_at_once(folder, texts):
    with pytest.raises(UnireError, match="a text is a string"):
        Extractor.load(folder, device="cpu").extract(texts)


def test_an_extractor_is_not_pickled(folder):
    with pytest.raises(UnireError, match="load the model in the other process"):
        pickle.dumps(Extractor.load(folder, device="cpu"))


def test_threads_that_share_an_extractor_find_what_one_finds_in_texts(folder, twenty):
    extractor = Extractor.load(folder, device="cpu")
    texts = [" ".join(document.words) for document in twenty]
    expected = extractor.extract(texts)
    with ThreadPoolExecutor(4) as threads:
        singly = [extractor.extract(text) for text in texts]  # in other batches scores may differ in the last digit
        assert list(threads.map(extractor.extract, 8 * texts)) == 8 * singly
        assert all(found == expected for found in threads.map(extractor.extract, 4 * [texts]))


def test_a_decoder_and_a_threshold_override_the_models_own(folder, twenty):
    own = Extractor.load(folder, device="cpu")
    assert (own.config.decoder, own.config.alpha) == ("split", 0.5)
    other = Extractor.load(folder, device="cpu", decoder="hard", alpha=1.1)
    assert (other.config.decoder, other.config.alpha) == ("hard", 1.1)
    assert list(other.annotate(twenty)) != list(own.annotate(twenty))


def test_another_decoder_does_not_use_alpha_and_odds_tuned_for_the_first(folder):
    own = Extractor.load(folder, device="cpu", relation_odds=3.0)
    other = own.with_decoder("likely").config
    assert (other.decoder, other.alpha, other.relation_odds) == ("likely", decoders.DEFAULT_MAX_SPAN_ALPHA, 1.0)
    assert Extractor.load(folder, device="cpu", decoder="likely").config == other
    assert own.with_decoder("split").config == own.config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "soft"}, "unknown decoder 'soft'"),
        ({"alpha": 0}, "alpha must be above 0, not 0"),
        ({"alpha": float("nan")}, "alpha must be above 0, not nan"),
        ({"device": "foo"}, "cannot use the device 'foo'"),
        ({"device": "meta"}, "cannot use the device 'meta'"),
    ],
)
def test_invalid_options_are_refused(folder, options, message):
    with pytest.raises(UnireError, match=message):
        Extractor.load(folder, **{"device": "cpu", **options})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(UnireError, match="cannot use the device 'cuda'"):
        choose_device("cuda")
    assert choose_device().type == "cpu"


def test_only_split_and_unreadable_text_is_noted(folder):
    notes: Counter[str] = Counter()
    extractor = Extractor.load(folder, device="cpu")
    list(extractor.annotate([Document.from_words([["a", "b"]])], notes=notes))
    assert not notes
    list(extractor.annotate([Document.from_words([200 * ["a"], ["\u200b"]])], notes=notes))
    assert set(notes) == {"sentence larger than a table, split", "word without a token, read as unknown"}


def test_a_text_and_words_are_given_an_id_and_noted_alike(folder):
    extractor = Extractor.load(folder, device="cpu")
    for found in (extractor.extract, lambda text, **more: extractor.extract_words([text.split()], **more)):
        notes: Counter[str] = Counter()
        assert found("a " * 200, id="mine", notes=notes).id == "mine"
        assert "sentence larger than a table, split" in notes
        assert found("a").id == ""
    with pytest.raises(UnireError, match="is for a single text; for several texts give ids="):
        extractor.extract(["a", "b"], id="mine")


def test_no_documents_and_no_words_give_as_much(folder):
    extractor = Extractor.load(folder, device="cpu")
    assert list(extractor.annotate([])) == []
    assert extractor.extract_words([]).words == ()
    assert extractor.extract_words([[], ["a"], []]).words == ("a",)


def test_a_model_folder_without_labels_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "labels.json").unlink()
    with pytest.raises(UnireError, match=r"model folder '.*copy' has no labels\.json"):
        Extractor.load(copy, device="cpu")


def test_documents_without_words_are_given_before_an_error(science):
    def texts():
        yield ""
        raise UnireError("unreadable")

    stream = science.extract(texts())
    assert next(stream).text == ""
    with pytest.raises(UnireError, match="unreadable"):
        next(stream)
