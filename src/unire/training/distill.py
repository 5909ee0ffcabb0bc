"""Distillation: a student learns from gold tables, and on unlabelled text from the tables of its teachers.

    distill(["models/large"], "small-encoder", ["abstracts.txt"], documents, out="models/small")

Every optimiser step is one of ordinary training, to which unlabelled sentences are added: there the student's cells are
to have the teachers' mean distribution. The teachers run beside the student, so that no table is ever stored.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor

from unire.checks import check_kinds
from unire.documents import Document
from unire.exceptions import UnireError
from unire.labels import LabelSpace
from unire.modeling.losses import TableWeights, soft_entry_loss
from unire.modeling.model import TensorBatch, UniRE, to_device
from unire.modeling.recording import Recorder, Tensors
from unire.scoring import Scores
from unire.training.clock import Clock
from unire.training.config import TrainingConfig
from unire.training.corpus import HeldOut
from unire.training.interrupt import Interrupt
from unire.training.processes import refuse_several
from unire.training.reporting import Reporter
from unire.training.teachers import Teacher, layout_of
from unire.training.trainer import Trained, Trainer, use_bf16
from unire.training.unlabelled import SoftStep, Unlabelled
from unire.windows import Batch

__all__ = ["DistillConfig", "Distiller", "distill"]

EXAMPLES = 1000
"""Unlabelled sentences on which α is tuned where there is no dev."""
SENTENCES = "sentences"
"""What `Progress.read` counts beside notes: unlabelled sentences that were learnt from."""


@dataclass(frozen=True)
class DistillConfig:
    """What a distillation has beside the settings of a training."""

    soft_batch: int = 128
    """Unlabelled sentences of one optimiser step, in each process."""
    soft_weight: float = 1.0
    """What their loss counts, against 1 for L_entry of the gold tables."""
    documents: int | None = None
    """Documents that are taken from the start of the corpus; all when left out."""
    minutes: float | None = None
    """Time for all of it: it ends with the epoch in which the time does, if that comes before the last epoch."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "distillation setting")
        checks = {
            "soft_batch": self.soft_batch >= 1,
            "soft_weight": 0 < self.soft_weight < inf,
            "documents": self.documents is None or self.documents >= 1,
            "minutes": self.minutes is None or 0 < self.minutes < inf,
        }
        for name, holds in checks.items():
            if not holds:
                raise UnireError(f"distillation setting {name} = {getattr(self, name)!r} makes no sense")


def distill(
    teachers: Sequence[str | Path],
    student: str | Path,
    corpus: Sequence[str | Path],
    documents: Sequence[Document],
    *,
    out: str | Path,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    config: TrainingConfig | None = None,
    distillation: DistillConfig | None = None,
    data: Sequence[str] = (),
    reporter: Reporter | None = None,
    resume: bool = False,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
    workers: int | None = None,
) -> Trained:
    """Train a student and save it.

    Args:
        teachers: Trained models. What several of them find is averaged, cell by cell.
        student: A pretrained encoder, by Hub name or folder.
        corpus: Files of plain text, a document per line, or of documents in one of our formats (`.json`, `.jsonl`).
            Documents that hold text of dev or test are left out.
        documents: The annotated training data.
        out: Where the student is written, as a folder.
        dev: Selects the best epoch and α, and calibrates the scores; without it the last epoch is kept, with the α that
            finds most of what the teachers find in some of the text.
        test: Scored once, at the end.
        labels: The student's label space, the first teacher's when left out. Every teacher must have the same types.
        config: How it is trained; `paper` when left out.
        distillation: How much unlabelled text is in a step, and what it counts.
        data: Names of the data files, for the model card.
        reporter: Told what happens.
        resume: Continue where an earlier, unfinished distillation with the same settings stopped.
        save_every_epochs: Write the state to resume from every so many epochs.
        save_every_minutes: Write it every so many minutes; `None` for never.
        workers: Processes that read and lay out the corpus; by default as many as there are cores to spare, up to 12.
    """
    distillation = distillation or DistillConfig()
    if distillation.minutes is not None:
        refuse_several("distillation by the clock", "give epochs instead of minutes")
    clock = Clock(distillation.minutes, None)
    if not teachers:
        raise UnireError("there is no teacher; give one or more trained models")
    files = [Path(file) for file in corpus]
    if missing := [file for file in files if not file.is_file()]:
        raise UnireError(f"there is no corpus file {str(missing[0])!r}")
    models = [(Path(name).name, UniRE.from_pretrained(name)) for name in teachers]
    labels = labels or models[0][1].labels
    labels.check([*dev, *test])
    distiller = Distiller.begin(
        student,
        documents,
        out=Path(out),
        dev=dev,
        labels=labels,
        config=config or TrainingConfig(),
        data=data,
        reporter=reporter,
        resume=resume,
        models=models,
        corpus=files,
        held_out=HeldOut(document.text for document in [*dev, *test]),
        distillation=distillation,
        clock=clock,
        workers=min(12, max(1, (os.cpu_count() or 1) - 1)) if workers is None else workers,
    )
    return distiller.run(test, save_every_epochs, save_every_minutes)


