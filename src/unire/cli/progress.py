"""How far a long extraction is, as the terminal shows it."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import printing
from unire.windows.collator import Batch

__all__ = ["ProgressMeter"]

PATIENCE = 2.0
"""Seconds before a bar is shown."""


class ProgressMeter:
    """A bar over the bytes of the input with documents, rate and time left; only on a terminal, and only if it lasts.

    A document may take minutes. So the bar also goes on by words: those done are taken for as large a part of what has
    been read as they are of its words.

    Args:
        size: Bytes of the input; where they are not known, there is a bar once all of it has been read.
        done: Documents of an earlier run, which do not count for the rate.
        start: Bytes of those documents.
        console: The one on which the findings are shown too, which stand above the bar then.
    """

    def __init__(self, size: int | None, done: int = 0, *, start: float = 0.0, console: Console | None = None) -> None:
        self._done = self._documents = done
        self._start = self._position = start
        self._read = (start, 0)
        """The bytes that have been read, and their words but for the documents of an earlier run."""
        self._words = 0
        self._began = time.monotonic()
        console = printing.errors if console is None else console
        # what is printed to standard output past the console is not for the terminal's bar
        self._bar = Progress(console=console, transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("", total=None, documents=done, rate="")
        self._bar.update(self._task, completed=start)
        self._set_size(size)
        # not with the first document that takes long: a single one may take minutes
        self._timer = threading.Timer(PATIENCE, self._bar.start) if console.is_terminal else None

    def __enter__(self) -> ProgressMeter:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Show nothing from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar
            if self._bar.live.is_started:
                self._bar.stop()

    def read(self, position: float, words: int) -> None:
        """A document of so many words has been read, with which so much of the input has."""
        self._read = (position, self._read[1] + words)

    def read_all(self) -> None:
        """Nothing is left to be read."""
        if self._bar.tasks[0].total is None:
            self._set_size(self._read[0])

    def advance_batch(self, batch: Batch, P: Any) -> None:
        """Count the words of a batch that was decoded."""
        self.advance_words(int(batch.lengths.sum()))

    def advance_words(self, words: int) -> None:
        """So many words are done."""
        self._words += words
        position, read = self._read
        self._update(self._start + (position - self._start) * min(1.0, self._words / max(read, 1)))

    def advance(self, position: float, documents: int = 1, *, earlier: bool = False) -> None:
        """Count a document, or some, with which so much of the input is done, if not by an earlier run."""
        self._documents += documents
        self._done += documents * earlier
        self._update(position)

    def count(self, done: int, of: int) -> None:
        """So many documents are done, of so many."""
        self.read(of, 0)
        self.read_all()
        self.advance(done, done - self._documents)

    def _set_size(self, size: float | None) -> None:
        left: tuple[ProgressColumn, ...] = (BarColumn(), TextColumn("left"), TimeRemainingColumn())
        rate = TextColumn("{task.fields[documents]:,} documents  {task.fields[rate]}")
        self._bar.columns = (rate, *(left if size else (TimeElapsedColumn(),)))
        self._bar.update(self._task, total=size or None)

    def _update(self, position: float) -> None:
        if self._timer is None:
            return
        self._position = max(self._position, position)  # words may be a little ahead of their documents
        seconds = max(time.monotonic() - self._began, 1e-9)
        by_words, by_documents = self._words / seconds, (self._documents - self._done) / seconds
        rate = f"{by_words:,.0f} words/s" if self._words else f"{by_documents:,.1f}/s"
        self._bar.update(self._task, completed=self._position, documents=self._documents, rate=rate)
