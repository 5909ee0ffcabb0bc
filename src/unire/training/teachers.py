"""Trained models that are asked for their tables, whatever their tokenizers, layouts and orders of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unire.documents import Document
from unire.engines.torch_engine import TorchEngine
from unire.exceptions import UnireError
from unire.extractor import Extractor
from unire.labels import LabelSpace
from unire.modeling.model import TensorBatch, UniRE, to_device
from unire.modeling.recording import Recorder, Tensors
from unire.settings import Settings
from unire.training.held_out import HeldOut
from unire.training.texts import Texts
from unire.training.tutor import EXAMPLES
from unire.training.unlabelled import Shelf, SoftStep
from unire.windows import Batch, Windower

__all__ = ["Teacher", "Teachers", "decoding_of", "layout_of", "load_teachers", "orders_of", "said_of", "same_labels"]


def load_teachers(names: Sequence[str | Path]) -> list[tuple[str, UniRE]]:
    """Trained models, each with its name."""
    return [(Path(name).name, UniRE.from_pretrained(name)) for name in names]


def said_of(name: str, settings: Settings) -> dict[str, Any]:
    """Who a teacher is, and the F1 that it had."""
    made = settings.provenance
    scores = {
        split: {"ent": scores["entities"]["f1"], "rel": scores["relations"]["f1"]}
        for split, scores in made.get("scores", {}).items()
    }
    return {"name": name, "encoder": made.get("encoder"), "scores": scores}


def decoding_of(models: Sequence[tuple[str, UniRE]]) -> tuple[str, float]:
    """The first one's decoder, and the mean α of those that have the same."""
    decoder = models[0][1].settings.decoder
    alphas = [model.settings.alpha for _, model in models if model.settings.decoder == decoder]
    return decoder, round(fmean(alphas), 3)


def same_labels(own: LabelSpace, other: LabelSpace, who: str, whom: str = "student") -> list[int]:
    """The other's id of every label of one's own.

    Raises:
        UnireError: They have different labels.
    """
    kinds = {
        "entity types": (own.entity_types, other.entity_types),
        "relation types": (own.relation_types, other.relation_types),
        "symmetric relations": (own.symmetric, other.symmetric),
    }
    for kind, (mine, theirs) in kinds.items():
        if different := sorted(set(mine) ^ set(theirs)):
            raise UnireError(
                f"{who} and {whom} do not have the same {kind} ({different[0]!r} is on one side only); "
                "give teachers of one label space"
            )
    entities = [other.entity_id(label) for label in own.entity_types]
    return [LabelSpace.NONE, *entities, *(other.relation_id(label) for label in own.relation_types)]


def orders_of(models: Sequence[tuple[str, UniRE]]) -> list[list[int]]:
    """Each teacher's id of every label of the first one's; refused where they have different labels."""
    first, leader = models[0]
    return [
        same_labels(leader.labels, model.labels, f"teacher {name!r}", f"teacher {first!r}") for name, model in models
    ]


def layout_of(model: UniRE) -> tuple[object, ...]:
    """All that decides how documents become batches: models that agree in it read the same ones."""
    settings = model.settings
    return model.tokenizer.to_str(), settings.spec, settings.layout, settings.window, settings.max_table


class Teacher:
    """A trained model that is asked for its tables, in the student's order of labels."""

    def __init__(
        self,
        name: str,
        model: UniRE,
        labels: LabelSpace,
        device: torch.device,
        *,
        bf16: bool,
        beside: Recorder,
    ) -> None:
        self.model = model.to(device).eval()
        self.bf16 = bf16
        self._tables = Recorder(self._compute, device, record=beside.records, beside=beside)
        self._order = torch.tensor(same_labels(labels, model.labels, f"teacher {name!r}"), device=device)

    @property
    def extractor(self) -> Extractor:
        model = self.model
        return Extractor(TorchEngine(model, bf16=self.bf16), model.tokenizer, model.settings, model.labels)

    @torch.no_grad()
    def tables(self, batch: Batch) -> Tensor:
        """P of every table, `[T, N, N, |Y|]`, to be used before the next call."""
        return self._tables(self._tables.pinned(TensorBatch.of(batch, "cpu").named()))

    def _compute(self, tensors: Tensors) -> Tensor:
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.model(TensorBatch.from_named(tensors))
        return logits.float().softmax(-1).index_select(-1, self._order)


class Teachers:
    """Teachers who are asked while the student learns: no table is stored. A `Tutor`.

    Args:
        models: The teachers, each with its name.
        texts: What they are asked about.
        corpus: Names of the files that the texts are from.
    """

    lessons: str | None = None
    shelf: Shelf | None = None

    def __init__(self, models: Sequence[tuple[str, UniRE]], texts: Texts, corpus: Sequence[str]) -> None:
        orders_of(models)  # before gold is held against the labels of one of them
        self.texts = texts
        self.corpus = corpus
        self.labels = models[0][1].labels
        self.decoder, self.alpha = decoding_of(models)
        self.teachers: Sequence[dict[str, Any]] = [said_of(name, model.settings) for name, model in models]
        self.encoders: Sequence[nn.Module] = [model.encoder for _, model in models]
        self._models = models

    def start(self, student: UniRE, beside: Recorder, *, bf16: bool) -> Sequence[Windower]:
        self._device = device = student.device
        self._n_labels = len(student.labels)
        self._asked = [
            Teacher(name, model, student.labels, device, bf16=bf16, beside=beside) for name, model in self._models
        ]
        layouts, windowers = [layout_of(student)], []
        for teacher in self._asked:
            if layout_of(teacher.model) not in layouts:
                layouts.append(layout_of(teacher.model))
                windowers.append(teacher.extractor.windower)
        self._views = [layouts.index(layout_of(teacher.model)) for teacher in self._asked]
        return windowers

    def targets(self, step: SoftStep) -> Callable[[], list[Tensor]]:
        return partial(self._means, step)

    def _means(self, step: SoftStep) -> list[Tensor]:
        means = [
            torch.zeros(*batch.words.shape, batch.words.shape[1], self._n_labels, device=self._device)
            for batch in step.views[0]
        ]
        for teacher, view in zip(self._asked, self._views, strict=True):
            for number, batch in enumerate(step.views[view]):
                P = teacher.tables(batch)
                for mean, places in zip(means, step.places[view], strict=True):
                    rows = np.flatnonzero(places[:, 0] == number)
                    if not len(rows):
                        continue
                    n = min(mean.shape[1], P.shape[1])
                    found = P[:, :n, :n].index_select(0, to_device(places[rows, 1], self._device)) / len(self._asked)
                    mean[:, :n, :n].index_add_(0, to_device(rows, self._device), found)
        return means

    def distribution(self, target: Tensor) -> Tensor:
        return target

    def examples(self, held_out: HeldOut) -> Callable[[], list[Document]]:
        some = self.texts.some(EXAMPLES, held_out)
        return lambda: [document for teacher in self._asked for document in teacher.extractor.annotate(some)]
