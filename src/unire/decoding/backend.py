"""The seam between numpy and torch: the few operations that the two spell differently, or that numpy is slow at.

Everything else in this room is written once, with operators and with functions that both libraries have under one
name. A tensor brings its library along, so torch is never imported here. numpy is quick at long loops and at moving
whole cells, and slow at looping over the few numbers of a cell, and at memory that it has not just used; hence the
detours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unire.utils import concat_ranges, copy_to_device
from unire.windows.collator import group_by_length

__all__ = [
    "Array",
    "all_finite",
    "arange_like",
    "as_precise",
    "asarray_like",
    "distances",
    "full",
    "gather",
    "gather_columns",
    "high_priority_stream",
    "lerp",
    "lerp_transpose",
    "library",
    "nonzero",
    "rectangle_means",
    "segment_ids",
    "stack_rows",
    "sum_except",
    "tiles",
    "to_float",
    "to_host",
    "to_numpy",
    "zero_padding",
]

Array = Any
"""A numpy array, or a torch tensor on any device."""

Places = slice | Array
"""Which tables of a batch."""

TILE_NUMBERS = 2**17
"""How many numbers numpy works on at a time, so that they stay in a core's cache."""

MAX_PADDING_NUMBERS = 2**22
"""Numbers of padding that take a GPU about as long as it takes the host to ask for one more stack."""

NUMPY_DEVICE = "cpu"
"""Tensors on this kind of device are read as numpy arrays, which share their memory and are quicker there."""


