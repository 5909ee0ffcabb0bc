"""The onnxruntime engine, on a CPU, without torch."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from unire import pretrained
from unire.errors import UnireError, describe_error, describe_out_of_memory
from unire.hub.model_dir import GRAPH
from unire.inference.engine import Engine, PendingTables
from unire.inference.onnx_check import check_graph
from unire.utils import cpu_count, memory_bytes
from unire.windows.collator import Batch, Padding

__all__ = ["OnnxEngine", "start_session"]

OVERFLOW_TEST_MODEL = b64decode(
    "CAk6WAoYCgF4CgF3EgF5Ig1NYXRNdWxJbnRlZ2VyEgFwKg8IBAgBEANCAXdKBH9/f39aEwoBeBIOCgwIAhIICgIIAgoCCARiEwoBeRIOCgwIBhII"
    "CgIIAgoCCAFCBAoAEBQ="
)
"""An ONNX graph with one `MatMulInteger`: x, uint8 [2, 4], times a constant 127, int8 [4, 1]."""
MAX_RUN_TOKENS = 256
"""Tokens of one run, at most: enough to keep a core busy, few enough to stay in its cache."""
RUNS_PER_THREAD = 16
"""Full runs of a batch for each thread. The fewer batches there are, the less often a core waits for the others."""
MAX_CELLS = 400_000
MAX_PROBABILITIES = 2**26
"""Limits the memory of P, 256 MiB, for models with many labels."""
MAX_MEMORY_SHARE = 0.75
"""The part of this machine's memory that the results of graphs may take, unless they are bundled."""
RUN_COST_TOKENS = 16
"""Measured fixed cost of a run, in tokens."""
CELL_COST_TOKENS = 1 / 400
"""Measured cost of a cell of a table, in tokens. It includes the attention between the tokens of a window."""


