"""Output directories and checkpoints of trainings: what may be overwritten, and what a resumed run continues from.

A training writes its model to OUT, and checkpoints to the folder `OUT.resume` next to it. A checkpoint is a folder of
safetensors and JSON files, named after its step. It gets this name only when it is complete, and older ones are deleted
only then. So a training that is killed at any moment leaves a good one: `latest_checkpoint` restores the one that a
process had moved aside to write the same step again.

This module imports torch late, because commands check their output directory before anything slow happens.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unire.config import ModelConfig
from unire.documents import Document
from unire.errors import UnireError
from unire.files import read_folder, replace_atomically
from unire.hub.model_dir import FILES
from unire.output_files import check_output_folder, locks_output
from unire.training.callbacks import TrainState

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "CheckpointManager",
    "ProcessState",
    "check_folds",
    "check_training_folder",
    "fingerprint",
    "fold_folder",
    "has_checkpoint",
    "is_finished",
    "latest_checkpoint",
    "resume_folder",
]

CHECKPOINT_NAME = re.compile(r"step-\d{9,}|\.step-\d{9,}\.[0-9a-f]{8}\.(partial|previous)")
"""The name of a checkpoint, and of one that is being written or replaced."""


# Output directories


@locks_output
def check_training_folder(out: Path, *, resume: bool, remedy: str = "pass a new folder") -> None:
    """Refuse a folder that cannot be written, that another process is writing, or where something would be overwritten.

    The folder may be missing, be empty, or hold the unfinished model of an interrupted training.

    Args:
        out: The folder for the model.
        resume: Whether an unfinished training is continued; a finished model is refused unless there is one.
        remedy: What the error tells the user to do about a finished model.
    """
    _check_writable(out)
    checkpoints = resume_folder(out)
    _check_only_checkpoints(checkpoints)
    unfinished = latest_checkpoint(checkpoints) is not None
    if not resume:
        if unfinished:
            raise UnireError(
                f"there is an unfinished training in {str(checkpoints)!r}; pass resume=True, or delete the folder"
            )
        if is_finished(out):
            check_output_folder(out, remedy=remedy)
    elif is_finished(out) and not unfinished:
        raise UnireError(f"the model in {str(out)!r} is finished, and there is nothing to resume; {remedy}")


def _check_writable(out: Path) -> None:
    """Refuse a file, a folder with anything but a model in it, and a place where no folder can be made."""
    check_output_folder(out, replaceable=FILES)
    try:
        parent = next(folder for folder in out.resolve().parents if folder.exists())
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise UnireError(f"the model cannot be written to {str(out)!r}: {error.strerror or error}") from None


def check_folds(out: Path, n_folds: int, only: Collection[int] = (), *, resume: bool) -> None:
    """Check the numbers of the folds to train, and their output directories. With `resume`, some may be finished."""
    if beyond := [number for number in only if not 1 <= number <= n_folds]:
        raise UnireError(f"there is no fold {beyond[0]}; folds are counted from 1 to {n_folds}")
    for number in () if resume else only or range(1, n_folds + 1):
        check_training_folder(fold_folder(out, number), resume=False, remedy="pass resume=True, or a new folder")


def fold_folder(out: Path, number: int) -> Path:
    """The folder for the model of a fold."""
    return out / f"fold-{number:02d}"


def is_finished(out: Path) -> bool:
    """Whether there is a model that is not just what an interrupted training left.

    A model that was calibrated or exported since then counts as finished.
    """
    with read_folder(out) as folder:
        if not folder.is_dir() or not any(folder.iterdir()):
            return False
        provenance = ModelConfig.load(folder).provenance
    return not provenance.get("interrupted") or "calibration" in provenance or "export" in provenance


# Folders of checkpoints


def resume_folder(out: Path) -> Path:
    """The folder with the checkpoints of a training that writes its model to `out`."""
    out = out.resolve()
    return out.with_name(out.name + ".resume")


def has_checkpoint(out: str | Path) -> bool:
    """Whether a training that writes its model to `out` can be resumed."""
    return latest_checkpoint(resume_folder(Path(out))) is not None


def latest_checkpoint(folder: Path) -> Path | None:
    """The latest checkpoint in a folder of checkpoints, also if a process was killed as it replaced that."""
    try:
        complete = [path for path in _checkpoints_in(folder) if path.suffix != ".partial"] if folder.exists() else []
    except OSError as error:
        raise UnireError(f"{str(folder)!r} cannot be read: {error.strerror or error}") from None
    # one that was moved aside counts only if there is no other one of its step
    return max(complete, key=lambda path: (_step(path), not path.name.startswith(".")), default=None)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1].split(".")[0])


def _checkpoints_in(folder: Path) -> list[Path]:
    """All checkpoints, complete or not."""
    return [path for path in folder.iterdir() if CHECKPOINT_NAME.fullmatch(path.name) and path.is_dir()]


def _delete(checkpoint: Path) -> None:
    """Delete a checkpoint, or what a killed process has left of it. While some of it is there, it counts as partial."""
    with suppress(OSError):
        partial = checkpoint.with_name(f".step-{_step(checkpoint):09d}.{secrets.token_hex(4)}.partial")
        shutil.rmtree(checkpoint.rename(partial), ignore_errors=True)


def _check_only_checkpoints(folder: Path) -> None:
    """Refuse a folder of checkpoints that holds a file of the user's: a finished training deletes the folder."""
    try:
        foreign = sorted({*folder.iterdir()} - {*_checkpoints_in(folder)}) if folder.exists() else []
    except OSError as error:
        raise UnireError(f"{str(folder)!r} cannot be read: {error.strerror or error}") from None
    if foreign:
        raise UnireError(
            f"{str(folder)!r} is the folder for checkpoints, but it holds {foreign[0].name!r}; "
            "move that file, or give another folder for the model"
        )


