"""Teachers: trained models whose mean tables are the soft labels.

Tokenizers, window layouts and orders of labels may differ between teachers and student.
"""

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
from unire.training.distillation.batches import DistillationBatch, SoftLabelIndex
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.utils import copy_to_device
from unire.windows.collator import Batch
from unire.windows.windows import WindowBuilder

__all__ = [
    "MAX_EXAMPLE_SENTENCES",
    "SoftLabelProvider",
    "Teacher",
    "TeacherEnsemble",
    "align_labels",
    "align_teachers",
    "choose_decoder",
    "layout_key",
    "load_teachers",
    "teacher_info",
]

MAX_EXAMPLE_SENTENCES = 1000
"""Unlabelled sentences on which α is tuned if there is no dev."""


def load_teachers(names: Sequence[str | Path]) -> list[tuple[str, UniRE]]:
    """Load trained models, each with its name."""
    return [(Path(name).name, UniRE.from_pretrained(name)) for name in names]


def teacher_info(name: str, settings: ModelConfig) -> dict[str, Any]:
    """Name, encoder and F1 of a teacher."""
    provenance = settings.provenance
    scores = {
        split: {"ent": scores["entities"]["f1"], "rel": scores["relations"]["f1"]}
        for split, scores in provenance.get("scores", {}).items()
    }
    return {"name": name, "encoder": provenance.get("encoder"), "scores": scores}


def choose_decoder(models: Sequence[tuple[str, UniRE]]) -> tuple[str, float]:
    """The first teacher's decoder, and the mean α of the teachers that use the same decoder."""
    decoder = models[0][1].config.decoder
    alphas = [model.config.alpha for _, model in models if model.config.decoder == decoder]
    return decoder, round(fmean(alphas), 3)


def align_labels(own: LabelSpace, other: LabelSpace, other_name: str, own_name: str = "student") -> list[int]:
    """The id in `other` of every label of `own`.

    Raises:
        UnireError: The label spaces differ.
    """
    kinds = {
        "entity types": (own.entity_types, other.entity_types),
        "relation types": (own.relation_types, other.relation_types),
        "symmetric relations": (own.symmetric, other.symmetric),
    }
    for kind, (mine, theirs) in kinds.items():
        if different := sorted(set(mine) ^ set(theirs)):
            raise UnireError(
                f"{other_name} and {own_name} do not have the same {kind} (only one of them has {different[0]!r}); "
                "use models of one label space"
            )
    entities = [other.entity_id(label) for label in own.entity_types]
    return [LabelSpace.NONE, *entities, *(other.relation_id(label) for label in own.relation_types)]


def align_teachers(models: Sequence[tuple[str, UniRE]]) -> list[list[int]]:
    """For each teacher, its id of every label of the first teacher.

    Raises:
        UnireError: The label spaces differ.
    """
    first_name, first = models[0]
    return [
        align_labels(first.labels, model.labels, f"teacher {name!r}", f"teacher {first_name!r}")
        for name, model in models
    ]


def layout_key(model: UniRE) -> tuple[object, ...]:
    """Everything that decides how documents become batches. Models with equal keys can share batches."""
    settings = model.config
    return model.tokenizer.to_str(), settings.spec, settings.layout, settings.window, settings.max_table


class Teacher:
    """A trained model that computes tables in the student's order of labels."""

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
        self._order = torch.tensor(align_labels(labels, model.labels, f"teacher {name!r}"), device=device)

    @property
    def extractor(self) -> Extractor:
        model = self.model
        return Extractor(TorchEngine(model, bf16=self.bf16), model.tokenizer, model.config, model.labels)

    @torch.no_grad()
    def tables(self, batch: Batch) -> Tensor:
        """P of every table, `[T, N, N, |Y|]`. The next call overwrites it."""
        return self._tables(self._tables.pin(TensorBatch.from_batch(batch, "cpu").to_dict()))

    def _compute(self, tensors: Tensors) -> Tensor:
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.model(TensorBatch.from_dict(tensors))
        return logits.float().softmax(-1).index_select(-1, self._order)


