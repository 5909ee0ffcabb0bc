"""How much a server takes on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from unire.exceptions import UnireError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What one request may ask, how many may wait, and how they are batched."""

    body: int = 2**18
    """Bytes of a request."""
    text: int = 20_000
    """Characters of a text."""
    texts: int = 64
    """Texts of a request."""
    queue: int = 256
    """Requests that wait while others are computed."""
    timeout: float = 30.0
    """Seconds after which a request is given up; also, for which its body, and a caller who reads, are waited for."""
    grace: float = 20.0
    """Seconds that a server which is told to stop has for what it accepted."""
    connections: int = 512
    """Connections that are open at a time."""
    batch: int = 2**13
    """Characters that are computed together, where no text by itself has more."""
    wait: float = 0.005
    """Seconds, at most, that a request waits for others to be computed with it."""
    workers: int = 2
    """Batches that are computed at a time: while one is prepared or answered, another keeps the cores busy."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in ("wait", "grace") else 1
            if not least <= value < math.inf:
                raise UnireError(f"the limit {field.name!r} must be {least} or more, not {value}")