# Checkpoints


@dataclass(frozen=True)
class ProcessState:
    """The state that each process of a distributed training has for itself."""

    state: TrainState
    random_states: Mapping[str, Tensor]

    @classmethod
    def of(cls, state: TrainState) -> ProcessState:
        """The state of this process, with its random number generators."""
        import torch

        random_states = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random_states["cuda"] = torch.cuda.get_rng_state()
        return cls(state, random_states)


class CheckpointManager:
    """Writes, reads and deletes the checkpoints of a training that writes its model to `out`."""

    def __init__(self, out: Path) -> None:
        self.folder = resume_folder(out)

    def save(
        self,
        processes: Sequence[ProcessState],
        model: nn.Module,
        optimizer: Any,
        best_weights: Mapping[str, Tensor] | None,
        settings: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint, then delete the older ones."""
        from unire.models.checkpoint import write_tensors

        target = self.folder / f"step-{processes[0].state.step:09d}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replace_atomically(target, directory=True) as temporary:
                write_tensors(temporary / "model.safetensors", model.state_dict())
                write_tensors(temporary / "optimizer.safetensors", _moments(optimizer))
                random_states = {
                    f"{number}.{name}": random_state
                    for number, process in enumerate(processes)
                    for name, random_state in process.random_states.items()
                }
                write_tensors(temporary / "random.safetensors", random_states)
                if best_weights is not None:
                    write_tensors(temporary / "best.safetensors", best_weights)
                record = {"processes": [asdict(process.state) for process in processes], "settings": settings}
                (temporary / "state.json").write_text(json.dumps(record), encoding="utf-8")
        except OSError as error:
            raise UnireError(
                f"no checkpoint could be saved in {str(self.folder)!r}: {error.strerror or error}; "
                "the checkpoint before it is kept"
            ) from None
        for old in _checkpoints_in(self.folder):
            if old != target:
                _delete(old)

    def load(
        self,
        model: nn.Module,
        optimizer: Any,
        settings: Mapping[str, Any],
        *,
        defaults: Mapping[str, Any],
        process: int = 0,
        n_processes: int = 1,
    ) -> tuple[TrainState, dict[str, Tensor] | None]:
        """Restore model, optimiser and the random numbers of a process from the latest checkpoint.

        Args:
            model: Gets the weights.
            optimizer: Gets Adam's moments.
            settings: Those of the resumed training, which must be those of the checkpoint.
            defaults: Settings that a checkpoint of an earlier version does not have.
            process: Number of this process.
            n_processes: How many there are.

        Returns:
            The state of the process, and the best weights so far.
        """
        from unire.models.checkpoint import read_tensors

        checkpoint = latest_checkpoint(self.folder)
        if checkpoint is None:
            raise UnireError(f"there is nothing to resume in {str(self.folder)!r}; start a new training")
        try:
            record = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
            states = [TrainState(**state) for state in record["processes"]]
            self._check_settings({**defaults, **record["settings"]}, {**defaults, **settings})
            if len(states) != n_processes:
                raise UnireError(
                    f"the training in {str(self.folder)!r} was started with {len(states)} processes, not "
                    f"{n_processes}; resume with the same number"
                )
            model.load_state_dict(read_tensors(checkpoint / "model.safetensors"))
            _restore_moments(optimizer, read_tensors(checkpoint / "optimizer.safetensors"))
            _restore_random_states(read_tensors(checkpoint / "random.safetensors"), process)
            best = checkpoint / "best.safetensors"
            return states[process], read_tensors(best) if best.exists() else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnireError(
                f"the checkpoint {str(checkpoint)!r} is damaged, or of another version ({reason}); start a new training"
            ) from None

    def _check_settings(self, started: Mapping[str, Any], resumed: Mapping[str, Any]) -> None:
        for name in {**resumed, **started}:
            if started.get(name) != resumed.get(name):
                raise UnireError(
                    f"the training in {str(self.folder)!r} was started with another {name.replace('_', ' ')} "
                    f"({started.get(name)!r}, now {resumed.get(name)!r}); resume with the same settings"
                )

    def remove(self) -> None:
        """Delete all checkpoints, and the folder if it holds nothing else."""
        with suppress(OSError):
            for checkpoint in _checkpoints_in(self.folder):
                _delete(checkpoint)
            self.folder.rmdir()


def fingerprint(*parts: Iterable[Document]) -> str:
    """A short hash of the words and annotations of train and dev, which also depends on how they are divided."""
    digest = hashlib.sha256()
    for number, documents in enumerate(parts):
        for document in documents:
            entities = [(e.start, e.end, e.label) for e in document.entities]
            relations = [(r.head.span, r.tail.span, r.label) for r in document.relations]
            sentences = [sentence.words for sentence in document.sentences]
            digest.update(json.dumps([number, document.id, sentences, entities, relations]).encode())
    return digest.hexdigest()[:16]


def _moments(optimizer: Any) -> dict[str, Tensor]:
    """Adam's moments, by the index of the parameter."""
    import torch

    return {
        f"{index}.{name}": value if isinstance(value, torch.Tensor) else torch.tensor(float(value))
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def _restore_moments(optimizer: Any, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _restore_random_states(states: Mapping[str, Tensor], process: int) -> None:
    import torch

    torch.set_rng_state(states[f"{process}.cpu"])
    if f"{process}.cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states[f"{process}.cuda"])
