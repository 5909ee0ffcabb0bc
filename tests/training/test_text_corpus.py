"""Text files as documents, and files that are refused."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from unire.errors import UnireError
from unire.training.text_corpus import check_text_files, read_texts


@pytest.mark.parametrize(("suffix", "opener"), [(".txt", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_lines_are_documents_whatever_the_file_is_packed_with(tmp_path: Path, suffix: str, opener) -> None:
    path = tmp_path / f"text{suffix}"
    with opener(path, "wb") as file:
        file.write("  one \n\ntwo ü\n \nthree".encode())
    assert list(read_texts([path, path])) == ["one", "two ü", "three"] * 2


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\ntw\xfc\n")
    with pytest.raises(UnireError, match=r"latin\.txt', line 2: not UTF-8"):
        list(read_texts([path]))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.xz"
    path.write_bytes(lzma.compress(b"one\n" * 1000)[:-20])
    with pytest.raises(UnireError, match=r"text\.xz' cannot be read: the compressed file is truncated"):
        list(read_texts([path]))


def test_checking_text_files_stops_at_the_first_text(tmp_path: Path) -> None:
    blank, text, broken = (tmp_path / f"{name}.txt" for name in ("blank", "text", "broken"))
    blank.write_text("\n \n", encoding="utf-8")
    text.write_text("\nthe red\n", encoding="utf-8")
    broken.write_bytes(b"\xff\n")
    check_text_files([blank, text, broken])
    with pytest.raises(UnireError, match=r"'.*blank\.txt', '.*blank\.txt' contain no text; check the files"):
        check_text_files([blank, blank])
    with pytest.raises(UnireError, match=r"broken\.txt', line 1: not UTF-8"):
        check_text_files([blank, broken])


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="no corpus; give one or more text files"):
        check_text_files([])
    with pytest.raises(UnireError, match=r"no corpus file '.*nowhere\.txt'"):
        check_text_files([tmp_path / "nowhere.txt"])


@pytest.mark.parametrize("name", ["c.jsonl", "c.ndjson.gz", "c.json", "c.CSV", "c.tsv", "c.parquet"])
def test_files_that_are_not_plain_text_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("id,text\n", encoding="utf-8")
    with pytest.raises(UnireError, match=f"{name}' is not plain text; write the texts to a .txt file"):
        check_text_files([tmp_path / name])


def test_a_mark_of_the_byte_order_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "marked.txt"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert list(read_texts([path])) == ["one", "\ufefftwo"]
