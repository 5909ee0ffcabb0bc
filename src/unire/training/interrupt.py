"""Ctrl-C and SIGTERM between two steps instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SIGNALS", "Interrupt", "exit_status"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What people send, and what queues and containers send before they kill."""


def exit_status(number: int = signal.SIGINT) -> int:
    """That of a process which a signal has stopped, as shells count it."""
    return 128 + number


class Interrupt:
    """While entered, Ctrl-C or SIGTERM is only remembered; `check` raises it, as a `KeyboardInterrupt` of its number.

    A second Ctrl-C is immediate. Other seconds say nothing new: what a queue sends to all processes, launchers pass on
    to those that they have started, and that must not disturb the saving.

    Outside the main thread signals cannot be caught, and stay what they are.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._waits = True
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, former in self._former.items():
            if former is not None:  # of a handler that Python did not set it knows nothing
                signal.signal(number, former)

    @property
    def pending(self) -> bool:
        return self._first is not None

    @property
    def number(self) -> int:
        """That of the signal which came first; of Ctrl-C where only another process has heard one."""
        return self._first or signal.SIGINT

    def check(self) -> None:
        if self.pending:
            raise KeyboardInterrupt(self.number)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """While entered, the first one is immediate too."""
        self._waits = False
        try:
            self.check()
            yield
        finally:
            self._waits = True

    def _remember(self, number: int, frame: FrameType | None) -> None:
        impatient = self._first == number == signal.SIGINT
        self._first = self._first or number
        if impatient or not self._waits:
            self._waits = True
            raise KeyboardInterrupt(number)
