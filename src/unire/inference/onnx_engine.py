"""Tables by onnxruntime, on a CPU, without torch."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from unire.errors import UnireError
from unire.hub.model_dir import GRAPH
from unire.inference.engine import PendingTables
from unire.inference.onnx_check import check_graph
from unire.utils import cpu_count
from unire.windows.collator import Batch, Padding

__all__ = ["OnnxEngine", "start_session"]

PRODUCT = b64decode(
    "CAk6WAoYCgF4CgF3EgF5Ig1NYXRNdWxJbnRlZ2VyEgFwKg8IBAgBEANCAXdKBH9/f39aEwoBeBIOCgwIAhIICgIIAgoCCARiEwoBeRIOCgwIBhII"
    "CgIIAgoCCAFCBAoAEBQ="
)
"""A graph: x of uint8 [2, 4] times 127s of int8 [4, 1]."""
RUN_TOKENS = 256
"""Tokens that are read in one run, at most: enough to keep a core busy, few enough to stay in its cache."""
RUN = 16
"""What a run costs beside what is in it, in tokens: measured, as the next."""
CELL = 1 / 400
"""What a cell of a table costs, in tokens; attention between the tokens of a window is counted with it."""


class OnnxEngine:
    """Runs the graph of a folder that `unire export` wrote. Threads may share it.

    A batch is taken apart into runs of a window or a few short ones, which need next to no padding, and the runs are
    spread over the cores, one core each: that wastes less than sharing every product among all cores.

    Args:
        folder: Holds the graph and the weights.
        threads: Runs at a time; as many as there are cores when left out.
    """

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        check_graph(folder)
        threads = threads or cpu_count()
        try:
            self._session = start_session(str(folder / GRAPH))
        except Exception as error:  # onnxruntime has no common type for its errors
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise UnireError(f"onnxruntime cannot use the graph in {str(folder)!r}: {reason}") from None
        self._inputs = [given.name for given in self._session.get_inputs()]
        self._threads = threads
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="unire")
        self.max_tokens = 16 * RUN_TOKENS * threads  # the fewer batches, the less often a core waits for the others
        self.max_cells = 400_000
        self.padding: Padding = "exact"

    def tables(self, batch: Batch) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.start(batch).tables()
        return found

    def start(self, batch: Batch) -> PendingTables:
        parts = list(_runs(batch))
        pool = self._own_pool()
        runs = [pool.submit(self._run, batch, part) for part in parts]
        return PendingTables(
            lambda: _together(batch, parts, [run.result() for run in runs]),
            lambda: [run.cancel() for run in runs],
        )

    def _own_pool(self) -> ThreadPoolExecutor:
        """The threads, made anew in a process that was forked: it has inherited none."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="unire")
        return self._pool

    def _run(self, batch: Batch, part: _Part) -> NDArray[np.float32]:
        rows, places = np.divmod(batch.words[part.tables, : part.n_words], batch.input_ids.shape[1])
        # Padding reads the first token of the batch, which may be of another part: that of this one will do.
        words = np.maximum((rows - part.windows.start) * part.n_tokens + places, 0)
        tokens = {name: getattr(batch, name)[part.windows, : part.n_tokens] for name in self._inputs if name != "words"}
        (P,) = self._session.run(None, {**tokens, "words": words})
        return P  # type: ignore[no-any-return]


def start_session(graph: str | bytes) -> onnxruntime.InferenceSession:
    """A graph, by the path of its file or itself, made ready to be run on one core at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # patterns are kept for each shape, and every run has another
    options.log_severity_level = 3
    if not _products_are_exact():
        # Then onnxruntime multiplies by other instructions, less than half as fast. It would do so on CPUs that have
        # no need of it too.
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(
        graph,
        options,
        providers=["CPUExecutionProvider"],
        # slower on a CPU, one of them several times, than the additions, norms and GELUs that they replace
        disabled_optimizers=["BiasGeluFusion", "SkipLayerNormFusion"],
    )


class _Part(NamedTuple):
    """Windows of a batch, and the tables that are read off them and off no others."""

    windows: slice
    tables: slice
    n_tokens: int
    """L of this part."""
    n_words: int
    """N of this part."""

    @classmethod
    def of(cls, batch: Batch, windows: slice, tables: slice) -> _Part:
        return cls(windows, tables, int(batch.row_lengths[windows].max()), int(batch.lengths[tables].max()))

    def joined(self, other: _Part) -> _Part:
        """This part and the one behind it."""
        return _Part(
            slice(self.windows.start, other.windows.stop),
            slice(self.tables.start, other.tables.stop),
            max(self.n_tokens, other.n_tokens),
            max(self.n_words, other.n_words),
        )

    @property
    def tokens(self) -> int:
        return int(self.windows.stop - self.windows.start) * self.n_tokens

    @property
    def cost(self) -> float:
        """Of a run of this part, padding included, in tokens."""
        return RUN + self.tokens + CELL * int(self.tables.stop - self.tables.start) * self.n_words**2


def _together(batch: Batch, parts: list[_Part], found: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The tables of a batch from those of its parts."""
    T, N = batch.words.shape
    if len(parts) == 1 and found[0].shape[:2] == (T, N):
        return found[0]
    P = np.zeros((T, N, N, found[0].shape[-1]), np.float32)
    for part, some in zip(parts, found, strict=True):
        P[part.tables, : part.n_words, : part.n_words] = some
    return P


def _runs(batch: Batch) -> Iterator[_Part]:
    """The batch in those runs that together cost least: the fewer there are, the more of them is padding.

    A run has `RUN_TOKENS` at most, or more where a window or a table asks for it.
    """
    parts = list(_smallest_parts(batch))
    least = [0.0] * (len(parts) + 1)
    """What the parts from each on cost."""
    chosen: dict[int, tuple[int, _Part]] = {}
    """By its first part, the run that is best there, and where it ends."""
    for first in reversed(range(len(parts))):
        least[first] = inf
        for end, run in enumerate(accumulate(parts[first:], _Part.joined), first + 1):
            if end > first + 1 and run.tokens > RUN_TOKENS:
                break
            if run.cost + least[end] < least[first]:
                least[first] = run.cost + least[end]
                chosen[first] = end, run
    end = 0
    while end < len(parts):
        end, run = chosen[end]
        yield run


def _smallest_parts(batch: Batch) -> Iterator[_Part]:
    """Mostly a window each, with its tables; a table that is read off several windows keeps them together."""
    windows, tables = slice(0, 0), slice(0, 0)
    for table in np.flatnonzero(batch.lengths):  # a table without words is padding
        rows = batch.words[table, : batch.lengths[table]] // batch.input_ids.shape[1]
        first, end = int(rows.min()), int(rows.max()) + 1
        if first < windows.stop:
            windows = slice(windows.start, max(windows.stop, end))
        else:
            if windows.stop:
                yield _Part.of(batch, windows, tables)
            windows, tables = slice(first, end), slice(int(table), 0)
        tables = slice(tables.start, int(table) + 1)
    yield _Part.of(batch, windows, tables)


@cache
def _products_are_exact() -> bool:
    """Whether this CPU has instructions for products of eight bits (VNNI, say) that do not overflow: it is tried."""
    session = onnxruntime.InferenceSession(PRODUCT, providers=["CPUExecutionProvider"])
    (products,) = session.run(None, {"x": np.full((2, 4), 255, np.uint8)})
    return bool((products == 4 * 255 * 127).all())
