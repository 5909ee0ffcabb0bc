"""Raw texts from files, folders, lines, JSON lines, CSV, TSV and Parquet."""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import lzma
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from helpers.ace import news
from helpers.paths import FIXTURES
from helpers.sources import Lines, parquet, piped, read, refused
from unire import formats
from unire.documents import Document
from unire.errors import UnireError
from unire.sources import TextSources
from unire.sources.csv import iter_table, split_table
from unire.sources.lines import iter_lines


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


def test_a_file_in_a_folder_without_permission_is_refused_for_that_reason(tmp_path, monkeypatch):
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    file = tmp_path / "a.txt"
    monkeypatch.setattr(Path, "stat", refuse)
    assert refused(file) == f"{file} cannot be read: Permission denied"
    for name in (None, "unire"):
        with pytest.raises(UnireError, match=r"a\.txt cannot be read: Permission denied"):
            formats.read(file, name)
