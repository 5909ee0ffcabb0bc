"""Callbacks of a training, TensorBoard among them, and signals that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from unire.errors import UnireError

__all__ = ["SIGNALS", "Callback", "CallbackList", "Interrupt", "TensorBoardCallback", "TrainState", "exit_status"]


@dataclass
class TrainState:
    """The position of a training, as plain JSON values."""

    epoch: int = 0
    """Completed epochs."""
    position: int = 0
    """Completed steps of the present epoch."""
    epoch_steps: int | None = None
    """Steps of the present epoch; `None` if it has no end."""
    step: int = 0
    """Completed steps of all epochs."""
    fraction: float = 0.0
    """The fraction of the training that is done, by epochs, steps or time."""
    progress: float = 0.0
    """Where in the schedule of evaluations the last epoch ended, in epochs."""
    losses: list[float] = field(default_factory=list)
    """Sums of the losses over the steps of the present epoch, when the latest checkpoint was written."""
    best: float | None = None
    """The best score on dev so far."""
    best_epoch: int = 0
    seconds: float = 0.0
    """Time used, including evaluation, without interruptions; when the latest checkpoint was written, or at the end."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One record per epoch: its losses, and the scores on dev if it was evaluated."""
    task: dict[str, Any] = field(default_factory=dict)
    """What the task needs beyond that."""

    @property
    def epochs_done(self) -> float:
        """Completed epochs, with the completed part of the present one."""
        return self.epoch + self.position / self.epoch_steps if self.epoch_steps else self.epoch


class Callback:
    """The events of a training. Subclass it, and override the events that you need.

    >>> class PrintLoss(Callback):
    ...     def on_epoch_end(self, record):
    ...         print(record["epoch"], record["loss"])
    """

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        """Training begins or resumes.

        Args:
            info: Always `epochs` (`None` if only the budget ends the training) and `epochs done`. For tables also
                `documents`, `sentences`, `dev documents`, `parameters`, `device`, `processes` and `notes` (counts of
                what tables cannot hold), `encoder` and `encoder choice` (if one of the bundled models was chosen, F1 by
                model, else `None`). Distillation adds `teachers` and `unlabelled documents`. Masked-language
                modelling has `parameters` and `device`.
        """

    def on_stage(self, stage: str) -> None:
        """Something that is no step begins, for example scoring or tuning on dev.

        Args:
            stage: What it is, for a progress bar.
        """

    def on_step_end(self, state: TrainState) -> None:
        """An optimiser step is done.

        Args:
            state: The position of the training. Its fields change from step to step; copy what you keep.
        """

    def on_log(self, metrics: Mapping[str, float]) -> None:
        """Called every 5 seconds and at the end of the training, if the task has metrics. Only `adapt` has.

        Args:
            metrics: `fraction` (of the training), `steps`, `tokens`, `tokens_per_second`, and the means of `loss` and
                `accuracy` over the last steps.
        """

    def on_epoch_end(self, record: Mapping[str, Any]) -> None:
        """An epoch is done. `adapt` has no epochs.

        Args:
            record: What the history keeps. For tables, with `dev` only if the epoch was evaluated:
                `{"epoch": 3, "loss": {"entry": 0.21, "symmetry": 0.02, "implication": 0.01}, "dev": {"ent": 0.66,
                "rel": 0.35}}`. Distillation adds the loss `distillation`. For marker models `loss` and `dev` are
                numbers.
        """

    def on_train_end(self) -> None:
        """Training is over, however it ended."""

    def on_documents_labelled(self, done: int, total: int) -> None:
        """Soft labels were written. Only `teach` and `relabel` call this, and no other event.

        Args:
            done: The number of documents that have soft labels.
            total: The number of all documents.
        """


class CallbackList(Callback):
    """Several callbacks as one."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks

    def on_train_begin(self, info: Mapping[str, Any]) -> None:
        for callback in self.callbacks:
            callback.on_train_begin(info)

    def on_stage(self, stage: str) -> None:
        for callback in self.callbacks:
            callback.on_stage(stage)

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

    def on_documents_labelled(self, done: int, total: int) -> None:
        for callback in self.callbacks:
            callback.on_documents_labelled(done, total)


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
