"""No input takes more memory than the limits allow, however large, endless or hostile it is."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import FIXTURES
from unire import ReadLimits, formats, read_documents
from unire.documents import Document
from unire.errors import UnireError
from unire.limits import MAX_RATIO, iter_lines, read_whole
from unire.sources import TextSources
from unire.training.text_corpus import read_texts

SMALL = ReadLimits(max_document=100, max_record=1000, max_unpacked=10_000)
MEGABYTE = 2**20


def texts(*sources: object, limits: ReadLimits = SMALL, **how: Any) -> list[str]:
    return [item.text for item in TextSources([str(source) for source in sources], limits=limits, **how)]


def refused(*sources: object, **how: Any) -> str:
    with pytest.raises(UnireError) as error:
        texts(*sources, **how)
    return str(error.value)


def skipped(*sources: object, **how: Any) -> tuple[list[str], list[str]]:
    """The texts, and the errors of what is skipped."""
    errors: list[str] = []
    items = TextSources([str(source) for source in sources], limits=SMALL, **how).items(lambda e: errors.append(str(e)))
    return [item.text for item in items], errors


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", None, True])
def test_a_limit_is_a_positive_number(value: Any) -> None:
    with pytest.raises(UnireError, match="limit max_record must be"):
        ReadLimits(max_record=value)


def test_a_line_that_is_too_long_is_refused_or_skipped_and_the_next_has_its_number_and_position() -> None:
    raw = b"\xef\xbb\xbfone\n" + b"x" * 10 + b"\ntwo\n" + b"x" * 3000 + b"\nthree"
    limits = ReadLimits(max_record=10)
    with pytest.raises(UnireError) as error:
        list(iter_lines(io.BytesIO(raw), "a.txt", limits))
    assert str(error.value) == "a.txt, line 2 has more than 10 bytes; split it, or raise max_record=..."
    errors: list[UnireError] = []
    lines = list(iter_lines(io.BytesIO(raw), "a.txt", limits, errors.append))
    assert lines == [(1, b"one\n", 7), (3, b"two\n", 22), (5, b"three", len(raw))]
    assert [str(error)[:13] for error in errors] == ["a.txt, line 2", "a.txt, line 4"]


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unire.limits.MAX_SKIPPED_BYTES", 10_000)
    with Path("/dev/zero").open("rb") as endless, pytest.raises(UnireError, match="line 1 is longer than 10,000 bytes"):
        list(iter_lines(endless, "zeros", SMALL, lambda error: None))


def test_a_file_is_read_as_a_whole_up_to_its_limit() -> None:
    assert read_whole(io.BytesIO(b"x" * 1000), "a", SMALL.check_record) == b"x" * 1000
    with pytest.raises(UnireError, match=r"^a has more than 1,000 bytes; split it, or raise max_record=...$"):
        read_whole(io.BytesIO(b"x" * 1001), "a", SMALL.check_record)


@pytest.mark.slow
@pytest.mark.parametrize("module", [gzip, lzma, bz2])
def test_a_compressed_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, module: Any) -> None:
    file = tmp_path / f"a.txt.{ {gzip: 'gz', lzma: 'xz', bz2: 'bz2'}[module] }"
    bomb = b"a line\n" * 200_000
    file.write_bytes(module.compress(bomb))
    assert len(bomb) > MAX_RATIO * file.stat().st_size
    assert refused(file, lines=True) == (
        f"{file} unpacks to more than 10,000 bytes and to more than 100 times its size; unpack it first if you trust "
        "it, or raise max_unpacked=..."
    )
    assert len(texts(file, lines=True, limits=ReadLimits(max_unpacked=len(bomb)))) == 200_000
    honest = b"".join(b"line %d\n" % (number * 7919 % 1_000_003) for number in range(20_000))
    file.write_bytes(module.compress(honest))
    assert len(honest) > SMALL.max_unpacked  # but less than the ratio
    assert len(texts(file, lines=True)) == 20_000


def test_a_text_that_is_too_long_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    long = "word " * 21
    problem = "has more than 100 characters; split it, or raise max_document=..."
    assert refused(long) == f"the text {problem}"
    file = tmp_path / "a.txt"
    file.write_text(long)
    assert refused(file) == f"{file} {problem}"
    file.write_text(f"one\n{long}\ntwo\n")
    assert refused(file, lines=True) == f"{file}, line 2 {problem}"
    assert skipped(file, lines=True) == (["one", "two"], [f"{file}, line 2 {problem}"])
    file.write_text("one\n\n" + "word word\n" * 21 + "\ntwo\n")
    assert refused(file, words=True) == f"{file}, document 2 {problem}"
    rows = tmp_path / "a.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("one", long, "two")))
    assert skipped(rows) == (["one", "two"], [f"{rows}, line 2 {problem}"])
    table = tmp_path / "a.csv"
    table.write_text(f"id,text\n1,one\n2,{long}\n3,two\n")
    assert skipped(table) == (["one", "two"], [f"{table}, row 3 {problem}"])
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": ["one", long, "two"]}), columns := tmp_path / "a.parquet")
    assert skipped(columns) == (["one", "two"], [f"{columns}, row 2 {problem}"])


def test_a_record_that_is_too_long_is_skipped_where_its_end_is_known(tmp_path: Path) -> None:
    problem = "has more than 1,000 bytes; split it, or raise max_record=..."
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "one"}) + "\n" + "[" * 5000 + "\n" + json.dumps({"text": "two"}) + "\n")
    assert skipped(file) == (["one", "two"], [f"{file}, line 2 {problem}"])
    assert skipped(file, field="text") == (["one", "two"], [f"{file}, line 2 {problem}"])
    table = tmp_path / "a.csv"
    table.write_text('text\none\n"' + "x\n" * 1000 + '"\ntwo\n')
    assert skipped(table) == (["one"], [f"{table}, row 3 {problem}"])


@pytest.mark.parametrize("format", ["unire", "dygie", "spert", "unire-released", "conll04", "labelstudio", "prodigy"])
def test_every_format_has_the_limits(tmp_path: Path, format: str) -> None:
    document = Document.from_words([["word"] * 60], [(0, 1, "A")], id="long")
    other = Document.from_words([["short"]], [(0, 1, "A")], id="short")
    path = tmp_path / f"data{formats.FORMATS[format].suffix}"
    formats.write([document, other], path, format, lost=Counter())
    assert len(read_documents(path, format)) == 2
    with pytest.raises(UnireError, match=r"has more than 100 characters; split it, or raise max_document=\.\.\.$"):
        read_documents(path, format, limits=ReadLimits(max_document=100))
    with pytest.raises(UnireError, match=r"has more than 60 bytes; split it, or raise max_record=\.\.\.$"):
        read_documents(path, format, limits=ReadLimits(max_record=60))
    errors: list[UnireError] = []
    found = formats.read(path, format, limits=ReadLimits(max_document=100), on_error=errors.append)
    assert ([document.id for document in found], len(errors)) == (["short"], 1)


def test_a_folder_of_brat_has_the_limits(tmp_path: Path) -> None:
    folder = tmp_path / "brat"
    formats.write([Document.from_words([["word"] * 60], [(0, 1, "A")], id="a")], folder, "brat", lost=Counter())
    with pytest.raises(UnireError, match="has more than 100 characters"):
        read_documents(folder, limits=ReadLimits(max_document=100))
    with pytest.raises(UnireError, match=r"a\.ann has more than 5 bytes"):
        read_documents(folder, limits=ReadLimits(max_record=5))


def test_a_packed_file_of_spacy_is_not_unpacked_beyond_the_limit(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    path = tmp_path / "a.spacy"
    path.write_bytes(zlib.compress(bytes(10**6)))
    with pytest.raises(UnireError, match=r"a\.spacy has more than 10,000 bytes; split it, or raise max_record=\.\.\.$"):
        read_documents(path, limits=ReadLimits(max_record=10_000))


def test_parquet_whose_rows_or_row_groups_are_too_large_is_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 5000]}), path)
    assert refused(path) == (
        f"{path}, row group 1: its average row has more than 1,000 bytes; split it, or raise max_record=..."
    )
    pq.write_table(pa.table({"text": [f"{i} " + "a" * 900 for i in range(2000)]}), path, compression="zstd")
    assert f"{path}, row group 1, unpacks to more than 10,000 bytes and to more than 100 times its size" in refused(
        path
    )


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_compressed_messages_of_a_data_set_have_the_limits(tmp_path: Path, codec: str, as_dictionary: bool) -> None:
    pytest.importorskip("datasets")
    pa = pytest.importorskip("pyarrow")
    document = Document.from_words([["x" * 500_000]])
    formats.write([document], tmp_path / "data", "datasets")
    (file,) = (tmp_path / "data").glob("*.arrow")
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    if as_dictionary:
        table = table.set_column(1, "text", table["text"].dictionary_encode())
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    assert len(read_documents(tmp_path / "data")) == 1
    too_large = r"arrow unpacks to more than 10,000 bytes and to more than 100 times its size; unpack it"
    with pytest.raises(UnireError, match=too_large):
        read_documents(tmp_path / "data", limits=ReadLimits(max_unpacked=10_000))


def test_a_corpus_has_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iter_lines, "__defaults__", (SMALL, None))
    corpus = tmp_path / "a.txt"
    corpus.write_text("one\n" + "x" * 2000)
    with pytest.raises(UnireError, match=r"a\.txt', line 2 has more than 1,000 bytes"):
        list(read_texts([corpus]))


READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))  # otherwise, a bug could fill the memory
from unire.errors import UnireError
from unire.sources import TextSources
from unire import formats
path, how = sys.argv[1], dict(pair.split("=") for pair in sys.argv[2:])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for item in formats.read(path, how["format"]) if "format" in how else TextSources([path], **how):
        pass
    print("read")
except UnireError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def read_in_process(path: object, *how: str) -> tuple[str, int]:
    """What reading a file ends with, and how many megabytes it takes at its peak."""
    ran = subprocess.run([sys.executable, "-c", READ, str(path), *how], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    sentence, megabytes = ran.stdout.splitlines()
    return sentence, int(megabytes)


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("how", "limit", "megabytes"),
    [
        ((), "max_document", 100),
        (("lines=1",), "max_record", 200),
        (("words=1",), "max_record", 200),
        (("field=text",), "max_record", 200),
        *(((f"format={name}",), "max_record", 200) for name in ("unire", "dygie", "conll04", "spert", "labelstudio")),
    ],
)
def test_endless_zeros_are_refused_with_little_memory(how: tuple[str, ...], limit: str, megabytes: int) -> None:
    sentence, peak = read_in_process("/dev/zero", *how)
    assert limit in sentence
    assert peak < megabytes


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_bombs_are_refused_with_little_memory(tmp_path: Path, suffix: str) -> None:
    module = {"gz": gzip, "xz": lzma, "bz2": bz2}[suffix]
    for content, how, limit in ((bytes(MEGABYTE), (), "max_document"), (bytes(MEGABYTE), ("lines=1",), "max_record")):
        file = tmp_path / f"bomb.txt.{suffix}"
        with module.open(file, "wb") as packed:
            for _ in range(300):
                packed.write(content)
        sentence, peak = read_in_process(file, *how)
        assert limit in sentence
        assert peak < 250


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_document_that_parquet_stores_once_for_many_rows_takes_its_memory_once(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    indices = pa.array([0] * 2000, pa.int32())
    text = pa.DictionaryArray.from_arrays(indices, pa.array(["We train a parser. " * 50_000]))
    pq.write_table(pa.table({"text": text}), path := tmp_path / "a.parquet")
    assert path.stat().st_size < MEGABYTE
    sentence, peak = read_in_process(path)
    assert sentence == "read"
    assert peak < 400


def test_deep_json_is_refused_at_any_depth(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for depth in (*range(940, 1000, 7), 10_000):
        nested = "[" * depth + "]" * depth
        path.write_text(f'{{"text": "a", "sentences": [["a"]], "entities": [{nested}], "meta": {{"x": {nested}}}}}\n')
        with pytest.raises(UnireError):
            read_documents(path, "unire")
        with pytest.raises(UnireError):
            texts(path, limits=ReadLimits())


def test_numbers_with_too_many_digits_are_refused_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "x": ' + "9" * 5000 + "}\n")
    with pytest.raises(UnireError, match="cannot be read as JSON: a number has too many digits"):
        read_documents(path, "jsonl")
    assert "set_int_max_str_digits" not in refused(path, limits=ReadLimits())


def test_limits_do_not_change_what_is_read() -> None:
    assert read_documents(FIXTURES / "twenty.jsonl", limits=ReadLimits(max_record=10**9)) == read_documents(
        FIXTURES / "twenty.jsonl"
    )
