"""How long windows, encoder, biaffine and decoder take, one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from unire.documents import Document
from unire.engines import Engine, Started
from unire.extractor import Extractor
from unire.modeling.model import UniRE
from unire.settings import Settings
from unire.windows import Batch

__all__ = ["Stages", "stage_seconds"]


class Stages(NamedTuple):
    """Seconds of a pass over some documents. No stage begins before the last one has ended, so the sum is more than a
    pass takes in which they overlap."""

    windows: float
    """Words to pieces to batches."""
    encoder: float
    biaffine: float
    """MLPs, biaffine and softmax; 0 in an engine that does not tell it from the encoder."""
    decoder: float


def stage_seconds(
    engine: Engine, model: UniRE, settings: Settings, documents: Sequence[Document]
) -> tuple[Stages, int]:
    """The stages of a pass, and its number of batches.

    Args:
        engine: What is run.
        model: The same model in torch; that which is run, if the engine is torch's.
        settings: How windows are made and tables decoded.
        documents: What is read.
    """
    with _TimedEngine(engine, model) as watched:
        timed = Extractor(watched, model.tokenizer, settings, model.labels)
        decoder = 0.0
        began = watched.now()
        for batch, P in timed.tables(documents):
            start = watched.now()
            timed.decode(batch, P)
            decoder += watched.now() - start
        windows = watched.now() - began - watched.tables_seconds - decoder
    encoder = watched.encoder_seconds or watched.tables_seconds
    return Stages(windows, encoder, watched.tables_seconds - encoder, decoder), watched.batches


class _TimedEngine:
    """An engine that takes the time of its tables, and of the encoder in them."""

    def __init__(self, engine: Engine, model: UniRE) -> None:
        self.engine = engine
        self.model = model
        self.max_cells, self.max_pieces, self.rounded = engine.max_cells, engine.max_pieces, engine.rounded
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

    def start(self, batch: Batch) -> Started:
        return Started(lambda: self.tables(batch))

    def now(self) -> float:
        """The time at which all that was asked of the device is done."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        return time.perf_counter()

    def _before(self, *_: object) -> None:
        self._began = self.now()

    def _after(self, *_: object) -> None:
        self.encoder_seconds += self.now() - self._began
