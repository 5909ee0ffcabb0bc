"""The limits of the server: requests, clients, queue, connections, shutdown, batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from unire.errors import UnireError

__all__ = ["ServingLimits"]

MINIMUM = {"wait_seconds": 0, "grace_seconds": 0, "drain_seconds": 0}
"""The smallest allowed values of limits; 1 for the others."""


@dataclass(frozen=True)
class ServingLimits:
    """Limits of requests, clients, the queue, connections, the shutdown, and batches."""

    body_bytes: int = 2**18
    """Bytes of a request."""
    text_characters: int = 20_000
    """Characters of a text."""
    texts: int = 64
    """Texts of a request."""
    timeout_seconds: float = 30.0
    """Seconds after which a request is cancelled; also the limit for receiving its body and for sending the answer."""
    queue_requests: int = 256
    """Requests in the queue; more are refused with 429."""
    client_percent: float = 75.0
    """Largest part of the connections, of the queue and of its time that one client address may take."""
    connections: int = 512
    """Open connections. When more come, connections that wait for their client are closed."""
    unsent_bytes: int = 2**27
    """Bytes of all answers that clients have not read yet. Beyond that, the slowest clients are disconnected."""
    header_seconds: float = 10.0
    """Time for the headers of a request; for the first request, counted from the connection."""
    idle_seconds: float = 75.0
    """Time that an idle connection is kept: longer than proxies keep it, so that the proxy closes it."""
    linger_seconds: float = 2.0
    """Time for a client to read its last answer, after the server has closed its side of the connection."""
    overload_seconds: float = 5.0
    """When requests have been refused for this long, `/ready` answers 503."""
    grace_seconds: float = 20.0
    """Seconds that a stopping server has for the requests it accepted."""
    drain_seconds: float = 0.5
    """Least time that a stopping server answers new requests with 503 before it closes its address."""
    batch_tokens: int = 2048
    """Tokens of a batch; a longer text is a separate batch."""
    wait_seconds: float = 0.005
    """Longest time that a request waits for others to share a batch."""
    workers: int = 2
    """Threads that compute batches: while one prepares or encodes, another keeps the cores busy."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, minimum = getattr(self, field.name), MINIMUM.get(field.name, 1)
            if not minimum <= value < math.inf:
                raise UnireError(f"the limit {field.name!r} must be {minimum} or more, not {value}")
        if self.client_percent > 100:
            raise UnireError(f"the limit 'client_percent' must be 100 or less, not {self.client_percent}")

    @property
    def budget_seconds(self) -> float:
        """Longest time that all accepted work may take: half of the timeout, because speed varies."""
        return self.timeout_seconds / 2

    def of_client(self, limit: float) -> float:
        """The part of a limit that one client may use."""
        return max(1, limit * self.client_percent / 100)
