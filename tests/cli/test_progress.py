"""The bar of `unire extract`: on a terminal only, never back, and beside what is found."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from helpers.extract import TEXT
from unire.cli import console
from unire.cli.main import app


def test_a_long_run_shows_rate_and_time_left_on_terminals_only(extract, tmp_path, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("A line.\n" * 50)
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 0.0)
    assert "documents  " not in extract("--lines", lines, "--out", tmp_path / "a.jsonl").stderr
    screen = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=screen, force_terminal=True, width=100))
    assert extract("--lines", lines, "--out", tmp_path / "b.jsonl").exit_code == 0
    assert "50 documents" in screen.getvalue()
    assert "/s" in screen.getvalue()
    assert "left" in screen.getvalue()
    screen.truncate(0)
    assert extract("--lines", "--out", tmp_path / "c.jsonl", stdin="A line.\n" * 50).exit_code == 0
    assert "50 documents" in screen.getvalue()


@pytest.fixture
def screen(monkeypatch):
    """A terminal for whatever is not the result, with a bar from the beginning."""
    shown = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=shown, force_terminal=True, width=100))
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 0.0)
    return shown


def shares(bar: console.ProgressMeter) -> float:
    return bar._bar.tasks[0].completed / bar._bar.tasks[0].total


def test_a_single_document_that_takes_long_has_a_bar_too(screen, monkeypatch):
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 0.01)
    with console.ProgressMeter(100):
        deadline = time.monotonic() + 60
        while "0 documents" not in screen.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    screen.truncate(0)
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 600.0)
    with console.ProgressMeter(100) as short:
        short.advance(100)
    assert screen.getvalue().strip("\0") == ""


def test_a_bar_goes_on_by_words_and_never_back(screen):
    with console.ProgressMeter(100, done=1, start=20) as bar:
        assert shares(bar) == 0.2
        bar.read(60, 10)
        bar.advance_words(5)
        assert shares(bar) == 0.4
        bar.read(100, 10)
        bar.advance_words(5)
        assert shares(bar) == 0.6
        bar.advance(30)
        assert shares(bar) == 0.6
        bar.advance_words(10)
        assert shares(bar) == 1
    assert "words/s" in screen.getvalue()


def test_an_input_of_unknown_size_has_a_bar_once_it_is_read(screen):
    with console.ProgressMeter(None) as bar:
        assert "left" not in screen.getvalue()
        bar.read(60, 10)
        bar.read_all()
        bar.advance_words(5)
        assert shares(bar) == 0.5
    assert "left" in screen.getvalue()


@pytest.mark.parametrize("name", ["found.jsonl", "page.html"])
def test_the_batches_of_a_document_move_the_bar(name, screen, extract, tmp_path, monkeypatch):
    text = tmp_path / "long.txt"
    text.write_text(" ".join(["This is a parser of ours."] * 400))
    seen: list[float] = []
    advance = console.ProgressMeter.advance_words

    def watched(self: console.ProgressMeter, words: int) -> None:
        advance(self, words)
        seen.append(shares(self))

    monkeypatch.setattr(console.ProgressMeter, "advance_words", watched)
    assert extract(text, "--out", tmp_path / name).exit_code == 0
    assert len(seen) > 1
    assert seen == sorted(set(seen))
    assert 0 < seen[0] < seen[-1] == 1


def test_results_on_a_terminal_appear_above_the_bar(random_model, screen, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=shown, force_terminal=True, color_system="256", width=200))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    app(["extract", "--model", str(random_model), "--device", "cpu", TEXT, TEXT], standalone_mode=False)
    *_, last = shown.getvalue().split("parser")
    assert "documents" in last
    assert "words/s" in last
    assert "words/s" not in screen.getvalue()
