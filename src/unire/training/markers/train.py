"""Training a marker model.

train_markers("encoders/mine", documents, "markers", labels=labels, dev=dev)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerate.utils import set_seed

from unire.documents import Document
from unire.evaluation.scorer import score
from unire.files import check_output_folder
from unire.hub.model_dir import ensure_writable
from unire.inference.torch_engine import choose_device
from unire.labels import LabelSpace
from unire.models.encoder import load_encoder
from unire.training.config import TrainingConfig, marker_config
from unire.training.distributed import require_single_process
from unire.training.initialization import encoder_provenance
from unire.training.markers.checkpoint import init_classifier, save_classifier
from unire.training.markers.data import RelationData
from unire.training.markers.trainer import fit

__all__ = ["TrainedMarkers", "train_markers"]


@dataclass(frozen=True)
class TrainedMarkers:
    """How a training went."""

    history: Sequence[Mapping[str, float]]
    """Of every epoch its loss and, where there is dev, Rel F1 between the entities of dev."""
    f1: float | None
    """That of the epoch that was kept."""
    seconds: float
    notes: Mapping[str, int]
    """What could not be learnt from, and why."""


def train_markers(
    encoder: str | Path,
    documents: Sequence[Document],
    out: str | Path,
    *,
    labels: LabelSpace,
    config: TrainingConfig | None = None,
    dev: Sequence[Document] = (),
    approximate: bool = True,
    again: bool = False,
    device: str | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> TrainedMarkers:
    """Train a model that names the relations between given entities, and save it.

    Args:
        encoder: Hub name, folder, or a model that has one.
        documents: Annotated.
        out: A new folder.
        labels: The label space.
        config: `marker_config()` when left out.
        dev: Selects the best epoch; without it the last one is kept.
        approximate: All pairs of a sentence share a pass, which takes an encoder with absolute positions; otherwise
            every pair has one of its own.
        again: Whether what an earlier run has saved is replaced.
        device: `cpu` or `cuda`; a GPU when there is one.
        tell: Told of every epoch.
    """
    require_single_process("the training of a marker model")
    began = time.monotonic()
    out, config = Path(out), config or marker_config()
    if not again:
        check_output_folder(out)
        ensure_writable(out)  # so that nothing is trained that cannot be saved
    place = choose_device(device)
    labels.check([*documents, *dev])
    set_seed(config.seed)
    loaded, name = load_encoder(encoder, case_marks=config.case_marks), encoder_provenance(str(encoder))["encoder"]
    classifier = init_classifier(*loaded, labels, config, approximate=approximate, device=place)
    data = RelationData(documents, classifier.model, classifier.reader, labels)

    def f1() -> float:
        return score(dev, classifier.predict(dev), labels).relations.f1

    history = fit(classifier.model, data, config, evaluate=f1 if dev else None, tell=tell)
    save_classifier(classifier, out, encoder=name, config=config)
    best = max((epoch["dev"] for epoch in history), default=None) if dev else None
    return TrainedMarkers(history, best, round(time.monotonic() - began, 1), dict(data.notes))
