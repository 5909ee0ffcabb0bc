"""The training loop: epochs of optimiser steps over the batches and the loss of a task.

Tables, distillation, marker models and masked-language modelling are tasks. A task owns a model, its data and its
loss; `Trainer` owns everything else: schedule, clipping, selection on dev, callbacks, when to write a checkpoint, and
interrupts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn

from unire.errors import UnireError
from unire.training.callbacks import Callback, CallbackList, Interrupt, TrainState
from unire.training.config import TrainingConfig
from unire.training.distributed import SINGLE_PROCESS, SingleProcess, all_agree
from unire.training.optimizer import Schedule, TrainingBudget
from unire.training.resume import CheckpointManager, ProcessState
from unire.utils import has_bf16

__all__ = ["Evaluation", "Task", "Trainer", "use_bf16"]

LOG_SECONDS = 5.0
"""Time between two calls of `on_log`."""
FIRST_SAVE_SECONDS = 60.0
"""Time before the first checkpoint, if checkpoints are written by time at all."""
MAX_EVALUATION_SHARE = 0.15
"""Share of the time that scoring dev may take, if the time is limited. The last epoch is scored all the same."""


@dataclass(frozen=True)
class Evaluation:
    """Scores on dev."""

    score: float
    """Selects the best weights."""
    record: Any
    """What the history keeps of it, as plain JSON values."""


class Task(ABC):
    """A model, its data and its loss.

    A subclass sets `model`, `optimizer`, `schedule`, `loss_sums` and `settings` in its constructor, and implements
    `steps` and `backward`. All other attributes and methods have defaults. A task with dev data implements `evaluate`.
    """

    model: nn.Module
    """Only the weights of its `state_dict` are saved and restored."""
    optimizer: Any
    """From `build_optimizer`; accelerate may have wrapped it."""
    schedule: Schedule
    """Sets the learning rates of `optimizer` before each step; from `build_schedule`."""
    loss_sums: Tensor
    """Sums of the losses over the steps of the present epoch, on the device; `backward` adds to them."""
    settings: dict[str, Any]
    """What a resumed training must share with the one that it continues."""
    default_settings: Mapping[str, Any] = {}
    """Values of settings that a checkpoint of an earlier version does not know."""
    epochs: int | None = None
    """`None` for a single epoch without an end: the budget ends it."""
    clip: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    evaluate_after: int = 0
    """Epochs before the first evaluation."""
    evaluate_every: int = 1
    """Epochs between two evaluations."""
    patience: int | None = None
    """Epochs without a better score before training stops."""
    prefers_later: bool = False
    """Whether of epochs with equal scores the last one is kept, and not the first."""
    processes: Accelerator | SingleProcess = SINGLE_PROCESS

    @abstractmethod
    def steps(self, epoch: int, start: int) -> tuple[int | None, Iterable[Any]]:
        """The steps of an epoch from number `start` on, and how many the epoch has; `None` if it has no end."""

    @abstractmethod
    def backward(self, step: Any, out_of_time: Callable[[], bool]) -> None:
        """Add the gradients of all batches of a step to the parameters', and its losses to `loss_sums`.

        Args:
            step: One of `steps`.
            out_of_time: May be called between batches. Whether the step should be cut short, because the time is over.
                Raises `KeyboardInterrupt` if the training is interrupted; the step is then repeated on resume.
        """

    def mean_loss(self, n_steps: int) -> dict[str, float] | float:
        """The loss of an epoch for the history."""
        return self.loss_sums.sum().item() / n_steps

    def evaluate(self) -> Evaluation | None:
        """Score the present weights on dev, if there is dev data."""
        return None

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are set to zero in place after a step, because CUDA graphs add to them where they are."""
        return False

    def metrics(self, trainer: Trainer) -> Mapping[str, float]:
        """What callbacks log in `on_log`; nothing by default."""
        return {}

    def run_info(self) -> dict[str, Any]:
        """Sizes of data and model, for callbacks to show before the first step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What the task needs to resume beyond the state of the trainer, as plain JSON values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restore what `state_dict` returned."""

    def close(self) -> None:  # noqa: B027
        """Stop threads and processes that prepare batches."""


