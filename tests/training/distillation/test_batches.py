"""Unlabelled text as steps of a distillation: every document once in every pass, wherever one begins."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.distillation import quick, steps_of, taught
from helpers.paths import TWENTY
from unire import formats
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.models.unire import UniRE
from unire.training.distillation import batches
from unire.training.distillation.batches import LEAK, SPLIT_DIFFERENTLY, DistillationBatches
from unire.training.distillation.distill import DistillConfig
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.windows.windows import WindowBuilder


def laid_out(
    files: Sequence[Path], window_builders: Sequence[WindowBuilder], limit: int | None = None, **options
) -> DistillationBatches:
    options = {"overlap_filter": OverlapFilter(()), "size": 4, "config": quick(), **options}
    return DistillationBatches(UnlabelledCorpus.read(files, limit), window_builders, **options)


@pytest.fixture(scope="module")
def window_builder(teacher) -> WindowBuilder:
    return Extractor.load(teacher, device="cpu").window_builder


def test_the_same_documents_come_from_every_format(twenty, window_builder, tmp_path):
    names = {"unire": "a.jsonl", "dygie": "b.jsonl", "spert": "c.json"}
    for name, file in names.items():
        formats.write(twenty, tmp_path / file, name)
    counts = []
    for file in names.values():
        data = laid_out([tmp_path / file], [window_builder], size=1000)
        (step,) = data[0].steps
        counts.append((step.n_tables, step.n_words))
    assert counts == [(20, sum(document.n_words for document in twenty))] * 3


@pytest.mark.parametrize("name", ["unire", "dygie"])
def test_documents_come_from_a_file_that_ends_otherwise_and_begins_with_a_mark(name, twenty, tmp_path):
    formats.write(twenty, tmp_path / "a.jsonl", name)
    marked = tmp_path / "a.ndjson"
    marked.write_bytes(codecs.BOM_UTF8 + (tmp_path / "a.jsonl").read_bytes())
    assert list(UnlabelledCorpus.read([marked])) == list(UnlabelledCorpus.read([tmp_path / "a.jsonl"]))


def test_texts_alone_come_from_json_lines_and_tables_are_refused(tmp_path):
    lines, table = tmp_path / "texts.jsonl", tmp_path / "texts.csv"
    lines.write_text('{"id": "a", "text": "One text."}\n{"id": "b", "text": "Another."}\n', encoding="utf-8")
    assert [document.text for document in UnlabelledCorpus.read([lines])] == ["One text.", "Another."]
    table.write_text("id,text\na,One text.\n", encoding="utf-8")
    with pytest.raises(UnireError, match=r"texts.csv' is not plain text"):
        UnlabelledCorpus.read([table])


def test_every_pass_has_every_document_once_in_another_order(twenty, window_builder, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_DOCUMENTS", 3)
    data = laid_out([TWENTY], [window_builder])
    assert (len(data), len(data.texts)) == (3, 7)
    passes = [[step.n_words for number in range(k, k + 3) for step in data[number].steps] for k in (0, 3, 6)]
    assert [sum(words) for words in passes] == [sum(document.n_words for document in twenty)] * 3
    assert len({tuple(words) for words in passes}) > 1
    again = laid_out([TWENTY], [window_builder])
    assert [step.n_words for number in range(3) for step in again[number].steps] == passes[0]
    assert len(laid_out([TWENTY], [window_builder], limit=2).texts) == 2


def test_steps_go_on_from_any_place_and_are_the_same_when_made_ahead(window_builder, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_DOCUMENTS", 3)
    data = laid_out([TWENTY], [window_builder])
    start = {"chunk": 0, "position": 0, "process": 0, "n_processes": 1}
    straight = [(s.n_words, place) for (s, place, _), _ in zip(data.steps(**start, workers=0), range(9), strict=False)]
    stream = data.steps(**start, workers=1)
    assert [(s.n_words, place) for (s, place, _), _ in zip(stream, range(9), strict=False)] == straight
    stream.close()
    for done, (_, (chunk, position)) in enumerate(straight, start=1):
        later = data.steps(chunk, position, process=0, n_processes=1, workers=0)
        assert [(s.n_words, p) for (s, p, _), _ in zip(later, range(9 - done), strict=False)] == straight[done:]


def test_two_processes_read_different_chunks(window_builder, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_DOCUMENTS", 1)
    data = laid_out([TWENTY], [window_builder], size=1)
    whole = [step.n_words for step in steps_of(data, 6)]
    parts = [[step.n_words for step in steps_of(data, 3, process=i, n_processes=2)] for i in (0, 1)]
    assert parts == [whole[::2], whole[1::2]]


def test_a_sentence_that_is_split_otherwise_is_left_out_and_counted(teacher, window_builder, tmp_path):
    model = UniRE.from_pretrained(teacher)
    narrow = WindowBuilder(model.tokenizer, model.config.spec, max_table=6)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one two three four five six seven eight . A short one .\n", encoding="utf-8")
    (step,) = laid_out([corpus], [window_builder, narrow])[0].steps
    assert (step.n_tables, step.n_words, step.n_cells) == (1, 4, 16)
    assert [mask.tolist() for mask in step.kept] in ([[False, True]], [[True, False]])
    assert laid_out([corpus], [window_builder, narrow])[0].notes[SPLIT_DIFFERENTLY] == 1
    assert laid_out([corpus], [window_builder, narrow])[1].notes[SPLIT_DIFFERENTLY] == 0  # not again on the second pass


def test_skipped_documents_are_counted_once_even_if_alone_in_a_chunk(window_builder, monkeypatch):
    """With its next step, wherever one begins."""
    monkeypatch.setattr(batches, "CHUNK_DOCUMENTS", 1)
    texts = UnlabelledCorpus.read([TWENTY])
    data = laid_out([TWENTY], [window_builder], overlap_filter=OverlapFilter(texts[k].text for k in (1, 3, 4)))
    without_steps = [number for number in range(len(data)) if not data[number].steps]
    assert without_steps == [1, 2, 6]  # two in a row, and the last of a pass

    def read(chunk: int, position: int, count: int) -> list[tuple[list[int], Counter[str]]]:
        stream = data.steps(chunk, position, process=0, n_processes=1, workers=0)
        return [(place, notes) for (_, place, notes), _ in zip(stream, range(count), strict=False)]

    straight = read(0, 0, 12)
    assert straight[-1][0][0] > len(data)  # on the second pass
    assert sum((notes for _, notes in straight), Counter())[LEAK] == len(without_steps)
    for done, (place, _) in enumerate(straight, start=1):
        assert read(*place, 12 - done) == straight[done:]


def test_a_broken_or_empty_corpus_is_one_sentence(teacher, encoder, window_builder, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"sentences": [["a"]], "doc_key": "x"}\n{"sentences": 3, "doc_key": "y"}\n', encoding="utf-8")
    for workers in (0, 1):
        stream = laid_out([broken], [window_builder]).steps(0, 0, process=0, n_processes=1, workers=workers)
        with pytest.raises(UnireError, match="document 2 of the corpus: ") as caught:
            next(stream)
        assert "\n" not in str(caught.value)
    broken.write_text('{"sentences": [["a"]], "doc_key": "x"}\n{"sent\n', encoding="utf-8")
    assert "not valid JSON" in laid_out([broken], [window_builder])[0].error
    empty = tmp_path / "empty.txt"
    empty.write_text("\n", encoding="utf-8")
    with pytest.raises(UnireError, match="no text"):
        taught([teacher], encoder, tmp_path / "s", empty)
    with pytest.raises(UnireError, match="no corpus file"):
        taught([teacher], encoder, tmp_path / "s", tmp_path / "none.txt")
    with pytest.raises(UnireError, match="no teacher"):
        taught([], encoder, tmp_path / "s")


@pytest.mark.parametrize("wrong", [{"soft_batch": 0}, {"soft_weight": 0.0}, {"documents": 0}, {"minutes": -1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(UnireError, match=" must be "):
        DistillConfig(**wrong)
