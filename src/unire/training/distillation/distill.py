"""Distillation: a student learns from gold tables, and on unlabelled text from the tables of its teachers.

    distill("small-encoder", documents, teachers=["models/large"], corpus=["abstracts.txt"], out="models/small")
    distill("small-encoder", documents, soft_labels="abstracts.soft", out="models/small")

Every optimizer step has annotated and unlabelled sentences. The loss of an unlabelled sentence is the cross-entropy
between the cells of the student and the mean distribution of its teachers. The teachers run with the student, or
their stored soft labels are read (`teach.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from unire.inference.streaming import Prefetcher
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch, Tensors
from unire.models.cuda_graphs import GraphRunner
from unire.models.losses import LOSSES, TableWeights, soft_entry_loss
from unire.output_files import locks_output
from unire.training.callbacks import Callback
from unire.training.config import TrainingConfig
from unire.training.dataset import TrainingStep
from unire.training.distillation.batches import DistillationBatch, DistillationBatches
from unire.training.distillation.soft_labels import SoftLabelStore
from unire.training.distillation.teachers import SoftLabelProvider, TeacherEnsemble, load_teachers
from unire.training.distributed import require_single_process
from unire.training.optimizer import TrainingBudget
from unire.training.resume import check_training_folder
from unire.training.tasks import TableTask
from unire.training.text_corpus import OverlapFilter, UnlabelledCorpus
from unire.training.train import TrainResult, init_training, train_and_save
from unire.training.trainer import use_bf16
from unire.utils import cpu_count
from unire.windows.collator import Batch

__all__ = ["DistillConfig", "DistillationTask", "distill"]

SENTENCES = "sentences"
"""A count in addition to the notes: unlabelled sentences in all steps, repetitions included."""
DISTINCT = "distinct"
"""The same without repetitions: sentences of the first pass over the corpus."""


SoftStep = tuple[DistillationBatch, Callable[[], list[Tensor]], list[int], Counter[str]]
"""An unlabelled step, what computes its targets, the position in the corpus after it, and notes."""


@dataclass(frozen=True)
class DistillConfig:
    """Settings of a distillation beyond those of a training.

    >>> DistillConfig(soft_batch=256).soft_weight
    1.0
    """

    soft_batch: int = 128
    """Unlabelled sentences per optimiser step, in each process."""
    soft_weight: float = 1.0
    """Weight of the loss on unlabelled text. The loss on gold tables has weight 1."""
    documents: int | None = None
    """Use only this many documents, from the start of the corpus. [default: all]"""
    minutes: float | None = None
    """Time limit. The learning rates fall to zero by then."""

    def __post_init__(self) -> None:
        check_kinds(type(self), vars(self), "distillation setting")
        check_ranges(vars(self), RANGES, "distillation setting")


RANGES = {"soft_batch": COUNT, "soft_weight": POSITIVE, "documents": COUNT, "minutes": POSITIVE}


@locks_output
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
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    save_every_epochs: int | None = None,
    save_every_minutes: float | None = 10.0,
    workers: int | None = None,
) -> TrainResult:
    """Train a student on annotated documents and on the soft labels of its teachers, and save it.

    >>> distill("small-encoder", documents, soft_labels="abstracts.soft", dev=dev, out="small")  # doctest: +SKIP
    <TrainResult: 60 epochs; dev Ent 66.0 Rel 35.2>

    Args:
        student: A pretrained encoder, by Hub name or folder.
        documents: The annotated training data.
        out: A new folder for the student.
        teachers: Trained models. The distributions of several teachers are averaged, cell by cell.
        corpus: Files of plain text with a document per line, or of documents in one of our formats (`.json`, `.jsonl`).
            Documents that contain text of dev or test are left out.
        soft_labels: A folder that `teach` has written. It replaces `teachers` and `corpus`.
        dev: Selects the best epoch and α, and calibrates the scores. Without it the last epoch is kept, with the α that
            agrees best with the teachers on a sample of the corpus.
        test: Scored once, at the end.
        labels: The student's label space. All teachers must have the same types. [default: that of the first teacher]
        config: How the student is trained. [default: preset `best`, or `cpu` without a GPU]
        distillation: How much unlabelled text is in a step, and its weight.
        data: Names of the data files, for the model card.
        callbacks: Called in the course of the training.
        resume: Continue an unfinished distillation with the same settings.
        save_every_epochs: Write a checkpoint every N epochs.
        save_every_minutes: Write a checkpoint every N minutes; `None` for never.
        workers: Processes that read and tokenize the corpus. [default: one per spare core, up to 12]

    Returns:
        The trained student, its scores on dev and test, and the losses and scores of every epoch.

    Raises:
        UnireError: There are neither teachers with a corpus nor soft labels, or both. The labels of the teachers
            differ, or `out` is not empty.
    """
    out = Path(out)
    check_training_folder(out, resume=resume)
    config, distillation = config or TrainingConfig.from_preset(), distillation or DistillConfig()
    if distillation.minutes is not None:
        require_single_process("distillation by the clock", "give epochs instead of minutes")
    budget = TrainingBudget(distillation.minutes, epochs=config.epochs)  # loading takes from the time
    provider = _soft_label_provider(teachers, corpus, soft_labels, distillation.documents)
    labels = labels or provider.labels
    labels.check([*dev, *test])
    model, accelerator = init_training(student, documents, dev=dev, labels=labels, config=config, data=data)
    task = DistillationTask(
        model,
        documents,
        dev,
        config,
        accelerator,
        provider=provider,
        overlap_filter=OverlapFilter(document.text for document in [*dev, *test]),
        distillation=distillation,
        workers=min(12, max(1, cpu_count() - 1)) if workers is None else workers,
    )
    return train_and_save(
        task,
        out,
        test,
        callbacks=callbacks,
        resume=resume,
        budget=budget,
        save_every_epochs=save_every_epochs,
        save_every_minutes=save_every_minutes,
    )


def _soft_label_provider(
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
class DistillationTask(TableTask):
    """Adds to every step unlabelled sentences, for which teachers provide the target distributions."""

    provider: SoftLabelProvider = field(kw_only=True)
    overlap_filter: OverlapFilter = field(kw_only=True)
    distillation: DistillConfig = field(kw_only=True)
    workers: int = field(kw_only=True)

    loss_names: ClassVar[tuple[str, ...]] = (*LOSSES, "distillation")

    def __post_init__(self) -> None:
        super().__post_init__()
        device, parent = self.accelerator.device, self.backward_batch
        self.backward_soft_batch = GraphRunner(
            self._backward_soft_batch, device, capture=parent.captures, parent=parent
        )
        window_builders = self.provider.start(self.model, self.backward_soft_batch, bf16=use_bf16(self.config))
        self.unlabelled = DistillationBatches(
            self.provider.texts,
            [self.extractor.window_builder, *window_builders],
            overlap_filter=self.overlap_filter,
            size=self.distillation.soft_batch,
            config=self.config,
            padding=self.data.padding,
            max_padding=self.data.max_padding,
            index=self.provider.index,
        )
        self.corpus_position = [0, 0]
        """Completed chunks of the corpus, and completed steps of the present chunk."""
        self.counts: Counter[str] = Counter()
        """Sentences, and notes on documents that were left out."""
        self._soft_steps: Prefetcher[SoftStep] | None = None
        self._found_by_teachers: Callable[[], Sequence[Document]] = list
        if not self.dev and self.config.tunes:
            # before training, so that an error in the corpus is reported at once
            self._found_by_teachers = self.provider.examples(self.overlap_filter)
        if not self.dev and self.config.tune_alpha and self.config.decoder == self.provider.decoder:
            self.model.config = self.extractor.config = self.model.config.with_(alpha=self.provider.alpha)
        settings = {name: value for name, value in asdict(self.distillation).items() if name != "minutes"}
        self.settings |= {**settings, **self._teacher_info(), "soft labels": self.provider.digest}

    # Data

    def _encoders(self) -> Sequence[nn.Module]:
        return [*super()._encoders(), *self.provider.encoders]

    def _rebatch(self) -> None:
        super()._rebatch()
        padding, max_padding = self._batching(self.backward_soft_batch.captures)
        if padding != self.unlabelled.padding:
            self.close()  # what was prefetched is collated again
            self.unlabelled.padding, self.unlabelled.max_padding = padding, max_padding

    def _distillation_batches(self) -> Iterator[SoftStep]:
        """Unlabelled steps with their targets, the position after each, and new notes; made by a thread."""
        steps = self.unlabelled.steps(
            *self.corpus_position,
            process=self.accelerator.process_index,
            n_processes=self.accelerator.num_processes,
            workers=self.workers,
        )
        with closing(steps):
            for step, position, notes in steps:
                yield step, self.provider.targets(step), position, notes

    def close(self) -> None:
        if self._soft_steps is not None:
            self._soft_steps.close(wait=True)  # for its worker processes to end
            self._soft_steps = None

    def state_dict(self) -> dict[str, Any]:
        return {"corpus_position": self.corpus_position, "counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.corpus_position, self.counts = state["corpus_position"], Counter(state["counts"])

    # Loss

    def backward(self, step: TrainingStep, out_of_time: Callable[[], bool]) -> None:
        self.model.train()
        self._backward_soft_step()
        super().backward(step, out_of_time)

    def _backward_soft_step(self) -> None:
        """Add the gradients of the next unlabelled step."""
        if self._soft_steps is None:
            self._soft_steps = Prefetcher(self._distillation_batches())
        step, targets, self.corpus_position, notes = next(self._soft_steps)
        counts = {SENTENCES: step.n_tables, DISTINCT: step.n_tables if self._in_first_pass() else 0}
        self.counts = self.counts + notes + Counter(counts)
        for batch, target, kept in zip(step.views[0], targets(), step.kept, strict=True):
            with self.accelerator.no_sync(self.ddp_model):  # gradients are exchanged with those of the gold tables
                loss = self.backward_soft_batch(self._soft_tensors(batch, target, kept, step))
            # every process computes its own step; the loss is the mean of their means
            self.loss_sums[-1] += loss / self.accelerator.num_processes

    def _in_first_pass(self) -> bool:
        """Whether the last step was of documents that no process had read before."""
        processes = self.accelerator
        chunk: int = self.corpus_position[0] * processes.num_processes + processes.process_index
        return chunk < len(self.unlabelled)

    def _soft_tensors(self, batch: Batch, target: Tensor, kept: NDArray[np.bool_], step: DistillationBatch) -> Tensors:
        """A batch, its target distributions, and the weights of its cells in the step."""
        tensors = TensorBatch.from_batch(batch, "cpu")
        weights = TableWeights.of(tensors.lengths, self.config.mean, step.n_tables, step.n_cells, step.n_words)
        weights.cell[: len(kept)] *= torch.from_numpy(kept)
        return self.backward_soft_batch.pin({**tensors.to_dict(), "cell": weights.cell, "target": target})

    def _backward_soft_batch(self, tensors: Tensors) -> Tensor:
        """Add the gradients of a batch's share of the mean cross-entropy to the parameters', and return the share.

        There is no logit dropout here: the targets are soft enough.
        """
        batch = TensorBatch.from_dict(tensors)
        logits = self.ddp_model(batch).float()
        weights = TableWeights(tensors["cell"], tensors["cell"])
        loss = soft_entry_loss(logits, self.provider.distribution(tensors["target"]), batch.mask, weights)
        self.accelerator.backward(self.distillation.soft_weight * loss)
        return loss.detach()

    # Output

    def _tuning_documents(self) -> Sequence[Document]:
        """Dev; without it, unlabelled text annotated by each teacher.

        A student of several teachers may be less sure of a cell than each of them, and then finds less than they do
        with their α.
        """
        return self.dev or self._found_by_teachers()

    def _all_counts(self) -> Counter[str]:
        """The counts of all processes."""
        return sum(gather_object([self.counts]), Counter())

    def notes(self) -> Counter[str]:
        counts = {what: count for what, count in self._all_counts().items() if what not in (SENTENCES, DISTINCT)}
        return super().notes() + Counter(counts)

    def _more_provenance(self) -> dict[str, Any]:
        counts = self._all_counts()
        return {
            "distillation": {
                **self._teacher_info(),
                "sentences": counts[SENTENCES],
                "distinct": counts[DISTINCT],
                **asdict(self.distillation),
            }
        }

    def _teacher_info(self) -> dict[str, Any]:
        return {"teachers": self.provider.teachers, "corpus": list(self.provider.corpus)}

    def run_info(self) -> dict[str, Any]:
        return {
            **super().run_info(),
            "teachers": [teacher["name"] for teacher in self.provider.teachers],
            "unlabelled documents": len(self.provider.texts),
        }
