"""Extraction from sources to files, from Python."""

from __future__ import annotations

import io
import json

import pytest

from unire.errors import UnireError
from unire.sources import TextSources
from unire.writers.extraction_run import SKIPPED, ExtractionCallback, ExtractionRun


class Recorder(ExtractionCallback):
    """Remembers the names of the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __getattribute__(self, name: str):
        if name.startswith("on_"):
            self.events.append(name)
        return super().__getattribute__(name)


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"We train a parser.\ncaf\xe9\nIt is evaluated on text.\n")
    return path


def run(lines, model, **options) -> ExtractionRun:
    return ExtractionRun(TextSources([str(lines)], lines=True), str(model), "cpu", **options)


def test_a_run_writes_a_file_and_counts_what_it_skipped(lines, random_model, tmp_path):
    one = run(lines, random_model, skip_errors=True, callback=Recorder())
    out = tmp_path / "results.jsonl"
    assert one.write(out)
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == [
        "We train a parser.",
        "It is evaluated on text.",
    ]
    assert (one.n_documents, one.notes[SKIPPED], one.partial_output) == (2, 1, None)
    events = one.callback.events
    assert (events[0], events[-1]) == ("on_load", "on_end")
    assert {"on_start", "on_skip", "on_read", "on_read_end", "on_batch", "on_result", "on_written"} <= {*events}
    assert not run(lines, random_model, skip_errors=True).write(out, resume=True)  # it is complete


def test_a_run_that_stops_keeps_what_it_has_and_is_resumed(lines, random_model, tmp_path):
    one, out = run(lines, random_model), tmp_path / "results.jsonl"
    with pytest.raises(UnireError, match="line 2 is not UTF-8"):
        one.write(out)
    assert one.partial_output == (tmp_path / "results.jsonl.part", 1)
    lines.write_bytes(lines.read_bytes().replace(b"\xe9", b"e"))
    assert run(lines, random_model).write(out, resume=True)
    assert len(out.read_text().splitlines()) == 3


def test_a_run_writes_to_an_open_stream(random_model):
    stream = io.BytesIO()
    sources = TextSources(["We train a parser."])
    assert ExtractionRun(sources, str(random_model), "cpu").write(stream, "csv")
    assert stream.getvalue().decode().startswith("head,head_label,")
    with pytest.raises(UnireError, match=r"needs a folder; pass out=\.\.\."):
        ExtractionRun(sources, str(random_model), "cpu").write(stream, "brat")
    with pytest.raises(UnireError, match="resume=True needs out="):
        ExtractionRun(sources, str(random_model), "cpu").write(stream, resume=True)


def test_line_ends_end_sentences_if_asked_for(random_model, tmp_path):
    (tmp_path / "a.txt").write_text("We met\nBob.", encoding="utf-8")
    for line_breaks, sentences in ((None, 1), (True, 2)):
        sources = TextSources([str(tmp_path / "a.txt")], line_breaks=line_breaks)
        (document,) = ExtractionRun(sources, str(random_model), "cpu").documents()
        assert len(document.sentences) == sentences
