"""Ctrl-C and SIGTERM between two steps instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from unire.errors import UnireError

__all__ = ["SIGNALS", "Callback", "CallbackList", "Interrupt", "TensorBoardCallback", "exit_status"]


class Callback:
    """Told about every step and epoch; does nothing. Subclass it to see or keep what happens."""

    def start(self, facts: Mapping[str, Any]) -> None:
        """Training begins (or goes on): sizes of the data, what tables could not hold."""

    def step(self, epoch: float, epochs: int) -> None:
        """So many epochs, in parts, are over."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over: its losses, and the scores on dev where it was looked at."""

    def close(self) -> None:
        """Training is over, however it ended."""


class CallbackList(Callback):
    """Several reporters as one."""

    def __init__(self, reporters: Sequence[Callback]) -> None:
        self.reporters = reporters

    def start(self, facts: Mapping[str, Any]) -> None:
        for reporter in self.reporters:
            reporter.start(facts)

    def step(self, epoch: float, epochs: int) -> None:
        for reporter in self.reporters:
            reporter.step(epoch, epochs)

    def epoch(self, record: Mapping[str, Any]) -> None:
        for reporter in self.reporters:
            reporter.epoch(record)

    def close(self) -> None:
        for reporter in self.reporters:
            reporter.close()


class TensorBoardCallback(Callback):
    """Losses, rates and dev scores as TensorBoard event files."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UnireError('TensorBoard is not installed: pip install "unire[tensorboard]"') from None
        self._writer = SummaryWriter(str(folder))

    def epoch(self, record: Mapping[str, Any]) -> None:
        for name, value in _scalars(record):
            self._writer.add_scalar(name, value, record["epoch"])

    def close(self) -> None:
        self._writer.close()


def _scalars(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            found += _scalars(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)):
            found.append((prefix + key, float(value)))
    return found


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
