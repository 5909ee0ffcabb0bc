"""The queue of the server: which part of which request is computed next.

Clients take turns (round robin), and so do the requests of a client. A small request does not wait for all of a large
one, and a client with one request does not wait for all requests of another client. Requests that have waited for long
go first, oldest first, so that nothing starves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["FairQueue", "QueuedPart", "QueuedRequest"]

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
