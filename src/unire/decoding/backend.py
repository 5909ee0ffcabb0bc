"""The array backend: operations that numpy and torch spell differently, or that are slow in plain numpy.

All other code in this package is written once, with operators and functions that both libraries have under the same
name. A tensor brings its library along, so torch is not imported here. numpy is fast at long loops and at moving whole
cells. It is slow at loops over the few numbers of a cell, and at memory that is not in the cache; some functions avoid
these.
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
from unire.windows.collator import bucket_tables

__all__ = [
    "Array",
    "all_finite",
    "arange_like",
    "array_namespace",
    "asarray_like",
    "cast_like",
    "full",
    "gather",
    "gather_columns",
    "high_priority_stream",
    "iter_tiles",
    "lerp",
    "lerp_transpose",
    "nonzero",
    "rectangle_means",
    "row_and_column_distances",
    "segment_ids",
    "stack_rows",
    "sum_except",
    "to_float",
    "to_host",
    "to_numpy",
    "zero_padding",
]

Array = Any
"""A numpy array, or a torch tensor on any device."""

TableIndex = slice | Array
"""An index of tables in a batch."""

TILE_NUMBERS = 2**17
"""How many numbers numpy works on at a time, so that they stay in the cache of a core."""

MAX_PADDING_NUMBERS = 2**22
"""A GPU needs about as long for this much padding as the host needs to launch the kernels of one more tile."""

NUMPY_DEVICE = "cpu"
"""Tensors on this kind of device are read as numpy arrays, which share their memory and are faster there."""


def array_namespace(x: Array) -> Any:
    """The module that `x` comes from: `numpy` or `torch`."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


@contextmanager
def high_priority_stream(x: Array) -> Iterator[None]:
    """Run the operations on `x` in inference mode and, on a GPU, in a stream of high priority.

    Decoding consists of many short kernels, and the host waits for some of them. It must not wait for the long kernels
    of the next batch's forward pass.
    """
    if isinstance(x, np.ndarray):
        yield
        return
    torch = array_namespace(x)
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
    """`x` in float32 at least, contiguous and without gradient; a numpy array if it is on the CPU."""
    xp = array_namespace(x)
    dtype = xp.promote_types(x.dtype, xp.float32)
    if xp is np:
        return np.ascontiguousarray(x, dtype)
    tensor = x.detach().to(dtype).contiguous()
    return tensor.numpy() if tensor.device.type == NUMPY_DEVICE else tensor


def cast_like(x: Array, like: Array) -> Array:
    """`x` with the dtype of `like`."""
    return x.astype(like.dtype, copy=False) if isinstance(x, np.ndarray) else x.to(like.dtype)


def to_host(x: Array) -> NDArray[Any]:
    array: NDArray[Any] = x if isinstance(x, np.ndarray) else x.cpu().numpy()
    return array


def to_numpy(*tables: Array) -> list[NDArray[Any]]:
    """Copy arrays of integers and floats to the host, with a single copy, because the host waits for each.

    They are concatenated as 64-bit integers; floats keep their bits.
    """
    if isinstance(tables[0], np.ndarray):
        return list(tables)
    xp = array_namespace(tables[0])
    joined = xp.concatenate([(x.double().view(xp.int64) if x.is_floating_point() else x).reshape(-1) for x in tables])
    if joined.device.type == "cuda":  # torch copies into pinned memory
        joined = joined.to("cpu", non_blocking=True)
        xp.cuda.current_stream(tables[0].device).synchronize()
    parts = np.split(to_host(joined), np.cumsum([x.numel() for x in tables[:-1]]))
    return [
        part.view(np.float64 if x.is_floating_point() else np.int64).reshape(x.shape)
        for part, x in zip(parts, tables, strict=True)
    ]


def asarray_like(host: NDArray[Any], like: Array) -> Array:
    """Copy a host array to the device of `like`; floats get its dtype."""
    if isinstance(like, np.ndarray):
        return host.astype(like.dtype, copy=False) if host.dtype.kind == "f" else host
    tensor = array_namespace(like).from_numpy(host)
    return copy_to_device(tensor.to(like.dtype) if tensor.is_floating_point() else tensor, like.device)


