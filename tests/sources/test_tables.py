"""Texts in the rows of JSON lines, CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.paths import FIXTURES
from helpers.sources import Lines, parquet, raise_if, read, refused
from unire import formats
from unire.errors import UnireError
from unire.limits import ReadLimits
from unire.sources import TextSources
from unire.sources.csv import iter_table, split_table
from unire.sources.parquet import split_parquet


def test_json_lines_have_their_text_in_a_field(tmp_path):
    file = tmp_path / "papers.jsonl"
    items = [{"id": 7, "text": "one", "abstract": "uno"}, {"text": None, "abstract": "due"}]
    file.write_text("\n\n".join(map(json.dumps, items)))
    assert read(file) == [("7", "one"), (f"{file}:3", "")]
    assert read(file, field="abstract") == [("7", "uno"), (f"{file}:3", "due")]
    assert "line 1 has no field 'title', only 'id', 'text', 'abstract'" in refused(file, field="title")
    assert "'id' is int, not a string" in refused(file, field="id")


def test_a_null_id_is_replaced_by_the_position(tmp_path):
    file = tmp_path / "papers.jsonl"
    file.write_text('{"id": null, "text": "one"}\n')
    assert read(file) == [(f"{file}:1", "one")]
    table = parquet(tmp_path / "papers.parquet", id=["x", None], text=["one", "two"])
    assert read(table) == [("x", "one"), (f"{table}:2", "two")]
    file.write_text('{"id": {"no": 1}, "text": "one"}\n')
    assert "line 1: its 'id' is dict, not a string or a number; leave it out" in refused(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no JSON", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"text": "\\ud800"}', r"half a surrogate pair, \ud800"),
        ("{}", "line 2 has no field 'text' and no other; choose one with field=..."),
        ("[" * 100_000, "a number is too long, or brackets are nested too deeply; for plain lines"),
    ],
)
def test_invalid_json_lines_are_refused(tmp_path, line, message):
    file = tmp_path / "papers.jsonl"
    file.write_text('{"text": "good"}\n' + line)
    assert message in refused(file)
    assert "line 2" in refused(file)


def test_parquet_has_its_text_in_a_column(tmp_path):
    file = parquet(tmp_path / "papers.parquet", text=["one", None, "three"], n=[1, 2, 3])
    assert read(file) == [(f"{file}:1", "one"), (f"{file}:2", ""), (f"{file}:3", "three")]
    named = parquet(tmp_path / "named.parquet", id=["x", "y"], abstract=["a b", "c"])
    assert read(named, field="abstract") == [("x", "a b"), ("y", "c")]
    assert "has no column 'text', only 'id', 'abstract'; choose one with field=..." in refused(named)
    assert "row 1: 'n' is int" in refused(file, field="n")
    assert "row 1: 'n' is int" in refused(parquet(tmp_path / "zero.parquet", n=[0]), field="n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not Parquet at all")
    assert "is not a Parquet file" in refused(broken)


@pytest.mark.parametrize("suffix", [".csv", ".CSV"])
def test_a_table_has_its_text_in_a_column_also_over_several_lines(tmp_path, suffix):
    file = tmp_path / f"papers{suffix}"
    long = "word " * 100_000
    rows = [["id", "text", "n"], ["x", 'one, "two"\nthree\tfour', 1], [], ["", long, 2], ["y", "", 3]]
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        csv.writer(out).writerows(rows)
    assert read(file) == [("x", 'one, "two"\nthree\tfour'), (f"{file}:4", long), ("y", "")]
    assert read(file, field="n") == [("x", "1"), (f"{file}:4", "2"), ("y", "3")]
    assert read(file, field="id")[0] == (f"{file}:2", "x")
    assert read(tmp_path, field="text") == read(file)
    assert read(file, lines=True)[0][1] == "id,text,n"
    inputs = TextSources([str(file)])
    assert list(inputs)[-1].position == inputs.size == file.stat().st_size
    packed = tmp_path / f"papers{suffix}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert [text for _, text in read(packed)] == [text for _, text in read(file)]


def test_tabs_separate_the_cells_of_a_table_without_quotes(tmp_path):
    file = tmp_path / "papers.tsv"
    file.write_bytes(b'id\ttext\na\t"Start of a parser\nb\t"BERT" is, say, one\nc\tand the end"\n')
    assert read(file) == [("a", '"Start of a parser'), ("b", '"BERT" is, say, one'), ("c", 'and the end"')]
    file.write_bytes(b"id\ttext\na\tone\ttwo\n")
    assert "row 2 has 3 cells, but the first row has 2; nothing is in quotes" in refused(file)


def test_a_table_beside_the_texts_of_a_folder_is_read_if_its_column_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("One text.", encoding="utf-8")
    (tmp_path / "about.csv").write_text("file,year\na.txt,2021\n", encoding="utf-8")
    (tmp_path / "b.parquet.gz").write_bytes(b"")
    assert read(tmp_path) == [(str(tmp_path / "a.txt"), "One text.")]
    (tmp_path / "a.txt").unlink()
    assert ".csv and .tsv are read only with field=..." in refused(tmp_path)
    assert read(tmp_path, field="file") == [(f"{tmp_path / 'about.csv'}:2", "a.txt")]


@pytest.mark.parametrize("name", ["some.tar.gz", "some.TAR", "some.tgz", "some.zip"])
def test_an_archive_of_files_is_no_text(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    assert "is an archive of files; unpack it first" in refused(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no column 'text' and no other; choose one with field=..."),
        (b"id,abstract\nx,one\n", "has no column 'text', only 'id', 'abstract'; choose one with field=..."),
        (b"id;title\nx;one\n", "has no column 'text', only 'id;title'; choose one with field=..."),
        (b"id;text\nx;one;two\n", "row 2 has 3 cells, but the first row has 2; texts with semicolons, line ends"),
        (b"id,text\nx,one\ny,two, three\n", "row 3 has 3 cells, but the first row has 2; texts with commas"),
        (b"id,text\nx\n", "row 2 has 1 cells, but the first row has 2"),
        (b'id,text\nx,one\ny,"two\nthree\n', "row 3 cannot be read: unexpected end of data; texts with"),
        (b'id,text\nx,"one" two\n', "row 2 cannot be read: ',' expected after '\"'"),
        (b"id,text\nx,one\n\xff,two\n", "row 3 is not UTF-8; convert it first"),
        (b"id,t\xe9xt\nx,one\n", "row 1 is not UTF-8; convert it first"),
        (b"id,text\rx,one\r", "cannot be read: "),
    ],
)
def test_invalid_tables_are_refused(tmp_path, content, message):
    file = tmp_path / "papers.csv"
    file.write_bytes(content)
    assert message in refused(file)


def test_names_of_columns_stand_in_the_first_row_that_is_not_empty(tmp_path):
    file = tmp_path / "papers.csv"
    file.write_bytes(b"\n\nid,text\n,one\n,two\n")
    assert read(file) == [(f"{file}:4", "one"), (f"{file}:5", "two")]
    with file.open("rb") as opened:
        parts = list(split_table(opened, str(file), "text", 1))
    found = []
    for part in parts:
        with file.open("rb") as opened:
            found += [(text.id, text.text) for text in iter_table(opened, str(file), "text", part)]
    assert found == read(file)


def test_a_name_with_white_space_about_it_is_pointed_at(tmp_path):
    file = tmp_path / "papers.csv"
    file.write_bytes(b"id, text\nx, one\n")
    assert "has no column 'text', only 'id', ' text' (there is ' text'); choose one with field=..." in refused(file)


def test_invalid_bytes_in_another_column_are_ignored(tmp_path):
    file = tmp_path / "papers.csv"
    file.write_bytes(b"text,other\none,caf\xe9\n")
    assert read(file) == [(f"{file}:2", "one")]


def test_a_quote_that_is_never_closed_does_not_take_all_memory(tmp_path):
    file = tmp_path / "papers.csv"
    file.write_text('text\none\n"two\n' + "three\n" * 1000)
    assert refused(file, limits=ReadLimits(max_record=1000)) == (
        f"{file}, row 3 has more than 1,000 bytes; split it, or raise max_record=..."
    )


def test_rows_of_a_table_are_read_when_they_are_taken():
    def endless():
        yield b"id,text\n"
        while True:
            yield b'x,"a\n'
            yield b'text"\n'

    stream = iter_table(Lines(endless()), "endless.csv")  # type: ignore[arg-type]
    assert [next(stream).text for _ in range(3)] == ["a\ntext"] * 3


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    file = parquet(tmp_path / "papers.parquet", text=["one"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "unire[parquet]"' in refused(file)


def test_annotated_files_give_their_words(tmp_path):
    words = [document.words for _, document in read(FIXTURES / "twenty.jsonl")]
    assert words == [document.words for _, document in read(FIXTURES / "twenty.jsonl", source_format="dygie")]
    assert read(FIXTURES / "people.json")[0][1].words
    assert TextSources([str(FIXTURES / "twenty.jsonl")]).has_words
    assert not TextSources(["a text"]).has_words
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"text": "a b"}')
    assert not TextSources([str(raw)]).has_words


@pytest.mark.parametrize("raw", [b"caf\xe9", b"\x89PNG\r\n\x1a\n\x00\x00\xff"])
def test_a_file_that_is_not_utf_8_is_refused(tmp_path, raw):
    file = tmp_path / "a.txt"
    file.write_bytes(raw)
    expected = "is binary, not text" if b"\0" in raw else "is not UTF-8"
    assert f"{file} {expected}" in refused(file)
    file.write_bytes(b"good\n" + raw.replace(b"\n", b""))
    assert f"{file}, line 2 {expected}" in refused(file, lines=True)
    assert f"{file}, line 2 {expected}" in refused(file, words=True)


def test_a_column_that_occurs_twice_is_refused(tmp_path):
    columns = [pa.array(["one"]), pa.array(["two"])]
    pq.write_table(pa.Table.from_arrays(columns, ["text", "text"]), tmp_path / "a.parquet")
    assert "a.parquet has 2 columns 'text'; rename all but one" in refused(tmp_path / "a.parquet")


def test_metadata_of_columns_in_parquet_may_be_damaged(tmp_path):
    """pyarrow raises an exception that is no ArrowException, or ends the process, if it is asked for the metadata."""
    file = parquet(tmp_path / "a.parquet", text=["one", "two"], other=["x", "y"])
    whole = file.read_bytes()
    names = [i for i in range(len(whole)) if whole[i:].startswith(b"\x05other")]
    assert len(names) == 2  # in the schema and in the path of the column
    for place in names:
        file.write_bytes(whole[: place + 1] + b"\xee\xff" + whole[place + 3 :])
        with suppress(UnireError):
            assert [item.text for item in TextSources([str(file)])] == ["one", "two"]
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(footer, len(whole) - 8):
        file.write_bytes(whole[:place] + b"\x15" + whole[place + 1 :])
        with suppress(UnireError):
            list(TextSources([str(file)]))
            list(split_parquet(file, "text", 10))


def test_values_of_parquet_that_python_cannot_hold_are_errors_of_their_rows(tmp_path):
    late = pa.array([0, 2**62, 1], pa.timestamp("us"))
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": late, "text": ["one", "two", "three"]}), file)
    assert refused(file) == f"{file}, row 2 cannot be read: date value out of range"
    errors = []
    assert [item.text for item in TextSources([str(file)]).items(errors.append)] == ["one", "three"]
    assert len(errors) == 1
    with pytest.raises(UnireError, match=r"row 1 \(counted from 0\) cannot be read: date value out of range"):
        list(formats.read(file, "parquet", on_error=lambda error: raise_if("row 1", error)))
