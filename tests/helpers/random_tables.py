"""Tables to decode, random or made by hand, in every kind of array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from unire.decoding.decoders import decode
from unire.decoding.kernels import Decoded
from unire.labels import LabelSpace

PER_LOC = LabelSpace(("Per", "Loc"), ("Lives-in", "Married"), frozenset({"Married"}))
PER, LOC, LIVES_IN, MARRIED = 1, 2, 3, 4

AS_ARRAY: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "numpy float64": lambda P: P,
    "numpy float32": lambda P: P.astype(np.float32),
    "numpy float16": lambda P: np.clip(P, -6e4, 6e4).astype(np.float16),
    "torch float64": torch.from_numpy,
    "torch float32": lambda P: torch.from_numpy(P).float(),
    "torch float16": lambda P: torch.from_numpy(P).half(),
    "torch bfloat16": lambda P: torch.from_numpy(P).bfloat16(),
}


@dataclass(frozen=True)
class Problem:
    tables: list[NDArray[np.float64]]
    labels: LabelSpace

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.array([len(table) for table in self.tables], dtype=np.int64)

    def padded(self, filler: float = 0.0, extra: int = 0) -> NDArray[np.float64]:
        N = self.lengths.max(initial=0) + extra
        P = np.full((len(self.tables), N, N, len(self.labels)), filler)
        for padded, table in zip(P, self.tables, strict=True):
            padded[: len(table), : len(table)] = table
        return P


def noise(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    return rng.dirichlet(np.full(Y, 0.3), size=(n, n))


def blocks(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    """A table of squares and rectangles of random labels, with some noise."""
    span = rng.random(n).round().astype(int).cumsum()
    gold = rng.integers(Y, size=(n + 1, n + 1))[span][:, span]
    return 0.8 * np.eye(Y)[gold] + 0.2 * noise(rng, n, Y)


def coarse(rng: np.random.Generator, n: int, Y: int) -> NDArray[np.float64]:
    """A table full of ties."""
    return rng.multinomial(4, np.full(Y, 1 / Y), size=(n, n)) / 4


@st.composite
def problems(draw: st.DrawFn, *kinds: Callable[[np.random.Generator, int, int], NDArray[np.float64]]) -> Problem:
    names = [f"R{i}" for i in range(draw(st.integers(0, 3)))]
    symmetric = draw(st.sets(st.sampled_from(names))) if names else ()
    labels = LabelSpace(tuple(f"E{i}" for i in range(draw(st.integers(1, 3)))), tuple(names), frozenset(symmetric))
    fill = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Problem([fill(rng, n, len(labels)) for n in draw(st.lists(st.integers(0, 7), max_size=4))], labels)


FILLERS = st.sampled_from([0.0, 0.5, -3.0, 1e30, 3e38, math.nan, math.inf, -math.inf])


def one_hot(table: list[list[int]] | NDArray[np.int64], labels: LabelSpace = PER_LOC) -> NDArray[np.float64]:
    return np.eye(len(labels))[np.array(table)]


def decode_one(P: NDArray[np.float64], labels: LabelSpace = PER_LOC, **options: Any) -> Decoded:
    return decode(P[None], [len(P)], labels, **options)


def chances(log_odds: NDArray[np.float64]) -> list[float]:
    return [1 / (1 + math.exp(-x)) for x in log_odds]


def cell(**probabilities: float) -> NDArray[np.float64]:
    """Probabilities of one cell, by name."""
    return np.array([probabilities.get(name, 0.0) for name in ("none", "per", "loc", "lives_in", "married")])
