"""Reading sources: the texts that they give, and the error that they raise."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unire.errors import UnireError
from unire.sources import TextSources


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


class Lines:
    """A file of lines that are made when they are read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def readline(self, size: int) -> bytes:
        return next(self._lines, b"")


def piped(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def raise_if(part: str, error: UnireError) -> None:
    if part in str(error):
        raise error
