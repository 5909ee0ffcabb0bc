"""Raw texts from files, folders, lines, JSON lines, CSV, TSV and Parquet."""

from __future__ import annotations

import bz2
import codecs
import csv
import errno
import gzip
import io
import json
import lzma
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.ace import news
from helpers.paths import FIXTURES
from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.limits import ReadLimits
from unire.sources import TextSources
from unire.sources.csv import iter_rows, iter_table, split_table
from unire.sources.lines import iter_lines
from unire.sources.parquet import split_parquet


def read(*sources: object, **options: object) -> list[tuple[str, str]]:
    return [(item.id, item.content) for item in TextSources([str(source) for source in sources], **options)]


def refused(*sources: object, **options: object) -> str:
    with pytest.raises(UnireError) as error:
        read(*sources, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def parquet(path: Path, **columns: list[object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_an_argument_is_a_text_unless_a_file_has_its_name(tmp_path, monkeypatch):
    assert read("Ada lives here.") == [("", "Ada lives here.")]
    assert read("", " ") == [("text-1", ""), ("text-2", " ")]
    assert read("a b\n\nc d", lines=True) == [("text-1", "a b"), ("text-2", ""), ("text-3", "c d")]
    assert [name for name, _ in read("a b\nc d", "e f", lines=True)] == ["text-1", "text-2", "text-3"]
    assert [words.words for _, words in read("a b\n\nc", words=True)] == [("a", "b"), ("c",)]
    assert read("long text " * 1000) == [("", "long text " * 1000)]
    assert read("with a \x00 in it") == [("", "with a \x00 in it")]
    monkeypatch.chdir(tmp_path)
    Path("Ada lives here.").write_text("a file")
    assert read("Ada lives here.") == [("Ada lives here.", "a file")]
    assert refused("abstracts.txt") == (
        "there is no file or folder 'abstracts.txt'; to pass a text on the command line, give at least two words"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("my abstracts.txt", "data/my file.TXT.gz", "My Papers/", "results 2024.jsonl", "a b.csv", "all of it.zip"),
        *("papers/all that was found in 2024.jsonl", "papers/the first of many folders/"),
    ],
)
def test_the_name_of_a_file_that_is_not_there_is_no_text(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers").mkdir()
    for ways in ({}, {"lines": True}, {"words": True}):
        assert refused(name, **ways) == (
            f"there is no file or folder {name!r}; if it is a text, pipe it to standard input"
        )
    piped(name.encode(), monkeypatch)
    assert read() == [("standard input", name)]


@pytest.mark.parametrize(
    "text",
    [
        *("Our code is at https://github.com/x/y/", "See https://x.org/", "The tagger is described in README.md"),
        *("We use the file corpus.txt", "It reads papers/all of them.txt"),
    ],
)
def test_a_text_may_end_in_an_address_or_a_file(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers").mkdir()
    assert read(text) == [("", text)]


def test_a_field_and_a_format_are_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        refused("my papers", field="abstract")
        == "there is no file or folder 'my papers'; field=... needs an existing file"
    )
    assert (
        refused("my papers", source_format="spert")
        == "there is no file or folder 'my papers'; source_format=... needs an existing file"
    )
    assert read("We read it from a file.", "It says:\nsee notes.txt")[1] == ("text-2", "It says:\nsee notes.txt")


def test_lines_are_the_same_whatever_they_come_in(tmp_path, monkeypatch):
    text = "one\x85still\u2028one\fone\x0bone\r\n\ntwo \x1c two\rtwo\n"
    file = tmp_path / "a.txt"
    file.write_bytes(text.encode())
    for way in ("lines", "words"):
        contents = []
        for source in (text, file, "-"):
            piped(text.encode(), monkeypatch)
            found = [content for _, content in read(source, **{way: True})]
            contents.append(found if way == "lines" else [words.sentences for words in found])
        assert contents[0] == contents[1] == contents[2]
        assert len(contents[0]) == (3 if way == "lines" else 2)


def test_lines_and_words_are_not_for_parquet(tmp_path):
    file = parquet(tmp_path / "a.parquet", text=["one"])
    for way in ("lines", "words"):
        sentence = f"{file} is a table; pass field=... with the name of a column instead of {way}=True"
        assert refused(file, **{way: True}) == sentence
        assert refused(tmp_path, **{way: True}) == (
            f"folder {tmp_path} has no readable text files (.txt, .text, .md, .jsonl, .ndjson); .csv and "
            ".tsv and .parquet are read only with field=..."
        )
    (tmp_path / "b.txt").write_text("two\nthree\n")
    assert [text for _, text in read(tmp_path, lines=True)] == ["two", "three"]
    assert TextSources([str(tmp_path)], lines=True).notes == {"file of another kind left out (.parquet)": 1}
    assert len(list(TextSources([str(tmp_path)]))) == 2


def test_files_of_a_folder_that_are_left_out_are_counted(tmp_path):
    for name in ("a.txt", "B.TXT", "c.rst", "noext", "h.html", "deep/i.html", ".hidden", ".git/config", "p.csv"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    (tmp_path / "g.txt.gz").write_bytes(gzip.compress(b"packed"))
    inputs = TextSources([str(tmp_path)])
    assert len(list(inputs)) == 3
    ((note, count),) = inputs.notes.items()
    assert count == 5
    assert note.startswith("file of another kind left out (.html, ")
    assert set(note.partition("(")[2].rstrip(")").split(", ")) == {".html", ".rst", "no ending", ".csv"}
    for name in ("1.pdf", "2.xml"):
        (tmp_path / name).touch()
    assert next(iter(TextSources([str(tmp_path)]).notes)).endswith(", …)")
    assert not TextSources([str(tmp_path / "a.txt")]).notes


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_semicolons_separate_the_cells_of_csv_if_only_they_give_the_column(mark, tmp_path, monkeypatch):
    file = tmp_path / "papers.csv"
    content = mark + b'\r\n"id";"abstract"\r\nx;"a; ""b"", c"\r\n;1,5\r\n'
    file.write_bytes(content)
    assert read(file, field="abstract") == [("x", 'a; "b", c'), (f"{file}:4", "1,5")]
    with file.open("rb") as opened:
        parts = list(split_table(opened, str(file), "abstract", 1))
        found = []
        for part in parts:
            opened.seek(0)
            found += [(text.id, text.text) for text in iter_table(opened, str(file), "abstract", part)]
    assert (len(parts), found) == (2, read(file, field="abstract"))
    piped(content, monkeypatch)
    assert [text for _, text in read(field="abstract")] == ['a; "b", c', "1,5"]
    file.write_bytes(b"text;note,text\na;b,c\n")
    assert [text for _, text in read(file)] == ["c"]


def test_a_file_is_a_text_and_with_lines_every_line(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffcafé one\r\n\ntwo\u2028still two\x00".encode())
    assert read(file) == [(str(file), "café one\r\n\ntwo\u2028still two\x00")]
    assert read(file, lines=True) == [
        (f"{file}:1", "café one"),
        (f"{file}:2", ""),
        (f"{file}:3", "two\u2028still two\x00"),
    ]
    file.write_bytes(b"")
    assert read(file) == [(str(file), "")]
    assert read(file, lines=True) == []


class Lines:
    """A file of lines that are made when they are read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def readline(self, size: int) -> bytes:
        return next(self._lines, b"")


def test_lines_are_read_when_they_are_taken():
    stream = iter_lines(Lines(repeat(b"a line\n")), "endless")  # type: ignore[arg-type]
    assert [next(stream).id for _ in range(3)] == ["endless:1", "endless:2", "endless:3"]


def test_a_folder_has_its_text_files_in_order(tmp_path):
    for name in ("b.txt", "a/c.md", "a/b.txt", ".hidden/d.txt", "picture.png", "e.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"text": "in JSON"}' if name == "e.jsonl" else name)
    assert [text for _, text in read(tmp_path)] == ["a/b.txt", "a/c.md", "b.txt", "in JSON"]
    (tmp_path / "empty").mkdir()
    assert "has no readable text files" in refused(tmp_path / "empty")


@pytest.mark.parametrize("module", [gzip, lzma, bz2])
def test_packed_files_are_read_like_what_they_hold(tmp_path, module):
    packed = tmp_path / "packed"
    packed.mkdir()
    suffix = {gzip: ".gz", lzma: ".XZ", bz2: ".bz2"}[module]

    def pack(name: str, content: bytes) -> Path:
        path = packed / f"{name}{suffix}"
        path.write_bytes(module.compress(content))
        return path

    text = pack("a.txt", "\ufeffcafé one\ntwo\n".encode())
    lines = pack("b.jsonl", b'{"id": 7, "text": "one"}\n{"text": "two"}\n')
    assert read(text) == [(str(text), "café one\ntwo\n")]
    assert read(text, lines=True) == [(f"{text}:1", "café one"), (f"{text}:2", "two")]
    assert read(lines) == [("7", "one"), (f"{lines}:2", "two")]
    assert [words.words for _, words in read(text, words=True)] == [("café", "one", "two")]
    assert read(packed) == [*read(text), *read(lines)]
    annotated = pack("c.jsonl", (FIXTURES / "twenty.jsonl").read_bytes())
    assert TextSources([str(annotated)]).has_words
    assert read(annotated) == read(FIXTURES / "twenty.jsonl")
    people = pack("people.json", (FIXTURES / "people.json").read_bytes())
    assert read(people) == read(FIXTURES / "people.json")


@pytest.mark.parametrize("module", [gzip, lzma, bz2])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.json"])
def test_an_archive_without_its_end_is_refused_and_what_comes_before_is_read(tmp_path, module, name):
    file = tmp_path / f"{name}.{ {gzip: 'gz', lzma: 'xz', bz2: 'bz2'}[module] }"
    content = {"a.txt": b"a line\n", "a.jsonl": b'{"text": "a line"}\n', "a.json": b"["}[name]
    file.write_bytes(module.compress(content * 1000)[:-9])
    assert refused(file) == f"{file} cannot be read: the compressed file is truncated"
    if name == "a.jsonl" and module is gzip:
        items = iter(TextSources([str(file)]))
        assert [next(items).text for _ in range(10)] == ["a line"] * 10


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_a_plain_file_with_a_compressed_suffix_is_refused(tmp_path, suffix):
    file = tmp_path / f"a.txt.{suffix}"
    file.write_text("plain text\n" * 100)
    assert refused(file).startswith(f"{file} cannot be read: ")


@pytest.mark.slow
@pytest.mark.no_cover
def test_packed_lines_are_read_when_they_are_taken_and_positions_are_those_of_the_archive(tmp_path):
    file = tmp_path / "a.txt.gz"
    rows = "".join(f"line {number * 7919 % 1000003}\n" for number in range(200_000))
    file.write_bytes(gzip.compress(rows.encode()))
    inputs = TextSources([str(file)], lines=True)
    positions = [item.position for item in inputs]
    assert positions == sorted(positions)
    assert positions[0] < positions[-1] / 2
    assert positions[-1] <= inputs.size == file.stat().st_size


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


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text here")
def test_arguments_and_file_names_need_not_be_utf_8(tmp_path):
    assert "the text is not UTF-8" in refused("caf\udce9 noir")
    file = tmp_path / "caf\udce9.txt"
    file.write_text("good")
    ((name, text),) = read(file)
    assert (name.encode(), text) == (f"{tmp_path}/caf\ufffd.txt".encode(), "good")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path):
    loop = tmp_path / "a.txt"
    target = tmp_path / "gone.txt"
    target.touch()
    loop.symlink_to(target)
    inputs = TextSources([str(loop)])
    assert inputs.files
    target.unlink()
    with pytest.raises(UnireError, match="cannot be read: No such file"):
        list(inputs)


def test_lines_and_words_cannot_be_combined():
    assert "lines=True and words=True cannot be combined" in refused("a b", lines=True, words=True)


def test_positions_run_through_all_inputs(tmp_path):
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("one\ntwo\n")
    inputs = TextSources([str(tmp_path)], lines=True)
    assert [item.position for item in inputs] == [4, 8, 12, 16]
    assert inputs.size == 16
    table = parquet(tmp_path / "c.parquet", text=["one", "two"])
    inputs = TextSources([str(table)])
    assert list(inputs)[-1].position == inputs.size == table.stat().st_size
    assert TextSources([]).size is None


def piped(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    "content",
    [
        b'{"id": "x", "abstract": "a, b"}\n{"abstract": "c"}\n',
        b'id,abstract\nx,"a, b"\n,c\n',
        b'"id","abstract"\r\n"x","a, b"\r\n"","c"\r\n',
        b"id\tabstract\nx\ta, b\n\tc\n",
        b"\tabstract\tid\n0\ta, b\tx\n1\tc\t\n",  # as pandas has it, with a number for every row
    ],
)
def test_standard_input_with_a_field_is_json_lines_csv_or_tsv_by_its_first_line(content, tmp_path, monkeypatch):
    second = 2 if content.startswith(b"{") else 3
    for mark in (b"", codecs.BOM_UTF8):
        piped(mark + content, monkeypatch)
        assert read(field="abstract") == [("x", "a, b"), (f"standard input:{second}", "c")]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[content])
    writer.start()
    assert read(pipe, field="abstract") == [("x", "a, b"), (f"{pipe}:{second}", "c")]
    writer.join()


def test_empty_lines_do_not_hide_what_standard_input_holds(monkeypatch):
    piped(b'\n \n{"text": "one"}\n', monkeypatch)
    assert read(field="text") == [("standard input:3", "one")]
    for content in (b"", b"\n\n"):
        piped(content, monkeypatch)
        assert read(field="text") == []


def test_standard_input_is_rows_under_its_name_as_a_file_too():
    """Also where a file is what stands behind it."""
    assert TextSources(["/dev/stdin"], field="text")._find_kind(Path("/dev/stdin")) == "rows"


def test_rows_of_standard_input_are_read_when_they_are_taken():
    def endless():
        yield b"id,text\n"
        while True:
            yield b"x,one\n"

    stream = iter_rows(Lines(endless()), "standard input")  # type: ignore[arg-type]
    assert [next(stream).text for _ in range(3)] == ["one"] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"id,text\nx,one\n",
            "has no column 'abstract', only 'id', 'text'; choose one with field=..., or take each line as a",
        ),
        (b"We train a parser. " * 50, "has no column 'abstract', only 'We train a parser. We"),
        (b'{"text": "one"}', "line 1 has no field 'abstract', only 'text'; choose one with field=..."),
        (b"[\n", "line 1 is not valid JSON"),
        (b"id,abstract\nx,one,two\n", "row 2 has 3 cells, but the first row has 2; texts with commas"),
        (b"PAR1\x15\x04\xff\x00\n", "row 1 is binary, not text"),
    ],
)
def test_invalid_rows_on_standard_input_are_refused(content, message, monkeypatch):
    piped(content, monkeypatch)
    error = refused(field="abstract")
    assert message in error
    assert len(error) < 320


@pytest.mark.parametrize("content", [b"id,text\nx,one\n", b"id;text\nx;one\n", b'"id"\t"text"\r\nx\tone\r\n'])
def test_a_table_on_standard_input_is_not_taken_for_a_text(content, monkeypatch):
    piped(content, monkeypatch)
    assert 'standard input holds rows of a table; name the field of the text, as with field="text"' in refused()
    for prose in ("Speech, text, and images.\nMore.", "text\n"):
        piped(prose.encode(), monkeypatch)
        assert read() == [("standard input", prose)]


def test_annotated_documents_on_standard_input_have_a_name(tmp_path):
    for sources in ([], ["-"], [FIXTURES / "people.json", "-"]):
        sentence = "source_format=... cannot read standard input; pass /dev/stdin as the input file"
        assert refused(*sources, source_format="spert") == sentence


def test_standard_input_is_the_default(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert read(lines=True) == [("standard input:1", "a"), ("standard input:2", "b")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert read("-") == [("standard input", "a\nb\n")]
    lines = b'{"text": "one"}\n{"text": "two"}\n'
    for ways, found in (({"field": "text"}, "one"), ({"lines": True}, '{"text": "one"}')):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        assert read(**ways)[0] == ("standard input:1", found)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert "standard input holds JSON lines; name the field of the text" in refused()
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refused()


def unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid listing a folder, also for root."""
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


def test_a_folder_that_cannot_be_read_is_reported_and_not_passed_over(tmp_path, monkeypatch):
    for name in ("a.txt", "b/b.txt", "c/c.txt", ".hidden/d.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
    unreadable(tmp_path / "b", monkeypatch)
    problem = f"folder {tmp_path / 'b'} cannot be read: Permission denied"
    assert refused(tmp_path) == problem
    errors = []
    items = TextSources([str(tmp_path)]).items(errors.append)
    assert [item.text for item in items] == ["a.txt", "c/c.txt"]
    assert [str(error) for error in errors] == [problem]
    assert refused(tmp_path / "b") == problem
    assert TextSources([str(tmp_path / "b"), str(tmp_path / "c")]).size == 7
    unreadable(tmp_path / ".hidden", monkeypatch)
    assert TextSources([str(tmp_path)]).listing.errors[1:] == []


def test_every_reader_of_folders_reports_those_that_it_cannot_read(tmp_path, monkeypatch):
    documents = [Document.from_words([["a", "b"]], [(0, 1, "X")], id=name) for name in ("one", "deep/two")]
    formats.write(documents, tmp_path / "brat", "brat", lost=Counter())
    (tmp_path / "parquet" / "deep").mkdir(parents=True)
    formats.write(documents[:1], tmp_path / "parquet" / "a.parquet", "parquet")
    news().write(tmp_path / "ace05")
    (tmp_path / "ace05" / "deep").mkdir()
    for name in ("brat", "parquet", "ace05"):
        unreadable(tmp_path / name / "deep", monkeypatch)
        with pytest.raises(UnireError, match="deep cannot be read: Permission denied"):
            list(formats.read(tmp_path / name, name))
        errors = []
        assert len(list(formats.read(tmp_path / name, name, on_error=errors.append))) == 1
        assert len(errors) == 1


def test_the_documents_of_an_annotated_folder_are_read_from_its_format(tmp_path):
    documents = [Document.from_words([["Ada", "lives"]], [(0, 1, "X")], id=name) for name in ("one", "deep/two")]
    formats.write(documents, tmp_path / "brat", "brat", lost=Counter())
    inputs = TextSources([str(tmp_path / "brat")], source_format="brat")
    assert sorted((item.id, item.text) for item in inputs) == [("deep/two", "Ada lives"), ("one", "Ada lives")]
    assert inputs.size == sum(file.stat().st_size for file in (tmp_path / "brat").rglob("*") if file.is_file())
    assert inputs.listing.changed_since(tmp_path / "brat" / "one.txt") is not None
    formats.write(documents, tmp_path / "dataset", "datasets")
    assert len(read(tmp_path / "dataset", source_format="datasets")) == 2


def test_files_of_a_format_are_found_in_a_folder_by_its_suffixes(tmp_path):
    documents = [Document.from_words([["Ada", "lives"]], [(0, 1, "X")], id="one")]
    for name, suffix in (("spert", "json"), ("dygie", "jsonl"), ("conll04", "corp"), ("parquet", "parquet")):
        folder = tmp_path / name
        folder.mkdir()
        formats.write(documents, folder / f"a.{suffix}", name)
        (folder / "README.md").write_text("about these data")
        assert [content.text for _, content in read(folder, source_format=name)] == ["Ada lives"]
    with pytest.raises(UnireError, match=r"has no readable text files \(\.spacy, \.txt\)$"):
        read(tmp_path / "spert", source_format="spacy")


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


def raise_if(part: str, error: UnireError) -> None:
    if part in str(error):
        raise error


def test_a_file_in_a_folder_without_permission_is_refused_for_that_reason(tmp_path, monkeypatch):
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    file = tmp_path / "a.txt"
    monkeypatch.setattr(Path, "stat", refuse)
    assert refused(file) == f"{file} cannot be read: Permission denied"
    for name in (None, "unire"):
        with pytest.raises(UnireError, match=r"a\.txt cannot be read: Permission denied"):
            formats.read(file, name)
