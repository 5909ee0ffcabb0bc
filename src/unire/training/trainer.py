"""A training under way: its loop, and what surrounds it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from torch import Tensor, nn

from unire.documents import Document
from unire.errors import UnireError
from unire.evaluation.counts import Scores
from unire.evaluation.scorer import score
from unire.evaluation.tuning import collect_log_odds, fit_calibration, tune_config
from unire.extractor import Extractor
from unire.inference.streaming import Prefetcher
from unire.inference.torch_engine import TorchEngine
from unire.labels import LabelSpace
from unire.models.batch import TensorBatch, Tensors
from unire.models.cuda_graphs import GraphRunner
from unire.models.encoder import supports_position_ids
from unire.models.losses import TableWeights, compute_losses
from unire.models.unire import UniRE
from unire.training.callbacks import Callback, Interrupt
from unire.training.config import TrainingConfig
from unire.training.dataset import TrainingSet, TrainingStep, to_tensors
from unire.training.distributed import all_agree, new_accelerator
from unire.training.initialization import init_model
from unire.training.optimizer import Schedule, TrainingBudget, build_optimizer
from unire.training.resume import CheckpointManager, ProcessState, TrainState, fingerprint
from unire.utils import has_bf16
from unire.windows.collator import Padding
from unire.windows.windows import WindowGroup

__all__ = ["TrainResult", "Trainer", "use_bf16"]


@dataclass(frozen=True)
class TrainResult:
    """What a training gives back."""

    model: UniRE
    dev: Scores | None
    test: Scores | None
    history: list[dict[str, Any]]
    notes: Mapping[str, int]
    """What tables could not hold and what windows had to do, counted."""
    stopped_by: int | None = None
    """The number of the signal that ended it before its end, if one did."""
    main: bool = True
    """Whether this is the process that speaks for all, where there are several."""

    @property
    def interrupted(self) -> bool:
        return self.stopped_by is not None


@dataclass
class Trainer:
    """A training under way."""

    model: UniRE
    documents: Sequence[Document]
    dev: Sequence[Document]
    config: TrainingConfig
    accelerator: Accelerator
    out: Path
    reporter: Callback
    progress: TrainState = field(default_factory=TrainState)
    best: dict[str, Tensor] | None = None
    """The weights of the best epoch on dev."""
    clock: TrainingBudget = field(default_factory=TrainingBudget)
    """Of all that is done for it; by itself it sets no limit."""

    LOSSES: ClassVar[tuple[str, ...]] = ("entry", "symmetry", "implication")
    """What is summed up over an epoch, by name; the first three are those of the gold tables."""

    @classmethod
    def begin(
        cls,
        encoder: str | Path,
        documents: Sequence[Document],
        *,
        out: Path,
        dev: Sequence[Document],
        labels: LabelSpace,
        config: TrainingConfig,
        data: Sequence[str],
        reporter: Callback | None,
        resume: bool,
        **more: Any,
    ) -> Self:
        """A training that is ready for its first step, or for its next one; the arguments are those of `train`."""
        if not labels.entity_types:
            raise UnireError(
                "there is no type of entity to learn: neither the training data nor dev names one, nor does a label "
                "space that was given"
            )
        accelerator = new_accelerator("bf16" if use_bf16(config) else "no")
        set_seed(config.seed)
        model = init_model(str(encoder), labels, config, data, fingerprint(documents, dev)).to(accelerator.device)
        signatures = {*model.config.signatures, *LabelSpace.collect_signatures(documents)}
        model.config = model.config.with_(signatures=tuple(sorted(signatures)))
        if reporter is None or not accelerator.is_main_process:
            reporter = Callback()
        trainer = cls(model, documents, dev, config, accelerator, out.resolve(), reporter, **more)
        if accelerator.num_processes > 1:  # what one drops out says nothing of what another does
            set_seed(config.seed, device_specific=True)
        if resume:
            trainer.resume()
        return trainer

    def __post_init__(self) -> None:
        self.extractor = Extractor(
            TorchEngine(self.model, bf16=use_bf16(self.config)),
            self.model.tokenizer,
            self.model.config,
            self.model.labels,
        )
        # processes that exchange gradients do so amid the backward pass, which no graph holds
        record = self.accelerator.device.type == "cuda" and self.accelerator.num_processes == 1
        padding, max_padding = self._batching(record)
        self.data = TrainingSet(
            self.documents,
            self.model.labels,
            self.extractor.window_builder,
            self.config,
            padding=padding,
            max_padding=max_padding,
        )
        self.snapshots = CheckpointManager(self.out)
        optimizer = build_optimizer(self.model, self.config)
        self.wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        self.schedule = Schedule(self.optimizer, self.config)
        self.gradients = GraphRunner(self._gradients, self.accelerator.device, capture=record)
        if record:  # a graph adds to the gradients where they are
            for parameter in self.model.parameters():
                parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        self._losses = torch.zeros(len(self.LOSSES), device=self.accelerator.device)
        self._record = {
            **asdict(self.config),
            "encoder": self.model.config.provenance["encoder"],
            "data": list(self.model.config.provenance["data"]),
            "labels": self.model.labels.to_dict(),
            "training data": self.model.config.provenance["fingerprint"],
        }

    def _batching(self, record: bool) -> tuple[Padding, int | None]:
        """How windows are batched, and how many tokens of padding take as long as a batch more does.

        A recorded batch takes a GPU some milliseconds, however few tokens it has; one that is not recorded takes the
        host longer than any padding does. Where windows are packed, more batches would not save padding.
        """
        if not record:
            return "exact", 64 if self.accelerator.device.type == "cpu" else None
        return ("packed", None) if all(map(supports_position_ids, self._encoders())) else ("fixed", 1024)

    def _rebatch(self) -> None:
        """Batch windows by whether steps are still recorded; between epochs, when no thread makes any ahead."""
        self.data.padding, self.data.max_padding = self._batching(self.gradients.captures)

    def _encoders(self) -> Sequence[nn.Module]:
        """Those that read the batches of a step."""
        return [self.model.encoder]

    def resume(self) -> None:
        process, n_processes = self.accelerator.process_index, self.accelerator.num_processes
        self.progress, self.best = self.snapshots.load(self.model, self.optimizer, self._record, process, n_processes)
        self.clock.resume(self.progress.seconds, self.progress.done)
        self._losses.copy_(torch.tensor(self.progress.losses))

    def run(
        self, test: Sequence[Document], save_every_epochs: int | None, save_every_minutes: float | None
    ) -> TrainResult:
        """Train, score and save; Ctrl-C or SIGTERM leaves a model, and a state to resume from.

        So does what goes wrong once the weights stand.
        """
        try:
            with Interrupt() as interrupt:
                try:
                    self.fit(interrupt, save_every_epochs, save_every_minutes)
                except KeyboardInterrupt:
                    self.save_state()
                    return self.stop(interrupt.number)
                return self.finish(test, interrupt)
        finally:
            self.reporter.close()

    def fit(
        self, interrupt: Interrupt, save_every_epochs: int | None = None, save_every_minutes: float | None = None
    ) -> None:
        """Train until the last epoch, until the time is over, or until dev has not improved for `patience` epochs."""
        self.clock.start()
        self.reporter.start(self._facts())
        saved = self.clock.seconds
        while not self._finished() and not self._out_of_patience():
            self._rebatch()
            steps = self.data.steps(self.progress.epoch)
            for step in self.collated(steps[self.progress.position :]):
                self.take_step(step, self.progress.position / len(steps), 1 / len(steps))
                self.progress.position += 1
                self.reporter.step(self.progress.epoch + self.progress.position / len(steps), self.config.epochs)
                due = save_every_minutes is not None and self.clock.seconds - saved >= 60 * save_every_minutes
                due, stopped = all_agree(self.accelerator, due, interrupt.pending, step=self.progress.step)
                if due:
                    self.save_state()
                    saved = self.clock.seconds
                if stopped:
                    raise KeyboardInterrupt
            self._end_epoch(len(steps))
            if save_every_epochs is not None and self.progress.epoch % save_every_epochs == 0:
                self.save_state()
            if any(all_agree(self.accelerator, interrupt.pending)):
                raise KeyboardInterrupt
        self.progress.seconds = self.clock.seconds

    def finish(self, test: Sequence[Document], interrupt: Interrupt) -> TrainResult:
        """Take the best epoch, tune α and calibrate on dev, score, and save the model."""
        self._take_best()
        self._save_model({}, interrupted=True)  # whatever happens from here on, the training was not for nothing
        alone = self.accelerator.num_processes == 1
        if not alone:  # when something happens, several are not at the same place, and cannot gather their states
            self.save_state()
        try:
            with interrupt.immediate():
                self._tune()
                scores = {"dev": self._score(self.dev), "test": self._score(test)}
            self._save_model(scores)
        except KeyboardInterrupt:
            if alone:
                self.save_state()
            return self._result(stopped_by=interrupt.number)
        except BaseException:
            if alone:
                with suppress(Exception):  # what went wrong first is what is told
                    self.save_state()
            raise
        if self.accelerator.is_main_process:
            self.snapshots.remove()
        return self._result(scores["dev"], scores["test"])

    def _tune(self) -> None:
        """What is fitted on dev once the weights stand: α, relation odds, and the calibration of what they find."""
        config, extractor = self.config, self.extractor
        extractor.config = self.model.config
        if config.tunes and (examples := self._examples()):
            extractor.config = tune_config(extractor, examples, alpha=config.tune_alpha, relation_odds=config.tune_odds)
        if self.dev:
            found = collect_log_odds(self.extractor, self.dev)
            self.extractor.config = fit_calibration(self.extractor.config, found, ["dev"])
        (self.model.config,) = broadcast_object_list([self.extractor.config])  # GPUs may differ in a last digit
        self.extractor.config = self.model.config

    def _examples(self) -> Sequence[Document]:
        """What α and relation odds are tuned on."""
        return self.dev

    def stop(self, number: int) -> TrainResult:
        """Save the best model so far, as it is."""
        self._take_best()
        self._save_model({}, interrupted=True)
        return self._result(stopped_by=number)

    def _take_best(self) -> None:
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def _save_model(self, scores: Mapping[str, Scores | None], *, interrupted: bool = False, **more: Any) -> None:
        """Write the model; one that is `interrupted` is not taken for finished."""
        made = {name: value for name, value in self.model.config.provenance.items() if name != "interrupted"}
        self.model.config = self.model.config.with_(
            provenance={
                **made,
                "epochs": self.progress.best_epoch or self.progress.epoch,
                "seconds": round(self.progress.seconds, 1),
                "notes": dict(self._notes()),
                "scores": {split: result.to_dict() for split, result in scores.items() if result is not None},
                **more,
                **({"interrupted": True} if interrupted else {}),
            }
        )
        if self.accelerator.is_main_process:
            self.model.save_pretrained(self.out)

    def _result(
        self, dev: Scores | None = None, test: Scores | None = None, *, stopped_by: int | None = None
    ) -> TrainResult:
        return TrainResult(
            self.model,
            dev,
            test,
            self.progress.history,
            self._notes(),
            stopped_by,
            self.accelerator.is_main_process,
        )

    def collated(self, steps: Sequence[Sequence[WindowGroup]]) -> Iterator[TrainingStep]:
        """This process's share of each step, the next one made while the present one is taken."""
        process, n_processes = self.accelerator.process_index, self.accelerator.num_processes
        return Prefetcher(self.data.step(groups, process, n_processes) for groups in steps)

    def take_step(self, step: TrainingStep, position: float, share: float) -> None:
        """One optimiser step: the gradients of all its batches, clipped, applied at the rate of the moment."""
        self.model.train()
        self.progress.step += 1
        middle = (self.progress.epoch + position + share / 2) / self.config.epochs
        self.progress.done = max(middle, self.clock.done(self.progress.step))
        self.schedule.set(self.progress.done, self.progress.step)
        self._add_gradients()
        for number, batch in enumerate(step.batches, start=1):
            last = number == len(step.batches)
            with nullcontext() if last else self.accelerator.no_sync(self.wrapped):
                tensors = self.gradients.pin(to_tensors(batch, step, self.config))
                self._losses[:3] += self.gradients(tensors)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=not self.gradients.captures)

    def _add_gradients(self) -> None:
        """What a step learns from beside the gold tables: nothing, here."""

    def _gradients(self, tensors: Tensors) -> Tensor:
        """Add the gradients of a batch to the parameters'; its losses."""
        batch, config = TensorBatch.from_dict(tensors), self.config
        losses = compute_losses(
            self.wrapped(batch),
            tensors["gold"],
            batch.mask,
            TableWeights(tensors["cell"], tensors["word"]),
            self.model.labels,
            logit_dropout=config.logit_dropout,
            symmetry=config.symmetry,
            implication=config.implication,
        )
        # processes average their gradients; each holds a share of a sum, so the mean is scaled back
        self.accelerator.backward(losses.sum() * self.accelerator.num_processes)
        return losses.detach()

    def _end_epoch(self, n_steps: int) -> None:
        config, progress = self.config, self.progress
        progress.epoch += 1
        progress.position = 0
        losses = (self.accelerator.reduce(self._losses, "sum") / n_steps).tolist()
        self._losses.zero_()
        if not all(map(math.isfinite, losses)):
            raise UnireError(
                f"the loss of epoch {progress.epoch} is not a number; lower the rate, or train with bf16 = false"
            )
        record: dict[str, Any] = {
            "epoch": progress.epoch,
            "loss": dict(zip(self.LOSSES, losses, strict=True)),
        }
        due = progress.epoch > config.evaluate_after and progress.epoch % config.evaluate_every == 0
        if (due and self.dev) or self._finished():
            self._look_at_dev(record)
        progress.history.append(record)
        self.reporter.epoch(record)

    def _look_at_dev(self, record: dict[str, Any]) -> None:
        """Score the present weights on dev and keep them if they are the best; without dev, the last are."""
        scores, progress = self._score(self.dev), self.progress
        if scores is not None:
            record["dev"] = {"ent": scores.entities.f1, "rel": scores.relations.f1}
        if scores is None or progress.best is None or scores.ent_plus_rel > progress.best:
            progress.best = None if scores is None else scores.ent_plus_rel
            progress.best_epoch = progress.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def _finished(self) -> bool:
        return self.progress.epoch >= self.config.epochs or self.progress.done >= 1

    def _out_of_patience(self) -> bool:
        last_gain = max(self.progress.best_epoch, self.config.evaluate_after)
        return self.progress.best is not None and self.progress.epoch - last_gain >= self.config.patience

    def _score(self, documents: Sequence[Document]) -> Scores | None:
        """Scores on `documents`, each scored by one process."""
        if not documents:
            return None
        share = documents[self.accelerator.process_index :: self.accelerator.num_processes]
        scores = score(share, self.extractor.annotate(share), self.model.labels)
        parts: list[Scores] = gather_object([scores])
        return sum(parts[1:], start=parts[0])

    def save_state(self) -> None:
        """Write what `resume` continues from."""
        self.progress.losses = self._losses.tolist()
        self.progress.seconds = self.clock.seconds
        shares: list[ProcessState] = gather_object([ProcessState.of(self.progress)])
        if self.accelerator.is_main_process:
            self.snapshots.save(shares, self.model, self.optimizer, self.best, self._record)
        self.accelerator.wait_for_everyone()

    def _notes(self) -> Counter[str]:
        """What needed special care, counted."""
        return +self.data.notes

    def _facts(self) -> dict[str, Any]:
        """What a reporter may want to say before the first step."""
        return {
            "documents": len(self.documents),
            "sentences": sum(len(group.tables) for group in self.data.groups),
            "dev documents": len(self.dev),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
            "epochs": self.config.epochs,
            "epochs done": self.progress.epoch,
            "notes": dict(self._notes()),
        }


def use_bf16(config: TrainingConfig, device: torch.device | None = None) -> bool:
    """Whether to compute in bf16: as the settings say, or else wherever the device, a GPU if none is named, has it."""
    supported = has_bf16() and (device is None or device.type == "cuda")
    if config.bf16 and not supported:
        raise UnireError("bf16 = true needs a GPU that has bf16; leave the setting out")
    return supported if config.bf16 is None else config.bf16
