"""How much of a training is done, where time is what limits it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Clock"]

SAVING = 10.0
"""Seconds kept for saving at the end; never more than a twentieth of the time."""


class Clock:
    """Counts seconds and steps, and says what share of the training they are.

    The time starts with the clock, but the share with the first step: loading and compiling take from the time, not
    from the warm-up of the learning rate.

    Args:
        minutes: All the time that there is; `None` for as long as it takes.
        steps: All the steps that there are; `None` for any number.
    """

    def __init__(self, minutes: float | None = None, steps: int | None = None) -> None:
        self.minutes = minutes
        self.steps = steps
        self.done_before = 0.0
        self._zero = time.monotonic()
        self._start = 0.0
        self._paused = 0.0

    def resume(self, seconds_before: float, done_before: float) -> None:
        """Go on from where an interrupted training stood; what was spent on loading it counts too.

        Args:
            seconds_before: What it had used.
            done_before: The share that it had done.
        """
        self._zero -= seconds_before
        self.done_before = done_before

    @property
    def seconds(self) -> float:
        """Since the training was begun, interruptions left out."""
        return time.monotonic() - self._zero

    @property
    def training_seconds(self) -> float:
        """Since the first step, pauses left out."""
        return self.seconds - self._start - self._paused

    def start(self) -> None:
        """The first step begins."""
        self._start = self.seconds

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time that is not spent in training, but counts."""
        began = self.seconds
        yield
        self._paused += self.seconds - began

    def done(self, steps: int) -> float:
        """The share, from 0 to 1, that is done after `steps` steps: of the time or of the steps, whichever is more."""
        by_steps = steps / self.steps if self.steps else 0.0
        by_time = 0.0
        if self.minutes:
            box = 60 * self.minutes
            left = box - min(SAVING, box / 20) - self._start
            share = (self.seconds - self._start) / left if left > 0 else 1.0
            by_time = self.done_before + (1 - self.done_before) * share
        return min(1.0, max(by_steps, by_time))
