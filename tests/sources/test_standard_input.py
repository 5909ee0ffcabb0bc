"""Texts on standard input: lines, rows, and annotated documents."""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from helpers.paths import FIXTURES
from helpers.sources import Lines, piped, read, refused
from unire.sources import TextSources
from unire.sources.csv import iter_rows


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