class TeacherEnsemble:
    """Teachers that run while the student trains, so that no table is stored. It is a `SoftLabelProvider`.

    Args:
        models: The teachers, each with its name.
        texts: The unlabelled documents.
        corpus: Names of the files that the documents are from.
    """

    digest: str | None = None
    index: SoftLabelIndex | None = None

    def __init__(self, models: Sequence[tuple[str, UniRE]], texts: UnlabelledCorpus, corpus: Sequence[str]) -> None:
        align_teachers(models)  # fail before gold is checked against the labels of one of them
        self.texts = texts
        self.corpus = corpus
        self.labels = models[0][1].labels
        self.decoder, self.alpha = choose_decoder(models)
        self.teachers: Sequence[dict[str, Any]] = [teacher_info(name, model.config) for name, model in models]
        self.encoders: Sequence[nn.Module] = [model.encoder for _, model in models]
        self._models = models

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        self._device = device = student.device
        self._n_labels = len(student.labels)
        self._teachers = [
            Teacher(name, model, student.labels, device, bf16=bf16, beside=beside) for name, model in self._models
        ]
        layouts, window_builders = [layout_key(student)], []
        for teacher in self._teachers:
            if layout_key(teacher.model) not in layouts:
                layouts.append(layout_key(teacher.model))
                window_builders.append(teacher.extractor.window_builder)
        self._views = [layouts.index(layout_key(teacher.model)) for teacher in self._teachers]
        return window_builders

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        return partial(self._means, step)

    def _means(self, step: DistillationBatch) -> list[Tensor]:
        means = [
            torch.zeros(*batch.words.shape, batch.words.shape[1], self._n_labels, device=self._device)
            for batch in step.views[0]
        ]
        for teacher, view in zip(self._teachers, self._views, strict=True):
            for number, batch in enumerate(step.views[view]):
                P = teacher.tables(batch)
                for mean, places in zip(means, step.places[view], strict=True):
                    rows = np.flatnonzero(places[:, 0] == number)
                    if not len(rows):
                        continue
                    n = min(mean.shape[1], P.shape[1])
                    source = copy_to_device(places[rows, 1], self._device)
                    share = P[:, :n, :n].index_select(0, source) / len(self._teachers)
                    mean[:, :n, :n].index_add_(0, copy_to_device(rows, self._device), share)
        return means

    def distribution(self, target: Tensor) -> Tensor:
        return target

    def examples(self, overlap_filter: OverlapFilter) -> Callable[[], list[Document]]:
        sample = self.texts.sample(MAX_EXAMPLE_SENTENCES, overlap_filter)
        return lambda: [document for teacher in self._teachers for document in teacher.extractor.annotate(sample)]


class SoftLabelProvider(Protocol):
    """Gives the mean distribution of some teachers for unlabelled text."""

    labels: LabelSpace
    """The first teacher's."""
    teachers: Sequence[dict[str, Any]]
    """`teacher_info` of each."""
    decoder: str
    """The first teacher's."""
    alpha: float
    """The mean of the teachers that use this decoder."""
    texts: UnlabelledCorpus
    corpus: Sequence[str]
    """Names of the files that the texts are from."""
    digest: str | None
    """A checksum of stored soft labels; `None` if the teachers run."""
    index: SoftLabelIndex | None
    """Finds stored tables; `None` if the teachers run."""
    encoders: Sequence[nn.Module]
    """Of the teachers, if they run."""

    def start(self, student: UniRE, beside: GraphRunner, *, bf16: bool) -> Sequence[WindowBuilder]:
        """Prepare for a student.

        Args:
            student: The model that is trained.
            beside: Computes the student's gradients. Its graph memory is shared.
            bf16: Whether teachers compute in bfloat16.

        Returns:
            The window builders of teachers whose layout differs from the student's.
        """

    def targets(self, step: DistillationBatch) -> Callable[[], list[Tensor]]:
        """The target of each of the student's batches, `[T, N, N, |Y|]`. Padding holds arbitrary values.

        A background thread calls this in advance and does the work of the host. The result is called in the step and
        does the work of the device.
        """

    def distribution(self, target: Tensor) -> Tensor:
        """A target as a distribution per cell, in the student's order of labels. It runs inside a CUDA graph."""

    def examples(self, overlap_filter: OverlapFilter) -> Callable[[], list[Document]]:
        """Some of the texts with the predictions of each teacher. Errors are raised before the result is called.

        These are not predictions from the mean table. The mean is less confident in a cell than each teacher, so the
        same α would find less in it.
        """