def library(x: Array) -> Any:
    """The module that `x` comes from: `numpy` or `torch`."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


@contextmanager
def high_priority_stream(x: Array) -> Iterator[None]:
    """What is done to `x` here goes before other work of a GPU, a forward pass of the next batch say.

    Decoding is many short kernels, and the host waits for some of them: it must not wait for long ones in between. Nor
    does torch keep count of what might need a gradient, which takes the host a while for every call.
    """
    if isinstance(x, np.ndarray):
        yield
        return
    torch = library(x)
    with torch.inference_mode():
        if x.device.type != "cuda":
            yield
            return
        stream = _high_priority_stream(torch.cuda, x.device)
        stream.wait_stream(torch.cuda.current_stream(x.device))
        x.record_stream(stream)
        with torch.cuda.stream(stream):
            yield


@cache
def _high_priority_stream(cuda: Any, device: Any) -> Any:
    return cuda.Stream(device, priority=-1)


def to_float(x: Array) -> Array:
    """`x` in float32 at least, in one token, without its gradient; a numpy array if it lies on the CPU."""
    xp = library(x)
    dtype = xp.promote_types(x.dtype, xp.float32)
    if xp is np:
        return np.ascontiguousarray(x, dtype)
    tensor = x.detach().to(dtype).contiguous()
    return tensor.numpy() if tensor.device.type == NUMPY_DEVICE else tensor


def as_precise(x: Array, like: Array) -> Array:
    """`x` in the precision of `like`."""
    return x.astype(like.dtype, copy=False) if isinstance(x, np.ndarray) else x.to(like.dtype)


def to_host(x: Array) -> NDArray[Any]:
    array: NDArray[Any] = x if isinstance(x, np.ndarray) else x.cpu().numpy()
    return array


def to_numpy(*tables: Array) -> list[NDArray[Any]]:
    """Integers and floats of any shapes on the host; a GPU is asked but once, for whoever asks has to wait.

    All travel as integers of 64 bits: floats as those that look the same in memory.
    """
    if isinstance(tables[0], np.ndarray):
        return list(tables)
    xp = library(tables[0])
    joined = xp.concatenate([(x.double().view(xp.int64) if x.is_floating_point() else x).reshape(-1) for x in tables])
    if joined.device.type == "cuda":  # into pinned memory, which it writes by itself
        joined = joined.to("cpu", non_blocking=True)
        xp.cuda.current_stream(tables[0].device).synchronize()
    parts = np.split(to_host(joined), np.cumsum([x.numel() for x in tables[:-1]]))
    return [
        part.view(np.float64 if x.is_floating_point() else np.int64).reshape(x.shape)
        for part, x in zip(parts, tables, strict=True)
    ]


def asarray_like(host: NDArray[Any], like: Array) -> Array:
    """A host array where `like` lives; floats take its precision."""
    if isinstance(like, np.ndarray):
        return host.astype(like.dtype, copy=False) if host.dtype.kind == "f" else host
    tensor = library(like).from_numpy(host)
    return copy_to_device(tensor.to(like.dtype) if tensor.is_floating_point() else tensor, like.device)


def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
    return np.full(shape, value, like.dtype) if isinstance(like, np.ndarray) else like.new_full(shape, value)


def arange_like(n: int, like: Array, step: int = 1) -> Array:
    """0, 1, … n - 1, or so many times `step`; where `like` lives."""
    if isinstance(like, np.ndarray):
        return np.arange(0, n * step, step)
    return library(like).arange(0, n * step, step, device=like.device)


def segment_ids(sizes: Array, total: int) -> Array:
    """Whose each is of `total` things, of which the first `sizes[0]` are 0's, the next `sizes[1]` 1's, …"""
    if isinstance(sizes, np.ndarray):
        return np.repeat(np.arange(len(sizes)), sizes)
    return library(sizes).repeat_interleave(sizes, output_size=total)  # a GPU would have to be asked for the total


def nonzero(mask: Array) -> Array:
    """[K]: the places of [N] at which there is something."""
    return np.flatnonzero(mask) if isinstance(mask, np.ndarray) else mask.nonzero()[:, 0]


def stack_rows(*arrays: Array) -> Array:
    """[k, n] of k arrays: with few calls, for each takes the host longer than it takes a GPU."""
    return np.array(arrays) if isinstance(arrays[0], np.ndarray) else library(arrays[0]).stack(arrays)


def gather(x: Array, index: Array, axis: int = 0) -> Array:
    """`x[index]`: rows of `x`, or what lies along another axis."""
    return x.take(index, axis=axis) if isinstance(x, np.ndarray) else x.index_select(axis, index)


def gather_columns(x: Array, column: Array) -> Array:
    """One number of every row of [K, Y]."""
    return x[np.arange(len(x)), column] if isinstance(x, np.ndarray) else x.gather(1, column[:, None])[:, 0]


def sum_except(x: Array, column: Array) -> Array:
    """The sum of every row of [K, Y] without one of its numbers."""
    if not isinstance(x, np.ndarray):
        return x.scatter(1, column[:, None], 0).sum(1)
    rest = x.copy()
    rest[np.arange(len(x)), column] = 0
    return rest.sum(1)  # a product would be quicker, and round a row by how many others there are


def rectangle_means(P: Array, first: Array, height: Array, width: Array) -> Array:
    """[K, |Y|]: the mean cell of each rectangle; `first` says which of all cells of P is its first."""
    T, N, _, Y = P.shape
    cells = P.reshape(T * N * N, Y)
    area = height * width
    if not len(area):
        return cells[:0]
    if isinstance(P, np.ndarray):
        starts = concat_ranges(first, height, step=N)
        inside = cells.take(concat_ranges(starts, np.repeat(width, height)), axis=0)
        return np.add.reduceat(inside, area.cumsum() - area) / area[:, None].astype(P.dtype)

    # torch sums a group number after number, so that each row is better summed first
    xp = library(P)
    so_far = stack_rows(height, area).cumsum(1)
    n_rows, n_cells = so_far[:, -1].tolist()
    start, size = gather(stack_rows(first - N * (so_far[0] - height), width), segment_ids(height, n_rows), 1)
    before = size.cumsum(0) - size  # cells of earlier rows
    place = gather(start + arange_like(n_rows, P, N) - before, segment_ids(size, n_cells)) + arange_like(n_cells, P)
    of_rows, *_ = xp.embedding_bag(cells, place, before)  # gathered and summed in one go
    return xp.segment_reduce(of_rows, "sum", lengths=height, unsafe=True) / area[:, None]


def all_finite(x: Array) -> bool:
    xp = library(x)
    total = np.vdot(x, x) if xp is np else x.sum()  # quicker to look at, but it may overflow
    return bool(xp.isfinite(total)) or bool(xp.isfinite(x).all())


def tiles(P: Array, lengths: NDArray[np.int64]) -> Iterator[tuple[Places, Array, Array, Array]]:
    """Cut a batch into stacks of tables, as wide as they need to be.

    Each is given as its places in the batch, its tables, and room for two copies of them, which torch has no use for.
    numpy likes neighbours that fit into a cache, torch many tables of like length.
    """
    if not isinstance(P, np.ndarray):
        for group, n in group_by_length(lengths, groups_per_doubling=2, max_padding=MAX_PADDING_NUMBERS // P.shape[3]):
            places = group if isinstance(group, slice) else asarray_like(group, P)
            yield places, P[places, :n, :n], None, None
        return
    step = max(1, TILE_NUMBERS // max(1, P[:1].size))
    room, more_room = (_aligned(P[:step].size, P.dtype) for _ in range(2))
    for start in range(0, len(P), step):
        stack = slice(start, start + step)
        n = lengths[stack].max()
        tables = P[stack, :n, :n]
        yield stack, tables, room[: tables.size].reshape(tables.shape), more_room[: tables.size].reshape(tables.shape)


def _aligned(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory from the start of a cache line on, which numpy writes twice as quickly."""
    line = 64
    memory = np.empty(size * dtype.itemsize + line, np.uint8)
    return memory[-memory.ctypes.data % line :][: size * dtype.itemsize].view(dtype)