class OnnxEngine(Engine):
    """Runs the ONNX graph of an exported model. Threads may share it.

    A batch is split into runs of one window or a few short ones, which need almost no padding. Each run uses one core.
    That is faster than running every matrix product on all cores.

    Args:
        folder: The model directory, with the graph and the weights.
        threads: Runs that are computed at the same time. [default: one per core]
    """

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        trusted = pretrained.is_bundled(folder)  # bundled graphs are as trustworthy as this code
        if not trusted:
            check_graph(folder)
        threads = threads or cpu_count()
        try:
            self._session = start_session(str(folder / GRAPH), bounded=not trusted)
            self._inputs = [graph_input.name for graph_input in self._session.get_inputs()]
            tables, *vectors = self._session.get_outputs()
            n_labels = tables.shape[-1]
        except Exception as error:  # onnxruntime has no common type for its errors
            raise UnireError(
                describe_out_of_memory(error)
                or f"onnxruntime cannot use the graph in {str(folder)!r}: {describe_error(error)}"
            ) from None
        if not isinstance(n_labels, int) or n_labels < 1:
            raise UnireError(f"the graph in {str(folder)!r} has no labels; export the model again")
        self.n_labels: int = n_labels
        """|Y| of the tables."""
        self.n_hidden = vectors[0].shape[-1] if vectors else None
        self._folder = folder
        self._threads = threads
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="unire")
        self.max_batch_tokens = RUNS_PER_THREAD * MAX_RUN_TOKENS * threads
        self.max_cells = min(MAX_CELLS, MAX_PROBABILITIES // self.n_labels)
        self.padding: Padding = "exact"

    def predict_tables(self, batch: Batch) -> NDArray[np.float32]:
        P: NDArray[np.float32] = self.start(batch).result()
        return P

    def predict_with_vectors(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        P, h = self.start(batch, vectors=True).result()
        return P, h

    def start(self, batch: Batch, *, vectors: bool = False) -> PendingTables:
        runs = _plan_runs(batch)
        pool = self._own_pool()
        names = ["P", "h"] if vectors else ["P"]
        futures = [pool.submit(self._compute, batch, run, names) for run in runs]

        def merge() -> Any:
            P, *h = zip(*(future.result() for future in futures), strict=True)
            tables = _merge_tables(batch, runs, P)
            return (tables, _merge_vectors(batch, runs, *h)) if vectors else tables

        return PendingTables(merge, lambda: [future.cancel() for future in futures])

    def _own_pool(self) -> ThreadPoolExecutor:
        """Return the thread pool; make a new one in a forked process, which inherits no threads."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="unire")
        return self._pool

    def _compute(self, batch: Batch, run: _Run, outputs: list[str]) -> list[NDArray[np.float32]]:
        rows, columns = np.divmod(batch.words[run.tables, : run.n_words], batch.input_ids.shape[1])
        # Padding points to the first token of the batch, which may be in another run: use the first token of this one.
        words = np.maximum((rows - run.windows.start) * run.n_tokens + columns, 0)
        tokens = {name: getattr(batch, name)[run.windows, : run.n_tokens] for name in self._inputs if name != "words"}
        try:
            results: list[NDArray[np.float32]] = self._session.run(outputs, {**tokens, "words": words})
        except Exception as error:
            raise UnireError(
                describe_out_of_memory(error)
                or f"onnxruntime cannot compute the graph in {str(self._folder)!r}: {describe_error(error)}"
            ) from None
        shapes = [(*words.shape, words.shape[1], self.n_labels), (*words.shape, self.n_hidden)]
        if [result.shape for result in results] != shapes[: len(results)]:
            raise UnireError(f"the graph in {str(self._folder)!r} computes no table of words; export the model again")
        return results


def start_session(graph: str | bytes, *, bounded: bool = False) -> onnxruntime.InferenceSession:
    """Load a graph for runs on one core each.

    Args:
        graph: The path of the graph, or its content.
        bounded: Whether results may take only a part of the memory, together with those of all other such graphs.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it caches a plan for every shape, and almost every run has a new one
    options.log_severity_level = 4  # errors are raised too, and the log would show names of the graph as they are
    if not _products_are_exact():
        # Use safe instructions, which are less than half as fast. The option would slow down every other CPU too.
        options.add_session_config_entry("session.x64quantprecision", "1")
    if bounded:
        _register_bounded_allocator()
        options.add_session_config_entry("session.use_env_allocators", "1")
        options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")  # they stay outside
    return onnxruntime.InferenceSession(
        graph,
        options,
        providers=["CPUExecutionProvider"],
        # On a CPU the fused operators are slower than those that they replace, one of them several times.
        disabled_optimizers=["BiasGeluFusion", "SkipLayerNormFusion"],
        enable_fallback=0,  # it would print errors on standard output, and try again
    )


@cache
def _register_bounded_allocator() -> None:
    """Register a memory pool with a limit, which sessions of this process may share."""
    kind, use = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
    limits = onnxruntime.OrtArenaCfg({"max_mem": int(MAX_MEMORY_SHARE * memory_bytes())})
    onnxruntime.create_and_register_allocator(onnxruntime.OrtMemoryInfo("Cpu", kind, 0, use), limits)


class _Run(NamedTuple):
    """Windows of a batch, and the tables that are read off these windows alone."""

    windows: slice
    tables: slice
    n_tokens: int
    """L of this run."""
    n_words: int
    """N of this run."""

    @classmethod
    def of(cls, batch: Batch, windows: slice, tables: slice) -> _Run:
        return cls(windows, tables, int(batch.row_lengths[windows].max()), int(batch.lengths[tables].max()))

    def join(self, other: _Run) -> _Run:
        """Return the union of this run and the next one."""
        return _Run(
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
        """Cost in tokens, padding included."""
        n_cells = int(self.tables.stop - self.tables.start) * self.n_words**2
        return RUN_COST_TOKENS + self.tokens + CELL_COST_TOKENS * n_cells


def _merge_tables(batch: Batch, runs: list[_Run], tables: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Copy the tables of the runs of a batch into one array."""
    T, N = batch.words.shape
    if len(runs) == 1 and tables[0].shape[:2] == (T, N):
        return tables[0]
    P = np.zeros((T, N, N, tables[0].shape[-1]), np.float32)
    for run, run_tables in zip(runs, tables, strict=True):
        P[run.tables, : run.n_words, : run.n_words] = run_tables
    return P


def _merge_vectors(batch: Batch, runs: list[_Run], vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Copy the vectors of the words of the runs of a batch into one array. Padding holds arbitrary values."""
    h = np.empty((*batch.words.shape, vectors[0].shape[-1]), np.float32)
    for run, run_vectors in zip(runs, vectors, strict=True):
        h[run.tables, : run.n_words] = run_vectors
    return h


def _plan_runs(batch: Batch) -> list[_Run]:
    """Join the smallest runs of a batch into those with the least total cost: fewer runs have more padding.

    A dynamic programme over the positions where a run can start. A run has `MAX_RUN_TOKENS` at most, unless a single
    window or table needs more.
    """
    smallest = list(_smallest_runs(batch))
    costs = [0.0] * (len(smallest) + 1)
    """Least cost of everything from each position on."""
    best: dict[int, tuple[int, _Run]] = {}
    """By start: where the best run ends, and the run."""
    for start in reversed(range(len(smallest))):
        costs[start] = inf
        for end, run in enumerate(accumulate(smallest[start:], _Run.join), start + 1):
            if end > start + 1 and run.tokens > MAX_RUN_TOKENS:
                break
            if run.cost + costs[end] < costs[start]:
                costs[start] = run.cost + costs[end]
                best[start] = end, run
    runs = []
    end = 0
    while end < len(smallest):
        end, run = best[end]
        runs.append(run)
    return runs


def _smallest_runs(batch: Batch) -> Iterator[_Run]:
    """Yield a run for each window with its tables; a table that is read off several windows keeps them together."""
    windows, tables = slice(0, 0), slice(0, 0)
    for table in np.flatnonzero(batch.lengths):  # a table without words is padding
        rows = batch.words[table, : batch.lengths[table]] // batch.input_ids.shape[1]
        first, end = int(rows.min()), int(rows.max()) + 1
        if first < windows.stop:
            windows = slice(windows.start, max(windows.stop, end))
        else:
            if windows.stop:
                yield _Run.of(batch, windows, tables)
            windows, tables = slice(first, end), slice(int(table), 0)
        tables = slice(tables.start, int(table) + 1)
    yield _Run.of(batch, windows, tables)


@cache
def _products_are_exact() -> bool:
    """Whether 8-bit products do not overflow on this CPU, as with VNNI. Computes one product to find out."""
    session = onnxruntime.InferenceSession(OVERFLOW_TEST_MODEL, providers=["CPUExecutionProvider"])
    (products,) = session.run(None, {"x": np.full((2, 4), 255, np.uint8)})
    return bool((products == 4 * 255 * 127).all())
