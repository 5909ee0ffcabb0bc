"""How far a long extraction is, as the terminal shows it."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unire.cli import printing

__all__ = ["Meter"]

PATIENCE = 2.0
"""Seconds before a bar is shown."""


class Meter:
    """A bar over the bytes of the input with documents, rate and time left; only on a terminal, and only if it lasts.

    Args:
        size: Bytes of the input, if known.
        done: Documents of an earlier run, which do not count for the rate.
        shown: Not where the findings themselves are shown on the terminal.
    """

    def __init__(self, size: int | None, done: int = 0, *, shown: bool = True) -> None:
        self._shown = shown and printing.errors.is_terminal
        self._size = size
        self._done = self._documents = done
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.fields[documents]:,} documents  {task.fields[rate]:,.1f}/s"),
            *((BarColumn(), TextColumn("left"), TimeRemainingColumn()) if size else (TimeElapsedColumn(),)),
            console=printing.errors,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._bar.stop()

    def advance(self, position: float, documents: int = 1, *, earlier: bool = False) -> None:
        """Count a document, or some, with which so much of the input is done, if not by an earlier run."""
        self._documents += documents
        self._done += documents * earlier
        seconds = time.monotonic() - self._began
        if seconds < PATIENCE or not self._shown:
            return
        if self._task is None:
            self._task = self._bar.add_task("", total=self._size, documents=0, rate=0.0)
            self._bar.start()
        rate = (self._documents - self._done) / seconds
        self._bar.update(self._task, completed=position, documents=self._documents, rate=rate)
