"""Rows of relations and entities for spreadsheets: no text breaks a file, and none runs as a formula."""

from __future__ import annotations

import csv
import io
import re
import time
import timeit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.graphs import met, texts
from unire.documents import Document
from unire.errors import UnireError
from unire.graph.rows import CSV, ENTITIES, TRIPLES, TSV, get_evidence

WRITERS = {
    "csv": (TRIPLES, CSV),
    "tsv": (TRIPLES, TSV),
    "entities-csv": (ENTITIES, CSV),
    "entities-tsv": (ENTITIES, TSV),
}


def written(name: str, documents: list[Document]) -> str:
    out = io.StringIO(newline="")
    table, dialect = WRITERS[name]
    assert table.write(iter(documents), out, dialect) == len(documents)
    return out.getvalue()


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@given(texts, texts)
def test_csv_gives_back_every_text_and_runs_none(head, relation):
    text = written("csv", [met(head, "Bob", id="a", relation=relation)])
    (row,) = read_csv(text)
    entity = read_csv(written("entities-csv", [met(head, "Bob", id="a", relation=relation)]))[0]
    for cell, text in ((row["head"], head), (row["relation"], relation), (entity["entity"], head)):
        assert (cell[1:] if cell.startswith("'") else cell) == text
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))


@given(texts, texts)
def test_tsv_has_a_line_for_every_row_and_gives_back_every_text(head, relation):
    lines = written("tsv", [met(head, "Bob", id="a", relation=relation)]).split("\n")
    assert len(lines) == 3
    assert lines[2] == ""
    cells = lines[1].split("\t")
    names = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    row = dict(zip(TRIPLES.columns, (re.sub(r"\\(.)", lambda m: names[m[1]], cell) for cell in cells), strict=True))
    assert (row["head"], row["relation"], row["tail"]) == (head, relation, "Bob")


def test_a_triple_has_its_labels_score_sentence_and_characters():
    document = Document.from_words(
        [["Hello", "."], ["Ada", "lives", "in", "London"], []],
        [(2, 3, "Peop"), (5, 6, "Loc")],
        [(0, 1, "Live_In", 0.75)],
        id="a",
    )
    text = written("csv", [document])
    assert text.splitlines(keepends=True)[0] == ",".join(TRIPLES.columns) + "\r\n"
    (row,) = read_csv(text)
    assert (row["head"], row["head_label"], row["relation"], row["tail"], row["tail_label"]) == (
        "Ada",
        "Peop",
        "Live_In",
        "London",
        "Loc",
    )
    assert (row["score"], row["document"], row["sentence"]) == ("0.75", "a", "Ada lives in London")
    assert document.text[int(row["head_start"]) : int(row["head_end"])] == "Ada"
    assert document.text[int(row["tail_start"]) : int(row["tail_end"])] == "London"


def test_an_entity_has_its_row_in_a_relation_or_not():
    document = Document.from_words(
        [["Hello", "."], ["Ada", "lives", "in", "London"], []], [(2, 3, "Peop", 0.75), (5, 6, "Loc")], id="a"
    )
    text = written("entities-csv", [document])
    assert text.splitlines(keepends=True)[0] == "entity,label,score,document,sentence,start,end\r\n"
    ada, london = read_csv(text)
    assert list(ada.values())[:5] == ["Ada", "Peop", "0.75", "a", "Ada lives in London"]
    assert list(london.values())[:5] == ["London", "Loc", "", "a", "Ada lives in London"]
    assert document.text[int(london["start"]) : int(london["end"])] == "London"


def test_a_relation_across_sentences_shows_them_all():
    document = Document.from_words([["Ada", "came"], ["She", "left"]], [(0, 1, "Peop"), (2, 3, "Peop")], [(1, 0, "is")])
    (row,) = read_csv(written("csv", [document]))
    assert row["sentence"] == "Ada came\nShe left"
    assert row["score"] == ""


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_the_evidence_is_every_sentence_from_the_first_to_the_last(lengths, data):
    numbers = iter(range(100))
    document = Document.from_words([[f"w{next(numbers)}" for _ in range(length)] for length in lengths])
    assume(document.n_words)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, document.n_words - 1)] * 2)))
    inside = [s.words for s in document.sentences if s.start <= last and first < s.end]
    assert get_evidence(document, first, last).split() == [word for words in inside for word in words]


@pytest.mark.no_cover
def test_a_row_takes_as_long_in_a_long_document_as_in_a_short_one():
    def seconds(sentences: int) -> float:
        document = Document.from_words([["a"]] * sentences, [(i, i + 1, "A") for i in range(sentences)])
        assert document.entities  # made once
        return (
            min(timeit.repeat(lambda: ENTITIES.lines(document), number=1, repeat=5, timer=time.process_time))
            / sentences
        )

    assert seconds(8000) < 4 * seconds(500)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_written_whole_or_not_at_all(name, tmp_path):
    path = tmp_path / "rows"
    table, dialect = WRITERS[name]
    assert table.write([], path, dialect) == 0
    before = path.read_bytes()
    assert before

    def broken():
        yield met("Ada", "Bob")
        raise UnireError("the stream broke")

    with pytest.raises(UnireError, match="the stream broke"):
        table.write(broken(), path, dialect)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_rows_can_be_written_document_by_document(name):
    documents = [met("Ada", "Bob", id="a"), met("a,b\t\n", "Bob", id="b")]
    table, dialect = WRITERS[name]
    parts = [table.head(dialect), *(table.lines(document, dialect) for document in documents)]
    assert "".join(parts) == written(name, documents)
