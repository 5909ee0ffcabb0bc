"""What a training tells while it runs: a small interface, a silent default, and TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unire.exceptions import UnireError

__all__ = ["Reporter", "Reporters", "TensorBoard"]


class Reporter:
    """Told about every step and epoch; does nothing. Subclass it to see or keep what happens."""

    def start(self, facts: Mapping[str, Any]) -> None:
        """Training begins (or goes on): sizes of the data, what tables could not hold."""

    def step(self, epoch: float, epochs: int) -> None:
        """So many epochs, in parts, are over."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over: its losses, and the scores on dev where it was looked at."""

    def close(self) -> None:
        """Training is over, however it ended."""


class Reporters(Reporter):
    """Several reporters as one."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
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


class TensorBoard(Reporter):
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