class Trainer:
    """Trains the model of a task.

    Args:
        task: Model, data and loss.
        out: Where the model will be written; checkpoints are next to it. Without it there are none.
        callbacks: Called on the main process only.
        budget: Limits the time or the number of steps; no limit but the task's epochs by default.
        save_every_epochs: Write a checkpoint every N epochs.
        save_every_minutes: Write a checkpoint every N minutes.
    """

    def __init__(
        self,
        task: Task,
        *,
        out: Path | None = None,
        callbacks: Sequence[Callback] = (),
        budget: TrainingBudget | None = None,
        save_every_epochs: int | None = None,
        save_every_minutes: float | None = None,
    ) -> None:
        self.task = task
        self.processes = task.processes
        self.checkpoints = None if out is None else CheckpointManager(out)
        self.callbacks = CallbackList(callbacks if self.processes.is_main_process else ())
        self.budget = budget or TrainingBudget(epochs=task.epochs)
        self.save_every_epochs = save_every_epochs
        self.save_every_seconds = math.inf if save_every_minutes is None else 60 * save_every_minutes
        self.state = TrainState()
        self.best_weights: dict[str, Tensor] | None = None
        """Those of the epoch with the best score on dev."""
        self._evaluation_seconds = 0.0
        self._saved: tuple[int, int] | None = None
        """Steps and epochs of the last checkpoint of this run."""

    # The loop

    def run(self, *, resume: bool = False) -> None:
        """Resume if asked to, then `fit`, with signals delayed while state changes."""
        if resume:
            self.resume()
        try:
            with Interrupt() as interrupt:
                self.fit(interrupt)
        finally:
            self.callbacks.on_train_end()

    def fit(self, interrupt: Interrupt) -> None:
        """Train until the last epoch, the end of the budget or the end of patience, and load the best weights.

        On a CPU, a step or an evaluation may take minutes. A signal stops it at once, and it is repeated on resume.

        Raises:
            KeyboardInterrupt: A signal arrived. A checkpoint was written; without epochs, only if there was a step.
        """
        try:
            with self._signals_in_backward():
                self._run_epochs(interrupt)
        except KeyboardInterrupt:
            if self.state.step or self.task.epochs is not None:
                self.save_checkpoint()
            raise KeyboardInterrupt(interrupt.number) from None
        finally:
            self.task.close()
        self.state.seconds = self.budget.seconds
        if metrics := self.task.metrics(self):
            self.callbacks.on_log(metrics)
        self.load_best_weights()

    def _run_epochs(self, interrupt: Interrupt) -> None:
        state, task, budget = self.state, self.task, self.budget
        self.callbacks.on_train_begin({**task.run_info(), "epochs": task.epochs, "epochs done": state.epoch})
        logged = budget.seconds
        saved = logged - max(0.0, self.save_every_seconds - FIRST_SAVE_SECONDS)

        def out_of_time() -> bool:
            interrupt.check()
            return self._fraction() >= 1

        while not self._is_finished() and not self._out_of_patience():
            for step in self._fetch_steps(interrupt):
                budget.start()
                if self._is_out_of_time():
                    break
                self._take_step(step, out_of_time, interrupt)
                self.callbacks.on_step_end(state)
                if budget.seconds - logged >= LOG_SECONDS and (metrics := task.metrics(self)):
                    self.callbacks.on_log(metrics)
                    logged = budget.seconds
                save_due = budget.seconds - saved >= self.save_every_seconds
                save_due, stopped = all_agree(self.processes, save_due, interrupt.pending, step=state.step)
                if save_due:
                    self.save_checkpoint()
                    saved = budget.seconds
                if stopped:
                    raise KeyboardInterrupt
            if task.epochs is not None:
                self._end_epoch(interrupt)
                if any(all_agree(self.processes, interrupt.pending)):
                    raise KeyboardInterrupt

    def _fetch_steps(self, interrupt: Interrupt) -> Iterator[Any]:
        """The remaining steps of the epoch."""
        state = self.state
        with self._repeatable(interrupt):
            state.epoch_steps, steps = self.task.steps(state.epoch, state.position)
            remaining = iter(steps)
        while True:
            with self._repeatable(interrupt):
                step = next(remaining, None)
            if step is None:
                return
            yield step

    def _take_step(self, step: Any, out_of_time: Callable[[], bool], interrupt: Interrupt) -> None:
        """One optimiser step: the gradients of all its batches, clipped, applied at the current learning rate."""
        state, task = self.state, self.task
        start = self._fraction()
        with self._repeatable(interrupt):
            task.backward(step, out_of_time)
        state.step += 1
        state.position += 1
        state.fraction = self._fraction()
        task.schedule.set((start + state.fraction) / 2, state.step)  # the rate of the middle of the step
        nn.utils.clip_grad_norm_(task.model.parameters(), task.clip)
        task.optimizer.step()
        task.optimizer.zero_grad(set_to_none=not task.keeps_gradients)

    def _end_epoch(self, interrupt: Interrupt) -> None:
        state, task, position = self.state, self.task, self.state.position
        loss = task.mean_loss(position or 1)
        state.epoch += 1
        state.position = 0
        state.fraction = self._fraction()
        if not all(map(math.isfinite, loss.values() if isinstance(loss, dict) else [loss])):
            raise UnireError(
                f"the loss of epoch {state.epoch} is not a number; lower the learning rate, or turn bf16 off"
            )
        record: dict[str, Any] = {"epoch": state.epoch, "loss": loss}
        if self._evaluation_due() or self._is_finished():
            self.callbacks.on_stage("scoring dev")
            began = self.budget.seconds
            try:
                with interrupt.immediate() if self._is_alone else nullcontext():
                    evaluation = task.evaluate()
            except KeyboardInterrupt:  # a resumed training starts with this evaluation
                state.epoch, state.position = state.epoch - 1, position
                raise
            self._keep_best(evaluation, record)
            self._evaluation_seconds += self.budget.seconds - began
            state.fraction = self._fraction()  # the time may have ended meanwhile
        state.progress = self._progress()
        task.loss_sums.zero_()
        state.history.append(record)
        self.callbacks.on_epoch_end(record)
        if self.save_every_epochs is not None and state.epoch % self.save_every_epochs == 0:
            self.save_checkpoint()

    def _progress(self) -> float:
        """Completed epochs; where time ends the training first, the share of it that is over, of all epochs."""
        return max(self.state.epoch, self.state.fraction * (self.task.epochs or 0))

    def _evaluation_due(self) -> bool:
        """Whether the schedule has an evaluation between the end of the epoch before and now, and there is time."""
        if self.budget.minutes and self._evaluation_seconds > MAX_EVALUATION_SHARE * self.budget.seconds:
            return False
        every, last = self.task.evaluate_every, max(self.state.progress, self.task.evaluate_after)
        return self._progress() // every > last // every

    def _keep_best(self, evaluation: Evaluation | None, record: dict[str, Any]) -> None:
        """Record the scores of the present weights on dev, and keep a copy if they are the best so far."""
        state = self.state
        if evaluation is None:
            return
        record["dev"] = evaluation.record
        tied = self.task.prefers_later and evaluation.score == state.best
        if state.best is None or evaluation.score > state.best or tied:
            state.best = evaluation.score
            state.best_epoch = state.epoch
            self.best_weights = {name: tensor.detach().clone() for name, tensor in self.task.model.state_dict().items()}

    def load_best_weights(self) -> None:
        """Give the model the weights of its best epoch on dev; without dev it keeps those of the last one."""
        if self.best_weights is not None:
            self.task.model.load_state_dict(self.best_weights)

    def _fraction(self) -> float:
        """The fraction of the training that is done."""
        return self.budget.fraction(self.state.step, self.state.epochs_done)

    def _is_out_of_time(self) -> bool:
        """Whether to end the epoch before its next step. An epoch has one step at least."""
        return (self.task.epochs is None or self.state.position > 0) and self._fraction() >= 1

    def _is_finished(self) -> bool:
        """Whether this was the last epoch."""
        if self.task.epochs is None:
            return self._fraction() >= 1
        return self.state.position == 0 and (self.state.fraction >= 1 or self.state.epoch >= self.task.epochs)

    def _out_of_patience(self) -> bool:
        state, task = self.state, self.task
        last_gain = max(state.best_epoch, task.evaluate_after)
        return state.best is not None and task.patience is not None and state.epoch - last_gain >= task.patience

    # Signals

    @property
    def _is_alone(self) -> bool:
        """Whether no other process would wait for this one."""
        return self.processes.num_processes == 1

    @property
    def _has_long_steps(self) -> bool:
        return self._is_alone and self.task.loss_sums.device.type == "cpu"

    @contextmanager
    def _repeatable(self, interrupt: Interrupt) -> Iterator[None]:
        """Let a signal stop the body at once, and undo what the body has done: a resumed training repeats it."""
        if not self._has_long_steps:
            yield
            return
        task = self.task
        random_state, loss_sums, state = torch.get_rng_state(), task.loss_sums.clone(), task.state_dict()
        try:
            with interrupt.immediate():
                yield
        except KeyboardInterrupt:
            torch.set_rng_state(random_state)
            task.loss_sums.copy_(loss_sums)
            task.load_state_dict(state)
            raise

    @contextmanager
    def _signals_in_backward(self) -> Iterator[None]:
        """Run some Python after each gradient: Python handles no signal while PyTorch computes all of them."""
        parameters = self.task.model.parameters() if self._has_long_steps else ()
        hooks = [
            parameter.register_post_accumulate_grad_hook(lambda parameter: None)  # type: ignore[no-untyped-call]
            for parameter in parameters
            if parameter.requires_grad
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    # Checkpoints

    def resume(self) -> None:
        """Restore model, optimiser, random numbers and position from the latest checkpoint."""
        if self.checkpoints is None:
            raise UnireError("a training without an output folder cannot be resumed")
        task, processes = self.task, self.processes
        self.state, self.best_weights = self.checkpoints.load(
            task.model,
            task.optimizer,
            task.settings,
            defaults=task.default_settings,
            process=processes.process_index,
            n_processes=processes.num_processes,
        )
        task.loss_sums.copy_(torch.tensor(self.state.losses))
        task.load_state_dict(self.state.task)
        self.budget.resume(self.state.seconds, self.state.fraction)

    def save_checkpoint(self) -> None:
        """Write what `resume` continues from."""
        state, task = self.state, self.task
        if self.checkpoints is None or self._saved == (state.step, state.epoch):
            return
        with self.budget.pause():
            state.losses = task.loss_sums.tolist()
            state.task = task.state_dict()
            state.seconds = self.budget.seconds
            states: list[ProcessState] = [ProcessState.of(state)]
            if self.processes.num_processes > 1:
                states = gather_object(states)
            if self.processes.is_main_process:
                self.checkpoints.save(states, task.model, task.optimizer, self.best_weights, task.settings)
            self.processes.wait_for_everyone()
        self._saved = state.step, state.epoch

    def remove_checkpoints(self) -> None:
        """Delete all checkpoints, once the model is saved."""
        if self.checkpoints is not None and self.processes.is_main_process:
            self.checkpoints.remove()


def use_bf16(config: TrainingConfig, device: torch.device | None = None) -> bool:
    """Whether to compute in bf16: as configured, or by default on a GPU that supports it.

    Args:
        config: The settings.
        device: Where the model is. [default: a GPU if there is one, else the CPU]
    """
    kind = device.type if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    if config.bf16 is True and not has_bf16(kind):
        raise UnireError("bf16 = true needs a GPU or a CPU that supports bf16")
    automatic = config.bf16 == "auto" or (config.bf16 is None and kind == "cuda")
    return has_bf16(kind) if automatic else config.bf16 is True
