"""Distillation: a student learns from gold tables, and on unlabelled text from the tables of its teachers.

    distill("small-encoder", documents, teachers=["models/large"], corpus=["abstracts.txt"], out="models/small")
    distill("small-encoder", documents, soft_labels="abstracts.soft", out="models/small")

Every optimiser step is one of ordinary training, to which unlabelled sentences are added: there the student's cells are
to have the teachers' mean distribution. The teachers run beside the student, and no table is stored; or they were asked
before (`teach.py`), and their stored soft labels are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import Tensor, nn

from unire.documents import Document
from unire.errors import COUNT, POSITIVE, UnireError, check_kinds, check_ranges
from unire.evaluation.counts import Scores
from unire.inference.streaming import Prefetcher
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch, Tensors
from unire.models.cuda_graphs import GraphRunner
from unire.models.losses import TableWeights, soft_entry_loss
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import TrainingConfig
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teachers import SoftLabelProvider, TeacherEnsemble, load_teachers
from unire.training.distillation.unlabelled import DistillationBatch, DistillationBatches
from unire.training.distributed import require_single_process
from unire.training.optimizer import TrainingBudget
from unire.training.output_dir import check_output_dir
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.training.trainer import Trainer, TrainResult, use_bf16
from unire.utils import cpu_count
from unire.windows.collator import Batch

__all__ = ["DistillConfig", "Distiller", "distill"]

SENTENCES = "sentences"
"""What `Progress.read` counts beside notes: unlabelled sentences that were learnt from, as often as they were."""
DISTINCT = "distinct"
"""The same for those of the first pass, each of which is another."""


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
        check_ranges(vars(self), RANGES, "distillation setting")


RANGES = {"soft_batch": COUNT, "soft_weight": POSITIVE, "documents": COUNT, "minutes": POSITIVE}


def distill(
    student: str | Path,
    documents: Sequence[Document],
    *,
    out: str | Path,
    teachers: Sequence[str | Path] = (),
    corpus: Sequence[str | Path] = (),
    soft_labels: str | Path | None = None,
    dev: Sequence[Document] = (),
    test: Sequence[Document] = (),
    labels: LabelSpace | None = None,
    config: TrainingConfig | None = None,
    distillation: DistillConfig | None = None,
    data: Sequence[str] = (),
    reporter: Callback | None = None,
    resume: bool = False,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
    workers: int | None = None,
) -> TrainResult:
    """Train a student and save it.

    Args:
        student: A pretrained encoder, by Hub name or folder.
        documents: The annotated training data.
        out: Where the student is written: a new folder.
        teachers: Trained models. What several of them find is averaged, cell by cell.
        corpus: Files of plain text, a document per line, or of documents in one of our formats (`.json`, `.jsonl`).
            Documents that hold text of dev or test are left out.
        soft_labels: A folder that `teach` has written. It replaces `teachers` and `corpus`.
        dev: Selects the best epoch and α, and calibrates the scores; without it the last epoch is kept, with the α that
            finds most of what the teachers find in some of the text.
        test: Scored once, at the end.
        labels: The student's label space, the first teacher's when left out. Every teacher must have the same types.
        config: How it is trained; `best` when left out.
        distillation: How much unlabelled text is in a step, and what it counts.
        data: Names of the data files, for the model card.
        reporter: Told what happens.
        resume: Continue where an earlier, unfinished distillation with the same settings stopped.
        save_every_epochs: Write the state to resume from every so many epochs.
        save_every_minutes: Write it every so many minutes; `None` for never.
        workers: Processes that read and lay out the corpus; by default as many as there are cores to spare, up to 12.
    """
    out = Path(out)
    check_output_dir(out, resume=resume)
    distillation = distillation or DistillConfig()
    if distillation.minutes is not None:
        require_single_process("distillation by the clock", "give epochs instead of minutes")
    clock = TrainingBudget(distillation.minutes)  # before anything is loaded, which takes from the time
    tutor = _tutor(teachers, corpus, soft_labels, distillation.documents)
    labels = labels or tutor.labels
    labels.check([*dev, *test])
    distiller = Distiller.begin(
        student,
        documents,
        out=out,
        dev=dev,
        labels=labels,
        config=config or TrainingConfig.from_preset("best"),
        data=data,
        reporter=reporter,
        resume=resume,
        tutor=tutor,
        held_out=OverlapFilter(document.text for document in [*dev, *test]),
        distillation=distillation,
        clock=clock,
        workers=min(12, max(1, cpu_count() - 1)) if workers is None else workers,
    )
    return distiller.run(test, save_every_epochs, save_every_minutes)


def _tutor(
    teachers: Sequence[str | Path], corpus: Sequence[str | Path], soft_labels: str | Path | None, limit: int | None
) -> SoftLabelProvider:
    if soft_labels is not None:
        if teachers or corpus:
            raise UnireError("stored soft labels replace teachers and corpus; give one or the other")
        return SoftLabelStore(soft_labels, limit)
    if not teachers:
        raise UnireError("there is no teacher; give trained models and a corpus, or stored soft labels")
    if not corpus:
        raise UnireError("there is no unlabelled corpus; give one, or stored soft labels")
    texts = UnlabelledCorpus.read(corpus, limit)
    return TeacherEnsemble(load_teachers(teachers), texts, [Path(file).name for file in corpus])


@dataclass
class Distiller(Trainer):
    """A distillation under way."""

    tutor: SoftLabelProvider = field(kw_only=True)
    held_out: OverlapFilter = field(kw_only=True)
    distillation: DistillConfig = field(kw_only=True)
    workers: int = field(kw_only=True)

    LOSSES: ClassVar[tuple[str, ...]] = (*Trainer.LOSSES, "distillation")

    def __post_init__(self) -> None:
        super().__post_init__()
        device, gradients = self.accelerator.device, self.gradients
        self.soft_gradients = GraphRunner(self._soft_gradients, device, capture=gradients.captures, parent=gradients)
        window_builders = self.tutor.start(self.model, self.soft_gradients, bf16=use_bf16(self.config))
        self.unlabelled = DistillationBatches(
            self.tutor.texts,
            [self.extractor.window_builder, *window_builders],
            overlap_filter=self.held_out,
            size=self.distillation.soft_batch,
            config=self.config,
            padding=self.data.padding,
            max_padding=self.data.max_padding,
            index=self.tutor.index,
        )
        self._found_by_teachers: Callable[[], Sequence[Document]] = list
        if not self.dev and self.config.tunes:
            # before anything is learnt, so that what is wrong with them is said at once
            self._found_by_teachers = self.tutor.examples(self.held_out)
        if not self.dev and self.config.tune_alpha and self.config.decoder == self.tutor.decoder:
            self.model.config = self.extractor.config = self.model.config.with_(alpha=self.tutor.alpha)
        settings = {name: value for name, value in asdict(self.distillation).items() if name != "minutes"}
        self._record |= {**settings, **self._taught_by(), "soft labels": self.tutor.digest}

    def _encoders(self) -> Sequence[nn.Module]:
        return [*super()._encoders(), *self.tutor.encoders]

    def fit(
        self, interrupt: Interrupt, save_every_epochs: int | None = None, save_every_minutes: float | None = None
    ) -> None:
        self._steps = Prefetcher(self._guided_steps())
        try:
            super().fit(interrupt, save_every_epochs, save_every_minutes)
        finally:
            self._steps.close(wait=True)  # for the processes that work for it, which end when they are told to

    def _rebatch(self) -> None:
        super()._rebatch()
        padding, max_padding = self._batching(self.soft_gradients.captures)
        if padding != self.unlabelled.padding:
            self._steps.close(wait=True)  # what was made ahead is made again
            self.unlabelled.padding, self.unlabelled.max_padding = padding, max_padding
            self._steps = Prefetcher(self._guided_steps())

    def _guided_steps(self) -> Iterator[tuple[DistillationBatch, Callable[[], list[Tensor]], list[int], Counter[str]]]:
        """Unlabelled steps with their targets, the place after each, and what is to be noted; made by a thread."""
        steps = self.unlabelled.steps(
            *self.progress.place,
            process=self.accelerator.process_index,
            n_processes=self.accelerator.num_processes,
            workers=self.workers,
        )
        with closing(steps):
            for step, place, notes in steps:
                yield step, self.tutor.targets(step), place, notes

    def _add_gradients(self) -> None:
        step, targets, self.progress.place, notes = next(self._steps)
        counts = {SENTENCES: step.n_tables, DISTINCT: step.n_tables if self._in_first_pass() else 0}
        self.progress.read = dict(Counter(self.progress.read) + notes + Counter(counts))
        for batch, target, kept in zip(step.views[0], targets(), step.kept, strict=True):
            with self.accelerator.no_sync(self.wrapped):  # gradients are exchanged with those of the gold tables
                loss = self.soft_gradients(self._soft_tensors(batch, target, kept, step))
            # every process has a step of its own, and the mean of their means is learnt from
            self._losses[-1] += loss / self.accelerator.num_processes

    def _in_first_pass(self) -> bool:
        """Whether the last step was of documents that no process had come to before."""
        company = self.accelerator
        chunk: int = self.progress.place[0] * company.num_processes + company.process_index
        return chunk < len(self.unlabelled)

    def _soft_tensors(self, batch: Batch, target: Tensor, kept: NDArray[np.bool_], step: DistillationBatch) -> Tensors:
        """A batch, what the teachers say of it, and what its cells count in the step."""
        tensors = TensorBatch.from_batch(batch, "cpu")
        weights = TableWeights.of(tensors.lengths, self.config.mean, step.n_tables, step.n_cells, step.n_words)
        weights.cell[: len(kept)] *= torch.from_numpy(kept)
        return self.soft_gradients.pin({**tensors.to_dict(), "cell": weights.cell, "target": target})

    def _soft_gradients(self, tensors: Tensors) -> Tensor:
        """Add the gradients of a batch's share of the mean cross-entropy to the parameters'; the share itself.

        Without logit dropout: the target is soft enough.
        """
        batch = TensorBatch.from_dict(tensors)
        logits = self.wrapped(batch).float()
        weights = TableWeights(tensors["cell"], tensors["cell"])
        loss = soft_entry_loss(logits, self.tutor.distribution(tensors["target"]), batch.mask, weights)
        self.accelerator.backward(self.distillation.soft_weight * loss)
        return loss.detach()

    def _examples(self) -> Sequence[Document]:
        """Dev; without it unlabelled text, with what each teacher finds in it.

        Who learns the mean of several teachers may be less sure of a cell than each of them is, and then finds less
        with an α like theirs.
        """
        return self.dev or self._found_by_teachers()

    def _read(self) -> Counter[str]:
        """What was counted in unlabelled text, by all processes."""
        return sum(gather_object([Counter(self.progress.read)]), Counter())

    def _notes(self) -> Counter[str]:
        read = {what: count for what, count in self._read().items() if what not in (SENTENCES, DISTINCT)}
        return super()._notes() + Counter(read)

    def _save_model(self, scores: Mapping[str, Scores | None], **more: Any) -> None:
        read = self._read()
        distillation = {
            **self._taught_by(),
            "sentences": read[SENTENCES],
            "distinct": read[DISTINCT],
            **asdict(self.distillation),
        }
        super()._save_model(scores, distillation=distillation, **more)

    def _taught_by(self) -> dict[str, Any]:
        return {"teachers": self.tutor.teachers, "corpus": list(self.tutor.corpus)}

    def _facts(self) -> dict[str, Any]:
        return {
            **super()._facts(),
            "teachers": [teacher["name"] for teacher in self.tutor.teachers],
            "unlabelled documents": len(self.tutor.texts),
        }
