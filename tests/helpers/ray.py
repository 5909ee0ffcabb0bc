"""A corpus for a cluster, small shards, and the rows that a run wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXTRA = ["source", "number", "block", "error"]


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a Parquet file or folder, by id."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(str(path), format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def bare(rows: list[dict]) -> list[dict]:
    """Return rows without the columns that only a cluster writes."""
    return [{key: value for key, value in row.items() if key not in EXTRA} for row in rows]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unire.integrations.ray.shards.MIN_SHARD_BYTES", 400)


@pytest.fixture
def sentences(twenty) -> list[str]:
    return [" ".join(sentence.words) for document in twenty for sentence in document.sentences]


@pytest.fixture
def corpus(tmp_path: Path, sentences) -> Path:
    """Text, JSON lines with ids and an empty line, and Parquet of several row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(sentences[:3]))
    (folder / "b.txt").write_text(sentences[3])
    lines = [json.dumps({"id": f"json-{i}", "text": text}) for i, text in enumerate(sentences)]
    (folder / "c.jsonl").write_text("\n".join([*lines[:7], "", *lines[7:]]))
    pq.write_table(pa.table({"text": sentences}), folder / "d.parquet", row_group_size=6)
    return folder


def ray_or_skip():
    return pytest.importorskip("ray", reason='a cluster needs Ray: pip install "unire[ray]"')