def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
    return np.full(shape, value, like.dtype) if isinstance(like, np.ndarray) else like.new_full(shape, value)


def arange_like(n: int, like: Array, step: int = 1) -> Array:
    """0, step, … (n - 1) · step, on the device of `like`."""
    if isinstance(like, np.ndarray):
        return np.arange(0, n * step, step)
    return array_namespace(like).arange(0, n * step, step, device=like.device)


def segment_ids(sizes: Array, total: int) -> Array:
    """[total]: `sizes[0]` times 0, then `sizes[1]` times 1, and so on."""
    if isinstance(sizes, np.ndarray):
        return np.repeat(np.arange(len(sizes)), sizes)
    return array_namespace(sizes).repeat_interleave(sizes, output_size=total)  # without the total, the host would wait


def nonzero(mask: Array) -> Array:
    """[K]: the indices of the nonzero elements of [N]."""
    return np.flatnonzero(mask) if isinstance(mask, np.ndarray) else mask.nonzero()[:, 0]


def stack_rows(*arrays: Array) -> Array:
    """[k, n] of k arrays. One call for many rows is faster on a GPU than one for each."""
    return np.array(arrays) if isinstance(arrays[0], np.ndarray) else array_namespace(arrays[0]).stack(arrays)


def gather(x: Array, index: Array, axis: int = 0) -> Array:
    """Select the elements `index` along an axis."""
    return x.take(index, axis=axis) if isinstance(x, np.ndarray) else x.index_select(axis, index)


def gather_columns(x: Array, column: Array) -> Array:
    """[K]: the element `column` of every row of [K, Y]."""
    return x[np.arange(len(x)), column] if isinstance(x, np.ndarray) else x.gather(1, column[:, None])[:, 0]


def sum_except(x: Array, column: Array) -> Array:
    """[K]: the sum of every row of [K, Y] without the element `column`."""
    if not isinstance(x, np.ndarray):
        return x.scatter(1, column[:, None], 0).sum(1)
    rest = x.copy()
    rest[np.arange(len(x)), column] = 0
    return rest.sum(1)  # a matrix product is faster, but its rounding depends on the number of rows


def rectangle_means(P: Array, first: Array, height: Array, width: Array) -> Array:
    """[K, |Y|]: the mean of each rectangle; `first` is the index of its first cell among all cells of P."""
    T, N, _, Y = P.shape
    cells = P.reshape(T * N * N, Y)
    area = height * width
    if not len(area):
        return cells[:0]
    if isinstance(P, np.ndarray):
        starts = concat_ranges(first, height, step=N)
        selected = cells.take(concat_ranges(starts, np.repeat(width, height)), axis=0)
        return np.add.reduceat(selected, area.cumsum() - area) / area[:, None].astype(P.dtype)

    # torch sums a segment sequentially, so sum the rows of rectangles first
    xp = array_namespace(P)
    totals = stack_rows(height, area).cumsum(1)
    n_rows, n_cells = totals[:, -1].tolist()
    start, size = gather(stack_rows(first - N * (totals[0] - height), width), segment_ids(height, n_rows), 1)
    before = size.cumsum(0) - size  # cells in earlier rows
    cell = gather(start + arange_like(n_rows, P, N) - before, segment_ids(size, n_cells)) + arange_like(n_cells, P)
    row_sums, *_ = xp.embedding_bag(cells, cell, before)  # gathers and sums in one kernel
    return xp.segment_reduce(row_sums, "sum", lengths=height, unsafe=True) / area[:, None]


def all_finite(x: Array) -> bool:
    """Whether no element is NaN or infinite."""
    xp = array_namespace(x)
    total = np.vdot(x, x) if xp is np else x.sum()  # fast, but it may overflow
    return bool(xp.isfinite(total)) or bool(xp.isfinite(x).all())


