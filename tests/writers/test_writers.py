"""The table of output formats."""

from __future__ import annotations

import importlib.util

from unire import formats
from unire.formats.base import ALL_CAPABILITIES, Format
from unire.writers import WRITERS, LineWriter


def test_an_entry_of_writers_wins_over_a_format_of_the_same_name(monkeypatch):
    monkeypatch.setitem(formats.FORMATS, "csv", Format(formats.native.read, formats.native.write))
    monkeypatch.setitem(formats.FORMATS, "new", Format(formats.native.read, formats.native.write))
    spec = importlib.util.find_spec("unire.writers")
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert isinstance(again.WRITERS["csv"], again.LineWriter)
    assert isinstance(again.WRITERS["new"], again.FileWriter)


def test_a_format_that_is_written_line_by_line_holds_everything():
    """Documents are not projected to what it supports, so nothing that it lost would be counted."""
    lines = [name for name, writer in WRITERS.items() if isinstance(writer, LineWriter) and name in formats.FORMATS]
    assert "unire" in lines
    assert all(formats.FORMATS[name].capabilities == ALL_CAPABILITIES for name in lines)
