"""Callbacks of a training, TensorBoard among them; and signals that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from unire.errors import UnireError

if TYPE_CHECKING:
    from unire.training.resume import TrainState

__all__ = ["SIGNALS", "Callback", "CallbackList", "Interrupt", "TensorBoardCallback", "exit_status"]


class Callback:
    """Called in the course of a training; does nothing. Subclass it to show or keep what happens."""

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        """Training begins or resumes.

        Args:
            info: Sizes of data and model, the device, and what the data could not express.
        """

    def on_step_end(self, state: TrainState) -> None:
        """An optimiser step is done."""

    def on_log(self, metrics: Mapping[str, float]) -> None:
        """Every few seconds, where a task has metrics within an epoch."""

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        """An epoch is done.

        Args:
            record: Its number, its losses, and the scores on dev if it was evaluated.
        """

    def on_train_end(self) -> None:
        """Training is over, however it ended."""


class CallbackList(Callback):
    """Several callbacks as one."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        for callback in self.callbacks:
            callback.on_train_begin(info)

    def on_step_end(self, state: TrainState) -> None:
        for callback in self.callbacks:
            callback.on_step_end(state)

    def on_log(self, metrics: Mapping[str, float]) -> None:
        for callback in self.callbacks:
            callback.on_log(metrics)

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        for callback in self.callbacks:
            callback.on_epoch_end(record)

    def on_train_end(self) -> None:
        for callback in self.callbacks:
            callback.on_train_end()


class TensorBoardCallback(Callback):
    """Writes losses and dev scores as TensorBoard event files."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UnireError('TensorBoard is not installed: pip install "unire[tensorboard]"') from None
        self._writer = SummaryWriter(str(folder))

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        for name, value in _scalars(record):
            self._writer.add_scalar(name, value, record["epoch"])

    def on_train_end(self) -> None:
        self._writer.close()


def _scalars(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """The numbers of a nested record, by path."""
    scalars: list[tuple[str, float]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            scalars += _scalars(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)):
            scalars.append((prefix + key, float(value)))
    return scalars


SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Sent by people, and by queues and containers before they kill a process."""


def exit_status(number: int = signal.SIGINT) -> int:
    """The exit status of a process that a signal has stopped, as shells count it."""
    return 128 + number


class Interrupt:
    """Delays Ctrl-C and SIGTERM while entered; `check` raises `KeyboardInterrupt` with the number of the signal.

    A second Ctrl-C is immediate. Any other second signal is ignored: launchers pass on to their processes what a queue
    has sent to all of them, and that must not disturb saving.

    Signals cannot be caught outside the main thread; there they keep their meaning.
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
            if former is not None:  # Python does not know handlers that it did not set
                signal.signal(number, former)

    @property
    def pending(self) -> bool:
        return self._first is not None

    @property
    def number(self) -> int:
        """The number of the first signal; that of Ctrl-C if only another process has received one."""
        return self._first or signal.SIGINT

    def check(self) -> None:
        if self.pending:
            raise KeyboardInterrupt(self.number)

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """While entered, the first signal is immediate too."""
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