@dataclass
class Distiller(Trainer):
    """A distillation under way."""

    models: Sequence[tuple[str, UniRE]] = field(kw_only=True)
    """The teachers, each with its name."""
    corpus: Sequence[Path] = field(kw_only=True)
    held_out: HeldOut = field(kw_only=True)
    distillation: DistillConfig = field(kw_only=True)
    clock: Clock = field(kw_only=True)
    workers: int = field(kw_only=True)

    LOSSES: ClassVar[tuple[str, ...]] = (*Trainer.LOSSES, "distillation")

    def __post_init__(self) -> None:
        super().__post_init__()
        device, bf16 = self.accelerator.device, use_bf16(self.config)
        record, memory = self.gradients.records, self.gradients.memory
        self.teachers = [
            Teacher(name, model, self.model.labels, device, bf16=bf16, record=record, memory=memory)
            for name, model in self.models
        ]
        self.soft_gradients = Recorder(self._soft_gradients, device, record=record, memory=memory)
        layouts, windowers = [layout_of(self.model)], [self.extractor.windower]
        for teacher in self.teachers:
            if layout_of(teacher.model) not in layouts:
                layouts.append(layout_of(teacher.model))
                windowers.append(teacher.extractor.windower)
        self._views = [layouts.index(layout_of(teacher.model)) for teacher in self.teachers]
        self.unlabelled = Unlabelled(
            self.corpus,
            windowers,
            held_out=self.held_out,
            limit=self.distillation.documents,
            size=self.distillation.soft_batch,
            config=self.config,
            rounded=self.data.rounded,
        )
        self._unlabelled_examples: list[Document] = []
        if not self.dev and self.config.tune_alpha:
            # before anything is learnt, so that what is wrong with them is said at once
            self._unlabelled_examples = self.unlabelled.some(EXAMPLES)
            alpha = round(fmean(teacher.model.settings.alpha for teacher in self.teachers), 3)
            self.model.settings = self.extractor.settings = self.model.settings.with_(alpha=alpha)
        settings = {name: value for name, value in asdict(self.distillation).items() if name != "minutes"}
        self._record |= {**settings, "teachers": self._teachers(), "corpus": [file.name for file in self.corpus]}

    def resume(self) -> None:
        super().resume()
        self.clock = Clock(
            self.clock.minutes, None, seconds_before=self.progress.seconds, done_before=self.progress.done
        )

    def fit(
        self, interrupt: Interrupt, save_every_epochs: int | None = None, save_every_minutes: float | None = None
    ) -> None:
        self._steps = self.unlabelled.steps(
            *self.progress.place,
            process=self.accelerator.process_index,
            n_processes=self.accelerator.num_processes,
            workers=self.workers,
        )
        self.clock.start()
        try:
            super().fit(interrupt, save_every_epochs, save_every_minutes)
        finally:
            self._steps.close()

    def targets(self, step: SoftStep) -> list[Tensor]:
        """The teachers' mean P of every batch of the student's, `[T, N, N, |Y|]` each. Padding holds garbage."""
        device = self.accelerator.device
        means = [
            torch.zeros(*batch.words.shape, batch.words.shape[1], len(self.model.labels), device=device)
            for batch in step.views[0]
        ]
        for teacher, view in zip(self.teachers, self._views, strict=True):
            for number, batch in enumerate(step.views[view]):
                P = teacher.tables(batch)
                for mean, places in zip(means, step.places[view], strict=True):
                    rows = np.flatnonzero(places[:, 0] == number)
                    if not len(rows):
                        continue
                    n = min(mean.shape[1], P.shape[1])
                    found = P[:, :n, :n].index_select(0, to_device(places[rows, 1], device)) / len(self.teachers)
                    mean[:, :n, :n].index_add_(0, to_device(rows, device), found)
        return means

    def _add_gradients(self) -> None:
        step, self.progress.place, notes = next(self._steps)
        self.progress.read = dict(Counter(self.progress.read) + notes + Counter({SENTENCES: step.n_tables}))
        for batch, target, kept in zip(step.views[0], self.targets(step), step.kept, strict=True):
            with self.accelerator.no_sync(self.wrapped):  # gradients are exchanged with those of the gold tables
                loss = self.soft_gradients(self._soft_tensors(batch, target, kept, step))
            # every process has a step of its own, and the mean of their means is learnt from
            self._losses[-1] += loss / self.accelerator.num_processes

    def _soft_tensors(self, batch: Batch, target: Tensor, kept: NDArray[np.bool_], step: SoftStep) -> Tensors:
        """A batch, what the teachers say of it, and what its cells count in the step."""
        tensors = TensorBatch.of(batch, "cpu")
        weights = TableWeights.of(tensors.lengths, self.config.mean, step.n_tables, step.n_cells, step.n_words)
        weights.cell[: len(kept)] *= torch.from_numpy(kept)
        return {**self.soft_gradients.pinned({**tensors.named(), "cell": weights.cell}), "target": target}

    def _soft_gradients(self, tensors: Tensors) -> Tensor:
        """Add the gradients of a batch's share of the mean cross-entropy to the parameters'; the share itself.

        Without logit dropout: the target is soft enough.
        """
        batch = TensorBatch.from_named(tensors)
        logits = self.wrapped(batch).float()
        weights = TableWeights(tensors["cell"], tensors["cell"])
        loss = soft_entry_loss(logits, tensors["target"], batch.mask, weights)
        self.accelerator.backward(self.distillation.soft_weight * loss)
        return loss.detach()

    def _examples(self) -> Sequence[Document]:
        """Dev; without it unlabelled text, with what each teacher finds in it.

        Who learns the mean of several teachers may be less sure of a cell than each of them is, and then finds less
        with an α like theirs.
        """
        some = self._unlabelled_examples
        return self.dev or [document for teacher in self.teachers for document in teacher.extractor.annotate(some)]

    def _done(self, share: float) -> float:
        return max(share, self.clock.done(0))

    def _read(self) -> Counter[str]:
        """What was counted in unlabelled text, by all processes."""
        return sum(gather_object([Counter(self.progress.read)]), Counter())

    def _notes(self) -> Counter[str]:
        read = {what: count for what, count in self._read().items() if what != SENTENCES}
        return super()._notes() + Counter(read)

    def _save_model(self, scores: Mapping[str, Scores | None], **more: Any) -> None:
        distillation = {
            "teachers": self._teachers(),
            "corpus": [file.name for file in self.corpus],
            "sentences": self._read()[SENTENCES],
            **asdict(self.distillation),
        }
        super()._save_model(scores, distillation=distillation, **more)

    def _teachers(self) -> list[dict[str, Any]]:
        """Who the teachers are, and the F1 that they had."""
        described = []
        for teacher in self.teachers:
            made = teacher.model.settings.provenance
            scores = {
                split: {"ent": scores["entities"]["f1"], "rel": scores["relations"]["f1"]}
                for split, scores in made.get("scores", {}).items()
            }
            described.append({"name": teacher.name, "encoder": made.get("encoder"), "scores": scores})
        return described

    def _facts(self) -> dict[str, Any]:
        return {
            **super()._facts(),
            "teachers": [teacher.name for teacher in self.teachers],
            "unlabelled documents": self.unlabelled.n_documents,
        }
