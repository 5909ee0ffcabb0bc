"""The state of an adaptation, on disk: what `adapt(..., resume=True)` continues from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unire.exceptions import UnireError
from unire.files import recover, replacing
from unire.modeling.checkpoint import tensors_from, tensors_to
from unire.training.masked_lm import MaskedTrainer
from unire.training.state import moments_of, restore_moments

__all__ = ["AdaptationState", "ResumeFolder"]

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
            with replacing(self.folder, directory=True) as temporary:
                tensors_to(temporary / MODEL, trainer.model.state_dict())
                tensors_to(temporary / OPTIMIZER, moments_of(trainer.optimizer))
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
            trainer.model.load_state_dict(tensors_from(self.folder / MODEL))
            restore_moments(trainer.optimizer, tensors_from(self.folder / OPTIMIZER))

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
