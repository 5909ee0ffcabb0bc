"""Joint model and pipeline on the same documents: scores, and the time from words to entities and relations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unire.documents import Document
from unire.engines.torch_engine import TorchEngine
from unire.extractor import Extractor
from unire.modeling.model import UniRE
from unire.scoring import score
from unire.settings import Settings
from unire.studies.pipeline.config import PipelineConfig
from unire.studies.pipeline.entities import EntityFinder, unreachable
from unire.studies.pipeline.relations import RelationFinder
from unire.studies.results import Json, n_sentences
from unire.studies.speed import machine

__all__ = ["measured"]

Stage = Callable[[list[Document]], list[Document]]
"""Documents with more in them than before."""

ROUNDS = 3
"""The best of so many counts; the first also warms up."""
WINDOWS = (200, 100)
"""W in which the joint model is run beside its own way, as in the paper."""


def measured(
    joint: Path,
    entities: EntityFinder,
    relations: Mapping[str, RelationFinder],
    documents: Sequence[Document],
    config: PipelineConfig,
) -> Json:
    """Run the joint model, in its own way and in the paper's windows, and the pipeline in each of its ways."""
    model = UniRE.from_pretrained(joint).to(entities.model.device).eval()
    engine = TorchEngine(model, bf16=entities.bf16)
    bare = [document.bare for document in documents]
    n = n_sentences(documents)
    rows = []

    def add(title: str, window: str, parameters: int, seconds: Mapping[str, float], found: Sequence[Document]) -> None:
        scores = score(documents, found, model.labels)
        rows.append(
            {
                "title": title,
                "window": window,
                "parameters": parameters,
                "sentences_per_second": n / sum(seconds.values()),
                "seconds": dict(seconds),
                "entities": scores.entities.to_dict(),
                "relations": scores.relations.to_dict(),
            }
        )

    for title, settings in _ways(model.settings):
        extractor = Extractor(engine, model.tokenizer, settings, model.labels)
        seconds, found = _best({"all": _annotated(extractor)}, bare)
        window = "shared" if settings.layout == "shared" else str(settings.window)
        add(title, window, _size(model), seconds, found)
    notes = unreachable(documents, config.max_span)
    for _ in entities.reader.read(documents, notes):
        pass
    for name, finder in relations.items():
        seconds, found = _best({"entities": entities.find, "relations": finder.find}, bare)
        window = f"{config.entity_window} and {config.relation_window}"
        add(f"pipeline, {name}", window, _size(entities.model) + _size(finder.model), seconds, found)
        unread: Counter[str] = Counter()
        finder.find(found, unread)
        notes.update({f"{note} ({name})": count for note, count in unread.items()})
    precision = "bf16" if entities.bf16 else "fp32"
    return {"rows": rows, "notes": dict(notes), "precision": precision, **machine(model.device)}


def _ways(settings: Settings) -> list[tuple[str, Settings]]:
    """The joint model as it was trained, and in windows of its own for each sentence."""
    ways = [(f"joint, {settings.layout}, as trained", settings)]
    for window in WINDOWS:
        other = settings.with_(layout="in-place", window=window)
        if (settings.layout, settings.window) != (other.layout, other.window):
            ways.append((f"joint, in-place, W = {window}", other))
    return ways


def _annotated(extractor: Extractor) -> Stage:
    return lambda documents: list(extractor.annotate(documents))


def _best(stages: Mapping[str, Stage], documents: list[Document]) -> tuple[dict[str, float], list[Document]]:
    """The seconds of each stage, which goes on from the one before, in the fastest of some rounds; and the outcome."""
    rounds = []
    for _ in range(ROUNDS):
        seconds, found = {}, documents
        for name, stage in stages.items():
            began = time.perf_counter()
            found = stage(found)
            seconds[name] = time.perf_counter() - began
        rounds.append((seconds, found))
    return min(rounds, key=lambda timed: sum(timed[0].values()))


def _size(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
