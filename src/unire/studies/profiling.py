"""Measure extraction: whole passes over documents, and the stages of a pass one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from unire.config import ModelConfig
from unire.decoding.assemble import DocumentAssembler
from unire.documents import Document
from unire.extractor import Extractor
from unire.inference.engine import Engine
from unire.inference.streaming import iter_chunks

if TYPE_CHECKING:
    from unire.models.unire import UniRE

__all__ = [
    "DEFAULT_ROUNDS",
    "StageSeconds",
    "Step",
    "TimedRun",
    "describe_repeats",
    "measure",
    "measure_best_stages",
    "measure_stages",
]

DEFAULT_ROUNDS = 3
"""The best round counts."""
MIN_ROUND_SECONDS = 1.0
"""A round reads the documents repeatedly if one pass is shorter. A GPU reads a test set in less than a tenth of a
second; start-up would be a large part of that, and rounds would differ a lot."""
PLANNED_EXCESS = 1.2
"""Rounds are planned this much longer than the minimum, because longer rounds run faster per document."""

Step = Callable[[list[Document]], list[Document]]
"""Returns the documents with more annotation."""


class TimedRun(NamedTuple):
    """Documents and seconds of a measurement."""

    documents: list[Document]
    """Result of one pass over the documents."""
    seconds: dict[str, float]
    """Seconds of each step for one pass: the best round, divided by its number of passes."""
    repeats: int
    """Passes of a round."""


def measure(steps: Mapping[str, Step], documents: Sequence[Document], rounds: int = DEFAULT_ROUNDS) -> TimedRun:
    """Measure steps, each of which continues with the result of the one before.

    The first pass warms up and does not count. If the best round is too short, more rounds read the documents
    repeatedly.

    Args:
        steps: By name.
        documents: Their annotation is ignored.
        rounds: The best of this many rounds counts.
    """
    bare = [document.bare for document in documents]
    annotated, _ = _run(steps, bare)
    repeats = 1
    best = _best_round(steps, bare, rounds)
    while documents and (total := sum(best.values())) < MIN_ROUND_SECONDS:
        planned = PLANNED_EXCESS * MIN_ROUND_SECONDS
        repeats = max(2 * repeats, ceil(repeats * planned / max(total, MIN_ROUND_SECONDS / 1000)))
        best = _best_round(steps, bare * repeats, rounds)
    return TimedRun(annotated, {name: seconds / repeats for name, seconds in best.items()}, repeats)


def describe_repeats(repeats: Iterable[int]) -> str:
    """Say how often the documents of the rows were read; nothing if it was once."""
    counts = set(repeats)
    if counts <= {1}:
        return ""
    few, many = min(counts), max(counts)
    often = f"{many}" if few == many else f"{few} to {many}"
    return f", read {often} times over in a round,"


def _best_round(steps: Mapping[str, Step], documents: list[Document], rounds: int) -> dict[str, float]:
    return min((_run(steps, documents)[1] for _ in range(rounds)), key=lambda seconds: sum(seconds.values()))


def _run(steps: Mapping[str, Step], documents: list[Document]) -> tuple[list[Document], dict[str, float]]:
    """Run a round; return its documents and the seconds of each step."""
    seconds = {}
    for name, step in steps.items():
        start = time.perf_counter()
        documents = step(documents)
        seconds[name] = time.perf_counter() - start
    return documents, seconds


class StageSeconds(NamedTuple):
    """Seconds of each stage of a pass. A stage starts when the one before has ended, so the sum is larger than the time
    of a normal pass, in which stages overlap."""

    windows: float
    """Words to tokens to batches."""
    encoder: float
    biaffine: float
    """MLPs, biaffine and softmax; 0 for an engine that runs them together with the encoder."""
    decoder: float
    """Tables to arrays of spans and pairs."""
    documents: float
    """Arrays to entities and relations in their documents."""


def measure_stages(
    engine: Engine, model: UniRE, config: ModelConfig, documents: Sequence[Document]
) -> tuple[StageSeconds, int]:
    """Measure the stages of a pass; return them and the number of batches, which are those of `Extractor.annotate`.

    Args:
        engine: Computes the tables.
        model: The same model in torch; the engine's own model if it is a torch engine.
        config: How windows are laid out and tables decoded.
        documents: The documents.
    """
    extractor = Extractor(engine, model.tokenizer, config, model.labels)
    windows = tables = decoder = assembly = 0.0
    n_batches = 0
    with _timed_encoder(model) as encoder_seconds:
        start = _synchronized_time(model)
        for chunk in iter_chunks(documents, engine.max_batch_tokens):
            result = DocumentAssembler(chunk, model.labels)
            for batch in extractor.build_batches(chunk):
                n_batches += 1
                windows += (end := _synchronized_time(model)) - start
                P = engine.predict_tables(batch)
                tables += (start := _synchronized_time(model)) - end
                decoded = extractor.decode(P, batch.lengths)
                decoder += (end := _synchronized_time(model)) - start
                result.add(batch.table_spans, decoded)
                assembly += (start := _synchronized_time(model)) - end
            windows += (end := _synchronized_time(model)) - start
            result.documents()
            assembly += (start := _synchronized_time(model)) - end
    encoder = sum(encoder_seconds) or tables
    return StageSeconds(windows, encoder, tables - encoder, decoder, assembly), n_batches


def measure_best_stages(
    engine: Engine,
    model: UniRE,
    config: ModelConfig,
    documents: Sequence[Document],
    repeats: int = 1,
    rounds: int = DEFAULT_ROUNDS,
) -> tuple[StageSeconds, int]:
    """Measure the stages of one pass in the best of some rounds; return them and the number of batches of a round.

    Args:
        engine: Computes the tables.
        model: As for `measure_stages`.
        config: How windows are laid out and tables decoded.
        documents: Their annotation is ignored.
        repeats: Passes of a round.
        rounds: The best of this many rounds counts.
    """
    bare = [document.bare for document in documents] * repeats
    passes = [measure_stages(engine, model, config, bare) for _ in range(rounds)]
    stages, n_batches = min(passes, key=lambda stages_and_batches: sum(stages_and_batches[0]))
    return StageSeconds(*(seconds / repeats for seconds in stages)), n_batches


@contextmanager
def _timed_encoder(model: UniRE) -> Iterator[list[float]]:
    """Collect the seconds of every call of the encoder."""
    seconds: list[float] = []
    starts: list[float] = []
    hooks = [
        model.encoder.register_forward_pre_hook(lambda *_: starts.append(_synchronized_time(model))),
        model.encoder.register_forward_hook(lambda *_: seconds.append(_synchronized_time(model) - starts.pop())),
    ]
    try:
        yield seconds
    finally:
        for hook in hooks:
            hook.remove()


def _synchronized_time(model: UniRE) -> float:
    """The time at which the device has done all its work."""
    if model.device.type == "cuda":
        import torch

        torch.cuda.synchronize(model.device)
    return time.perf_counter()
