"""Trained models that are asked for their tables, whatever their tokenizers, layouts and orders of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from unire.config import ModelConfig
from unire.documents import Document
from unire.errors import UnireError
from unire.extractor import Extractor
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch, Tensors
from unire.models.cuda_graphs import GraphRunner
from unire.models.unire import UniRE
from unire.training.distillation.unlabelled import DistillationBatch, SoftLabelShelf
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.utils import copy_to_device
from unire.windows.collator import Batch
from unire.windows.windows import WindowBuilder

__all__ = [
    "EXAMPLES",
    "SoftLabelProvider",
    "Teacher",
    "TeacherEnsemble",
    "decoding_of",
    "layout_of",
    "load_teachers",
    "orders_of",
    "same_labels",
    "teacher_info",
]


def load_teachers(names: Sequence[str | Path]) -> list[tuple[str, UniRE]]:
    """Trained models, each with its name."""
    return [(Path(name).name, UniRE.from_pretrained(name)) for name in names]


def teacher_info(name: str, settings: ModelConfig) -> dict[str, Any]:
    """Who a teacher is, and the F1 that it had."""
    made = settings.provenance
    scores = {
        split: {"ent": scores["entities"]["f1"], "rel": scores["relations"]["f1"]}
        for split, scores in made.get("scores", {}).items()
    }
    return {"name": name, "encoder": made.get("encoder"), "scores": scores}


def decoding_of(models: Sequence[tuple[str, UniRE]]) -> tuple[str, float]:
    """The first one's decoder, and the mean α of those that have the same."""
    decoder = models[0][1].config.decoder
    alphas = [model.config.alpha for _, model in models if model.config.decoder == decoder]
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
    settings = model.config
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
        beside: GraphRunner,
    ) -> None:
        self.model = model.to(device).eval()
        self.bf16 = bf16
        self._tables = GraphRunner(self._compute, device, capture=beside.captures, parent=beside)
        self._order = torch.tensor(same_labels(labels, model.labels, f"teacher {name!r}"), device=device)

    @property
    def extractor(self) -> Extractor:
        model = self.model
        return Extractor(TorchEngine(model, bf16=self.bf16), model.tokenizer, model.config, model.labels)

    @torch.no_grad()
    def tables(self, batch: Batch) -> Tensor:
        """P of every table, `[T, N, N, |Y|]`, to be used before the next call."""
        return self._tables(self._tables.pin(TensorBatch.from_batch(batch, "cpu").to_dict()))

    def _compute(self, tensors: Tensors) -> Tensor:
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.model(TensorBatch.from_dict(tensors))
        return logits.float().softmax(-1).index_select(-1, self._order)


class TeacherEnsemble:
    """Teachers who are asked while the student learns: no table is stored. A `Tutor`.

    Args:
        models: The teachers, each with its name.
        texts: What they are asked about.
        corpus: Names of the files that the texts are from.
    """

    lessons: str | None = None
    shelf: SoftLabelShelf | None = None

    def __init__(self, models: Sequence[tuple[str, UniRE]], texts: UnlabelledCorpus, corpus: Sequence[str]) -> None:
        orders_of(models)  # before gold is held against the labels of one of them
        self.texts = texts
        self.corpus = corpus
        self.labels = models[0][1].labels
        self.decoder, self.alpha = decoding_of(models)
        self.teachers: Sequence[dict[str, Any]] = [teacher_info(name, model.config) for name, model in models]
        self.encoders: Sequence[nn.Module] = [model.encoder for _, model in models]
        self._models = models

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        self._device = device = student.device
        self._n_labels = len(student.labels)
        self._asked = [
            Teacher(name, model, student.labels, device, bf16=bf16, beside=beside) for name, model in self._models
        ]
        layouts, window_builders = [layout_of(student)], []
        for teacher in self._asked:
            if layout_of(teacher.model) not in layouts:
                layouts.append(layout_of(teacher.model))
                window_builders.append(teacher.extractor.window_builder)
        self._views = [layouts.index(layout_of(teacher.model)) for teacher in self._asked]
        return window_builders

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        return partial(self._means, step)

    def _means(self, step: DistillationBatch) -> list[Tensor]:
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
                    rows_of_P = copy_to_device(places[rows, 1], self._device)
                    found = P[:, :n, :n].index_select(0, rows_of_P) / len(self._asked)
                    mean[:, :n, :n].index_add_(0, copy_to_device(rows, self._device), found)
        return means

    def distribution(self, target: Tensor) -> Tensor:
        return target

    def examples(self, held_out: OverlapFilter) -> Callable[[], list[Document]]:
        some = self.texts.some(EXAMPLES, held_out)
        return lambda: [document for teacher in self._asked for document in teacher.extractor.annotate(some)]


EXAMPLES = 1000
"""Unlabelled sentences on which α is tuned where there is no dev."""


class SoftLabelProvider(Protocol):
    """What the mean of some teachers is, on unlabelled text."""

    labels: LabelSpace
    """The first teacher's."""
    teachers: Sequence[dict[str, Any]]
    """Who they are, and the F1 that they had."""
    decoder: str
    """The first teacher's."""
    alpha: float
    """The mean of those that decode in the same way."""
    texts: UnlabelledCorpus
    corpus: Sequence[str]
    """Names of the files that the texts are from."""
    lessons: str | None
    """A digest of the lessons, if they are read."""
    shelf: SoftLabelShelf | None
    """Where tables are found, if they are read."""
    encoders: Sequence[nn.Module]
    """Of the teachers, if they are asked."""

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        """Be ready to teach a student, whose gradients `beside` computes; the ways to lay documents out but for its."""

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        """What is to be learnt of every batch of the student's, `[T, N, N, |Y|]` each. Padding holds garbage.

        Another thread asks for it, ahead of the step: what takes the host time is done then. What takes the device
        time is done when the result is called.
        """

    def distribution(self, target: Tensor) -> Tensor:
        """A target as a distribution per cell, in the student's order of labels; on the device, amid a recording."""

    def examples(self, held_out: OverlapFilter) -> Callable[[], list[Document]]:
        """Some of the texts, with what each teacher finds in them; what is wrong with them is said before the call.

        Not with what the mean of their tables holds: it is less sure of a cell than each teacher is, so that α like
        theirs would find less in it than any of them does.
        """
