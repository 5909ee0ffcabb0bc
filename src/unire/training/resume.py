"""The state of a training, on disk: what resuming continues from.

A folder of numbered snapshots, each safetensors and JSON. A snapshot gets its name only when it is whole, and older
ones go only then, so that a training killed at any moment finds a good one: `latest` puts back the one that a process
killed as it saved the same step again has left aside.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unire.documents import Document
from unire.errors import UnireError
from unire.files import replace_atomically
from unire.models.checkpoint import read_tensors, write_tensors
from unire.training.config import TrainingConfig
from unire.training.output_dir import latest, resume_folder, states_in

__all__ = ["CheckpointManager", "ProcessState", "TrainState", "fingerprint", "moments_of", "restore_moments"]


@dataclass
class TrainState:
    """Where a training stands."""

    epoch: int = 0
    """Epochs that are over."""
    position: int = 0
    """Steps of the present epoch that are over."""
    step: int = 0
    """Steps over all."""
    done: float = 0.0
    """The share of the training that is over, by epochs or by time."""
    losses: list[float] = field(default_factory=list)
    """Sums of the losses over the present epoch's steps."""
    best: float | None = None
    """The best Ent + Rel F1 on dev so far."""
    best_epoch: int = 0
    seconds: float = 0.0
    """Time used, evaluation included, interruptions left out."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One record per epoch: losses, and the scores on dev where it was looked at."""
    place: list[int] = field(default_factory=lambda: [0, 0])
    """In unlabelled text: its chunks that are over, and the steps of the present one that are."""
    read: dict[str, int] = field(default_factory=dict)
    """What was counted in unlabelled text."""


@dataclass(frozen=True)
class ProcessState:
    """What each process of a training has for itself."""

    progress: TrainState
    random_states: Mapping[str, Tensor]

    @classmethod
    def of(cls, progress: TrainState) -> ProcessState:
        """That of this process, with the random numbers where they are now."""
        return cls(progress, _random_states())


class CheckpointManager:
    """The resume folder of a training that writes its model to `out`."""

    def __init__(self, out: Path) -> None:
        self.folder = resume_folder(out)

    def latest(self) -> Path | None:
        return latest(self.folder)

    def save(
        self,
        processes: Sequence[ProcessState],
        model: nn.Module,
        optimizer: Any,
        best: Mapping[str, Tensor] | None,
        settings: Mapping[str, Any],
    ) -> None:
        """Write a snapshot, then remove the older ones. What processes do not share is there once for each."""
        target = self.folder / f"step-{processes[0].progress.step:09d}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replace_atomically(target, directory=True) as temporary:
                write_tensors(temporary / "model.safetensors", model.state_dict())
                write_tensors(temporary / "optimizer.safetensors", moments_of(optimizer))
                states = {
                    f"{number}.{name}": state
                    for number, share in enumerate(processes)
                    for name, state in share.random_states.items()
                }
                write_tensors(temporary / "random.safetensors", states)
                if best is not None:
                    write_tensors(temporary / "best.safetensors", best)
                record = {"progress": [asdict(share.progress) for share in processes], "settings": settings}
                (temporary / "progress.json").write_text(json.dumps(record), encoding="utf-8")
        except OSError as error:
            raise UnireError(
                f"the training state could not be saved in {str(self.folder)!r}: {error.strerror or error}; "
                "the state before it is kept"
            ) from None
        for old in states_in(self.folder):
            if old != target:
                shutil.rmtree(old, ignore_errors=True)

    def load(
        self,
        model: nn.Module,
        optimizer: Any,
        settings: Mapping[str, Any],
        process: int = 0,
        n_processes: int = 1,
    ) -> tuple[TrainState, dict[str, Tensor] | None]:
        """Bring model, optimiser and the random numbers of a process back to the latest snapshot."""
        snapshot = self.latest()
        if snapshot is None:
            raise UnireError(f"there is nothing to resume in {str(self.folder)!r}; start a new training")
        try:
            record = json.loads((snapshot / "progress.json").read_text(encoding="utf-8"))
            started, progress = record["settings"], [TrainState(**each) for each in record["progress"]]
            # a setting that is younger than the state was what it is by default
            started = {**asdict(TrainingConfig()), **started}
            if changed := [key for key in settings if started.get(key) != settings[key]]:
                raise UnireError(
                    f"the training in {str(self.folder)!r} was started with another {changed[0].replace('_', ' ')} "
                    f"({started.get(changed[0])!r}, now {settings[changed[0]]!r}); resume with the same settings"
                )
            if len(progress) != n_processes:
                raise UnireError(
                    f"the training in {str(self.folder)!r} was started with {len(progress)} processes, not "
                    f"{n_processes}; resume with as many"
                )
            model.load_state_dict(read_tensors(snapshot / "model.safetensors"))
            restore_moments(optimizer, read_tensors(snapshot / "optimizer.safetensors"))
            _restore_random_states(read_tensors(snapshot / "random.safetensors"), process)
            best = snapshot / "best.safetensors"
            return progress[process], read_tensors(best) if best.exists() else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnireError(f"the training state in {str(snapshot)!r} is damaged ({reason}); start anew") from None

    def remove(self) -> None:
        """Remove the states, and the folder if it holds nothing else."""
        with suppress(OSError):
            for state in states_in(self.folder):
                shutil.rmtree(state, ignore_errors=True)
            self.folder.rmdir()


def fingerprint(*parts: Iterable[Document]) -> str:
    """A short name for the words and annotation of train and dev: other data, or otherwise parted, another name."""
    digest = hashlib.sha256()
    for number, documents in enumerate(parts):
        for document in documents:
            entities = [(e.start, e.end, e.label) for e in document.entities]
            relations = [(r.head.span, r.tail.span, r.label) for r in document.relations]
            sentences = [sentence.words for sentence in document.sentences]
            digest.update(json.dumps([number, document.id, sentences, entities, relations]).encode())
    return digest.hexdigest()[:16]


def moments_of(optimizer: Any) -> dict[str, Tensor]:
    """Adam's moments, by the parameter's place."""
    return {
        f"{place}.{name}": value if isinstance(value, Tensor) else torch.tensor(float(value))
        for place, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def restore_moments(optimizer: Any, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        place, name = key.split(".", 1)
        state.setdefault(int(place), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _random_states() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _restore_random_states(states: Mapping[str, Tensor], process: int) -> None:
    torch.set_rng_state(states[f"{process}.cpu"])
    if f"{process}.cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states[f"{process}.cuda"])