def zero_padding(P: Array, padding: Array) -> None:
    """Set the cells of padding words ([T, N]) to 0, in place."""
    if isinstance(P, np.ndarray):
        table, word = padding.nonzero()
        P[table, word] = 0
        P[table, :, word] = 0
    else:
        P.masked_fill_((padding[:, :, None] | padding[:, None, :])[..., None], 0)


def lerp(x: Array, other: Array, weight: Array) -> Array:
    """x + weight · (other - x)"""
    return x + weight * (other - x) if isinstance(x, np.ndarray) else library(x).lerp(x, other, weight)


def lerp_transpose(P: Array, weight: Array) -> Array:
    """P + weight · (Pᵀ - P), Pᵀ being P with rows and columns exchanged; one weight per label."""
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        return lerp(P, P.swapaxes(1, 2), weight)


def distances(P: Array, weight: Array, padding: Array, room: Array, more_room: Array) -> Array:
    """[T, N - 1]: how far adjacent rows and columns of `toward_mirror(P, weight)` are apart, without the padding.

    That is the sum of two Euclidean distances.
    """
    T, N, _, Y = P.shape
    if not isinstance(P, np.ndarray):
        P = lerp_transpose(P, weight)
        zero_padding(P, padding)
        norm = library(P).linalg.vector_norm
        between_rows = norm(P[:, 1:] - P[:, :-1], dim=(2, 3))
        between_columns = norm(P[:, :, 1:] - P[:, :, :-1], dim=(1, 3))
        return between_rows + between_columns

    # One step less: P + (weight / (1 - weight) · P)ᵀ, and the factor of 1 - weight where squares are summed
    shape = (T, N, N * Y)
    factor = (1 - weight) ** 2
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        np.multiply(P.reshape(shape), np.tile(weight / (1 - weight), N), out=more_room.reshape(shape))
        _cells(room)[:] = _cells(more_room).swapaxes(1, 2)
        room += P
        zero_padding(room, padding)
        of_rows = _squared_steps(room, N * Y, out=more_room).reshape(shape) @ np.tile(factor, N)
        of_columns = np.ones(N, P.dtype) @ _squared_steps(room, Y, out=more_room).reshape(shape)
    return (np.sqrt(of_rows) + np.sqrt(of_columns.reshape(T, N, Y) @ factor))[:, :-1]


def _cells(P: NDArray[Any]) -> NDArray[Any]:
    """[T, N, N]: P with all numbers of a cell as one item, which numpy moves at once."""
    return P.view(np.dtype((np.void, P.shape[3] * P.itemsize)))[..., 0]


def _squared_steps(P: NDArray[Any], shift: int, out: NDArray[Any]) -> NDArray[Any]:
    """Squared differences of the numbers that are `shift` apart, in one long loop.

    Those across the end of a row or table mean nothing; the last `shift` have no partner and are 0.
    """
    numbers, steps = P.reshape(-1), out.reshape(-1)
    end = len(numbers) - shift
    np.subtract(numbers[shift:], numbers[:end], out=steps[:end])
    steps[end:] = 0
    steps *= steps
    return out
