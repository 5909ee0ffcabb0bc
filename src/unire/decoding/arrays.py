"""The seam between numpy and torch: the few operations that the two spell differently, or that one of them is slow at.

Everything else in this room is written once, with operators and with functions that both libraries have under one
name. A tensor brings its library along, so torch is never imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "empty",
    "flipped",
    "in_stacks",
    "library",
    "matmul",
    "norms",
    "put",
    "take",
    "to_float",
    "to_host",
    "toward_mirror",
]

Array = Any
"""A numpy array, or a torch tensor on any device."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
STACK = 2**16
"""How many numbers numpy works on at a time: few enough for a core's cache."""


def library(x: Array) -> Any:
    """The module that `x` comes from: `numpy` or `torch`."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def to_float(x: Array) -> Array:
    """`x` in float32, or as it is where that is better; without its gradient."""
    xp = library(x)
    dtype = xp.promote_types(x.dtype, xp.float32)
    return x.astype(dtype, copy=False) if xp is np else x.detach().to(dtype)


def to_host(x: Array) -> NDArray[Any]:
    array: NDArray[Any] = x if isinstance(x, np.ndarray) else x.cpu().numpy()
    return array


def put(host: NDArray[Any], like: Array) -> Array:
    """A host array where `like` lives; floats take its precision."""
    if isinstance(like, np.ndarray):
        return host.astype(like.dtype, copy=False) if host.dtype.kind == "f" else host
    tensor = library(like).from_numpy(host)
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)


def empty(shape: tuple[int, ...], like: Array) -> Array:
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def take(x: Array, index: Array) -> Array:
    """`x[index]`: rows of `x`."""
    return x.take(index, axis=0) if isinstance(x, np.ndarray) else x[index]


def flipped(P: Array, out: Array = None) -> Array:
    """[T, N, N, Y] with rows and columns exchanged."""
    if not isinstance(P, np.ndarray):
        return P.swapaxes(1, 2)
    # numpy is quicker at taking whole cells than at looping over the few numbers in each
    T, N, _, Y = P.shape
    order = np.arange(N * N).reshape(N, N).T.ravel()
    cells = None if out is None else out.reshape(T, N * N, Y)
    return P.reshape(T, N * N, Y).take(order, axis=1, out=cells, mode="clip").reshape(P.shape)


def toward_mirror(P: Array, weight: NDArray[np.float64], out: Array) -> None:
    """Write P + weight · (Pᵀ - P) to `out`, Pᵀ being P with rows and columns exchanged; one weight per label."""
    if not isinstance(P, np.ndarray):
        library(P).lerp(P, flipped(P), put(weight, P), out=out)
        return
    T, N, _, Y = P.shape
    flipped(P, out)
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        out -= P
        rows = out.reshape(T, N, N * Y)  # one long loop per row instead of one short loop per cell
        rows *= put(np.tile(weight, N), P)
        out += P


def norms(x: Array) -> Array:
    """Euclidean norms over the last axis."""
    if not isinstance(x, np.ndarray):
        return x.norm(dim=-1)
    return np.sqrt((x[..., None, :] @ x[..., :, None])[..., 0, 0])  # makes no squared copy


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` in the precision of the two, under torch's autocast too."""
    if isinstance(a, np.ndarray):
        return a @ b
    with library(a).autocast(a.device.type, enabled=False):
        return a @ b


def in_stacks(work: Callable[[slice], None], P: Array) -> None:
    """Call `work` on all tables of P, a stack of them at a time.

    torch gets the whole batch as one stack. numpy gets stacks that fit into a core's cache, and since it lets go of
    the interpreter lock while it computes, every core takes its share of them.
    """
    step = max(1, STACK // max(1, P[:1].size) if isinstance(P, np.ndarray) else len(P))
    stacks = [slice(start, start + step) for start in range(0, len(P), step)]
    workers = min(len(stacks), CORES)

    def share(worker: int) -> None:
        for stack in stacks[worker::workers]:
            work(stack)

    others = [_threads(os.getpid()).submit(share, worker) for worker in range(1, workers)]
    if stacks:
        share(0)
    for other in others:
        other.result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process; a forked one cannot use its parent's."""
    return ThreadPoolExecutor(CORES, thread_name_prefix="unire-decoding")
