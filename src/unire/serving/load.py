"""How fast the server is, and whether it has too much to do."""

from __future__ import annotations

import math
from time import monotonic

__all__ = ["Overload", "Speed"]

MEMORY_SECONDS = 5.0
"""The speed is an average over about this many busy seconds."""
EXPIRY_SECONDS = 10.0
"""An older measurement is no reason to refuse a request: the machine may be less busy by now."""
PAUSE_SECONDS = 2.0
"""An overload is over when no request has been refused for this long."""


class Speed:
    """Tokens per second that all threads together compute, measured while all of them have something to do.

    A batch that is computed beside others counts when it ends. So the speed is the tokens of all batches by the busy
    time, both with exponential decay. Not safe for threads.
    """

    def __init__(self) -> None:
        self._first = math.inf
        """The speed at the start."""
        self._tokens = self._seconds = 0.0
        """Decayed sums."""
        self._clock = 0.0
        """Busy seconds since the start."""
        self._counted = 0.0
        """Value of the clock that is counted in the sums."""
        self._busy = False
        self._observed = self._measured = -math.inf
        """When `observe` was called, and when a batch was counted."""

    @property
    def now(self) -> float:
        """Tokens per second."""
        if not self._seconds:
            return self._first
        measured = self._tokens / self._seconds
        return measured if monotonic() - self._measured < EXPIRY_SECONDS else max(measured, self._first)

    @property
    def best(self) -> float:
        """Tokens per second, if the machine is as fast as it was at the start, or faster."""
        return max(self.now, self._first)

    def start(self, tokens_per_second: float) -> None:
        """Set the speed that was measured before the first request. It weighs as much as a busy second."""
        self._first = tokens_per_second
        self._tokens, self._seconds = tokens_per_second, 1.0

    def observe(self, *, busy: bool) -> tuple[float, float]:
        """Say whether all threads have something to do from now on.

        Returns:
            The time, and the busy seconds so far. `count` needs those of the batch's start.
        """
        time = monotonic()
        if self._busy:
            self._clock += time - self._observed
        self._busy = busy
        self._observed = time
        return time, self._clock

    def count(self, tokens: float, since: tuple[float, float]) -> None:
        """Count a batch that has just ended. Of its tokens, count the part computed while the server was busy."""
        time, clock = since
        busy_part = (self._clock - clock) / max(self._observed - time, 1e-9)
        if not busy_part * tokens:
            return
        decay = math.exp((self._counted - self._clock) / MEMORY_SECONDS)
        self._tokens = decay * self._tokens + busy_part * tokens
        self._seconds = decay * self._seconds + self._clock - self._counted
        self._counted = self._clock
        self._measured = self._observed


class Overload:
    """Whether requests have been refused for so long that a load balancer should send them elsewhere.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first = self._last = -PAUSE_SECONDS
        """First and last refusal, without a longer pause between."""

    def count_refusal(self) -> None:
        time = monotonic()
        if time - self._last > PAUSE_SECONDS:
            self._first = time
        self._last = time

    def lasts(self, *, is_busy: bool) -> bool:
        """Whether the overload lasts: requests are refused, or were, and the server is still busy with others."""
        if monotonic() - self._last > PAUSE_SECONDS and not is_busy:
            self._first = self._last
        return self._last - self._first >= self._seconds
