"""What benchmarks time with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    action()
    return clock() - began


def race(
    contestants: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """The seconds of every round of each contestant; a round before them warms up.

    They take turns, so that what else the machine does hits all of them.
    """
    turns = [{name: seconds(run, clock) for name, run in contestants.items()} for _ in range(rounds + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in contestants}
