"""The seam between numpy and torch: the few operations that the two spell differently, or that numpy is slow at.

Everything else in this room is written once, with operators and with functions that both libraries have under one
name. A tensor brings its library along, so torch is never imported here. numpy is quick at long loops and at moving
whole cells, and slow at looping over the few numbers of a cell, and at memory that it has not just used; hence the
detours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "all_finite",
    "blank",
    "column_distances",
    "empty",
    "library",
    "matmul",
    "pick",
    "put",
    "row_distances",
    "stacks",
    "take",
    "to_float",
    "to_host",
    "toward_mirror",
]

Array = Any
"""A numpy array, or a torch tensor on any device."""

STACK = 2**17
"""How many numbers numpy works on at a time, so that they stay in a core's cache."""


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
    return (tensor.to(like.dtype) if tensor.is_floating_point() else tensor).to(like.device)


def empty(shape: tuple[int, ...], like: Array) -> Array:
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def take(x: Array, index: Array) -> Array:
    """`x[index]`: rows of `x`."""
    return x.take(index, axis=0) if isinstance(x, np.ndarray) else x[index]


def pick(x: Array, column: Array) -> Array:
    """One number of every row of [K, Y]."""
    return x[np.arange(len(x)), column] if isinstance(x, np.ndarray) else x.gather(1, column[:, None])[:, 0]


def matmul(a: Array, b: Array) -> Array:
    """`a @ b` in the precision of the two, under torch's autocast too."""
    if isinstance(a, np.ndarray):
        return a @ b
    with library(a).autocast(a.device.type, enabled=False):
        return a @ b


def all_finite(x: Array) -> bool:
    xp = library(x)
    total = np.vdot(x, x) if xp is np else x.sum()  # quicker to look at, but it may overflow
    return bool(xp.isfinite(total)) or bool(xp.isfinite(x).all())


def stacks(P: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Cut a batch into stacks of tables, each with room for two copies of it; for torch, into one and without."""
    if not isinstance(P, np.ndarray):
        yield slice(None), None, None
        return
    step = min(len(P), max(1, STACK // max(1, P[:1].size)))
    room = np.empty((2, step, *P.shape[1:]), P.dtype)
    for start in range(0, len(P), max(1, step)):
        size = min(step, len(P) - start)
        yield slice(start, start + size), room[0, :size], room[1, :size]


def blank(P: Array, padding: NDArray[np.bool_]) -> None:
    """Set the cells of padding words ([T, N]) to 0, in place."""
    if isinstance(P, np.ndarray):
        table, word = padding.nonzero()
        P[table, word] = 0
        P[table, :, word] = 0
    else:
        padded = put(padding, P)
        P.masked_fill_((padded[:, :, None] | padded[:, None, :])[..., None], 0)


def toward_mirror(P: Array, weight: NDArray[np.float64], out: Array) -> Array:
    """P + weight · (Pᵀ - P), Pᵀ being P with rows and columns exchanged; one weight per label."""
    if not isinstance(P, np.ndarray):
        return library(P).lerp(P, P.swapaxes(1, 2), put(weight, P))
    T, N, _, Y = P.shape
    order = np.arange(N * N).reshape(N, N).T.ravel()
    P.reshape(T, N * N, Y).take(order, axis=1, out=out.reshape(T, N * N, Y), mode="clip")
    rows = out.reshape(T, N, N * Y)
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        out -= P
        rows *= np.broadcast_to(put(weight, P), (N, Y)).reshape(-1)
        out += P
    return out


def row_distances(P: Array, room: Array) -> Array:
    """[T, N - 1]: Euclidean distances of adjacent rows."""
    T, N, _, Y = P.shape
    rows = P.reshape(T, N, N * Y)
    if not isinstance(P, np.ndarray):
        return (rows[:, 1:] - rows[:, :-1]).norm(dim=2)
    steps = np.subtract(rows[:, 1:], rows[:, :-1], out=room.reshape(T, N, N * Y)[:, 1:])
    return np.sqrt((steps[:, :, None, :] @ steps[:, :, :, None])[:, :, 0, 0])


def column_distances(P: Array, room: Array) -> Array:
    """[T, N - 1]: Euclidean distances of adjacent columns."""
    if not isinstance(P, np.ndarray):
        return (P[:, :, 1:] - P[:, :, :-1]).norm(dim=(1, 3))
    # one loop over all cells and their right-hand neighbours, of which those across a row's end are not used
    T, N, _, Y = P.shape
    cells, steps = P.reshape(-1), room.reshape(-1)
    np.subtract(cells[Y:], cells[:-Y], out=steps[:-Y])
    steps[-Y:] = 0
    steps *= steps
    squares = np.ones(N, P.dtype) @ room.reshape(T, N, N * Y)
    return np.sqrt(squares.reshape(T, N, Y) @ np.ones(Y, P.dtype))[:, :-1]
