"""The queue of the server: which part of which request is computed next, and how long the waiting ones will take.

`ServingLimits` (limits.py) says how much may wait, and `Batcher` refuses what is too much.

Clients take turns (round robin), and so do the requests of a client. A small request does not wait for all of a large
one, and a client with one request does not wait for all requests of another client. Requests that have waited for long
go first, oldest first, so that nothing starves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

__all__ = [
    "FairQueue",
    "Overload",
    "QueuedPart",
    "QueuedRequest",
    "Speed",
]

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(eq=False)
class QueuedRequest(Generic[Part, Result]):
    """One request."""

    client: str
    """Whose turn it takes."""
    parts: deque[QueuedPart[Part, Result]] = field(default_factory=deque)
    """Parts that wait."""
    results: dict[int, Result] = field(default_factory=dict)
    """By the position of the part."""
    future: Future[list[Result]] = field(default_factory=Future)
    since: float = field(default_factory=monotonic)
    """When it came."""

    @property
    def size(self) -> int:
        """The size of the parts that wait."""
        return sum(part.size for part in self.parts)


@dataclass(eq=False)
class QueuedPart(Generic[Part, Result]):
    """One part of a request."""

    request: QueuedRequest[Part, Result]
    position: int
    n_parts: int
    """Parts of the request."""
    part: Part
    size: int

    @property
    def is_wanted(self) -> bool:
        """Whether a caller still waits. A future that ended early was cancelled, or another part failed."""
        return not self.request.future.done()

    def finish(self, outcome: Result | Exception) -> None:
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            if isinstance(outcome, Exception):
                self.request.future.set_exception(outcome)
                return
            self.request.results[self.position] = outcome
            if len(self.request.results) == self.n_parts:
                self.request.future.set_result([self.request.results[i] for i in range(self.n_parts)])


class FairQueue(Generic[Part, Result]):
    """Requests with waiting parts, in turn. Not safe for threads.

    Args:
        patience: Seconds after which a request goes before all younger ones.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._by_age: dict[QueuedRequest[Part, Result], None] = {}
        self._clients: dict[str, dict[QueuedRequest[Part, Result], None]] = {}
        """The requests of each client. Clients and requests are in the order of their turns."""
        self.size = 0
        """The size of all waiting parts."""

    def __len__(self) -> int:
        """Number of requests."""
        return len(self._by_age)

    def of_client(self, client: str) -> Collection[QueuedRequest[Part, Result]]:
        """The requests of a client."""
        return self._clients.get(client, {}).keys()

    def __iter__(self) -> Iterator[QueuedRequest[Part, Result]]:
        return iter(self._by_age)

    def add(self, request: QueuedRequest[Part, Result]) -> None:
        """Add a request that has parts."""
        self._by_age[request] = None
        self._clients.setdefault(request.client, {})[request] = None
        self.size += request.size

    def discard(self, request: QueuedRequest[Part, Result]) -> None:
        """Remove a request, if it is in the queue."""
        if request not in self._by_age:
            return
        del self._by_age[request], self._clients[request.client][request]
        self.size -= request.size
        if not self._clients[request.client]:
            del self._clients[request.client]

    def first(self, may_start: Callable[[QueuedPart[Part, Result]], bool]) -> QueuedPart[Part, Result] | None:
        """Return the part whose turn it is, among those that may start."""
        return next((request.parts[0] for request in self._in_turn() if may_start(request.parts[0])), None)

    def pop(self, part: QueuedPart[Part, Result]) -> None:
        """Remove the first part of a request. The request and its client go to the end of their turns."""
        request = part.request
        request.parts.popleft()
        self.size -= part.size
        own = self._clients.pop(request.client)
        del own[request]
        if request.parts:
            own[request] = None
        else:
            del self._by_age[request]
        if own:
            self._clients[request.client] = own

    def _in_turn(self) -> Iterator[QueuedRequest[Part, Result]]:
        overdue = monotonic() - self._patience
        for request in self._by_age:
            if request.since > overdue:
                break
            yield request
        for requests in self._clients.values():
            yield from requests


# Load

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
