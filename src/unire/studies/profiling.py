"""How long it takes from documents to findings; and windows, encoder, biaffine, decoder, … one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from unire.config import ModelConfig
from unire.documents import Document
from unire.extractor import Extractor
from unire.inference.engine import Engine, PendingTables
from unire.inference.streaming import InferencePipeline
from unire.windows.collator import Batch

if TYPE_CHECKING:
    from unire.models.unire import UniRE

__all__ = ["ROUNDS", "Stages", "Step", "Timed", "best_stages", "repetition", "stage_seconds", "timed"]

ROUNDS = 3
"""The best of so many counts."""
SHORTEST = 1.0
"""Seconds that a round lasts at least, if need be with the same documents over and over: a GPU reads a test set in less
than a tenth of a second, of which starting is a large part, and no two rounds are alike."""
SPARE = 1.2
"""What a round is planned to be longer than that: the more there is to read, the faster it is read."""

Step = Callable[[list[Document]], list[Document]]
"""Documents with more in them than before."""


class Timed(NamedTuple):
    """What was found, and how long it took."""

    found: list[Document]
    """By one pass over the documents as they are."""
    seconds: dict[str, float]
    """Of each step, for one pass over the documents: its share of the best round."""
    repeats: int
    """How often a round read the documents."""


def timed(steps: Mapping[str, Step], documents: Sequence[Document], rounds: int = ROUNDS) -> Timed:
    """Take the time of steps, each of which goes on from what the one before has found.

    The first pass warms up and is not counted. If the best round is too short, there are others, of the same documents
    repeated.

    Args:
        steps: By name.
        documents: Their annotation is not looked at.
        rounds: The best of so many counts.
    """
    bare = [document.bare for document in documents]
    found, _ = _run(steps, bare)
    repeats = 1
    best = _best(steps, bare, rounds)
    while documents and (total := sum(best.values())) < SHORTEST:
        repeats = max(2 * repeats, ceil(repeats * SPARE * SHORTEST / max(total, SHORTEST / 1000)))
        best = _best(steps, bare * repeats, rounds)
    return Timed(found, {name: taken / repeats for name, taken in best.items()}, repeats)


def repetition(repeats: Iterable[int]) -> str:
    """What a reader is told of how often the rows' documents were read; nothing where it was once."""
    counts = set(repeats)
    if counts <= {1}:
        return ""
    few, many = min(counts), max(counts)
    often = f"{many}" if few == many else f"{few} to {many}"
    return f", read {often} times over in a round,"


def _best(steps: Mapping[str, Step], documents: list[Document], rounds: int) -> dict[str, float]:
    return min((_run(steps, documents)[1] for _ in range(rounds)), key=lambda seconds: sum(seconds.values()))


def _run(steps: Mapping[str, Step], documents: list[Document]) -> tuple[list[Document], dict[str, float]]:
    """What a round finds, and the seconds of each step."""
    found, seconds = documents, {}
    for name, step in steps.items():
        began = time.perf_counter()
        found = step(found)
        seconds[name] = time.perf_counter() - began
    return found, seconds


class Stages(NamedTuple):
    """Seconds of a pass over some documents. No stage begins before the last one has ended, so the sum is more than a
    pass takes in which they overlap."""

    windows: float
    """Words to tokens to batches."""
    encoder: float
    biaffine: float
    """MLPs, biaffine and softmax; 0 in an engine that does not tell it from the encoder."""
    decoder: float
    """Tables to what is found in them, as arrays."""
    documents: float
    """That as entities and relations, in their documents."""


def stage_seconds(
    engine: Engine, model: UniRE, settings: ModelConfig, documents: Sequence[Document]
) -> tuple[Stages, int]:
    """The stages of a pass, and its number of batches, which are those of a stream of these documents.

    Args:
        engine: What is run.
        model: The same model in torch; that which is run, if the engine is torch's.
        settings: How windows are made and tables decoded.
        documents: What is read.
    """
    with _TimedEngine(engine, model) as watched:
        timed = Extractor(watched, model.tokenizer, settings, model.labels)
        decoder = made = 0.0
        began = watched.now()
        for findings, batch, started in InferencePipeline(watched, model.labels, timed.batches, documents):
            P = started.tables()
            start = watched.now()
            if batch is None:
                findings.documents()
            else:
                decoded = timed.decode(batch, P)
                decoder += (end := watched.now()) - start
                start = end
                findings.add(batch.tables, decoded)
            made += watched.now() - start
        windows = watched.now() - began - watched.tables_seconds - decoder - made
    encoder = watched.encoder_seconds or watched.tables_seconds
    return Stages(windows, encoder, watched.tables_seconds - encoder, decoder, made), watched.batches


def best_stages(
    engine: Engine,
    model: UniRE,
    settings: ModelConfig,
    documents: Sequence[Document],
    repeats: int = 1,
    rounds: int = ROUNDS,
) -> tuple[Stages, int]:
    """The stages of one pass over documents, their share of the best round, and the number of the round's batches.

    Args:
        engine: What is run.
        model: As for `stage_seconds`.
        settings: How windows are made and tables decoded.
        documents: What is read; their annotation is not looked at.
        repeats: How often a round reads them.
        rounds: The best of so many counts.
    """
    bare = [document.bare for document in documents] * repeats
    passes = [stage_seconds(engine, model, settings, bare) for _ in range(rounds)]
    stages, n_batches = min(passes, key=lambda taken: sum(taken[0]))
    return Stages(*(seconds / repeats for seconds in stages)), n_batches


class _TimedEngine:
    """An engine that takes the time of its tables, and of the encoder in them."""

    def __init__(self, engine: Engine, model: UniRE) -> None:
        self.engine = engine
        self.model = model
        self.max_cells, self.max_tokens, self.padding = engine.max_cells, engine.max_tokens, engine.padding
        self.tables_seconds = self.encoder_seconds = self._began = 0.0
        self.batches = 0

    def __enter__(self) -> _TimedEngine:
        self._hooks = [
            self.model.encoder.register_forward_pre_hook(self._before),
            self.model.encoder.register_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def tables(self, batch: Batch) -> Any:
        began = self.now()
        P = self.engine.tables(batch)
        self.tables_seconds += self.now() - began
        self.batches += 1
        return P

    def start(self, batch: Batch) -> PendingTables:
        return PendingTables(lambda: self.tables(batch))

    def now(self) -> float:
        """The time at which all that was asked of the device is done."""
        if self.model.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.model.device)
        return time.perf_counter()

    def _before(self, *_: object) -> None:
        self._began = self.now()

    def _after(self, *_: object) -> None:
        self.encoder_seconds += self.now() - self._began
