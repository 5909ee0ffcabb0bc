"""The progress bar of long commands."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import console

__all__ = ["ProgressMeter"]

BAR_DELAY_SECONDS = 2.0
"""A run that is shorter shows no bar."""


class ProgressMeter:
    """A progress bar with documents, rate and time left; only on a terminal, and only for long runs.

    The bar measures bytes of the input. A single document may take minutes, so the bar also advances by words: the
    fraction of the words read so far that are done estimates the fraction of the bytes.

    Args:
        size: Bytes of the input. If unknown, the bar appears once the whole input has been read.
        done: Documents of an earlier run, which do not count for the rate.
        start: Bytes of those documents.
        screen: The console that the results are printed on, above the bar. [default: standard error]
    """

    def __init__(self, size: int | None, done: int = 0, *, start: float = 0.0, screen: Console | None = None) -> None:
        self._done = self._documents = done
        self._start = self._position = start
        self._read = (start, 0)
        """Bytes that have been read, and words, without those of an earlier run."""
        self._words = 0
        self._began = time.monotonic()
        screen = console.errors if screen is None else screen
        # output that bypasses the console must not be redirected by the bar
        self._bar = Progress(console=screen, transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("", total=None, documents=done, rate="")
        self._bar.update(self._task, completed=start)
        self._set_size(size)
        # by a timer, because the first document may take minutes
        self._timer = threading.Timer(BAR_DELAY_SECONDS, self._bar.start) if screen.is_terminal else None

    def __enter__(self) -> ProgressMeter:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Show the bar after a delay."""
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar
            if self._bar.live.is_started:
                self._bar.stop()

    def read(self, position: float, words: int) -> None:
        """Count a document that was read: its end in the input, in bytes, and its words."""
        self._read = (position, self._read[1] + words)

    def read_all(self) -> None:
        """The whole input has been read, so its size is known."""
        if self._bar.tasks[0].total is None:
            self._set_size(self._read[0])

    def advance_words(self, words: int) -> None:
        """Count words that are done."""
        self._words += words
        position, read = self._read
        self._update(self._start + (position - self._start) * min(1.0, self._words / max(read, 1)))

    def advance(self, position: float, documents: int = 1, *, earlier: bool = False) -> None:
        """Count documents that are done, by this run or an earlier one, up to a position of the input in bytes."""
        self._documents += documents
        self._done += documents * earlier
        self._update(position)

    def count(self, done: int, of: int) -> None:
        """Set the number of documents that are done, and of all documents."""
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
        self._position = max(self._position, position)  # the estimate by words may be ahead of the documents
        seconds = max(time.monotonic() - self._began, 1e-9)
        by_words, by_documents = self._words / seconds, (self._documents - self._done) / seconds
        rate = f"{by_words:,.0f} words/s" if self._words else f"{by_documents:,.1f}/s"
        self._bar.update(self._task, completed=self._position, documents=self._documents, rate=rate)