def iter_tiles(P: Array, lengths: NDArray[np.int64]) -> Iterator[tuple[TableIndex, Array, Array]]:
    """Cut a batch into tiles of tables, without more padding than needed.

    numpy works best on adjacent tables that fit into the cache, torch on many tables of similar length.

    Yields:
        The index of the tables in the batch, [T', n, n, |Y|] tables, and, for numpy, memory for two copies of them.
    """
    if not isinstance(P, np.ndarray):
        for group, n in bucket_tables(lengths, groups_per_doubling=2, max_padding=MAX_PADDING_NUMBERS // P.shape[3]):
            index = group if isinstance(group, slice) else asarray_like(group, P)
            yield index, P[index, :n, :n], None
        return
    step = max(1, TILE_NUMBERS // max(1, P[:1].size))
    scratch = [_empty_aligned(P[:step].size, P.dtype) for _ in range(2)]
    for start in range(0, len(P), step):
        index = slice(start, start + step)
        n = lengths[index].max()
        tables = P[index, :n, :n]
        yield index, tables, [memory[: tables.size].reshape(tables.shape) for memory in scratch]


def _empty_aligned(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory that begins at a cache line, which numpy writes twice as fast."""
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
    return x + weight * (other - x) if isinstance(x, np.ndarray) else array_namespace(x).lerp(x, other, weight)


def lerp_transpose(P: Array, weight: Array) -> Array:
    """P + weight · (Pᵀ - P), where Pᵀ exchanges rows and columns: `reference.symmetrize`."""
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        return lerp(P, P.swapaxes(1, 2), weight)


def row_and_column_distances(P: Array, weight: Array, padding: Array, scratch: Array) -> Array:
    """[T, N - 1]: the Euclidean distance of adjacent rows plus that of adjacent columns, of symmetrised tables.

    That is twice `reference.boundary_distances(reference.symmetrize(P))`.
    """
    T, N, _, Y = P.shape
    if not isinstance(P, np.ndarray):
        P = lerp_transpose(P, weight)
        zero_padding(P, padding)
        norm = array_namespace(P).linalg.vector_norm
        between_rows = norm(P[:, 1:] - P[:, :-1], dim=(2, 3))
        between_columns = norm(P[:, :, 1:] - P[:, :, :-1], dim=(1, 3))
        return between_rows + between_columns

    # one pass less: compute P + (weight / (1 - weight) · P)ᵀ, and apply the factor (1 - weight)² to the squares
    symmetric, other = scratch
    shape = (T, N, N * Y)
    factor = (1 - weight) ** 2
    with np.errstate(invalid="ignore", over="ignore"):  # padding may hold anything
        np.multiply(P.reshape(shape), np.tile(weight / (1 - weight), N), out=other.reshape(shape))
        _view_cells(symmetric)[:] = _view_cells(other).swapaxes(1, 2)
        symmetric += P
        zero_padding(symmetric, padding)
        of_rows = _squared_differences(symmetric, N * Y, out=other).reshape(shape) @ np.tile(factor, N)
        of_columns = np.ones(N, P.dtype) @ _squared_differences(symmetric, Y, out=other).reshape(shape)
    return (np.sqrt(of_rows) + np.sqrt(of_columns.reshape(T, N, Y) @ factor))[:, :-1]


def _view_cells(P: NDArray[Any]) -> NDArray[Any]:
    """[T, N, N]: P with each cell as one item, which numpy copies at once."""
    return P.view(np.dtype((np.void, P.shape[3] * P.itemsize)))[..., 0]


def _squared_differences(P: NDArray[Any], shift: int, out: NDArray[Any]) -> NDArray[Any]:
    """Squared differences of numbers that are `shift` apart, in one long loop.

    Differences across the end of a row or table are meaningless; the last `shift` are 0.
    """
    numbers, differences = P.reshape(-1), out.reshape(-1)
    end = len(numbers) - shift
    np.subtract(numbers[shift:], numbers[:end], out=differences[:end])
    differences[end:] = 0
    differences *= differences
    return out
