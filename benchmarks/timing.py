"""What benchmarks time with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def race(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of every round of each contestant; a round before them warms up.

    They take turns, so that what else the machine does hits all of them.
    """
    turns = [{name: seconds(run) for name, run in contestants.items()} for _ in range(rounds + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in contestants}
