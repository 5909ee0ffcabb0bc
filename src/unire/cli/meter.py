"""How far a long extraction is, as the terminal shows it."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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
        self._done = self._documents = done
        self._began = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.fields[documents]:,} documents  {task.fields[rate]:,.1f}/s"),
            *((BarColumn(), TextColumn("left"), TimeRemainingColumn()) if size else (TimeElapsedColumn(),)),
            console=printing.errors,
            transient=True,
            redirect_stdout=False,  # what is printed there is not for the terminal's bar
        )
        self._task = self._bar.add_task("", total=size, documents=done, rate=0.0)
        # not with the first document that takes long: a single one may take minutes
        self._timer = threading.Timer(PATIENCE, self._bar.start) if shown and printing.errors.is_terminal else None

    def __enter__(self) -> Meter:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar
            if self._bar.live.is_started:
                self._bar.stop()

    def advance(self, position: float, documents: int = 1, *, earlier: bool = False) -> None:
        """Count a document, or some, with which so much of the input is done, if not by an earlier run."""
        self._documents += documents
        self._done += documents * earlier
        if self._timer is None:
            return
        rate = (self._documents - self._done) / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, completed=position, documents=self._documents, rate=rate)
