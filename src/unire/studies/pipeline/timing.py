"""Joint model and pipeline on the same documents: scores, and the time from words to entities and relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unire.config import ModelConfig
from unire.documents import Document
from unire.evaluation.scorer import score
from unire.extractor import Extractor
from unire.inference.torch_engine import TorchEngine, store_in_bf16
from unire.models.unire import UniRE
from unire.studies.pipeline.entities import EntityClassifier, count_unreachable
from unire.studies.pipeline.study import PipelineConfig
from unire.studies.profiling import Step, TimedRun, measure
from unire.studies.results import Json, count_sentences
from unire.studies.speed import describe_machine
from unire.training.markers.inference import RelationClassifier

__all__ = ["measured"]

WINDOWS = (200, 100)
"""W in which the joint model is run beside its own way, as in the paper."""


def measured(
    joint: Path,
    entities: EntityClassifier,
    relations: Mapping[str, RelationClassifier],
    documents: Sequence[Document],
    config: PipelineConfig,
) -> Json:
    """Run the joint model, in its own way and in the paper's windows, and the pipeline in each of its ways.

    All models are given up to this: nobody goes on training them, or saves them.
    """
    model = UniRE.from_pretrained(joint).to(entities.model.device).eval()
    engine = TorchEngine.for_inference(model, bf16=entities.bf16)
    if entities.bf16:
        for part in (entities.model, *(finder.model for finder in relations.values())):
            store_in_bf16(part)
    n = count_sentences(documents)
    rows = []

    def add(title: str, window: str, parameters: int, run: TimedRun) -> None:
        scores = score(documents, run.documents, model.labels)
        rows.append(
            {
                "title": title,
                "window": window,
                "parameters": parameters,
                "sentences_per_second": n / sum(run.seconds.values()),
                "repeats": run.repeats,
                "seconds": run.seconds,
                "entities": scores.entities.to_dict(),
                "relations": scores.relations.to_dict(),
            }
        )

    for title, settings in _ways(model.config):
        extractor = Extractor(engine, model.tokenizer, settings, model.labels)
        window = "shared" if settings.layout == "shared" else str(settings.window)
        add(title, window, _size(model), measure({"all": _annotated(extractor)}, documents))
    notes = count_unreachable(documents, config.max_span)
    for _ in entities.reader.read(documents, notes):
        pass
    for name, finder in relations.items():
        run = measure({"entities": entities.predict, "relations": finder.predict}, documents)
        window = f"{config.entity_window} and {config.relation_window}"
        add(f"pipeline, {name}", window, _size(entities.model) + _size(finder.model), run)
        unread: Counter[str] = Counter()
        finder.predict(run.documents, unread)
        notes.update({f"{note} ({name})": count for note, count in unread.items()})
    precision = "bf16" if entities.bf16 else "fp32"
    return {"rows": rows, "notes": dict(notes), "precision": precision, **describe_machine(model.device)}


def _ways(settings: ModelConfig) -> list[tuple[str, ModelConfig]]:
    """The joint model as it was trained, and in windows of its own for each sentence."""
    ways = [(f"joint, {settings.layout}, as trained", settings)]
    for window in WINDOWS:
        other = settings.with_(layout="in-place", window=window)
        if (settings.layout, settings.window) != (other.layout, other.window):
            ways.append((f"joint, in-place, W = {window}", other))
    return ways


def _annotated(extractor: Extractor) -> Step:
    return lambda documents: list(extractor.annotate(documents))


def _size(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
