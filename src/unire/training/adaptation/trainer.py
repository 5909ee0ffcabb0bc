"""The loop of an adaptation: steps until the time or the steps are used up."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unire.errors import UnireError
from unire.files import recover, replace_atomically
from unire.models.checkpoint import read_tensors, write_tensors
from unire.training.adaptation.config import AdaptationConfig
from unire.training.adaptation.corpus import PackedCorpus
from unire.training.adaptation.masked_lm import MaskedTrainer
from unire.training.callbacks import Interrupt
from unire.training.optimizer import TrainingBudget, rate_at
from unire.training.resume import moments_of, restore_moments

__all__ = ["AdaptationLoop", "AdaptationProgress", "AdaptationState", "ResumeFolder"]

STATE = "state.json"
MODEL = "model.safetensors"
OPTIMIZER = "optimizer.safetensors"


@dataclass
class AdaptationState:
    """Where an adaptation stands; with the tensors of its trainer, all that is needed to go on."""

    identity: dict[str, Any]
    """Encoder, corpus and settings: what must not change on the way."""
    step: int = 0
    seconds: float = 0.0
    done: float = 0.0
    loss_start: float | None = None
    outcomes: list[list[float]] = field(default_factory=list)
    """Loss and accuracy of the last steps."""


class ResumeFolder:
    """`OUT/resume`: the state of the adaptation that will write its encoder to `out`, whole or not there.

    A process killed as it replaced the state, or all of `out` by the encoder, may have left the state aside: who asks
    whether there is one has it put back.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / "resume"

    @property
    def holds_state(self) -> bool:
        try:
            for folder in (self.out, self.folder):
                recover(os.path.realpath(folder))
        except OSError as error:
            raise UnireError(f"{str(self.out)!r} cannot be looked into: {error.strerror or error}") from None
        return (self.folder / STATE).exists()

    def check_alone(self) -> None:
        """Refuse to go on where something of the user's lies beside the state, or in it: the encoder replaces all."""
        known = {MODEL, OPTIMIZER, STATE, self.folder.name}
        for path in (*self.out.iterdir(), *self.folder.iterdir()):
            if path.name not in known and not path.name.startswith(f".{self.folder.name}."):
                raise UnireError(
                    f"{str(self.out)!r} holds {str(path.relative_to(self.out))!r}, which the encoder would replace; "
                    "move that elsewhere, and resume again"
                )

    def save(self, state: AdaptationState, trainer: MaskedTrainer) -> None:
        try:
            with replace_atomically(self.folder, directory=True) as temporary:
                write_tensors(temporary / MODEL, trainer.model.state_dict())
                write_tensors(temporary / OPTIMIZER, moments_of(trainer.optimizer))
                (temporary / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UnireError(f"{str(self.folder)!r} could not be written: {error.strerror or error}") from None

    def load(self, identity: dict[str, Any]) -> AdaptationState:
        """Where the adaptation stands that has this identity."""
        if not self.holds_state:
            raise UnireError(f"there is no adaptation to resume in {str(self.out)!r}")
        with self._undamaged():
            state = AdaptationState(**json.loads((self.folder / STATE).read_text(encoding="utf-8")))
            if strange := sorted(state.identity.keys() ^ identity.keys()):
                raise ValueError(f"no setting {strange[0]!r}")
        for name, value in state.identity.items():
            if identity[name] != value:
                raise UnireError(
                    f"the adaptation in {str(self.out)!r} cannot go on with {name} = {identity[name]!r}: "
                    f"it began with {value!r}"
                )
        return state

    def restore(self, trainer: MaskedTrainer) -> None:
        """Bring model and optimiser back to where they were."""
        with self._undamaged():
            trainer.model.load_state_dict(read_tensors(self.folder / MODEL))
            restore_moments(trainer.optimizer, read_tensors(self.folder / OPTIMIZER))

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        """Say in a sentence what is not as this version would have written it."""
        try:
            yield
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnireError(
                f"the state in {str(self.folder)!r} is damaged, or of another version ({reason}); "
                "begin anew in a new folder"
            ) from None


REPORT_EVERY = 5.0
"""Seconds between two reports of progress, the only times when the loop waits for the device."""
SAVE_EVERY = 300.0
"""Seconds between two savings of the state."""
START = 10
"""Steps over which the loss at the start is a mean: by then the head knows little more than how frequent tokens are."""
WINDOW = 50
"""Steps over which loss and accuracy are means later on, if they are no more than half of all."""


@dataclass(frozen=True)
class AdaptationProgress:
    """Where a running adaptation stands."""

    done: float
    """From 0 to 1."""
    steps: int
    tokens: int
    tokens_per_second: float
    """As in the report."""
    loss: float
    accuracy: float
    """Share of the hidden tokens that is named right."""


class AdaptationLoop:
    """Takes steps until the clock says that all is done, and saves the state meanwhile.

    Args:
        trainer: As it was when `state` was saved.
        config: With a batch.
        clock: Knows what `state` has used of the time.
        state: Where to begin.
        folder: Where to save.
    """

    def __init__(
        self,
        trainer: MaskedTrainer,
        config: AdaptationConfig,
        clock: TrainingBudget,
        state: AdaptationState,
        folder: ResumeFolder,
    ) -> None:
        self.trainer = trainer
        self.config = config
        self.clock = clock
        self.state = state
        self.folder = folder
        self._rows_before = self._rows_read = state.step * config.rows
        self._outcomes = deque((torch.tensor(each, device=trainer.device) for each in state.outcomes), maxlen=WINDOW)

    @property
    def loss_start(self) -> float:
        """Mean over the first steps."""
        if self.state.loss_start is not None:
            return self.state.loss_start
        return _mean([*self._outcomes][: max(1, self.state.step // 2)])[0]

    def run(self, corpus: PackedCorpus, on_progress: Callable[[AdaptationProgress], None]) -> AdaptationProgress:
        """Take the steps, and return all that there is to say at the end."""
        clock, state = self.clock, self.state
        rows = self._next(corpus)
        clock.start()
        reported = saved = clock.seconds
        with Interrupt() as interrupt:
            while (done := clock.done(state.step)) < 1:
                state.done = done
                self._step(rows, interrupt)
                if self._outcomes and clock.seconds - reported >= REPORT_EVERY:
                    on_progress(self._progress())
                    reported = clock.seconds
                if self._outcomes and (interrupt.pending or clock.seconds - saved >= SAVE_EVERY):
                    self._save()
                    saved = clock.seconds
                interrupt.check()
                rows = self._next(corpus)
        # none is left to take where the last was taken, and then interrupted
        if self._rows_read == self._rows_before and state.step != self.config.max_steps:
            raise UnireError("the time was over before the first step; give more minutes")
        state.done = 1.0
        last = self._progress()
        on_progress(last)
        return last

    def _next(self, corpus: PackedCorpus) -> NDArray[np.int32]:
        """The rows of the step to come."""
        return corpus.rows(self.state.step * self.config.rows, self.config.rows)

    def _step(self, rows: NDArray[np.int32], interrupt: Interrupt) -> None:
        clock, config, state = self.clock, self.config, self.state
        outcome, read = self.trainer.find_gradients(
            rows, config.seed + state.step, lambda: interrupt.pending or clock.done(state.step) >= 1
        )
        if read < len(rows) and interrupt.pending:
            return  # what is interrupted halfway is done anew, to be the same
        middle = (state.done + clock.done(state.step + 1)) / 2  # of the step
        self.trainer.step(rate_at(middle, config.warmup))
        self._outcomes.append(outcome)
        self._rows_read += read
        state.step += 1
        if state.step == START:
            state.loss_start = _mean(self._outcomes)[0]

    def _progress(self) -> AdaptationProgress:
        config, state = self.config, self.state
        loss, accuracy = _mean([*self._outcomes][-max(1, state.step // 2) :])
        if not math.isfinite(loss):
            raise UnireError(f"the training has diverged by step {state.step}; give a lower learning rate")
        new = self._rows_read - self._rows_before
        speed = new * config.length / self.clock.training_seconds if new else 0.0
        return AdaptationProgress(state.done, state.step, self._rows_read * config.length, speed, loss, accuracy)

    def _save(self) -> None:
        with self.clock.pause():
            self.state.outcomes = torch.stack([*self._outcomes]).tolist()
            self.state.seconds = self.clock.seconds
            self.folder.save(self.state, self.trainer)


def _mean(outcomes: Iterable[Tensor]) -> list[float]:
    """Loss and accuracy; waits for the device."""
    mean: list[float] = torch.stack([*outcomes]).mean(0).tolist()
    return mean
