"""Shards of a corpus: every document once, whatever the files, and the same every time."""

from __future__ import annotations

import csv
import gzip

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unire.integrations.ray.shards import Shard, plan_shards, stamp_files
from unire.sources import TextSources
from unire.sources.base import RowRange
from unire.sources.csv import iter_table, split_table
from unire.sources.lines import iter_lines, split_lines
from unire.sources.parquet import iter_parquet, split_parquet


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.integers(1, 30), st.booleans())
def test_lines_in_parts_are_the_lines_of_the_file(tmp_path_factory, lines, size, ended):
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_bytes(b"\n".join(b"x" + line.hex().encode() for line in lines) + (b"\n" if ended else b""))
    with path.open("rb") as file:
        parts = list(split_lines(file, "lines", size))
        file.seek(0)
        whole = list(iter_lines(file, "lines"))
        assert [text for part in parts for text in iter_lines(file, "lines", part)] == whole
        assert sum(part.size for part in parts) == path.stat().st_size
        assert all(part.size >= size for part in parts[:-1])
        singles = [single for part in parts for single in split_lines(file, "lines", 1, part)]
        assert [(single.start, single.stop) for single in singles] == [(i, i + 1) for i in range(len(whole))]


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from('ab,"\n\r\té'), max_size=9)), st.integers(1, 30), st.booleans())
def test_a_table_in_parts_has_the_rows_of_the_file(tmp_path_factory, cells, size, tabs):
    path = tmp_path_factory.mktemp("table") / ("table.tsv" if tabs else "table.csv")
    if tabs:  # which no text has there, nor line ends
        cells = ["".join(cell.split()) for cell in cells]
    with path.open("w", encoding="utf-8-sig", newline="") as out:
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None} if tabs else {}
        csv.writer(out, **dialect).writerows([["n", "text"], *enumerate(cells)])
    with path.open("rb") as file:
        parts = list(split_table(file, path.name, "text", size))
        file.seek(0)
        whole = list(iter_table(file, path.name))
        assert [text.text for text in whole] == cells
        assert [text for part in parts for text in iter_table(_rewound(file), path.name, "text", part)] == whole
        singles = [single for part in parts for single in split_table(_rewound(file), path.name, "text", 1, part)]
        assert [(single.start, single.stop) for single in singles] == [(i + 1, i + 2) for i in range(len(cells))]


def _rewound(file):
    file.seek(0)
    return file


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 300))
def test_rows_in_parts_are_the_rows_of_the_file(tmp_path_factory, rows, group, size):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({"text": [f"row {i}" for i in range(rows)]}), path, row_group_size=group)
    parts = list(split_parquet(path, "text", size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unire.sources.parquet.ROWS_PER_READ", 8)
        found = [text for part in parts for text in iter_parquet(path, "text", part)]
    assert [(text.number, text.text) for text in found] == [(i + 1, f"row {i}") for i in range(rows)]
    assert found == list(iter_parquet(path))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts)][: len(parts)]


def test_texts_that_repeat_are_not_taken_for_short_ones(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["The same text in every row, which Parquet holds but once."] * 10_000}), path)
    assert len(list(split_parquet(path, "text", 2**15))) == 20


def test_a_part_may_span_row_groups(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": [str(i) for i in range(100)]}), path, row_group_size=7)
    assert [text.text for text in iter_parquet(path, "text", RowRange(5, 33))] == [str(i) for i in range(5, 33)]
    assert [(part.start, part.stop) for part in split_parquet(path, "text", 1, RowRange(5, 9))] == [
        *((5, 6), (6, 7), (7, 8), (8, 9)),
    ]


def test_shards_hold_every_document_once_and_are_the_same_every_time(corpus, small_shards):
    inputs = TextSources([str(corpus)])
    planned = plan_shards(inputs, stamp_files(inputs))
    assert len(planned) > 5
    assert planned == plan_shards(inputs, stamp_files(inputs))
    items = [item for shard in planned for source in shard.sources for item in inputs.read(source)]
    assert [(item.id, item.content) for item in items] == [(item.id, item.content) for item in inputs]
    assert [Shard.from_json(shard.to_json()) for shard in planned] == planned


def test_small_files_share_a_shard_and_large_ones_are_cut(tmp_path):
    for i in range(300):
        (tmp_path / f"{i:03}.txt").write_text("A text. " * 100)
    inputs = TextSources([str(tmp_path)])
    assert len(plan_shards(inputs, stamp_files(inputs))) == 10
    lines = tmp_path / "all.txt"
    lines.write_text("A text.\n" * 100_000)
    inputs = TextSources([str(lines)], lines=True)
    assert len(plan_shards(inputs, stamp_files(inputs))) == 49


@pytest.mark.slow
def test_a_packed_file_is_not_cut(tmp_path):
    lines = tmp_path / "all.txt.gz"
    lines.write_bytes(gzip.compress("".join(f"Line {i * 7919 % 1000003}.\n" for i in range(50_000)).encode()))
    inputs = TextSources([str(lines)], lines=True)
    (shard,) = plan_shards(inputs, stamp_files(inputs))
    assert shard.size > 2**16
    assert [item.text for item in inputs.read(shard.sources[0])] == [item.text for item in inputs]


def test_a_table_is_cut_between_its_rows(tmp_path):
    table = tmp_path / "all.csv"
    table.write_text("id,text\n" + "".join(f'{i},"Line {i},\nand its second."\n' for i in range(3000)))
    inputs = TextSources([str(table)])
    planned = plan_shards(inputs, stamp_files(inputs))
    assert len(planned) > 3
    items = [item for shard in planned for source in shard.sources for item in inputs.read(source)]
    assert [(item.id, item.text, item.number) for item in items] == [(i.id, i.text, i.number) for i in inputs]
